"""References to commits: a commit id or a part of one, ``v12``, a date, a time, a tag, and ``REF~2`` for any of them.

Here they are resolved, and what begins at one is created.

Branches and tags are created under the refs lock, and the reference is resolved under it, so that no branch is deleted
and no commit is cleaned up meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

from omnigraph.arguments import check_text
from omnigraph.errors import AlreadyExists, HistoryGone, NotFound, NotFoundError, ParameterError
from omnigraph.language.source import suggest_similar
from omnigraph.language.values import parse_instant, to_microseconds
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.branches import COMMIT_ID, DATE_LIKE, VERSION, begin_branch, check_free, check_name, is_name
from omnigraph.manifest.contract import load_root_schema
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.history import refuse_naive, to_commit
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.rows import MAIN, CommitRecord, SchemaHead
from omnigraph.manifest.snapshot import Snapshot, list_pins, open_every_table
from omnigraph.manifest.state import ManifestView
from omnigraph.manifest.tags import Tag, encode_tag, find_tag, list_tag_names, path_of
from omnigraph.storage.locks import HeldLock, refs_lock

Reference: TypeAlias = str | int | datetime
"""A commit id, its start or end, a version (``v12`` or 12), a date text, an aware datetime, a tag, or ``REF~n``."""
_ANCESTOR = re.compile(r"(.+)~(\d{0,9})", re.DOTALL)
# Short enough to type, long enough to be unique: the end of an id is random.
_ID_PART = re.compile(r"[0-9A-HJKMNP-TV-Z]{6,25}", re.IGNORECASE)
_SHOWN_IDS = 5
_HEAD = re.compile(r"(?:HEAD|@)(?:[~^]\d*)*", re.IGNORECASE)
_HEAD_HINT = "there is no HEAD: a branch, such as main, means its newest commit, and main~1 the one before it"
RemovalFinisher: TypeAlias = Callable[[Manifest, HeldLock], None]
"""Removes what hard drops of dead processes left, so that no new branch or tag can show it."""


@dataclass(frozen=True, slots=True)
class ResolvedReference:
    """The branch, version and commit that a reference means. A commit of another branch is read there."""

    branch: str
    manifest_version: int
    commit: CommitRecord | None


def resolve_reference(manifest: Manifest, branch: str, at: Reference | None) -> ResolvedReference:
    """Resolve ``at`` on a branch; None is its newest version."""
    if at is None:
        view = manifest.view(branch)
        return ResolvedReference(branch, view.version, view.data_head)
    if isinstance(at, datetime):
        return _at_time(manifest, branch, at)
    if isinstance(at, int):
        return _at_version(manifest, branch, at)
    if COMMIT_ID.fullmatch(at):
        return _at_commit(manifest, branch, at)
    ancestor = _ANCESTOR.fullmatch(at)
    if ancestor:
        return _at_ancestor(manifest, branch, ancestor.group(1), int(ancestor.group(2) or 1))
    version = VERSION.fullmatch(at)
    if version:
        return _at_version(manifest, branch, int(version.group(1)))
    if DATE_LIKE.fullmatch(at):
        return _at_time(manifest, branch, parse_instant(at))
    return _at_tag(manifest, branch, at)


def take_snapshot(manifest: Manifest, branch: str, at: Reference | None = None) -> Snapshot:
    """Take a snapshot of a branch, now or at a commit, a manifest version or a time."""
    if at is not None:
        resolved = resolve_reference(manifest, branch, at)
        return build_snapshot(manifest, _view_of(manifest, resolved), resolved.commit)
    return _take_head_snapshot(manifest, branch)


def _view_of(manifest: Manifest, resolved: ResolvedReference) -> ManifestView:
    try:
        return manifest.view_at(resolved.branch, resolved.manifest_version)
    except HistoryGone as gone:
        if resolved.commit is None:
            raise
        raise HistoryGone(
            f"commit {resolved.commit.id} cannot be read any more: {gone.message}",
            hint=gone.hint,
            details={**gone.details, "commit": resolved.commit.id},
        ) from gone


def _take_head_snapshot(manifest: Manifest, branch: str) -> Snapshot:
    """Take a snapshot of the head of a branch, read with the current schema.

    Rows, commit and schema are those of one view of the branch and one of main: a second one may have newer ones. Main
    is read after the branch, which may have caught up with a schema that main did not have before.
    """
    while True:
        view = manifest.view(branch)
        current = view.tables.schema_head if branch == MAIN else manifest.current_schema()
        if current is not None:
            return _keep_head_snapshot(manifest, view, current)
        shown = _show_tables(manifest, view, view.data_head)
        # A graph of release 0.8 has only the files at the root, until the first commit here.
        schema = load_root_schema(manifest.objects)
        if manifest.current_schema() is None:
            manifest.keep_schema(schema)
            return replace(shown, schema_ir_hash=schema.hash)


def assume_snapshot(manifest: Manifest, branch: str) -> Snapshot | None:
    """Return the head of a branch as this handle left it, if nobody else is known to have written since.

    It costs no request. A write that relies on it learns under the lock whether it was the newest.
    """
    view = manifest.assume_view(branch)
    main = view if branch == MAIN else manifest.cached_view(MAIN)
    if view is None or main is None or main.tables.schema_head is None:
        return None
    return _keep_head_snapshot(manifest, view, main.tables.schema_head)


def _keep_head_snapshot(manifest: Manifest, view: ManifestView, schema: SchemaHead) -> Snapshot:
    """Return the snapshot of a view, the same as before while nothing has changed, with the tables opened so far."""
    kept = manifest.head_snapshots.get(view.branch)
    if kept is not None and kept[0] is view and (kept[1].read_under is schema or kept[1].read_under == schema):
        return kept[1]
    shown = _show_tables(manifest, view, view.data_head).read_with(schema)
    manifest.make_room(sum(pin.row_count for pin in shown.pins.values()))
    if kept is not None and kept[0].incarnation == view.incarnation:
        shown.keep_open(kept[1])
    shown.take_over(manifest.committed_tables(view))
    manifest.head_snapshots[view.branch] = (view, shown)
    return shown


def build_snapshot(manifest: Manifest, view: ManifestView, commit: CommitRecord | None) -> Snapshot:
    """Return the snapshot of a view of the past, read with the schema of its commit."""
    schema = _find_schema_of(manifest, view.tables.schema_head, commit)
    return _show_tables(manifest, view, commit).read_with(schema)


def _show_tables(manifest: Manifest, view: ManifestView, commit: CommitRecord | None) -> Snapshot:
    shown = None if commit is None else to_commit(commit)
    head = view.tables.schema_head
    return Snapshot(view.branch, view.version, shown, None, list_pins(view), manifest, written_under=head)


def _find_schema_of(
    manifest: Manifest, written_under: SchemaHead | None, commit: CommitRecord | None
) -> SchemaHead | None:
    """Return the schema that a commit is read with, with those before it.

    A commit of a lagging branch may name a newer schema than that of its tables. One that names none is read with the
    current schema.
    """
    named = None if commit is None else commit.schema_ir_hash
    if written_under is not None and written_under.schema_ir_hash == named:
        return written_under
    current = manifest.current_schema()
    if current is None or named is None:
        return current if named is None else SchemaHead(named)
    places = [place for place, each in enumerate(current.all) if each == named]
    position = 0 if written_under is None else len(written_under.earlier)
    # A schema can come back, so the first one that is not older than the tables is meant.
    place = next((place for place in places if place >= position), max(places, default=0))
    return SchemaHead(named, current.all[:place])


@contextmanager
def mean_branches_too(manifest: Manifest, reference: Reference) -> Generator[None]:
    """Where a branch could have been meant, say so of a reference that means nothing."""
    try:
        yield
    except NotFound as missing:
        if missing.details.get("reference") != reference:
            raise
        live = branch_names(manifest)
        raise NotFound(
            f"no branch, commit, version, date or tag '{reference}'",
            hint=_hint_at_head(reference)
            or suggest_similar(str(reference), [*live, *list_tag_names(manifest)])
            or f"the branches are {', '.join(live)}",
            details=missing.details,
        ) from missing


def find_branch_point(manifest: Manifest, reference: Reference) -> tuple[str, int | None]:
    """Return where a new branch begins: branch and manifest version, None for the newest. Branch names win."""
    if isinstance(reference, str) and reference in branch_names(manifest):
        return reference, None
    with mean_branches_too(manifest, reference):
        resolved = resolve_reference(manifest, MAIN, reference)
    return resolved.branch, resolved.manifest_version


def commit_at(manifest: Manifest, reference: Reference) -> CommitRecord:
    """Return the newest commit at a reference."""
    commit = resolve_reference(manifest, MAIN, reference).commit
    if commit is None:
        raise NotFound(f"no commit at {reference}", hint="`omnigraph commit list` shows them")
    return commit


def find_read_branch(manifest: Manifest, reference: Reference, branch: str) -> str | None:
    """Return the branch that a reference is read on: ``branch`` if its history has the commit, else where it was made.

    None if there is no such commit.
    """
    try:
        commit = resolve_reference(manifest, branch, reference).commit
    except (NotFoundError, ParameterError):
        return None
    if commit is None:
        return None
    return branch if _find_on_branch(manifest, branch, commit.id) is not None else commit.branch or MAIN


def find_commit(manifest: Manifest, branch: str, commit_id: str) -> CommitRecord:
    """Find a commit by id, first on one branch, then on all others."""
    found = _history(manifest, branch).find(commit_id)
    if found is not None:
        return found
    # The others are listed only now: damaged refs of theirs must not matter for this branch.
    for name in branch_names(manifest):
        found = _find_on_branch(manifest, name, commit_id)
        if found is not None:
            return found
    hint = "`omnigraph commit list` shows those of a branch; with a deleted branch its commits are gone"
    raise NotFound(f"no commit {commit_id} in {manifest.location}", hint=hint, details={"commit": commit_id})


def _find_on_branch(manifest: Manifest, branch: str, commit_id: str) -> CommitRecord | None:
    try:
        return _history(manifest, branch).find(commit_id)
    except NotFound:
        # The branch was deleted since it was listed.
        return None


def _at_commit(manifest: Manifest, branch: str, commit_id: str) -> ResolvedReference:
    return _show_commit(find_commit(manifest, branch, commit_id))


def _show_commit(commit: CommitRecord) -> ResolvedReference:
    return ResolvedReference(commit.branch or MAIN, commit.manifest_version, commit)


def _at_ancestor(manifest: Manifest, branch: str, reference: str, steps: int) -> ResolvedReference:
    """Go back some commits from a reference, or from the head of a branch, by first parents."""
    if reference in branch_names(manifest):
        start = resolve_reference(manifest, reference, None)
    else:
        start = resolve_reference(manifest, branch, reference)
    history = _history(manifest, start.branch)
    positions = history.positions_by_id()
    commit = start.commit
    for step in range(steps):
        parent = None if commit is None or commit.parent is None else positions.get(commit.parent)
        if parent is None:
            raise NotFound(
                f"no commit at '{reference}~{steps}'",
                hint=f"there {'is 1 commit' if step == 1 else f'are {step} commits'} before '{reference}'",
                details={"reference": f"{reference}~{steps}"},
            )
        commit = history.commit_at(parent)
    return start if commit is None or not steps else _show_commit(commit)


def _find_by_part(manifest: Manifest, branch: str, part: str) -> CommitRecord | None:
    """Find the one commit, on any branch, whose id begins or ends with some characters."""
    wanted = part.upper()
    found: dict[str, CommitRecord] = {}
    for name in dict.fromkeys((branch, *branch_names(manifest))):
        for commit in _list_by_part(manifest, name, wanted):
            found.setdefault(commit.id, commit)
    if len(found) > 1:
        raise ParameterError(
            f"'{part}' is a part of {len(found)} commit ids: {', '.join(sorted(found)[:_SHOWN_IDS])}"
            + (", ..." if len(found) > _SHOWN_IDS else ""),
            hint="give more of its characters",
            details={"reference": part, "commits": sorted(found)},
        )
    return next(iter(found.values()), None)


def _list_by_part(manifest: Manifest, branch: str, part: str) -> list[CommitRecord]:
    try:
        return _history(manifest, branch).list_by_part(part)
    except NotFound:
        # The branch was deleted since it was listed.
        return []


def _at_tag(manifest: Manifest, branch: str, name: str) -> ResolvedReference:
    # A name that no tag may have is not looked up: it may not be a valid path.
    tag = find_tag(manifest, name) if is_name(name) else None
    if tag is not None:
        return _at_commit(manifest, tag.branch, tag.commit)
    short = _find_by_part(manifest, branch, name) if _ID_PART.fullmatch(name) else None
    if short is not None:
        return _show_commit(short)
    hint = "give a commit id, or six of its first or last characters, a version like v12, a time, or a tag"
    if name in branch_names(manifest):
        hint = f"'{name}' is a branch: give it where a branch is expected"
    raise NotFound(
        f"no commit, version, date or tag '{name}'",
        hint=_hint_at_head(name) or suggest_similar(name, list_tag_names(manifest)) or hint,
        details={"reference": name},
    )


def _hint_at_head(reference: Reference) -> str | None:
    """Return what to write instead of git's name for the commit that is checked out: nothing is checked out here."""
    return _HEAD_HINT if isinstance(reference, str) and _HEAD.fullmatch(reference) else None


def _at_version(manifest: Manifest, branch: str, version: int) -> ResolvedReference:
    view = manifest.view(branch, with_lineage=True)
    if not 0 < version <= view.version:
        raise NotFound(f"branch '{branch}' has no manifest version {version}", hint=f"the newest is v{view.version}")
    commits = view.history.list_newest_first()
    commit = next((each for each in commits if each.manifest_version <= version and not each.upkeep), None)
    return ResolvedReference(_find_owner_branch(manifest, branch, version), version, commit)


def _find_owner_branch(manifest: Manifest, branch: str, version: int) -> str:
    """Return the branch that holds a version: versions before the fork are on the parent."""
    refs = {} if branch == MAIN else manifest.list_refs()
    while branch in refs and version < refs[branch].parent_version:
        branch = refs[branch].parent or MAIN
    return branch


def _at_time(manifest: Manifest, branch: str, instant: datetime) -> ResolvedReference:
    refuse_naive(instant)
    micros = to_microseconds(instant)
    commits = _history(manifest, branch).list_newest_first()
    commit = next((commit for commit in commits if commit.created_at <= micros and not commit.upkeep), None)
    if commit is None:
        hint = "`omnigraph commit list` shows the commits and their times"
        raise NotFound(f"'{branch}' has no commit at or before {instant.isoformat()}", hint=hint)
    return _show_commit(commit)


def _history(manifest: Manifest, branch: str) -> Lineage:
    return manifest.view(branch, with_lineage=True).history


# --------------------------------------------------------------------------------------------- branches and tags


def create_branch(manifest: Manifest, name: str, reference: Reference, finish_removals: RemovalFinisher) -> None:
    """Create a branch at the head of a branch, or at a reference on main."""
    check_name(name)
    with refs_lock(manifest.location, manifest.locks) as refs:
        finish_removals(manifest, refs)
        source, version = find_branch_point(manifest, reference)
        begin_branch(manifest, refs, name, source, version)


def create_tag(
    manifest: Manifest,
    name: str,
    reference: Reference,
    branch: str,
    actor: str | None,
    finish_removals: RemovalFinisher,
) -> Tag:
    """Create a tag for the commit of a reference: the head of a branch, or a commit in the past of ``branch``."""
    _check_tag_name(name)
    check_text("actor", actor)
    with refs_lock(manifest.location, manifest.locks) as refs:
        finish_removals(manifest, refs)
        live = branch_names(manifest)
        check_free(name, live[1:])
        commit = _find_tagged_commit(manifest, reference, branch, live)
        _refuse_unreadable(manifest, name, commit)
        tag = Tag(name, commit.id, commit.branch or MAIN, datetime.now(UTC), actor)
        path, data = path_of(name), encode_tag(tag)
        refs.check()
        # A request whose answer was lost may be repeated and then find its own object.
        if not manifest.objects.put_if_absent(path, data) and manifest.objects.get(path) != data:
            raise AlreadyExists(
                f"there is a tag '{name}' already",
                hint="a tag is never moved: delete it first, or choose another name",
                details={"name": name},
            )
    return tag


def delete_tag(manifest: Manifest, name: str) -> None:
    """Delete a tag. Its commit stays."""
    with refs_lock(manifest.location, manifest.locks) as refs:
        # A damaged tag can be deleted too.
        known = list_tag_names(manifest)
        if name not in known:
            hint = suggest_similar(name, known) or "`omnigraph tag list` shows them"
            raise NotFound(f"no tag '{name}' in {manifest.location}", hint=hint, details={"tag": name})
        refs.check()
        manifest.objects.delete(path_of(name))


def _find_tagged_commit(manifest: Manifest, reference: Reference, branch: str, live: list[str]) -> CommitRecord:
    if isinstance(reference, str) and reference in live:
        resolved = resolve_reference(manifest, reference, None)
    else:
        with mean_branches_too(manifest, reference):
            resolved = resolve_reference(manifest, branch, reference)
    if resolved.commit is None:
        hint = "`omnigraph commit list` shows them"
        raise NotFound(f"no commit at '{reference}'", hint=hint, details={"reference": str(reference)})
    return resolved.commit


def _refuse_unreadable(manifest: Manifest, name: str, commit: CommitRecord) -> None:
    """Refuse a commit whose tables cleanup has removed. A head is never removed."""
    branch = commit.branch or MAIN
    head = manifest.view(branch).head
    if head is None or head.id != commit.id:
        purpose = f"the tag '{name}' cannot name commit {commit.id}"
        open_every_table(manifest, branch, commit.manifest_version, purpose)


def _check_tag_name(name: str) -> None:
    check_name(name)
    folder, _, _ = name.rpartition("/")
    if any(segment.endswith(".json") for segment in folder.split("/")):
        # Tag 'a' is the file a.json, which would have to be a folder for a tag 'a.json/b'.
        raise ParameterError(
            f"'{name}' cannot be the name of a tag: only the last segment may end in '.json'", details={"name": name}
        )

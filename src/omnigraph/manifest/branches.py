"""Graph branches and the forks of their tables.

A graph branch is a Lance branch of ``__manifest``: creating one copies nothing, whatever the size of the graph. A table
is forked on the first write to it on the branch; until then the branch shows the version that it inherited. Forks are
derived state: one that no row of a live branch names is unused and may be re-created.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    NotFound,
    OmniGraphError,
    ParameterError,
    RecoveryError,
    StorageError,
)
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import DIRECTORY, Manifest, branch_names, missing_branch, public_names
from omnigraph.manifest.lagging import follow_schemas
from omnigraph.manifest.rows import MAIN, TABLE_VERSION
from omnigraph.manifest.snapshot import Pin, open_every_table
from omnigraph.manifest.state import ManifestView
from omnigraph.manifest.tags import Tag, list_tag_names, list_tags
from omnigraph.storage import tables
from omnigraph.storage.lance_internals import (
    BranchRef,
    branch_ref_path,
    is_version_whole,
    list_version_numbers,
)
from omnigraph.storage.locks import HeldLock, LeaseLost, branch_lock, refs_lock
from omnigraph.storage.tables import Table, branch_uri, open_newest_whole, open_table

_log = logging.getLogger("omnigraph")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of the graph and its newest commit. ``parent`` is None for main."""

    name: str
    head: str | None
    parent: str | None
    created_at: datetime | None


def list_branches(manifest: Manifest) -> list[Branch]:
    """Return all branches with their heads."""
    refs = manifest.list_refs()
    found = [Branch(MAIN, _head(manifest, MAIN), None, None)]
    for name in public_names(refs):
        # Skip a branch that was deleted since the refs were read.
        with suppress(NotFound):
            created_at = datetime.fromtimestamp(refs[name].created_at, UTC)
            found.append(Branch(name, _head(manifest, name), refs[name].parent or MAIN, created_at))
    return found


def find_torn_branches(manifest: Manifest) -> list[str]:
    """Return the branches on a local disk whose only version a power cut tore while they were created."""
    return [name for name in manifest.open(MAIN).list_forks() if _is_torn(manifest, name)]


def _is_torn(manifest: Manifest, name: str) -> bool:
    folder = branch_uri(manifest.uri, name)
    versions = list_version_numbers(folder)
    # With a second version the branch was written to, so its creation had come to its end.
    return len(versions) == 1 and not is_version_whole(folder, versions[0])


def _head(manifest: Manifest, branch: str) -> str | None:
    head = manifest.view(branch).data_head
    return None if head is None else head.id


def begin_branch(manifest: Manifest, refs: HeldLock, name: str, source: str, version: int | None) -> None:
    """Create a branch at the head of ``source``, or at an older manifest version of it that can still be read.

    The caller holds the refs lock, under which cleanup works too.
    """
    live = branch_names(manifest)
    if source not in live:
        raise missing_branch(manifest.location, source)
    check_free(name, live[1:])
    check_free(name, list_tag_names(manifest), "tag")
    if version is not None:
        open_every_table(manifest, source, version, f"branch '{name}' cannot begin at version {version} of '{source}'")
    # One version for both: a writer may publish another one meanwhile.
    begins_at = manifest.view(source) if version is None else manifest.view_at(source, version)
    at = manifest.open(source, begins_at.version)
    _refuse_renamed(manifest, name, begins_at)
    if at.is_leftover_branch(name):
        refs.check()
        remove_leftover_branch(manifest, DIRECTORY, name)
    refs.check()
    manifest.sync_basis(manifest.view(source))
    tables.create_table_branch(at, name)
    manifest.sync()
    manifest.forget(name)


def _refuse_renamed(manifest: Manifest, name: str, begins_at: ManifestView) -> None:
    """Refuse a start before a rename: the current schema would not find rows under their old name."""
    lag = follow_schemas(manifest, begins_at.tables.schema_head, manifest.current_schema())
    shown = begins_at.tables.visible_tables()
    for table_key, old, new in lag.list_renames() if lag is not None else ():
        if table_key in shown and shown[table_key].row_count:
            raise ConflictError(
                f"branch '{name}' cannot begin there: '{old}' was renamed to '{new}' since, and {table_key} has rows",
                hint="make a tag instead, and read it as it was; or export it, and load what you need into a branch",
                details={"branch": name, "table_key": table_key, "old_name": old, "new_name": new},
            )


def delete_branch(manifest: Manifest, name: str, heal: Callable[[Manifest, HeldLock, str], None]) -> None:
    """Delete a branch and its forks. Refused for main and while another branch or a tag depends on it.

    ``heal`` finishes the operations of dead writers on the branch, under its lock.
    """
    _refuse_main(name)
    with refs_lock(manifest.location, manifest.locks) as refs:
        if name not in branch_names(manifest):
            raise missing_branch(manifest.location, name)
        with branch_lock(manifest.location, name, manifest.locks) as held:
            heal(manifest, held, name)
            refuse_dependents(manifest, name)
            locations = list(manifest.view(name).tables.locations.values())
            refs.check()
            held.check()
            tables.delete_table_branch(manifest.open(MAIN), name)
            manifest.forget_branch(name)
            for location in locations:
                _drop_forks(manifest, refs, location, name)


def fork_table(manifest: Manifest, held: HeldLock, branch: str, pin: Pin) -> Table:
    """Return the fork of a pinned table on a branch, at the pinned version; create it on the first write.

    The caller holds the branch's lock. A fork of a write that was never published is reused if its HEAD is the pin,
    else re-created.
    """
    origin = open_table(manifest.location.join(pin.location), pin.branch, pin.version, manifest.access)
    if (pin.branch or MAIN) == branch:
        return origin
    if origin.is_leftover_branch(branch):
        _refuse_named_fork(manifest, pin.table_key, branch)
        held.check()
        remove_leftover_branch(manifest, pin.location, branch)
    ref = origin.list_forks().get(branch)
    if ref is not None:
        fork = _open_fork(origin, branch)
        at_pin = (pin.branch, pin.version, pin.version)
        if fork is not None and (ref.parent, ref.parent_version, fork.version) == at_pin:
            return fork
        _refuse_named_fork(manifest, pin.table_key, branch)
        held.check()
        tables.delete_table_branch(origin, branch)
    held.check()
    return tables.create_table_branch(origin, branch)


def remove_leftover_branch(manifest: Manifest, location: str, name: str) -> None:
    """Remove what is left of a branch of one dataset that is not whole. The caller knows that nobody needs it."""
    ref = branch_ref_path(name)
    if ref is not None:
        manifest.objects.delete(f"{location}/{ref}")
    manifest.objects.delete_prefix(f"{location}/tree/{name}")


def _open_fork(origin: Table, branch: str) -> Table | None:
    """Open a fork; None if a power cut tore it when it was made."""
    try:
        return open_newest_whole(origin.uri, branch, origin.access)
    except NotFound:
        return None


def refuse_dependents(manifest: Manifest, name: str) -> None:
    """Refuse to delete main, or a branch that another branch or a tag depends on."""
    _refuse_main(name)
    _refuse_branches(manifest, name)
    _refuse_tags(manifest, name)


def _refuse_main(name: str) -> None:
    if name == MAIN:
        raise ParameterError("main cannot be deleted", hint="delete the folder of the graph to be rid of all of it")


def _refuse_branches(manifest: Manifest, name: str) -> None:
    refs = manifest.list_refs()
    for other in branch_names(manifest):
        if other == name:
            continue
        ref = refs.get(other)
        pinned = any(entry.branch == name for entry in manifest.view(other).tables.visible_tables().values())
        if pinned or (ref is not None and ref.parent == name):
            raise ConflictError(
                f"branch '{name}' cannot be deleted: '{other}' still depends on it",
                hint=f"delete '{other}' first",
                details={"branch": name, "dependent": other},
            )


def _refuse_tags(manifest: Manifest, name: str) -> None:
    """Refuse while a tag names a commit of the branch, or one that shows its forks."""
    condition = f"object_type = '{TABLE_VERSION}' AND table_branch = '{name}'"
    shows_forks = {name: True}
    for tag in list_tags(manifest):
        if tag.branch not in shows_forks:
            # Most branches never showed a table of this one, so their tags need no check.
            shows_forks[tag.branch] = has_rows_where(manifest, tag.branch, condition)
        if tag.branch == name or (shows_forks[tag.branch] and _tag_shows_fork(manifest, tag, name)):
            raise ConflictError(
                f"branch '{name}' cannot be deleted: the tag '{tag.name}' still depends on it",
                hint=f"delete the tag '{tag.name}' first",
                details={"branch": name, "tag": tag.name},
            )


def _tag_shows_fork(manifest: Manifest, tag: Tag, name: str) -> bool:
    commit = manifest.view(tag.branch, with_lineage=True).history.find(tag.commit)
    if commit is None:
        raise StorageError(
            f"the tag '{tag.name}' names commit {tag.commit}, which '{tag.branch}' does not have",
            hint="run `omnigraph verify`",
            details={"tag": tag.name, "commit": tag.commit},
        )
    shown = manifest.view_at(tag.branch, commit.manifest_version).tables.visible_tables()
    return any(entry.branch == name for entry in shown.values())


def _refuse_named_fork(manifest: Manifest, table_key: str, branch: str) -> None:
    """Refuse to re-create a fork that the history of a live branch names: it holds data."""
    condition = f"table_key = '{table_key}' AND table_branch = '{branch}'"
    for live in branch_names(manifest):
        if has_rows_where(manifest, live, f"object_type = 'table_version' AND {condition}"):
            raise RecoveryError(
                f"the fork of '{table_key}' on '{branch}' is in use but does not stand where the manifest says",
                hint="run `omnigraph verify`",
                details={"table_key": table_key, "branch": branch, "named_by": live},
            )


def has_rows_where(manifest: Manifest, branch: str, condition: str) -> bool:
    """Return whether any row of a branch's manifest, its history included, meets a condition."""
    try:
        return manifest.open(branch).count_rows(condition) > 0
    except OmniGraphError:
        # A branch that is deleted meanwhile can fail the read anywhere; it names nothing any more.
        if branch in branch_names(manifest):
            raise
        return False


def _drop_forks(manifest: Manifest, refs: HeldLock, location: str, branch: str) -> None:
    """Delete a deleted branch's fork of a table, and before it the forks that dead branches made of it."""
    try:
        table = open_table(manifest.location.join(location), None, None, manifest.access)
        for name in _list_dead_forks(table.list_forks(), branch, branch_names(manifest)):
            # Without the lock another process may be re-creating the branch and this fork.
            refs.check()
            tables.delete_table_branch(table, name)
    except (OmniGraphError, LeaseLost) as error:
        # The branch is deleted already. The next write re-creates a leftover fork, or cleanup removes it.
        _log.warning("the fork of %s on '%s' could not be removed: %s", location, branch, error)


def _list_dead_forks(forks: Mapping[str, BranchRef], branch: str, live: Collection[str]) -> Iterator[str]:
    for fork in forks.values():
        if fork.parent == branch and fork.name not in live:
            yield from _list_dead_forks(forks, fork.name, live)
    if branch in forks:
        yield branch


# --------------------------------------------------------------------------------------------- names

MAX_BYTES = 200
COMMIT_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
VERSION = re.compile(r"v(\d+)")
DATE_LIKE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


def check_name(name: str) -> None:
    """Refuse a name that no branch or tag may have; the error says which rule it breaks."""
    reason = _explain_bad_name(name)
    if reason is not None:
        raise ParameterError(
            f"'{name}' cannot be the name of a branch or tag: {reason}",
            hint="use letters, digits, '.', '_' and '-', in segments split by '/', for example review/june",
            details={"name": name},
        )


def is_name(text: str) -> bool:
    """Return whether a branch or tag may have this name."""
    return _explain_bad_name(text) is None


def check_free(name: str, live: Iterable[str], kind: Literal["branch", "tag"] = "branch") -> None:
    """Refuse a name that exists, or whose folder would contain, or lie inside, that of an existing name.

    Only tags may lie in each other's folder.
    """
    for other in live:
        if other == name:
            hint = f"choose another name, or delete the {kind} first"
            raise AlreadyExists(f"there is a {kind} '{name}' already", hint=hint, details={"name": name})
        if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            raise ParameterError(
                f"'{name}' cannot stand beside the {kind} '{other}': one is a path prefix of the other",
                hint=f"choose another name, for example {name.replace('/', '-')}-2",
                details={"name": name, kind: other},
            )


def _explain_bad_name(name: str) -> str | None:  # noqa: C901  one rule per line reads better than any split
    if not name:
        return "it is empty"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    if name == MAIN:
        return "every graph has a 'main' already"
    if name.startswith("__"):
        return "names that begin with '__' are reserved"
    if COMMIT_ID.fullmatch(name.upper()):
        return "it looks like a commit id"
    if VERSION.fullmatch(name):
        return "it looks like a manifest version"
    if DATE_LIKE.fullmatch(name):
        return "it looks like a date"
    for segment in name.split("/"):
        if not segment:
            return "a segment between '/' is empty"
        if not _SEGMENT.fullmatch(segment):
            return f"'{segment}' has a character that is not allowed"
        if segment.startswith("."):
            return f"the segment '{segment}' begins with '.'"
        if segment.endswith(".lock"):
            return f"the segment '{segment}' ends in '.lock'"
    return None

"""The change feed of a branch: one block for each commit, with the commit and the images of every changed entity.

The feed follows first parents; what was merged is part of the merge commit. A block holds what its commit
changed, so replaying all blocks from the beginning gives the head. Blocks are streamed: memory depends neither on their
number nor on their size. A follower keeps a cursor, which points only between commits: a follower that stops inside a
block gets that block again.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from omnigraph.deadlines import CarriedDeadlines
from omnigraph.errors import ChangeGap, HistoryGone, Json, NotFound, ParameterError
from omnigraph.language.schema import TableKey
from omnigraph.language.source import suggest_name
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_current_schema
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.lagging import TypeNames, find_type_names
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.references import Reference, build_snapshot, resolve_reference
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import ManifestView, extend_view, read_view
from omnigraph.read.changes.compare_snapshots import find_changed_types
from omnigraph.read.changes.cursor import BASELINE_HINT, Cursor, decode_cursor
from omnigraph.read.changes.diff import Diff, EntityChange, TypeChanges
from omnigraph.read.changes.type_pairs import TypePair

NOW, BEGINNING, AFTER = "now", "beginning", "after:"


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """All changes of one commit. Node types come before edge types, sorted by name, then entities by id.

    ``cursor`` points after the commit: keep it once the whole block has been processed. ``diff`` compares the first
    parent with the commit and gives the changes as Arrow.
    """

    commit: Commit
    cursor: str
    diff: Diff

    def entities(self) -> Iterator[EntityChange]:
        """Yield every changed node and edge, with its properties before and after."""
        with _report_gap(self.commit.id):
            yield from self.diff.entities()

    def records(self) -> Iterator[dict[str, Json]]:
        """Yield every changed node and edge as a JSON object."""
        with _report_gap(self.commit.id):
            yield from self.diff.records()

    def report_gaps(self) -> AbstractContextManager[None]:
        """Report history that is missing while changes of the block are read as a ``ChangeGap``."""
        return _report_gap(self.commit.id)

    def summary(self) -> tuple[TypeChanges, ...]:
        """Count the changes of every type that changed."""
        with _report_gap(self.commit.id):
            return self.diff.summary()


class Changes:
    """The blocks of a branch from a position up to the commit that was its head when the feed was opened.

    ``cursor`` points after the last block that the caller has finished; iterating again continues from there.
    """

    def __init__(self, manifest: Manifest, history: Lineage, place: Cursor, after: CommitRecord | None) -> None:
        self._manifest = manifest
        self._history = history
        self._place = place
        self._after = after
        self._deadlines = CarriedDeadlines()

    @property
    def cursor(self) -> str:
        """The cursor to continue from next time."""
        return _encode_cursor(self._place, self._after)

    @property
    def newest(self) -> str:
        """The cursor after the last block. Reads no block."""
        return _encode_cursor(self._place, self._history.data_head())

    def cursors(self) -> Iterator[str]:
        """Yield the cursor after each block that follows. Reads no block."""
        commits = self._history.list_oldest_first(self._after)
        return (_encode_cursor(self._place, commit) for commit in commits if not commit.upkeep)

    def __iter__(self) -> Iterator[ChangeBlock]:
        return self._deadlines.iterate(self._read_blocks)

    def _read_blocks(self) -> Iterator[ChangeBlock]:
        before: _CommitView | None = None
        for commit in self._history.list_oldest_first(self._after):
            if commit.upkeep:
                # The same rows in other files: the next commit is compared with these, unless cleanup took them.
                with suppress(HistoryGone):
                    before = _read_commit_view(self._manifest, commit, before)
                continue
            with _report_gap(commit.id):
                if before is None:
                    before = self._read_parent(commit)
                after = _read_commit_view(self._manifest, commit, before)
                diff = self._compare(commit, before, after)
            yield ChangeBlock(to_commit(commit), _encode_cursor(self._place, commit), diff)
            self._after, before = commit, after

    def _compare(self, commit: CommitRecord, before: _CommitView | None, after: _CommitView) -> Diff:
        """Compare a commit with the state before it, or with its parent, if cleanup took what upkeep made of that."""
        if before is None:
            return _build_diff(self._manifest, _without_tables(after.snapshot), after.snapshot, self._place)
        try:
            return _build_diff(self._manifest, before.snapshot, after.snapshot, self._place)
        except HistoryGone:
            parent = self._read_parent(commit)
            if parent is None or parent.snapshot.manifest_version == before.snapshot.manifest_version:
                raise
            return _build_diff(self._manifest, parent.snapshot, after.snapshot, self._place)

    def _read_parent(self, commit: CommitRecord) -> _CommitView | None:
        """Read what the parent of a commit shows; None for the first commit."""
        if commit.parent is None:
            return None
        parent = self._history.find(commit.parent)
        if parent is None:
            raise HistoryGone(f"the parent of commit {commit.id} is not in the history")
        return _read_commit_view(self._manifest, parent, None)


def follow_changes(
    manifest: Manifest, branch: str, start: str | None, cursor: str | None, types: Iterable[str] | None
) -> Changes:
    """Open the change feed of a branch at a start or at a cursor."""
    history, place = _open_feed(manifest, branch, types)
    if cursor is None:
        return Changes(manifest, history, place, _find_start(manifest, history, place, NOW if start is None else start))
    if start is not None:
        raise ParameterError("start and cursor both say where to start", hint="give one of them")
    given = decode_cursor(cursor)
    given.check_same_feed(place)
    after = None if given.commit is None else history.find(given.commit)
    if after is None and given.commit is not None:
        raise ChangeGap(
            f"commit {given.commit} of the cursor is not in the history of '{branch}'",
            hint=f"the graph was restored to an older state; {BASELINE_HINT}",
            details={"commit": given.commit, "branch": branch},
        )
    return Changes(manifest, history, place, after)


def take_baseline(manifest: Manifest, branch: str, at: Reference | None, types: Iterable[str] | None) -> ChangeBlock:
    """Return all entities of a commit as one block of insertions, with the cursor after that commit."""
    history, place = _open_feed(manifest, branch, types)
    commit = history.data_head() if at is None else _find_commit(manifest, history, branch, at)
    if commit is None:
        raise NotFound(f"branch '{branch}' has no commit yet", details={"branch": branch})
    snapshot = _read_commit_view(manifest, commit, None).snapshot
    diff = _build_diff(manifest, _without_tables(snapshot), snapshot, place)
    return ChangeBlock(to_commit(commit), _encode_cursor(place, commit), diff)


# --------------------------------------------------------------------------------------------- where to begin


def _open_feed(manifest: Manifest, branch: str, types: Iterable[str] | None) -> tuple[Lineage, Cursor]:
    """Return the history of a branch and the cursor before its first commit."""
    view = manifest.view(branch, with_lineage=True)
    oldest = next(manifest.view(MAIN, with_lineage=True).history.list_oldest_first(), None)
    graph = None if oldest is None else oldest.id
    return view.history, Cursor(graph, branch, view.incarnation, _find_tables(manifest, view, types), None)


def _find_tables(manifest: Manifest, view: ManifestView, types: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the tables of some types, including types that the schema no longer has."""
    if types is None:
        return None
    known = {*view.tables.locations, *(type_.table_key for type_ in load_current_schema(manifest).catalog.types())}
    found: set[str] = set()
    for name in types:
        keys = known.intersection(TableKey.candidates(name))
        if not keys:
            hint = suggest_name(name, [TableKey(key).type_name for key in known], "types")
            raise NotFound(f"no type '{name}' in this graph", hint=hint, details={"type": name})
        found |= keys
    return tuple(sorted(found))


def _find_start(manifest: Manifest, history: Lineage, place: Cursor, start: str) -> CommitRecord | None:
    if start == NOW:
        return history.data_head()
    if start == BEGINNING:
        return None
    if not start.startswith(AFTER):
        raise ParameterError(f"start is '{start}'", hint="use now, beginning, or after:COMMIT")
    return _find_commit(manifest, history, place.branch, start.removeprefix(AFTER))


def _find_commit(manifest: Manifest, history: Lineage, branch: str, at: Reference) -> CommitRecord:
    commit = resolve_reference(manifest, branch, at).commit
    found = None if commit is None else history.find(commit.id)
    if found is None:
        raise ParameterError(
            f"'{at}' is not a commit in the history of '{branch}'",
            hint="merged commits are part of the merge commit: begin at a commit of the branch itself",
            details={"reference": str(at), "branch": branch},
        )
    return found


def _encode_cursor(place: Cursor, commit: CommitRecord | None) -> str:
    """Return the cursor after a commit as text."""
    return replace(place, commit=None if commit is None else commit.id).encode()


# --------------------------------------------------------------------------------------------- what a commit shows


@dataclass(frozen=True, slots=True)
class _CommitView:
    """The snapshot of a commit, and the manifest view that it was taken from."""

    view: ManifestView
    snapshot: Snapshot


def _read_commit_view(manifest: Manifest, commit: CommitRecord, earlier: _CommitView | None) -> _CommitView:
    """Read what a commit shows. Given an earlier commit of the same branch, only newer manifest rows are read."""
    branch = commit.branch or MAIN
    table = manifest.open(branch, commit.manifest_version)
    if earlier is not None and earlier.view.branch == branch:
        view = extend_view(earlier.view, table, with_lineage=False)
    else:
        view = read_view(table, branch, None, with_lineage=False)
    return _CommitView(view, build_snapshot(manifest, view, commit))


def _without_tables(snapshot: Snapshot) -> Snapshot:
    """Return the same snapshot without any table."""
    return replace(snapshot, pins={}, _opened={})


def _build_diff(manifest: Manifest, before: Snapshot, after: Snapshot, place: Cursor) -> Diff:
    """Compare the types that are followed. Tables are opened here: a gap must be reported before a block begins."""
    changed = find_changed_types(before, after)
    if place.tables is not None:
        current = {type_.table_key for type_ in load_current_schema(manifest).catalog.types()}
        followed = frozenset(place.tables)
        changed = tuple(
            pair for pair in changed if _is_followed(_find_names(manifest, before, after, pair), followed, current)
        )
    for snapshot in (before, after):
        _open_tables(snapshot, (key for pair in changed for key in pair.keys))
    return Diff(before, after, changed)


def _find_names(manifest: Manifest, before: Snapshot, after: Snapshot, pair: TypePair) -> TypeNames:
    snapshot = before if pair.after is None else after
    return find_type_names(manifest, snapshot.read_under, pair.key)


def _is_followed(names: TypeNames, followed: Collection[str], current: Collection[str]) -> bool:
    """Whether a type is among those that are followed. A name means the type that has it now, if there is one."""
    if names.current is None:
        return not names.all.isdisjoint(followed)
    return names.current in followed or any(key in followed for key in names.all if key not in current)


def _open_tables(snapshot: Snapshot, table_keys: Iterable[str]) -> None:
    for key in table_keys:
        if key in snapshot.pins:
            snapshot.table(key)


@contextmanager
def _report_gap(commit_id: str) -> Generator[None]:
    """Turn missing history into a ``ChangeGap`` at a commit."""
    try:
        yield
    except HistoryGone as error:
        raise ChangeGap(
            f"the changes of commit {commit_id} are gone: cleanup has removed versions that they need",
            hint=BASELINE_HINT,
            details={"commit": commit_id},
        ) from error

"""The changes of a branch as they were made: commit by commit, each a block with its cause and exact images.

The commits of a branch follow one another by their first parents; what a merge brought is part of the merge. A block
is what its commit changed, so replaying all blocks from the beginning gives the head. Blocks stream: neither their
number nor their size is held. A follower keeps a cursor, which stands only between commits: whoever stops inside a
block is given that block again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from omnigraph.errors import ChangeGap, HistoryGone, Json, NotFound, ParameterError, StorageError
from omnigraph.language.schema import TableKey
from omnigraph.language.source import suggest_similar
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.opening import current_schema
from omnigraph.manifest.references import Reference, resolve
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Snapshot, pins_of
from omnigraph.manifest.state import View, extend_view, read_view
from omnigraph.read.changes.compare_snapshots import find_changed_tables
from omnigraph.read.changes.cursor import BASELINE_HINT, Cursor, decode_cursor
from omnigraph.read.changes.diff import Diff, EntityChange, TypeChanges

NOW, BEGINNING, AFTER = "now", "beginning", "after:"


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """All that one commit changed. Node types come before edge types, each kind by name, then the ids in order.

    ``cursor`` stands after the commit: keep it when everything of the block has been taken in. ``diff`` leads from the
    first parent to the commit, for those who want Arrow.
    """

    commit: Commit
    cursor: str
    diff: Diff

    def entities(self) -> Iterator[EntityChange]:
        """Every node and edge that changed, with what it was and what it is."""
        with self._reading():
            yield from self.diff.entities()

    def records(self) -> Iterator[dict[str, Json]]:
        """The same as JSON has it."""
        with self._reading():
            yield from self.diff.records()

    def summary(self) -> tuple[TypeChanges, ...]:
        """How many came, changed and went, by type."""
        with self._reading():
            return self.diff.summary()

    @contextmanager
    def _reading(self) -> Generator[None]:
        try:
            yield
        except StorageError:
            # Cleanup may have taken the files of what was opened before; then the versions are gone as well.
            with _gap_at(self.commit.id):
                for snapshot in (self.diff.before, self.diff.after):
                    _open(replace(snapshot, _opened={}), find_changed_tables(self.diff.before, self.diff.after))
            raise


class Changes:
    """The blocks after some place in the history of a branch, up to the commit that was its newest when it was asked.

    ``cursor`` stands after the last block that the caller has gone past; going through it again goes on from there.
    """

    def __init__(self, manifest: Manifest, history: Lineage, place: Cursor, after: CommitRecord | None) -> None:
        self._manifest = manifest
        self._history = history
        self._place = place
        self._after = after

    @property
    def cursor(self) -> str:
        """Where to go on, next time."""
        return _cursor_after(self._place, self._after)

    @property
    def newest(self) -> str:
        """The cursor after the last block. No block is read for it."""
        return _cursor_after(self._place, self._history.head())

    def cursors(self) -> Iterator[str]:
        """The cursor after each block that is to come. No block is read for it."""
        return (_cursor_after(self._place, commit) for commit in self._history.oldest_first(self._after))

    def __iter__(self) -> Iterator[ChangeBlock]:
        before: _Moment | None = None
        for commit in self._history.oldest_first(self._after):
            with _gap_at(commit.id):
                if before is None:
                    before = self._moment_before(commit)
                after = _moment_of(self._manifest, commit, before)
                diff = _diff(before.snapshot if before else _nothing(after.snapshot), after.snapshot, self._place)
            yield ChangeBlock(commit_of(commit), _cursor_after(self._place, commit), diff)
            self._after, before = commit, after

    def _moment_before(self, commit: CommitRecord) -> _Moment | None:
        """What a commit changed; nothing was there before the first."""
        if commit.parent is None:
            return None
        parent = self._history.find(commit.parent)
        if parent is None:
            raise HistoryGone(f"the parent of commit {commit.id} is not in the history")
        return _moment_of(self._manifest, parent, None)


def follow_changes(
    manifest: Manifest, branch: str, start: str | None, cursor: str | None, types: Iterable[str] | None
) -> Changes:
    """The changes of a branch from a place on: one of its past, or where a cursor stands."""
    history, place = _followed(manifest, branch, types)
    if cursor is None:
        return Changes(manifest, history, place, _start(manifest, history, place, NOW if start is None else start))
    if start is not None:
        raise ParameterError("start and cursor both say where to start", hint="give one of them")
    given = decode_cursor(cursor)
    given.check_same_feed(place)
    after = None if given.commit is None else history.find(given.commit)
    if after is None and given.commit is not None:
        raise ChangeGap(
            f"commit {given.commit}, where the cursor stands, is not in the history of '{branch}'",
            hint=f"the graph was put back to an older state; {BASELINE_HINT}",
            details={"commit": given.commit, "branch": branch},
        )
    return Changes(manifest, history, place, after)


def take_baseline(manifest: Manifest, branch: str, at: Reference | None, types: Iterable[str] | None) -> ChangeBlock:
    """Everything that a commit of a branch shows, as if all of it had come then, and the cursor after that commit."""
    history, place = _followed(manifest, branch, types)
    commit = history.head() if at is None else _commit_on(manifest, history, branch, at)
    if commit is None:
        raise NotFound(f"branch '{branch}' has no commit yet", details={"branch": branch})
    shown = _moment_of(manifest, commit, None).snapshot
    diff = _diff(_nothing(shown), shown, place)
    return ChangeBlock(commit_of(commit), _cursor_after(place, commit), diff)


# --------------------------------------------------------------------------------------------- where to begin


def _followed(manifest: Manifest, branch: str, types: Iterable[str] | None) -> tuple[Lineage, Cursor]:
    """The history of a branch, and the cursor before all of it."""
    view = manifest.view(branch, with_lineage=True)
    oldest = next(manifest.view(MAIN, with_lineage=True).history.oldest_first(), None)
    graph = None if oldest is None else oldest.id
    return view.history, Cursor(graph, branch, view.incarnation, _tables(manifest, view, types), None)


def _tables(manifest: Manifest, view: View, types: Iterable[str] | None) -> tuple[str, ...] | None:
    """The tables of some types, those among them that the schema has no longer."""
    if types is None:
        return None
    if isinstance(types, str):
        raise ParameterError(f"types is {types!r}", hint=f"give a list, such as [{types!r}]")
    known = {*view.tables.locations, *(type_.table_key for type_ in current_schema(manifest).catalog.types())}
    found: set[str] = set()
    for name in types:
        keys = known.intersection(TableKey.candidates(name))
        if not keys:
            hint = suggest_similar(name, [TableKey(key).type_name for key in known])
            raise NotFound(f"no type '{name}' in this graph", hint=hint, details={"type": name})
        found |= keys
    return tuple(sorted(found))


def _start(manifest: Manifest, history: Lineage, place: Cursor, start: str) -> CommitRecord | None:
    if start == NOW:
        return history.head()
    if start == BEGINNING:
        return None
    if not start.startswith(AFTER):
        raise ParameterError(f"start is '{start}'", hint="use now, beginning, or after:COMMIT")
    return _commit_on(manifest, history, place.branch, start.removeprefix(AFTER))


def _commit_on(manifest: Manifest, history: Lineage, branch: str, at: Reference) -> CommitRecord:
    commit = resolve(manifest, branch, at).commit
    found = None if commit is None else history.find(commit.id)
    if found is None:
        raise ParameterError(
            f"'{at}' is no commit in the history of '{branch}'",
            hint="what a merge brought is part of the merge commit: begin at a commit of the branch itself",
            details={"reference": str(at), "branch": branch},
        )
    return found


def _cursor_after(place: Cursor, commit: CommitRecord | None) -> str:
    return replace(place, commit=None if commit is None else commit.id).encode()


# --------------------------------------------------------------------------------------------- what a commit shows


@dataclass(frozen=True, slots=True)
class _Moment:
    """What a commit shows, and the view of the manifest that says so."""

    view: View
    snapshot: Snapshot


def _moment_of(manifest: Manifest, commit: CommitRecord, earlier: _Moment | None) -> _Moment:
    """A commit's moment; from an earlier one on the same branch only the manifest's newer rows are read."""
    branch = commit.branch or MAIN
    table = manifest.open(branch, commit.manifest_version)
    if earlier is not None and earlier.view.branch == branch:
        view = extend_view(earlier.view, table, with_lineage=False)
    else:
        view = read_view(table, branch, None, with_lineage=False)
    schema = commit.schema_ir_hash or manifest.schema_hash()
    return _Moment(view, Snapshot(branch, view.version, commit_of(commit), schema, pins_of(view), manifest))


def _nothing(snapshot: Snapshot) -> Snapshot:
    """The same graph without any table."""
    return replace(snapshot, pins={}, _opened={})


def _diff(before: Snapshot, after: Snapshot, place: Cursor) -> Diff:
    """What differs in the tables that are followed. They are opened here: a gap must show before a block begins."""
    changed = [key for key in find_changed_tables(before, after) if place.tables is None or key in place.tables]
    for snapshot in (before, after):
        _open(snapshot, changed)
    return Diff(before, after, tuple(sorted(changed, key=lambda key: TableKey(key).nodes_first)))


def _open(snapshot: Snapshot, table_keys: Iterable[str]) -> None:
    for key in table_keys:
        if key in snapshot.pins:
            snapshot.table(key)


@contextmanager
def _gap_at(commit_id: str) -> Generator[None]:
    try:
        yield
    except HistoryGone as gone:
        raise ChangeGap(
            f"what commit {commit_id} changed is no longer known: cleanup has removed what it takes to tell",
            hint=BASELINE_HINT,
            details={"commit": commit_id},
        ) from gone

"""The history of one entity: the commits that changed it, newest first.

Only commits that moved the table of its type are looked at. Between two of them the entity is the same, so each costs
one lookup. Two states are compared as a diff compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import cast

import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.errors import HistoryGone, NotFound, ParameterError
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.lineage import CREATED_VERSION
from omnigraph.manifest.references import Reference, take_snapshot
from omnigraph.manifest.rows import TABLE_TOMBSTONE, TABLE_VERSION, CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes.compare_rows import DiffSide, compare_sides
from omnigraph.read.changes.diff import EntityChange
from omnigraph.read.changes.entity_images import PYTHON, read_entities
from omnigraph.read.changes.type_pairs import TypePair, pair_same_type, pair_types
from omnigraph.read.rows import Key, require_type, resolve_id
from omnigraph.storage.filters import ValueIn
from omnigraph.storage.tables import ROW_ADDRESS, Table


@dataclass(frozen=True, slots=True)
class EntityRevision:
    """What one commit changed of an entity."""

    commit: Commit
    change: EntityChange


def read_entity_history(
    manifest: Manifest, name: str, key: Key, branch: str, at: Reference | None, limit: int, before: str | None
) -> list[EntityRevision]:
    """Return the commits that changed an entity, newest first; ``before`` is the last commit of the page before.

    The list ends where cleanup has removed the versions of the table.
    """
    if limit < 0:
        raise ParameterError(f"limit is {limit}", hint="give a number of commits, 0 or more")
    now = take_snapshot(manifest, branch, at)
    type_ = require_type(now.catalog(), name)
    walk = _HistoryWalk(manifest, now, resolve_id(type_, key))
    return list(islice(walk.list_revisions(type_.table_key, before), min(limit, sys.maxsize)))


@dataclass(frozen=True, slots=True)
class _EntityRow:
    """The row of the entity in one version of its table; no row if it is not there. Blobs are not read."""

    table: Table
    rows: pa.Table

    @property
    def num_rows(self) -> int:
        """The number of rows, 0 or 1."""
        return self.rows.num_rows

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Return the row with its address."""
        return iter(self.rows.select([*columns, ROW_ADDRESS]).to_batches())


@dataclass(frozen=True, slots=True)
class _EntityState:
    """The entity at a commit, and the table key that its type has there."""

    commit: CommitRecord
    snapshot: Snapshot
    table_key: TableKey
    row: _EntityRow | None


@dataclass(frozen=True, slots=True)
class _HistoryWalk:
    manifest: Manifest
    now: Snapshot
    id: str

    def list_revisions(self, table_key: TableKey, before: str | None) -> Iterator[EntityRevision]:
        """Yield what the commits changed, newest first; ``table_key`` is that of the type now."""
        newer: _EntityState | None = None
        try:
            for older in self._list_states(table_key, before):
                check_deadline()
                if newer is not None and newer.commit.id != before:
                    yield from self._compare(older, newer)
                newer = older
        except HistoryGone:
            # What the oldest commit that is left has changed cannot be told.
            return
        if newer is not None and newer.commit.id != before:
            yield from self._compare(None, newer)

    def _list_states(self, table_key: TableKey, before: str | None) -> Iterator[_EntityState]:
        """Yield the states at the commits that may have changed the entity, newest first.

        Of a schema change, the commit before it is among them too: the type may have another name there.
        """
        newer, key = self.now, table_key
        is_before_change = True
        moved = self._list_versions(key)
        for commit, parent in pairwise(chain(self._list_commits(before), [None])):
            assert commit is not None
            is_change = parent is not None and parent.schema_ir_hash != commit.schema_ir_hash
            if is_change or is_before_change or moved is None or commit.manifest_version in moved:
                snapshot = take_snapshot(self.manifest, self.now.branch, commit.id)
                older_key = _find_older_key(snapshot, newer, key)
                if older_key is None:
                    return
                if older_key != key:
                    key, moved = older_key, self._list_versions(older_key)
                newer = snapshot
                yield _EntityState(commit, snapshot, key, self._read_row(snapshot, key))
            is_before_change = is_change

    def _list_commits(self, before: str | None) -> Iterator[CommitRecord]:
        """Yield the commits from the one of the snapshot, or from ``before``, to the first one."""
        view = self.manifest.view(self.now.branch, with_lineage=True)
        last = before or (None if self.now.commit is None else self.now.commit.id)
        start = None if last is None else view.history.find(last)
        if start is None:
            hint = "give a commit of the branch"
            raise NotFound(f"commit {last} is not in the history of '{self.now.branch}'", hint=hint)
        for commit in view.history.list_newest_first():
            if not commit.upkeep and (commit.id == start.id or commit.order < start.order):
                yield commit

    def _list_versions(self, table_key: TableKey) -> set[int] | None:
        """Return the versions of the manifest that moved or dropped a table; None if an old graph does not tell."""
        table = self.manifest.open(self.now.branch)
        if not table.has_stable_row_ids:
            return None
        kinds = f"object_type IN ('{TABLE_VERSION}', '{TABLE_TOMBSTONE}')"
        rows = table.scan(columns=[CREATED_VERSION], filter=f"{kinds} AND table_key = '{table_key}'").read_all()
        return {int(version) for version in cast("list[int]", rows.column(CREATED_VERSION).to_pylist())}

    def _read_row(self, snapshot: Snapshot, table_key: TableKey) -> _EntityRow | None:
        if table_key not in snapshot.pins or snapshot.catalog().find_type(table_key) is None:
            return None
        table = snapshot.table(table_key)
        condition = ValueIn(("id",), pa.array([self.id], pa.string())).to_sql()
        return _EntityRow(table, table.scan(table.schema.names, filter=condition, with_row_address=True).read_all())

    def _compare(self, older: _EntityState | None, newer: _EntityState) -> Iterator[EntityRevision]:
        """Yield what a commit changed, if it changed the entity; ``older`` is None for the state before all commits."""
        pair = _pair_states(older, newer)
        if pair is None:
            return
        rows = None if older is None else older.row, newer.row
        before, after = (DiffSide(row, type_) for row, type_ in zip(rows, pair.types, strict=True))
        for parts in compare_sides(pair, before, after):
            for each in read_entities(parts, pair.types, PYTHON):
                key = pair.key
                change = EntityChange(key.kind, key.type_name, each.id, each.op, each.before, each.after, each.changed)
                yield EntityRevision(to_commit(newer.commit), change)


def _pair_states(older: _EntityState | None, newer: _EntityState) -> TypePair | None:
    """Return the type of both states; None if neither schema has it."""
    if older is None:
        type_ = newer.snapshot.catalog().find_type(newer.table_key)
        return None if type_ is None else pair_same_type(type_)
    pairs = pair_types(older.snapshot, newer.snapshot)
    types = older.snapshot.catalog().find_type(older.table_key), newer.snapshot.catalog().find_type(newer.table_key)
    return next((pair for pair in pairs if (pair.before, pair.after) == types), None)


def _find_older_key(older: Snapshot, newer: Snapshot, table_key: TableKey) -> TableKey | None:
    """Return the table key of a type in an older snapshot; None if another type has it there.

    A type that is not there keeps its key: one of the same name that was dropped before belongs to the history.
    """
    pairs = pair_types(older, newer)
    for pair in pairs:
        if pair.after is not None and pair.before is not None and pair.after.table_key == table_key:
            return pair.before.table_key
    is_taken = any(
        pair.before is not None and pair.after is not None and pair.before.table_key == table_key for pair in pairs
    )
    return None if is_taken else table_key

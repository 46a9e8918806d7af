"""The indexes that a schema means: derived, in a commit of their own, so that small reads and writes need not scan.

Every table has them on ``id``, and an edge table on its ends; a declared ``@index`` or ``@key`` adds the one that fits
its type. Rows are the same without them. What cannot be built now is put off, with the reason, and stops nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.opening import current_schema
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import table as tables
from omnigraph.storage.columns import column_of, compute
from omnigraph.storage.filters import quoted_name
from omnigraph.storage.pinned import Table, has_any
from omnigraph.storage.staging import IndexKind, Staged
from omnigraph.write.commit import CommitOptions, PreparedWrite, TableChange, WriterKind, commit
from omnigraph.write.executor import LOCAL, Executor, group_evenly

LEAST_IN_A_PIECE: Final = 500_000
"""Indexes over fewer rows are built in one piece: more of them would only have to be joined."""
MOST_UNCOVERED: Final = 100_000
"""How many rows beyond an index a load leaves to be scanned, rather than building it anew."""


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index of one column; without a kind, one that no table can have."""

    table_key: TableKey
    column: str
    kind: IndexKind | None


@dataclass(frozen=True, slots=True)
class DeferredIndex:
    """An index that was not built, and why."""

    index: IndexSpec
    reason: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What became of each index that was asked for. ``commit`` is None when nothing had to be built."""

    built: tuple[IndexSpec, ...] = ()
    present: tuple[IndexSpec, ...] = ()
    deferred: tuple[DeferredIndex, ...] = ()
    commit: Commit | None = None


def ensure_indexes(
    manifest: Manifest,
    branch: str,
    types: Iterable[str] | None = None,
    actor: str | None = None,
    executor: Executor = LOCAL,
) -> IndexReport:
    """Build what the schema means on a branch, for all types or some, and build anew what does not cover all rows.

    Types are given by name, or by table key where a node and an edge type share a name.
    """
    wanted = list_required_indexes(current_schema(manifest).catalog, types)
    return _ensured(manifest, branch, EnsureIndexesOperation(wanted, executor=executor), actor)


def ensure_id_indexes(
    manifest: Manifest, branch: str, table_keys: Iterable[str], actor: str | None = None
) -> IndexReport:
    """Index ``id``, ``src`` and ``dst`` of some tables, so that later writes need not scan; small gaps may stay."""
    catalog = current_schema(manifest).catalog
    wanted = tuple(index for key in table_keys for index in _of_ids(_named(catalog, key)))
    return _ensured(manifest, branch, EnsureIndexesOperation(wanted, MOST_UNCOVERED), actor)


def ensure_loaded_indexes(
    manifest: Manifest, branch: str, table_keys: Iterable[str], actor: str | None, executor: Executor
) -> IndexReport:
    """Index what the schema means of tables that a large load wrote to; small gaps may stay."""
    wanted = list_required_indexes(current_schema(manifest).catalog, table_keys)
    return _ensured(manifest, branch, EnsureIndexesOperation(wanted, MOST_UNCOVERED, executor), actor)


# --------------------------------------------------------------------------------------------- what is meant


def list_required_indexes(catalog: Catalog, types: Iterable[str] | None = None) -> tuple[IndexSpec, ...]:
    """The indexes that the schema means, for all types or those that are named."""
    chosen = catalog.types() if types is None else [_named(catalog, name) for name in dict.fromkeys(types)]
    return tuple(index for type_ in chosen for index in (*_of_ids(type_), *_declared(type_)))


def _of_ids(type_: NodeType | EdgeType) -> Iterator[IndexSpec]:
    for column in ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",):
        yield IndexSpec(type_.table_key, column, IndexKind.BTREE)


def _declared(type_: NodeType | EdgeType) -> Iterator[IndexSpec]:
    """One for each column of ``@index`` and ``@key``: Lance has none over several columns."""
    for column in dict.fromkeys(column for columns in type_.indexes for column in columns):
        if column in type_.properties:
            yield IndexSpec(type_.table_key, column, _kind_for(type_.properties[column].type))


def _kind_for(type_: ValueType) -> IndexKind | None:
    if type_.is_list or type_.scalar is Scalar.BLOB:
        return None
    if type_.scalar is Scalar.VECTOR:
        return IndexKind.IVF_FLAT
    is_text = type_.scalar is Scalar.STRING and type_.enum_values is None
    return IndexKind.INVERTED if is_text else IndexKind.BTREE


def _named(catalog: Catalog, name: str) -> NodeType | EdgeType:
    known = {type_.table_key: type_ for type_ in catalog.types()}
    for table_key in TableKey.candidates(name):
        if table_key in known:
            return known[table_key]
    hint = suggest_similar(name, [type_.name for type_ in known.values()])
    raise NotFound(f"no type '{name}' in the schema", hint=hint, details={"type": name})


# --------------------------------------------------------------------------------------------- the work


@dataclass(frozen=True, slots=True)
class EnsureIndexesOperation:
    """Build the wanted indexes that are missing, or that leave more rows uncovered than they may."""

    required: tuple[IndexSpec, ...]
    most_uncovered: int = 0
    executor: Executor = LOCAL
    kind: WriterKind = WriterKind.ENSURE_INDICES
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[IndexReport]:
        """Look what is there. A table that another branch owns is not forked for an index."""
        present: list[IndexSpec] = []
        missing: list[IndexSpec] = []
        deferred: list[DeferredIndex] = []
        states = {
            key: _IndexState.of(snapshot, key) for key in dict.fromkeys(index.table_key for index in self.required)
        }
        for index in self.required:
            state = states[index.table_key]
            if state.covers(index, self.most_uncovered):
                present.append(index)
            elif (reason := state.obstacle(index)) is not None:
                deferred.append(DeferredIndex(index, reason))
            else:
                missing.append(index)
        report = IndexReport(tuple(missing), tuple(present), tuple(deferred))
        return PreparedWrite(_changes(missing, self.executor), frozenset(), report)


def _ensured(manifest: Manifest, branch: str, work: EnsureIndexesOperation, actor: str | None) -> IndexReport:
    result = commit(manifest, work, CommitOptions(branch, manifest.schema_hash(), actor, "ensure indexes"))
    report = result.outcome
    made = None if result.commit is None else commit_of(result.commit)
    return IndexReport(report.built, report.present, report.deferred, made)


def _changes(missing: Iterable[IndexSpec], runner: Executor) -> tuple[TableChange, ...]:
    by_table: dict[str, dict[str, IndexKind]] = {}
    for index in missing:
        assert index.kind is not None
        by_table.setdefault(index.table_key, {})[index.column] = index.kind
    return tuple(
        TableChange(key, partial(stage_indexes, kinds=kinds, executor=runner)) for key, kinds in by_table.items()
    )


# --------------------------------------------------------------------------------------------- building


@dataclass(frozen=True, slots=True)
class _SegmentTask:
    """What one task builds: an index over the rows of some fragments, of all or of a part."""

    column: str
    kind: IndexKind
    fragments: tuple[int, ...]
    is_all: bool


def stage_indexes(table: Table, kinds: Mapping[str, IndexKind], executor: Executor) -> Staged | None:
    """Stage an index for each column, all in one change; a column with nothing to index is left out.

    Of a large table each is built in pieces, and then joined. An index of vectors is built as a whole: its pieces would
    each divide the vectors in a way of their own.
    """
    wanted = {column: kind for column, kind in kinds.items() if has_any(table, column, kind)}
    pieces = [piece for column, kind in wanted.items() for piece in _pieces(table, column, kind, executor)]
    segments: dict[str, list[tables.Segment]] = {column: [] for column in wanted}
    for piece, segment in zip(pieces, executor.run(partial(_segment, table), pieces), strict=True):
        segments[piece.column].append(segment)
    parted = {column: tuple(each) for column, each in segments.items() if len(each) > 1}
    joined = executor.run(partial(tables.join_segments, table), list(parted.values()))
    whole = {column: each[0] for column, each in segments.items()}
    return tables.show_indexes(table, {**whole, **dict(zip(parted, joined, strict=True))})


def _pieces(table: Table, column: str, kind: IndexKind, runner: Executor) -> Iterator[_SegmentTask]:
    rows = table.fragment_rows()
    share = -(-sum(rows.values()) // runner.parallelism)
    groups = [tuple(rows)] if kind is IndexKind.IVF_FLAT else group_evenly(rows, max(LEAST_IN_A_PIECE, share))
    for group in groups:
        yield _SegmentTask(column, kind, group, len(groups) == 1)


def _segment(table: Table, piece: _SegmentTask) -> tables.Segment:
    segment = tables.build_segment(table, piece.column, piece.kind, piece.fragments)
    # As built, an inverted index is a part that no query can read.
    alone = piece.is_all and piece.kind is IndexKind.INVERTED
    return tables.join_segments(table, (segment,)) if alone else segment


# --------------------------------------------------------------------------------------------- what is there


@dataclass(frozen=True, slots=True)
class _IndexState:
    """What matters of one table: whose it is, its rows, and how many of them its indexes cover."""

    table: Table | None
    owner: str
    branch: str
    rows: int
    covered: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, snapshot: Snapshot, table_key: str) -> _IndexState:
        """The state of a table in a snapshot; a type may be younger than the branch and have no table there."""
        pin = snapshot.pins.get(table_key)
        if pin is None:
            return cls(None, snapshot.branch, snapshot.branch, 0, {})
        table = snapshot.table(table_key)
        covered = {(index.columns[0], index.kind): index.rows for index in table.indexes().values()}
        return cls(table, pin.branch or MAIN, snapshot.branch, table.count_rows(), covered)

    def covers(self, index: IndexSpec, most_uncovered: int) -> bool:
        """Whether there is nothing to do: an index is there and leaves no more rows uncovered than it may."""
        if index.kind is None or not self.rows:
            return False
        return self.covered.get((index.column, index.kind.value), 0) >= max(1, self.rows - most_uncovered)

    def obstacle(self, index: IndexSpec) -> str | None:
        """Why an index cannot be built now."""
        if index.kind is None:
            return "lists and blobs have no index"
        if self.table is None or not self.rows:
            return "the table has no rows"
        if self.owner != self.branch:
            return f"the table is that of branch '{self.owner}' until something is written to it here"
        if index.column not in self.table.schema.names:
            return "the table has no such column on this branch yet"
        return _obstacle_of_vectors(self.table, index.column) if index.kind is IndexKind.IVF_FLAT else None


def _obstacle_of_vectors(table: Table, column: str) -> str | None:
    """Why Lance would refuse to index vectors: there are none, or a distance among them is no finite F32."""
    largest: float | None = None
    dimension = cast("pa.FixedSizeListType[pa.DataType, int]", table.schema.field(column).type).list_size
    for batch in table.scan([column], filter=f"{quoted_name(column)} IS NOT NULL"):
        numbers = compute("list_flatten", column_of(batch, column)).to_numpy(zero_copy_only=False)
        largest = max(largest or 0.0, float(np.abs(numbers).max(initial=0.0)))
    if largest is None:
        return "no row has a vector"
    longest = 2 * largest * math.sqrt(dimension)
    return "a vector is too long for an index" if longest >= math.sqrt(np.finfo(np.float32).max) else None

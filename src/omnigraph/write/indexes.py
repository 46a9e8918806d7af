"""Builds the indexes that a schema requires, in a commit of their own, so that small reads and writes need not scan.

Every table has an index on ``id``, an edge table also on ``src`` and ``dst``; ``@index`` and ``@key`` add one that fits
the type of the property. Rows are the same without indexes. An index that cannot be built now is deferred with a
reason, and nothing fails.

An index is built once, without a lock. It is published for the rows that it covers, on top of what others wrote
meanwhile; newer rows are scanned until the next build. An index whose rows were compacted or replaced is deferred.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import BoundedSemaphore
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.language.source import suggest_name
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_current_schema, load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.settings import MAINTENANCE_CONCURRENCY, read_concurrency
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import tables
from omnigraph.storage.columns import column_of, compute
from omnigraph.storage.filters import quote_name
from omnigraph.storage.machine_memory import release_unused_memory
from omnigraph.storage.tables import IndexKind, StagedChange, Table, has_indexable_rows
from omnigraph.write.commit import CommitOptions, PreparedWrite, TableChange, WriterKind, commit_operation
from omnigraph.write.edge_ends import write_missing_ends
from omnigraph.write.executor import LOCAL, Executor, ThreadExecutor, group_evenly

MIN_ROWS_IN_A_SEGMENT: Final = 500_000
"""Smaller indexes are built in one segment: joining more would only cost time."""
MAX_ROWS_IN_A_SEGMENT: Final = 10_000_000
MAX_TEXTS_IN_A_SEGMENT: Final = 5_000_000
"""The most rows of a table that a task indexes, and that it has in an index after it joined some. Lance takes about a
hundred bytes of memory for each row, two hundred for a short text."""
MAX_VECTOR_BYTES_IN_A_SEGMENT: Final = 2 * 1024**3
BUILT_AT_ONCE: Final = 2
"""How many segments this process builds at a time, over all tables: Lance sorts each on one core, in memory."""
MAX_UNCOVERED: Final = 100_000
"""How many rows an index may lack after a load before it is rebuilt; queries scan them."""
_MAX_UNCOVERED_SHARE: Final = 8
"""Upkeep builds a text or vector index again if it lacks more than one row in this many."""
_MAX_STALE_SHARE: Final = 100
"""A text index of a large table is built again if one entry in this many is of a former row."""
OVERTAKEN: Final = "others replaced its rows while it was built; run it again"
"""Why an index that was built is not there."""


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index of one column. ``kind`` is None for a type that cannot be indexed."""

    table_key: TableKey
    column: str
    kind: IndexKind | None


@dataclass(frozen=True, slots=True)
class DeferredIndex:
    """An index that was not built, and the reason."""

    index: IndexSpec
    reason: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The indexes that were built, present or deferred. ``commit`` is None if nothing had to be built."""

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
    """Build the missing indexes of a branch, for all types or some, and rebuild those that do not cover all rows.

    A type is given by its name, or by its table key if a node type and an edge type share the name.
    """
    schema = load_current_schema(manifest)
    required = list_required_indexes(schema.catalog, types)
    operation = EnsureIndexesOperation(required, executor=executor)
    return commit_indexes(manifest, operation, CommitOptions(branch, schema.hash, actor))


def ensure_id_indexes(
    manifest: Manifest, branch: str, table_keys: Iterable[str], actor: str | None = None
) -> IndexReport:
    """Index ``id``, ``src`` and ``dst`` of some tables. An index may lack ``MAX_UNCOVERED`` rows."""
    schema = load_current_schema(manifest)
    required = tuple(index for key in table_keys for index in _list_id_indexes(_find_type(schema.catalog, key)))
    operation = EnsureIndexesOperation(required, MAX_UNCOVERED)
    return commit_indexes(manifest, operation, CommitOptions(branch, schema.hash, actor))


def ensure_loaded_indexes(
    manifest: Manifest, branch: str, table_keys: Iterable[str], actor: str | None, executor: Executor
) -> IndexReport:
    """Build the indexes of tables that a large load wrote to. An index may lack ``MAX_UNCOVERED`` rows."""
    schema = load_current_schema(manifest)
    required = list_required_indexes(schema.catalog, table_keys)
    operation = EnsureIndexesOperation(required, MAX_UNCOVERED, executor)
    return commit_indexes(manifest, operation, CommitOptions(branch, schema.hash, actor))


# --------------------------------------------------------------------------------------------- the required indexes


def list_required_indexes(catalog: Catalog, types: Iterable[str] | None = None) -> tuple[IndexSpec, ...]:
    """List the indexes that the schema requires, for all types or the named ones."""
    chosen = catalog.types() if types is None else [_find_type(catalog, name) for name in dict.fromkeys(types)]
    return tuple(index for type_ in chosen for index in (*_list_id_indexes(type_), *_list_declared_indexes(type_)))


def _list_id_indexes(type_: NodeType | EdgeType) -> Iterator[IndexSpec]:
    for column in ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",):
        yield IndexSpec(type_.table_key, column, IndexKind.BTREE)


def _list_declared_indexes(type_: NodeType | EdgeType) -> Iterator[IndexSpec]:
    """List one index for each column of ``@index`` and ``@key``: Lance has no index over several columns."""
    for column in dict.fromkeys(column for columns in type_.indexes for column in columns):
        if column in type_.properties:
            yield IndexSpec(type_.table_key, column, _choose_kind(type_.properties[column].type))


def _choose_kind(type_: ValueType) -> IndexKind | None:
    if type_.is_list or type_.scalar is Scalar.BLOB:
        return None
    if type_.scalar is Scalar.VECTOR:
        return IndexKind.IVF_FLAT
    is_text = type_.scalar is Scalar.STRING and type_.enum_values is None
    return IndexKind.INVERTED if is_text else IndexKind.BTREE


def _find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    known = {type_.table_key: type_ for type_ in catalog.types()}
    for table_key in TableKey.candidates(name):
        if table_key in known:
            return known[table_key]
    hint = suggest_name(name, [type_.name for type_ in known.values()], "types")
    raise NotFound(f"no type '{name}' in the schema", hint=hint, details={"type": name})


# --------------------------------------------------------------------------------------------- the operation


@dataclass(frozen=True, slots=True)
class EnsureIndexesOperation:
    """Builds the required indexes that are missing, or that do not cover enough rows."""

    required: tuple[IndexSpec, ...]
    max_uncovered: int = 0
    executor: Executor = LOCAL
    kind: WriterKind = WriterKind.ENSURE_INDICES
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[IndexReport]:
        """Find the indexes to build. A table that another branch owns is not forked for an index."""
        present: list[IndexSpec] = []
        missing: list[IndexSpec] = []
        deferred: list[DeferredIndex] = []
        states = {
            key: _IndexState.read(snapshot, key) for key in dict.fromkeys(index.table_key for index in self.required)
        }
        for index in self.required:
            state = states[index.table_key]
            if state.is_covered(index, self.max_uncovered):
                present.append(index)
            elif (reason := state.find_obstacle(index, self.executor)) is not None:
                deferred.append(DeferredIndex(index, reason))
            else:
                missing.append(index)
        report = IndexReport(tuple(missing), tuple(present), tuple(deferred))
        return PreparedWrite(_plan_changes(missing, self.executor), frozenset(), report)


@dataclass(frozen=True, slots=True)
class ExtendIndexesOperation:
    """Extends the indexes that some tables have over rows that were added or moved. Missing indexes stay missing.

    A BTREE gets a further segment. Other indexes are built again, once enough rows of a table of moderate size lack.
    """

    required: tuple[IndexSpec, ...]
    kind: WriterKind = WriterKind.ENSURE_INDICES
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[tuple[IndexSpec, ...]]:
        """Find the indexes to extend."""
        states = {
            key: _IndexState.read(snapshot, key) for key in dict.fromkeys(index.table_key for index in self.required)
        }
        due = tuple(index for index in self.required if states[index.table_key].should_extend(index))
        by_table = _group_by_table(due)
        changes = tuple(
            TableChange(key, partial(stage_extensions, kinds=kinds), carry_over=tables.carry_over_indexes)
            for key, kinds in by_table.items()
        )
        return PreparedWrite(changes, frozenset(), due)


def stage_extensions(table: Table, kinds: Mapping[str, IndexKind]) -> StagedChange | None:
    """Stage what completes the index of each column, all in one change."""
    built: dict[str, tables.Segment] = {}
    for column, kind in kinds.items():
        every = tuple(table.fragment_rows())
        fragments = tables.choose_segment(table, column) if kind is IndexKind.BTREE else every
        if fragments:
            built[column] = _build_segment(table, _SegmentTask(column, kind, fragments, is_alone=True))
    return tables.extend_indexes(table, list(built.values()))


def commit_indexes(manifest: Manifest, operation: EnsureIndexesOperation, options: CommitOptions) -> IndexReport:
    """Build indexes and publish those whose rows are still there. The others are deferred."""
    result = commit_operation(manifest, operation, replace(options, message="ensure indexes"))
    report = result.outcome
    now = take_snapshot(manifest, options.branch)
    if any(now.pins[key].row_count > MAX_UNCOVERED for key in result.tables if key in now.pins):
        release_unused_memory()
    if operation.executor is LOCAL:
        # Where the work is distributed, the ids of all nodes need not fit the memory of one process.
        written = dict.fromkeys(index.table_key for index in operation.required)
        write_missing_ends(now, load_schema_of(manifest, now.schema_ir_hash).catalog, written)
    if not report.built:
        return report
    there = [index for index in report.built if _IndexState.read(now, index.table_key).is_there(index)]
    # An index of a table that this commit did not write to was built by somebody else meanwhile.
    built = tuple(index for index in there if index.table_key in result.tables)
    return IndexReport(
        built,
        (*report.present, *(index for index in there if index not in built)),
        (*report.deferred, *(DeferredIndex(index, OVERTAKEN) for index in report.built if index not in there)),
        None if result.commit is None else to_commit(result.commit),
    )


def _plan_changes(missing: Iterable[IndexSpec], executor: Executor) -> tuple[TableChange, ...]:
    return tuple(
        TableChange(
            key,
            partial(stage_indexes, kinds=kinds, executor=executor),
            carry_over=tables.carry_over_indexes,
        )
        for key, kinds in _group_by_table(missing).items()
    )


def _group_by_table(indexes: Iterable[IndexSpec]) -> dict[str, dict[str, IndexKind]]:
    """Return the kinds of some indexes, by table and column."""
    by_table: dict[str, dict[str, IndexKind]] = {}
    for index in indexes:
        assert index.kind is not None
        by_table.setdefault(index.table_key, {})[index.column] = index.kind
    return by_table


# --------------------------------------------------------------------------------------------- building


@dataclass(frozen=True, slots=True)
class _SegmentTask:
    """What one task builds: an index over some fragments, which is a segment by itself or joined with others."""

    column: str
    kind: IndexKind
    fragments: tuple[int, ...]
    is_alone: bool


def stage_indexes(table: Table, kinds: Mapping[str, IndexKind], executor: Executor) -> StagedChange | None:
    """Stage an index for each column, all in one change. A column without values is left out.

    An index that exists grows by the rows that it lacks. What many rows need is built in pieces, which are then joined
    to segments that one task can hold.
    """
    required = {column: kind for column, kind in kinds.items() if has_indexable_rows(table, column, kind)}
    # To join pieces costs more than to build them, so there are no more than keep all tasks busy.
    tasks = -(-executor.parallelism // max(1, len(required)))
    planned = [group for column, kind in required.items() for group in _plan_segments(table, column, kind, tasks)]
    at_once = min(BUILT_AT_ONCE, read_concurrency(MAINTENANCE_CONCURRENCY))
    builders = ThreadExecutor(at_once) if executor is LOCAL else executor
    built = iter(builders.run(partial(_build_segment, table), [piece for group in planned for piece in group]))
    groups = [tuple(next(built) for _ in group) for group in planned]
    joined = executor.run(partial(tables.merge_segments, table), [group for group in groups if len(group) > 1])
    return tables.extend_indexes(table, [*(group[0] for group in groups if len(group) == 1), *joined])


def _plan_segments(table: Table, column: str, kind: IndexKind, tasks: int) -> Iterator[Sequence[_SegmentTask]]:
    """Yield the pieces of each segment of an index."""
    chosen, every = set(_choose_fragments(table, column, kind)), table.fragment_rows()
    rows = {fragment: count for fragment, count in every.items() if fragment in chosen}
    most = _max_rows_in_a_segment(table, column, kind)
    share = max(MIN_ROWS_IN_A_SEGMENT, -(-sum(rows.values()) // tasks))
    pieces = group_evenly(rows, min(most, share))
    sizes = {number: sum(rows[fragment] for fragment in piece) for number, piece in enumerate(pieces)}
    for group in group_evenly(sizes, most):
        yield [_SegmentTask(column, kind, pieces[number], len(group) == 1) for number in group]


def _max_rows_in_a_segment(table: Table, column: str, kind: IndexKind) -> int:
    match kind:
        case IndexKind.BTREE:
            is_text = pa.types.is_string(cast("pa.DataType", table.schema.field(column).type))
            return MAX_TEXTS_IN_A_SEGMENT if is_text else MAX_ROWS_IN_A_SEGMENT
        case IndexKind.INVERTED:
            return MAX_TEXTS_IN_A_SEGMENT
        case IndexKind.IVF_FLAT:
            return max(1, MAX_VECTOR_BYTES_IN_A_SEGMENT // (_count_dimensions(table, column) * 4))


def _choose_fragments(table: Table, column: str, kind: IndexKind) -> Collection[int]:
    """Return the fragments that an index is to be built over: those that it lacks, and all if it cannot grow."""
    every = table.fragment_rows().keys()
    present = table.list_indexes().get(tables.index_name(column))
    if present is None or present.kind != kind.value:
        return every
    if _has_many_stale_texts(table, column, kind):
        return every
    lacking = tables.choose_segment(table, column)
    return lacking if lacking and tables.can_grow(table, column, kind, lacking) else every


_builds: Final = BoundedSemaphore(BUILT_AT_ONCE)


def _build_segment(table: Table, piece: _SegmentTask) -> tables.Segment:
    with _builds:
        segment = tables.build_segment(table, piece.column, piece.kind, piece.fragments)
        # No query can read an inverted index before it is joined, be it with no other.
        must_join = piece.is_alone and piece.kind is IndexKind.INVERTED
        return tables.merge_segments(table, (segment,)) if must_join else segment


# --------------------------------------------------------------------------------------------- the present indexes


def _has_many_stale_texts(table: Table, column: str, kind: IndexKind) -> bool:
    """Return whether a text index has so many entries of former rows that it is built again for exact scores."""
    if kind is not IndexKind.INVERTED:
        return False
    statistics = tables.read_text_statistics(table, column)
    is_large = statistics.documents > MAX_UNCOVERED
    return statistics.stale > (statistics.documents // _MAX_STALE_SHARE if is_large else 0)


@dataclass(frozen=True, slots=True)
class _IndexState:
    """The owner and the row count of one table, and how many rows its indexes cover."""

    table: Table | None
    owner: str
    branch: str
    rows: int
    covered: Mapping[tuple[str, str], int]

    @classmethod
    def read(cls, snapshot: Snapshot, table_key: str) -> _IndexState:
        """Read the state of a table. A type that is newer than the branch has no table there."""
        pin = snapshot.pins.get(table_key)
        if pin is None:
            return cls(None, snapshot.branch, snapshot.branch, 0, {})
        table = snapshot.table(table_key)
        covered = {(index.columns[0], index.kind): index.rows for index in table.list_indexes().values()}
        return cls(table, pin.branch or MAIN, snapshot.branch, table.count_rows(), covered)

    def is_there(self, index: IndexSpec) -> bool:
        """Whether the index exists, whatever it covers."""
        return index.kind is not None and (index.column, index.kind.value) in self.covered

    def is_covered(self, index: IndexSpec, max_uncovered: int) -> bool:
        """Whether the index exists and covers all but ``max_uncovered`` rows."""
        if index.kind is None or not self.rows:
            return False
        if self.covered.get((index.column, index.kind.value), 0) < max(1, self.rows - max_uncovered):
            return False
        return (
            bool(max_uncovered) or self.table is None or not _has_many_stale_texts(self.table, index.column, index.kind)
        )

    def should_extend(self, index: IndexSpec) -> bool:
        """Whether upkeep extends the index: it exists, and covers too few rows, or too few for the work."""
        if not self.is_there(index) or self.table is None or self.owner != self.branch:
            return False
        if index.kind is IndexKind.BTREE:
            return bool(tables.choose_segment(self.table, index.column))
        # Lance scans the rows that such an index does not cover.
        is_due = not self.is_covered(index, self.rows // _MAX_UNCOVERED_SHARE) and self.rows <= MAX_UNCOVERED
        return is_due and self.find_obstacle(index, LOCAL) is None

    def find_obstacle(self, index: IndexSpec, executor: Executor) -> str | None:
        """Return why an index cannot be built now, or None."""
        if index.kind is None:
            return "lists and blobs have no index"
        if self.table is None or not self.rows:
            return "the table has no rows"
        if self.owner != self.branch:
            return f"branch '{self.owner}' owns the table until this branch writes to it"
        if index.column not in self.table.schema.names:
            return "the table has no such column on this branch yet"
        if index.kind is not IndexKind.IVF_FLAT:
            return None
        return _find_vector_obstacle(self.table, index.column, executor)


def _find_vector_obstacle(table: Table, column: str, executor: Executor) -> str | None:
    """Return why Lance would refuse to index vectors: there are none, or a distance is not a finite F32."""
    rows = table.fragment_rows()
    groups = group_evenly(rows, max(1, -(-sum(rows.values()) // executor.parallelism)))
    measured = executor.run(partial(_measure_vectors, table, column), groups)
    components = [each for each in measured if each is not None]
    if not components:
        return "no row has a vector"
    max_distance = 2 * max(components) * math.sqrt(_count_dimensions(table, column))
    return "a vector is too long for an index" if max_distance >= math.sqrt(np.finfo(np.float32).max) else None


def _count_dimensions(table: Table, column: str) -> int:
    return cast("pa.FixedSizeListType[pa.DataType, int]", table.schema.field(column).type).list_size


def _measure_vectors(table: Table, column: str, fragments: tuple[int, ...]) -> float | None:
    """Return the largest component of the vectors in some fragments, by its absolute value; None without vectors."""
    found: float | None = None
    for batch in table.scan([column], filter=f"{quote_name(column)} IS NOT NULL", in_fragments=fragments):
        numbers = compute("list_flatten", column_of(batch, column)).to_numpy(zero_copy_only=False)
        found = max(found or 0.0, float(np.abs(numbers).max(initial=0.0)))
    return found

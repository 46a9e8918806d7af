"""Complete the rows of an update on Spark: the same rules and the same rows as in one process.

Executors make the match keys of both sides and shuffle them by key; a partition finds the stored row of each incoming
row. Then each fragment of partial rows is completed by one task, which reads the stored rows that it needs and writes
whole rows beside the graph. A few rows are completed by this process instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import read_blobs_at
from omnigraph.spark.executor import FragmentTask, SparkExecutor, union_all
from omnigraph.spark.load import identity_matching
from omnigraph.spark.load.identity_matching import list_bases
from omnigraph.spark.load.incoming_rows import DistributedRows, RowsOfFragments
from omnigraph.spark.load.rejected_rows import to_rejected_reader, to_task_rows
from omnigraph.spark.load.rewritten_rows import FragmentLayout, RewrittenPositions, write_origins
from omnigraph.spark.sized_frames import MAX_PARTITIONS, divide_fragments
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage import tables
from omnigraph.storage.columns import Values, column_of, make_nulls
from omnigraph.storage.tables import ROW_ADDRESS, FragmentText, Table, combine_batches, estimate_stored_row_bytes
from omnigraph.write.load import (
    UNMATCHED,
    FragmentTarget,
    GeneratedIds,
    IncomingRows,
    InMemoryRows,
    Mask,
    MatchBasis,
    NotFoundCause,
    RejectedRecord,
    RowAddresses,
    RowCompletion,
    RowIdentity,
    RowNumbers,
    StoredRows,
    UnmatchedRecords,
    UnmatchedRows,
    addresses_of,
    attach_blobs,
    can_match_by_lookup,
    completed_schema,
    keep_common,
    locate_stored,
    mark_named,
    partial_schema,
    to_reader,
)
from omnigraph.write.load import complete_rows as complete_locally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS_PER_PARTITION: Final = 1_000_000
_KEYS: Final = pa.schema(
    [pa.field("number", pa.int64()), pa.field(ROW_ADDRESS, pa.int64()), pa.field("key", pa.string())]
)
"""A row of either side: incoming rows have a number, stored rows an address."""
_KEY_COLUMNS: Final = f"number long, {ROW_ADDRESS} long, key string"
_TARGETS: Final = pa.schema(
    [
        pa.field("fragment", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("target", pa.int64()),
        pa.field("is_shared", pa.bool_()),
    ]
)
"""An incoming row, the address of its stored row, and whether other incoming rows have the same one.

The target is a cause, see :class:`NotFoundCause`, if several stored rows have the identity of the row. The offset is
null in the row that stands for a whole fragment.
"""
_TARGET_COLUMNS: Final = "fragment long, offset long, target long, is_shared boolean"
_COMPLETED_COLUMNS: Final = "fragment long, body string"
_COMPLETED: Final = pa.schema([pa.field("fragment", pa.int64()), pa.field("body", pa.string())])
_NO_IDS: Final = cast("Values", pa.array([], pa.string()))


def complete_rows(
    executor: SparkExecutor, scratch: Table, table: Table | None, rows: IncomingRows, identity: RowIdentity | None
) -> IncomingRows:
    """Return the partial rows that change their stored rows, completed; the others are unchanged or unmatched."""
    is_small = rows.positions.count <= identity_matching.MAX_LOOKED_UP_ROWS
    if is_small and (table is None or can_match_by_lookup(table, rows, identity)):
        bounded = None if table is None else table.with_index_cache(identity_matching.INDEX_CACHE_BYTES)
        return _write_completed(scratch, rows, complete_locally(bounded, rows, identity))
    staged = cast("DistributedRows", rows.storage)
    layout = FragmentLayout(staged.own_fragments)
    targets = [_list_fragments(executor, layout)]
    found = [
        _find_targets(executor, table, staged, _KeyTask(basis, rows.generated, layout), rows)
        for basis in list_bases(rows, identity)
        if table is not None
    ]
    if found:
        targets.append(_mark_shared(union_all(found), rows.positions.count))
    task = _CompletionTask(rows.type, identity, rows.generated, staged.detached, table, scratch, layout)
    return _collect_completed(scratch, rows, identity, _complete_fragments(executor, task, union_all(targets)))


# --------------------------------------------------------------------------------------------- targets


@dataclass(frozen=True, slots=True)
class _KeyTask:
    """Makes the match keys of both sides on executors."""

    basis: MatchBasis
    generated: GeneratedIds
    layout: FragmentLayout

    def read_incoming(self, detached: Table, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Task over fragments of partial rows."""
        names = partial_schema(self.basis.type).names
        for batch in detached.scan(names, with_row_address=True, in_fragments=fragments):
            rows = pa.Table.from_batches([batch])
            numbers = self.layout.number_rows(column_of(rows, ROW_ADDRESS))
            numbers, chosen = self.basis.choose_rows(numbers, rows, self.generated)
            if self.basis.identity is not None:
                at = np.flatnonzero(mark_named(self.basis.type, self.basis.identity, chosen))
                numbers, chosen = numbers[at], chosen.take(at)
            columns = [pa.array(numbers), pa.nulls(len(numbers), pa.int64()), self.basis.make_keys(chosen)]
            yield from pa.table(columns, schema=_KEYS).to_batches()

    def read_stored(self, table: Table, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Task over fragments of the stored table."""
        identity = self.basis.identity
        for rows in StoredRows(self.basis.type, table).read(self.basis.key_columns, fragments=fragments):
            # A row without a value of its unique columns can only be named by its id.
            kept = rows if identity is None else rows.take(np.flatnonzero(~identity.mark_incomplete(rows)))
            addresses = pa.array(addresses_of(kept).astype(np.int64))
            columns = [pa.nulls(kept.num_rows, pa.int64()), addresses, self.basis.make_keys(kept)]
            yield from pa.table(columns, schema=_KEYS).to_batches()


def _find_targets(
    executor: SparkExecutor, table: Table, staged: DistributedRows, task: _KeyTask, rows: IncomingRows
) -> DataFrame:
    """Return the stored rows of the incoming rows that are matched on one basis, as :data:`_TARGETS`."""
    incoming = _map_keys(executor, staged.detached, staged.own_fragments, task.read_incoming)
    stored = _map_keys(executor, table, table.fragment_rows(), task.read_stored)
    count = 1 + (rows.positions.count + table.count_rows()) // _ROWS_PER_PARTITION
    shuffled = union_all([incoming, stored]).repartition(min(MAX_PARTITIONS, count), "key")
    return map_batches(shuffled, partial(_pair_keys, task.layout), _TARGET_COLUMNS)


def _map_keys(executor: SparkExecutor, table: Table, fragments: Mapping[int, int], task: FragmentTask) -> DataFrame:
    groups = divide_fragments(fragments, estimate_stored_row_bytes(table), executor.parallelism)
    return executor.map_fragments(table, groups, task, _KEY_COLUMNS)


def _pair_keys(layout: FragmentLayout, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task over a partition: find the stored rows with the match keys of incoming rows."""
    rows = pa.Table.from_batches(batches, _KEYS)
    is_incoming = rows["number"].is_valid()
    incoming, stored = keep_common(rows.filter(is_incoming), rows.filter(rows["number"].is_null()))
    if incoming.num_rows:
        numbers = column_of(incoming, "number").to_numpy(zero_copy_only=False)
        fragments, offsets = layout.locate_rows(numbers)
        columns = [
            pa.array(fragments),
            pa.array(offsets),
            pa.array(locate_stored(incoming, stored)),
            pa.nulls(len(numbers), pa.bool_()),
        ]
        yield from pa.table(columns, schema=_TARGETS).to_batches()


def _mark_shared(targets: DataFrame, row_count: int) -> DataFrame:
    """Return the targets with a mark at those that several incoming rows have."""
    count = min(MAX_PARTITIONS, 1 + row_count // _ROWS_PER_PARTITION)
    # Rows without a target are spread by their offsets.
    spread = targets.selectExpr("*", "if(target < 0, -1 - offset, target) AS place").repartition(count, "place")
    return map_batches(spread.drop("place"), _mark_shared_partition, _TARGET_COLUMNS)


def _mark_shared_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task over a partition, which has all rows of its targets."""
    rows = pa.Table.from_batches(batches, _TARGETS)
    targets = column_of(rows, "target").to_numpy(zero_copy_only=False)
    distinct, counts = np.unique(targets, return_counts=True)
    shared = pa.array(np.isin(targets, distinct[counts > 1]))
    yield from rows.set_column(_TARGETS.get_field_index("is_shared"), "is_shared", shared).to_batches()


def _list_fragments(executor: SparkExecutor, layout: FragmentLayout) -> DataFrame:
    """Return one row for each fragment, so that a fragment of which no row has a target is looked at too."""
    count = len(layout.ids)
    columns = [cast("Values", pa.array(layout.ids)), *(make_nulls(count, type_) for type_ in _TARGETS.types[1:])]
    return executor.session.createDataFrame(pa.table(columns, schema=_TARGETS))


# --------------------------------------------------------------------------------------------- completed fragments


@dataclass(frozen=True, slots=True)
class _CompletedFragment:
    """What a fragment of partial rows became: the rows that change, and those that are unmatched."""

    fragment: int
    rows: int
    unmatched: int
    fragments: list[FragmentText]
    origins: list[FragmentText]
    unmatched_fragments: list[FragmentText]


def _complete_fragments(executor: SparkExecutor, task: _CompletionTask, targets: DataFrame) -> list[_CompletedFragment]:
    """Complete all fragments; return the reports in the order of the fragments."""
    by_fragment = targets.repartition(max(1, min(MAX_PARTITIONS, len(task.layout.rows))), "fragment")
    found = executor.collect(map_batches(by_fragment, task.run, _COMPLETED_COLUMNS))
    reports = [
        _CompletedFragment(fragment, *orjson.loads(body)) for fragment, body in cast("list[tuple[int, str]]", found)
    ]
    return sorted(reports, key=lambda each: each.fragment)


@dataclass(frozen=True, slots=True)
class _CompletionTask:
    """Completes fragments of partial rows on executors."""

    type: NodeType | EdgeType
    identity: RowIdentity | None
    generated: GeneratedIds
    detached: Table
    table: Table | None
    scratch: Table
    layout: FragmentLayout

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Task over targets: complete the rows of their fragments."""
        targets = pa.Table.from_batches(batches, _TARGETS)
        owners = column_of(targets, "fragment").to_numpy(zero_copy_only=False)
        for fragment in cast("list[int]", np.unique(owners).tolist()):
            report = self._complete(fragment, targets.take(np.flatnonzero(owners == fragment)))
            yield pa.record_batch([pa.array([fragment]), pa.array([orjson.dumps(report).decode()])], schema=_COMPLETED)

    def _complete(self, fragment: int, targets: pa.Table) -> tuple[object, ...]:
        known = targets.filter(targets["offset"].is_valid())
        offsets = column_of(known, "offset").to_numpy(zero_copy_only=False)
        found = np.full(self.layout.rows[fragment], NotFoundCause.MISSING, np.int64)
        found[offsets] = column_of(known, "target").to_numpy(zero_copy_only=False)
        is_shared = np.zeros(len(found), np.bool_)
        is_shared[offsets] = column_of(known, "is_shared").to_numpy(zero_copy_only=False)
        unmatched = self._mark_rows(fragment, found, is_shared)
        left = np.flatnonzero(found >= 0) + int(self.layout.starts[np.searchsorted(self.layout.ids, fragment)])
        fragments: Sequence[FragmentText] = ()
        if len(left):
            rows = to_reader(completed_schema(self.type), self._read_completed(fragment, found), _NO_IDS)
            fragments = tables.write_rows(self.scratch, rows, "overwrite")
        origins = write_origins(self.scratch, left) if len(left) else ()
        listed = tables.write_rows(self.scratch, unmatched, "overwrite") if unmatched.num_rows else ()
        return len(left), unmatched.num_rows, list(fragments), list(origins), list(listed)

    def _mark_rows(self, fragment: int, found: RowAddresses, is_shared: Mask) -> pa.Table:
        """Return the unmatched rows of a fragment. Rows that change nothing lose their targets."""
        pieces = [UNMATCHED.empty_table()]
        for rows, at in self._scan(fragment):
            numbers = self.layout.number_rows(column_of(rows, ROW_ADDRESS))
            is_unnamed = self.generated.mark(numbers) & ~mark_named(self.type, self.identity, rows)
            found[at[is_unnamed]] = NotFoundCause.UNNAMED
            missing, matched = at[found[at] < 0], np.flatnonzero(found[at] >= 0)
            ids = column_of(rows, "id").take(np.flatnonzero(found[at] < 0))
            pieces.append(pa.table([ids, pa.array(found[missing], pa.int8())], schema=UNMATCHED))
            if len(matched):
                changed = self._mark_changed(rows.take(matched), found[at[matched]]) | is_shared[at[matched]]
                found[at[matched[~changed]]] = NotFoundCause.MISSING
        return pa.concat_tables(pieces)

    def _mark_changed(self, rows: pa.Table, targets: RowAddresses) -> Mask:
        own = addresses_of(rows)
        changed, _ = self._completion.mark_changed(
            rows, targets, lambda name, at: read_blobs_at(self.detached, name, own[at])
        )
        return changed

    def _read_completed(self, fragment: int, found: RowAddresses) -> Iterator[pa.Table]:
        names = completed_schema(self.type).names
        for rows, at in self._scan(fragment):
            kept = np.flatnonzero(found[at] >= 0)
            targets, start = found[at[kept]], 0
            for piece in attach_blobs(self.detached, partial_schema(self.type), [rows.take(kept)]):
                yield self._completion.complete(piece, targets[start : start + piece.num_rows], names)
                start += piece.num_rows

    @property
    def _completion(self) -> RowCompletion:
        assert self.table is not None
        return RowCompletion(self.type, self.table)

    def _scan(self, fragment: int) -> Iterator[tuple[pa.Table, RowNumbers]]:
        """Yield the rows of a fragment in large pieces, with their offsets."""
        reader = self.detached.scan(
            partial_schema(self.type).names, with_row_address=True, in_fragments=[fragment], one_by_one=True
        )
        for rows in combine_batches(reader.schema, reader):
            yield rows, (addresses_of(rows) & np.uint64(0xFFFFFFFF)).astype(np.int64)


# --------------------------------------------------------------------------------------------- results


def _collect_completed(
    scratch: Table, rows: IncomingRows, identity: RowIdentity | None, reports: Sequence[_CompletedFragment]
) -> IncomingRows:
    positions = RewrittenPositions(rows.positions, scratch)
    for each in reports:
        positions.add_rewritten(each.rows, each.origins)
    fragments = [text for each in reports for text in each.fragments]
    listed = {each.fragment: tuple(each.unmatched_fragments) for each in reports if each.unmatched}
    unmatched = StagedUnmatched(scratch, listed, sum(each.unmatched for each in reports), identity)
    return _replace_rows(scratch, rows, fragments, positions, unmatched)


def _write_completed(scratch: Table, rows: IncomingRows, completed: IncomingRows) -> IncomingRows:
    """Write rows that this process completed where executors can read them."""
    positions = RewrittenPositions(rows.positions, scratch)
    fragments: Sequence[FragmentText] = ()
    assert completed.unmatched is not None
    if completed.count:
        numbers = np.concatenate([own for own, _ in completed.storage.scan(["id"])])
        pieces = (piece for _, piece in completed.storage.scan(None))
        fragments = tables.write_rows(scratch, to_reader(completed_schema(rows.type), pieces, _NO_IDS), "overwrite")
        positions.add_rewritten(len(numbers), write_origins(scratch, numbers))
    return _replace_rows(scratch, rows, fragments, positions, completed.unmatched)


def _replace_rows(
    scratch: Table,
    rows: IncomingRows,
    fragments: Sequence[FragmentText],
    positions: RewrittenPositions,
    unmatched: UnmatchedRecords,
) -> IncomingRows:
    staged = cast("DistributedRows", rows.storage)
    schema, generated = completed_schema(rows.type), GeneratedIds()
    generated.add(positions.count, generated=rows.generated.count > 0)
    target = FragmentTarget(scratch, "overwrite")
    storage = (
        DistributedRows(rows.type, schema, target, tuple(fragments), executor=staged.executor)
        if fragments
        else InMemoryRows(schema.empty_table())
    )
    left_out = rows.positions.count - positions.count
    return IncomingRows(
        rows.type, generated, positions, storage, left_out=left_out, has_taken_ids=True, unmatched=unmatched
    )


@dataclass(frozen=True)
class StagedUnmatched:
    """Unmatched rows of an update in fragments of the scratch table, by the fragment of incoming rows that has them."""

    scratch: Table
    fragments: Mapping[int, tuple[FragmentText, ...]]
    count: int
    identity: RowIdentity | None

    def to_records(self, incoming: IncomingRows, limit: int | None) -> Iterator[RejectedRecord]:
        """Yield each row as a rejected record; at most so many."""
        for texts in self.fragments.values():
            for batch in self._read(texts).scan(UNMATCHED.names, limit=limit, one_by_one=True):
                found = UnmatchedRows(pa.Table.from_batches([batch]), self.identity)
                yield from found.to_records(incoming, None)

    def write_records(self, executor: SparkExecutor, incoming: IncomingRows) -> tuple[FragmentText, ...]:
        """Write the rows as records to fragments of the scratch table; one task for each fragment of incoming rows."""
        task = partial(self._write_fragment, to_task_rows(incoming))
        return tuple(text for written in executor.run(task, list(self.fragments)) for text in written)

    def _write_fragment(self, incoming: IncomingRows, fragment: int) -> tuple[FragmentText, ...]:
        """Task over one fragment of incoming rows."""
        cast("RowsOfFragments", incoming.storage).selected = (fragment,)
        listed = UnmatchedRows(self._read(self.fragments[fragment]).scan(UNMATCHED.names).read_all(), self.identity)
        records = listed.to_records(incoming, None)
        return tables.write_rows(self.scratch, to_rejected_reader(records), "overwrite")

    def _read(self, texts: Sequence[FragmentText]) -> Table:
        staged = tables.overwrite_fragments(self.scratch, UNMATCHED, texts)
        return tables.audit_version(self.scratch, staged)

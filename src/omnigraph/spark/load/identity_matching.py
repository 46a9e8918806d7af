"""Find the stored rows of incoming ones on Spark: the same rules and the same rows as in one process.

Executors make the match keys and digests of both sides and shuffle them by key, which no join plan can turn into a
broadcast; a partition pairs its rows like one process does. If far fewer rows come in than are stored, a filter of
their keys leaves out the others before they are digested. The fragments with rows that change their id, or that are
left out, are written again beside the graph. A few rows are looked up by this process instead, so that a small merge
does not read the type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import read_blobs_at
from omnigraph.spark.executor import FragmentTask, SparkExecutor, union_all
from omnigraph.spark.id_lookup import can_look_up_ids, divide_by_ids, list_id_filters
from omnigraph.spark.key_filter import KeyFilter, KeySource, can_filter_keys, collect_key_filter
from omnigraph.spark.load.incoming_rows import DistributedRows
from omnigraph.spark.load.rewritten_rows import FragmentLayout, RewrittenPositions, write_origins
from omnigraph.spark.sized_frames import MAX_PARTITIONS, SizedFrame, divide_fragments, join_by_size
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, take_where
from omnigraph.storage.tables import ROW_ADDRESS, FragmentText, Table, estimate_stored_row_bytes
from omnigraph.write.load import (
    INCOMING_DIGESTS,
    FragmentTarget,
    GeneratedIds,
    IncomingRows,
    InMemoryRows,
    MatchBasis,
    RowIdentity,
    RowNumbers,
    StoredRows,
    add_blob_digests,
    addresses_of,
    assign_counterparts,
    attach_blobs,
    can_match_by_lookup,
    keep_common,
    list_value_columns,
    to_reader,
)
from omnigraph.write.load import match_stored_rows as match_locally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_LOOKED_UP_ROWS: Final = 100_000
"""Up to this many rows are looked up by this process, if an index helps or they are very few."""
INDEX_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Values are looked up in order, so a page of an index is not needed again: this process need not keep all of them."""
_ROWS_PER_PARTITION: Final = 500_000
_DIGEST_BYTES: Final = 160
"""The size of the digests of a row, about."""
_DIGESTS: Final = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field(ROW_ADDRESS, pa.int64()),
        pa.field("id", pa.string()),
        pa.field("key", pa.string()),
        pa.field("rest", pa.string()),
    ]
)
"""A row of either side: incoming rows have a number, stored rows an address."""
_DIGEST_COLUMNS: Final = f"number long, {ROW_ADDRESS} long, id string, key string, rest string"
_OUTCOMES: Final = pa.schema(
    [pa.field("fragment", pa.int64()), pa.field("offset", pa.int64()), pa.field("id", pa.string())]
)
"""An incoming row that is not written as it was staged: the id that it takes, or null if it is left out.

With :data:`_NO_FRAGMENT` the offset is the number of stored rows that rows of a partition replace.
"""
_NO_FRAGMENT: Final = -1
_OUTCOME_COLUMNS: Final = "fragment long, offset long, id string"
_REWRITTEN: Final = pa.schema(
    [
        pa.field("fragment", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("taken", pa.int64()),
        pa.field("replaced", pa.int64()),
        pa.field("fragments", pa.string()),
        pa.field("origins", pa.string()),
    ]
)
_REWRITTEN_COLUMNS: Final = "fragment long, rows long, taken long, replaced long, fragments string, origins string"


def match_stored_rows(
    executor: SparkExecutor, scratch: Table, table: Table, rows: IncomingRows, identity: RowIdentity | None
) -> IncomingRows:
    """Return the incoming rows without those that a table has already, and with the ids of those that they replace."""
    staged = cast("DistributedRows", rows.storage)
    if rows.positions.count <= MAX_LOOKED_UP_ROWS and can_match_by_lookup(table, rows, identity):
        found = match_locally(table.with_index_cache(INDEX_CACHE_BYTES), rows, identity)
        return _write_identified(scratch, rows, found)
    layout = FragmentLayout(staged.own_fragments)
    frames = [
        _pair_rows(executor, table, staged, _MatchTask(basis, rows.generated, layout), rows)
        for basis in list_bases(rows, identity)
    ]
    reports = _rewrite_changed(executor, scratch, staged, layout, union_all(frames))
    replaced = sum(each.replaced for each in reports)
    rewritten = {each.fragment: each for each in reports if each.fragment != _NO_FRAGMENT}
    matched = _collect_rows(scratch, rows, staged, layout, rewritten) if rewritten else rows
    return replace(matched, replaced=replaced)


def list_bases(rows: IncomingRows, identity: RowIdentity | None) -> Iterator[MatchBasis]:
    """Yield how the incoming rows are matched: by their ids, by an identity, or some by each."""
    if rows.generated.count < rows.positions.count:
        yield MatchBasis(rows.type, None)
    if identity is not None:
        yield MatchBasis(rows.type, identity)


# --------------------------------------------------------------------------------------------- pairs


@dataclass(frozen=True, slots=True)
class _MatchTask:
    """Makes the digests of both sides on executors."""

    basis: MatchBasis
    generated: GeneratedIds
    layout: FragmentLayout
    keys: KeyFilter | None = None
    """The keys that incoming rows may have; stored rows with others are left out."""

    def digest_incoming(self, detached: Table, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Task over fragments of incoming rows."""
        names = arrow_schema(self.basis.type).names
        for batch in detached.scan(names, with_row_address=True, in_fragments=fragments):
            rows = pa.Table.from_batches([batch])
            numbers = self.layout.number_rows(column_of(rows, ROW_ADDRESS))
            chosen = self.basis.choose_rows(numbers, rows, self.generated)
            yield from _to_digests(self.basis.digest_incoming(*chosen), None)

    def digest_stored(self, table: Table, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Task over fragments of the stored table."""
        columns, stored = list_value_columns(self.basis.type), StoredRows(self.basis.type, table)
        if self.keys is None:
            pieces = stored.read(columns, fragments=fragments)
        else:
            pieces = self._read_candidates(self.keys, stored, columns, fragments)
        for rows in pieces:
            yield from self._digest_stored(rows)

    def _read_candidates(
        self, keys: KeyFilter, stored: StoredRows, columns: Sequence[str], fragments: Sequence[int]
    ) -> Iterator[pa.Table]:
        """Read the rows whose keys a filter contains. Only their keys are read of the others, where that tells them."""
        identity = self.basis.identity
        needs_all = identity is not None and identity.is_unique
        for rows in stored.read(columns if needs_all else self.basis.key_columns, fragments=fragments):
            found = rows.take(keys.find(self.basis.make_keys(rows)))
            if needs_all:
                yield found
            elif found.num_rows:
                yield from stored.read_at(columns, addresses_of(found))

    def look_up_stored(self, table: Table, ids: Values) -> Iterator[pa.RecordBatch]:
        """Make the digests of the stored rows with these ids."""
        columns, stored = list_value_columns(self.basis.type), StoredRows(self.basis.type, table)
        for filter_ in list_id_filters(ids):
            for rows in stored.read(columns, filter_):
                yield from self._digest_stored(rows)

    def _digest_stored(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        found = [column_of(rows, "id"), self.basis.make_keys(rows), self.basis.digest_rest(rows)]
        return _to_digests(pa.table(found, names=["id", "key", "rest"]), addresses_of(rows).astype(np.int64))


def _to_digests(rows: pa.Table, addresses: RowNumbers | None) -> Iterator[pa.RecordBatch]:
    numbers = column_of(rows, "number") if addresses is None else pa.nulls(rows.num_rows, pa.int64())
    places = pa.nulls(rows.num_rows, pa.int64()) if addresses is None else pa.array(addresses)
    columns = [numbers, places, *(column_of(rows, name) for name in ("id", "key", "rest"))]
    yield from pa.table(columns, schema=_DIGESTS).to_batches()


def _pair_rows(
    executor: SparkExecutor, table: Table, staged: DistributedRows, task: _MatchTask, rows: IncomingRows
) -> DataFrame:
    """Return what becomes of the incoming rows that are matched on one basis, as :data:`_OUTCOMES`."""
    incoming = _map_digests(executor, staged.detached, staged.own_fragments, task.digest_incoming)
    if task.basis.identity is None and can_look_up_ids(table, incoming.max_rows):
        divided = divide_by_ids(incoming.frame, incoming.max_rows, executor.parallelism)
        return map_batches(divided, partial(_look_up_partition, task, staged.detached, table), _OUTCOME_COLUMNS)
    if can_filter_keys(incoming.max_rows, table.count_rows()):
        source = KeySource(staged.detached, staged.own_fragments, task.digest_incoming, "key")
        task = replace(task, keys=collect_key_filter(executor, [source], incoming.max_rows))
    stored = _map_digests(executor, table, table.fragment_rows(), task.digest_stored)
    frame = stored.frame
    if task.basis.identity is not None and rows.generated.count < rows.positions.count:
        # A row that another record names by its id is not free.
        named = replace(task, basis=MatchBasis(task.basis.type, None))
        given = _map_digests(executor, staged.detached, staged.own_fragments, named.digest_incoming)
        given = replace(given, frame=given.frame.select("id"))
        frame = join_by_size(stored, given, ["id"], "left_anti", executor.parallelism).select(*_DIGESTS.names)
    count = 1 + (incoming.max_rows + stored.max_rows) // _ROWS_PER_PARTITION
    shuffled = union_all([incoming.frame, frame]).repartition(min(MAX_PARTITIONS, count), "key")
    pair = partial(_pair_partition, task, staged.detached, table)
    return map_batches(shuffled, pair, _OUTCOME_COLUMNS)


def _map_digests(executor: SparkExecutor, table: Table, fragments: Mapping[int, int], task: FragmentTask) -> SizedFrame:
    row_bytes = estimate_stored_row_bytes(table)
    groups = divide_fragments(fragments, row_bytes, executor.parallelism)
    frame = executor.map_fragments(table, groups, task, _DIGEST_COLUMNS)
    return SizedFrame(frame, sum(fragments.values()), _DIGEST_BYTES)


def _pair_partition(
    task: _MatchTask, detached: Table, table: Table, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Task over a partition: pair the rows of both sides that have the same match keys."""
    rows = pa.Table.from_batches(batches, _DIGESTS)
    stored = rows.filter(rows["number"].is_null())
    return _pair_digests(task, detached, table, rows.filter(rows["number"].is_valid()), stored)


def _look_up_partition(
    task: _MatchTask, detached: Table, table: Table, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Task over a range of ids: look up the stored rows of incoming ones, and pair them."""
    incoming = pa.Table.from_batches(batches, _DIGESTS)
    stored = pa.Table.from_batches(task.look_up_stored(table, column_of(incoming, "id")), _DIGESTS)
    return _pair_digests(task, detached, table, incoming, stored)


def _pair_digests(
    task: _MatchTask, detached: Table, table: Table, incoming: pa.Table, stored: pa.Table
) -> Iterator[pa.RecordBatch]:
    incoming, stored = keep_common(incoming.select(INCOMING_DIGESTS.names), stored.drop(["number"]))
    if not incoming.num_rows:
        return
    numbers = column_of(incoming, "number").to_numpy(zero_copy_only=False)
    owners, offsets = task.layout.locate_rows(numbers)
    places = (owners.astype(np.uint64) << np.uint64(32)) | offsets.astype(np.uint64)
    addresses = addresses_of(stored)
    incoming, stored = add_blob_digests(
        task.basis,
        incoming,
        stored,
        lambda column, at: read_blobs_at(detached, column, places[at]),
        lambda column, at: read_blobs_at(table, column, addresses[at]),
    )
    found = assign_counterparts(incoming, stored)
    replaced = int(found.is_replacing.sum())
    if replaced:
        yield pa.RecordBatch.from_pylist([{"fragment": _NO_FRAGMENT, "offset": replaced}], _OUTCOMES)
    taken = take_where(column_of(stored, "id"), np.where(found.is_same, -1, found.places))
    renamed = compute("and_kleene", compute("is_valid", taken), compute("not_equal", taken, column_of(incoming, "id")))
    changed = np.flatnonzero(found.is_same | renamed.to_numpy(zero_copy_only=False).astype(np.bool_))
    columns = [pa.array(owners[changed]), pa.array(offsets[changed]), taken.take(changed)]
    yield from pa.table(columns, schema=_OUTCOMES).to_batches()


# --------------------------------------------------------------------------------------------- rewritten fragments


@dataclass(frozen=True, slots=True)
class _RewrittenFragment:
    """What a fragment of incoming rows became: its remaining rows, how many of them took an id, and the new files.

    The report without a fragment has the number of stored rows that all rows replace.
    """

    fragment: int
    rows: int
    taken: int
    replaced: int
    fragments: tuple[FragmentText, ...]
    origins: tuple[FragmentText, ...]


def _rewrite_changed(
    executor: SparkExecutor, scratch: Table, staged: DistributedRows, layout: FragmentLayout, outcomes: DataFrame
) -> list[_RewrittenFragment]:
    """Write the fragments again that lose rows or get ids; return them, and the report without a fragment."""
    task = partial(_rewrite_partition, staged.detached, scratch, staged.type, layout)
    by_fragment = outcomes.repartition(max(1, min(MAX_PARTITIONS, len(layout.rows))), "fragment")
    found = executor.collect(map_batches(by_fragment, task, _REWRITTEN_COLUMNS))
    return [
        _RewrittenFragment(fragment, rows, taken, replaced, *(tuple(orjson.loads(texts)) for texts in files))
        for fragment, rows, taken, replaced, *files in cast("list[tuple[int, int, int, int, str, str]]", found)
    ]


def _rewrite_partition(
    detached: Table,
    scratch: Table,
    type_: NodeType | EdgeType,
    layout: FragmentLayout,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Task over outcomes: write the rows of their fragments again."""
    outcomes = pa.Table.from_batches(batches, _OUTCOMES)
    fragments = column_of(outcomes, "fragment").to_numpy(zero_copy_only=False)
    for fragment in np.unique(fragments).tolist():
        own = outcomes.take(np.flatnonzero(fragments == fragment))
        if fragment == _NO_FRAGMENT:
            replaced = int(column_of(own, "offset").to_numpy().sum())
            yield _to_rewritten((fragment, 0, 0, replaced, _to_json(()), _to_json(())))
        else:
            yield _rewrite_fragment(detached, scratch, type_, layout, fragment, own)


def _rewrite_fragment(
    detached: Table,
    scratch: Table,
    type_: NodeType | EdgeType,
    layout: FragmentLayout,
    fragment: int,
    outcomes: pa.Table,
) -> pa.RecordBatch:
    schema, count = arrow_schema(type_), layout.rows[fragment]
    places = np.full(count, -1, np.int64)
    places[column_of(outcomes, "offset").to_numpy(zero_copy_only=False)] = np.arange(outcomes.num_rows)
    new_ids = column_of(outcomes, "id")
    unchanged = np.zeros(count, np.bool_)
    unchanged[places >= 0] = new_ids.take(places[places >= 0]).is_null().to_numpy(zero_copy_only=False)
    first = int(layout.starts[np.searchsorted(layout.ids, fragment)])

    def read() -> Iterator[pa.Table]:
        start = 0
        pieces = (
            pa.Table.from_batches([batch]) for batch in detached.scan(with_row_address=True, in_fragments=[fragment])
        )
        for rows in attach_blobs(detached, schema, pieces):
            at = np.arange(start, start + rows.num_rows)
            start += rows.num_rows
            kept = np.flatnonzero(~unchanged[at])
            ids = compute("coalesce", take_where(new_ids, places[at]), column_of(rows, "id")).take(kept)
            columns = {**dict(zip(rows.column_names, rows.take(kept).columns, strict=True)), "id": ids}
            yield pa.Table.from_arrays(list(columns.values()), schema=rows.schema)

    none = cast("Values", pa.array([], pa.string()))
    left = first + np.flatnonzero(~unchanged)
    written = tables.write_rows(scratch, to_reader(schema, read(), none), "overwrite") if len(left) else ()
    origins = write_origins(scratch, left) if len(left) else ()
    taken = len(new_ids) - new_ids.null_count
    return _to_rewritten((fragment, len(left), taken, 0, _to_json(written), _to_json(origins)))


def _to_rewritten(values: tuple[int, int, int, int, str, str]) -> pa.RecordBatch:
    columns = [pa.array([value], type_) for value, type_ in zip(values, _REWRITTEN.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_REWRITTEN)


def _to_json(texts: Sequence[FragmentText]) -> str:
    return orjson.dumps(list(texts)).decode()


def _collect_rows(
    scratch: Table,
    rows: IncomingRows,
    staged: DistributedRows,
    layout: FragmentLayout,
    reports: Mapping[int, _RewrittenFragment],
) -> IncomingRows:
    """Return the rows of the fragments that stay and of those that replace the others, in the same order."""
    known = dict(zip(cast("list[int]", layout.ids.tolist()), staged.fragments, strict=True))
    starts = dict(zip(known, cast("list[int]", layout.starts.tolist()), strict=True))
    fragments: list[FragmentText] = []
    positions = RewrittenPositions(rows.positions, scratch)
    for fragment, text in known.items():
        report = reports.get(fragment)
        fragments += (text,) if report is None else report.fragments
        if report is None:
            positions.add_kept(starts[fragment], layout.rows[fragment])
        else:
            positions.add_rewritten(report.rows, report.origins)
    taken = sum(each.taken for each in reports.values())
    return _replace_rows(rows, staged, scratch, fragments, positions, has_taken_ids=taken > 0)


def _replace_rows(
    rows: IncomingRows,
    staged: DistributedRows,
    scratch: Table,
    fragments: Sequence[FragmentText],
    positions: RewrittenPositions,
    *,
    has_taken_ids: bool,
) -> IncomingRows:
    schema, generated = arrow_schema(rows.type), GeneratedIds()
    generated.add(positions.count, generated=rows.has_generated_ids)
    storage = (
        DistributedRows(
            rows.type, schema, FragmentTarget(scratch, "overwrite"), tuple(fragments), executor=staged.executor
        )
        if fragments
        else InMemoryRows(schema.empty_table())
    )
    return IncomingRows(
        rows.type,
        generated,
        positions,
        storage,
        left_out=rows.positions.count - positions.count,
        has_taken_ids=has_taken_ids,
    )


def _write_identified(scratch: Table, rows: IncomingRows, matched: IncomingRows) -> IncomingRows:
    """Write rows that this process matched where executors can read them."""
    if matched.storage is rows.storage:
        return matched
    staged = cast("DistributedRows", rows.storage)
    pieces = [numbers for numbers, _ in matched.storage.scan(["id"])]
    numbers = np.concatenate([np.zeros(0, np.int64), *pieces])
    positions = RewrittenPositions(rows.positions, scratch)
    none = cast("Values", pa.array([], pa.string()))
    fragments: tuple[FragmentText, ...] = ()
    if len(numbers):
        fragments = matched.storage.write_to(scratch, "overwrite", none)
        positions.add_rewritten(len(numbers), write_origins(scratch, numbers))
    found = _replace_rows(rows, staged, scratch, fragments, positions, has_taken_ids=matched.has_taken_ids)
    return replace(found, replaced=matched.replaced)

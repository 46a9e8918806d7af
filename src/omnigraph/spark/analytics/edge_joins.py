"""Number the ends of edges by two joins, where the ids of the nodes do not fit into the memory of a task.

Spark shuffles the ids with their numbers, and the edges twice: by their source, then by their destination. What comes
out is written in the files that tasks write which hold the ids.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.analytics import find_wrong_weights
from omnigraph.spark.analytics.edge_pieces import CutResult, EdgeCut, NodeNumbers, refuse_edges, write_pieces
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.sized_frames import MAX_TASK_ROWS, SizedFrame, join_by_size
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.tables import list_fragments
from omnigraph.write.executor import group_evenly

_EDGE_BYTES: Final = 100
"""An edge with the ids of both ends and its own, about."""
_NODE_BYTES: Final = 40
"""An id and its number, about."""


def cut_by_joins(executor: SparkExecutor, cut: EdgeCut) -> list[CutResult]:
    """Cut the edges of one type, and return what each partition wrote."""
    table = cut.rows.table
    if table is None or cut.sources.table is None or cut.destinations.table is None:
        return []
    stored = table.fragment_rows()
    count = sum(stored.values())
    weight = "" if cut.weight is None else ", edge string, weight double"
    frame = executor.map_items(
        partial(_read_texts, cut), group_evenly(stored, MAX_TASK_ROWS), f"src string, dst string{weight}"
    )
    for nodes, column in ((cut.sources, "src"), (cut.destinations, "dst")):
        numbered = _number_nodes(executor, nodes, column)
        frame = join_by_size(
            SizedFrame(frame, count, _EDGE_BYTES), numbered, [column], "inner", executor.parallelism
        ).drop(column)
    rows = executor.collect(map_batches(frame, partial(_write_joined, cut), "body binary"))
    # Pickled by our own tasks.
    return [cast("CutResult", pickle.loads(bytes(body))) for (body,) in cast("list[tuple[bytes]]", rows)]  # noqa: S301


def _number_nodes(executor: SparkExecutor, nodes: NodeNumbers, column: str) -> SizedFrame:
    """Return the ids of the nodes of the projection as ``column``, with their numbers."""
    assert nodes.table is not None
    parts = list_fragments(nodes.table)
    starts = np.cumsum([0, *(part.num_rows for part in parts)]).tolist()
    places = {part.id: start for part, start in zip(parts, starts, strict=False)}
    groups = group_evenly({part.id: part.num_rows for part in parts}, MAX_TASK_ROWS)
    items = [[(fragment, places[fragment]) for fragment in group] for group in groups]
    frame = executor.map_items(partial(_read_numbered, nodes, column), items, f"{column} string, {column}_number int")
    return SizedFrame(frame, starts[-1], _NODE_BYTES)


# --------------------------------------------------------------------------------------------- on executors


def _read_texts(cut: EdgeCut, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Task: read the ends of some edges, and with a weight also their ids."""
    names = ["src", "dst", *([] if cut.weight is None else ["id", cut.weight])]
    for batch in cut.rows.read(names, cut.edges.conditions, in_fragments=fragments):
        columns = [column_of(batch, name) for name in names]
        if cut.weight is not None:
            columns[-1] = columns[-1].cast(pa.float64())
        yield pa.RecordBatch.from_arrays(columns, names=["src", "dst", "edge", "weight"][: len(columns)])


def _read_numbered(nodes: NodeNumbers, column: str, fragments: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
    """Task: read the ids of some fragments, with the numbers of their rows, which begin at a place in the file."""
    assert nodes.table is not None
    for fragment, start in fragments:
        at = start
        for batch in nodes.table.scan(["id"], in_fragments=frozenset([fragment])):
            data = nodes.folder.get_range(nodes.path, 4 * at, 4 * (at + batch.num_rows))
            numbers = np.frombuffer(data, np.int32)
            at += batch.num_rows
            kept = np.flatnonzero(numbers >= 0)
            arrays = [column_of(batch, "id").take(kept), pa.array(numbers[kept])]
            yield pa.RecordBatch.from_arrays(arrays, names=[column, f"{column}_number"])


def _write_joined(cut: EdgeCut, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task: write the edges of one partition in two orders."""
    given = list(batches)
    if given:
        body = pickle.dumps(_write_table(cut, pa.Table.from_batches(given)))
        yield pa.RecordBatch.from_arrays([pa.array([body], pa.binary())], names=["body"])


def _write_table(cut: EdgeCut, table: pa.Table) -> CutResult:
    begins, ends = (column_of(table, name).to_numpy().astype(np.int32) for name in ("src_number", "dst_number"))
    if cut.weight is None:
        return write_pieces(cut, begins, ends, None)
    values = column_of(table, "weight")
    weights, wrong = find_wrong_weights(values)
    if len(wrong):
        ids = cast("list[str]", to_list(column_of(table, "edge").take(wrong)))
        return refuse_edges(len(wrong), ids, values.take(wrong))
    # A shuffle has no order, and sums of parallel edges should be the same each time.
    order = np.lexsort((weights, ends, begins))
    return write_pieces(cut, begins[order], ends[order], weights[order])

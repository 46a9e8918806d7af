"""Cut the edges of a projection into pieces: tasks read fragments, turn ids into numbers and write sorted records.

Each task writes its edges twice: sorted by the begin and by the end. A piece is a range of such a file, so that a block
is put together from what all tasks found for its rows without reading anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ulid import ULID

from omnigraph.analytics import Numbers, ProjectedEdges, ProjectedNodes, find_wrong_weights
from omnigraph.read.frames import CompactPositions, find_positions
from omnigraph.read.rows import TypeRows
from omnigraph.spark.scratch import ScratchFolder
from omnigraph.storage.columns import Values, column_of, to_list

EndOrder: TypeAlias = Literal["begin", "end"]
"""By which end the records of a file are sorted."""
Records: TypeAlias = npt.NDArray[Any]
"""Records of ``row``, the end that they are sorted by, ``other``, the other end, and ``weight`` if there is one."""
BUCKETS: Final = 1024
"""Into how many ranges of nodes a file is divided. A block has one of them or several."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class SortedFile:
    """Edges of one task in one order; ``begins`` has the record that each bucket begins at, and their number."""

    path: str
    order: EndOrder
    begins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """The ids of the nodes of one type in a file, in the order of their numbers from ``first`` on."""

    path: str
    first: int


@dataclass(frozen=True, slots=True)
class EdgeCut:
    """What all tasks of one edge type know."""

    folder: ScratchFolder
    rows: TypeRows
    edges: ProjectedEdges
    weight: str | None
    sources: NodeNumbers
    destinations: NodeNumbers
    num_nodes: int


@dataclass(frozen=True, slots=True)
class CutResult:
    """The files of one task, and the edges whose weight is refused."""

    files: tuple[SortedFile, ...]
    num_wrong: int = 0
    wrong: tuple[tuple[str, object], ...] = ()
    """The ids and weights of the first of them."""


def record_type(*, weighted: bool) -> np.dtype[Any]:
    """Return the type of the records of a file."""
    ends = [("row", "<i4"), ("other", "<i4")]
    return np.dtype([*ends, ("weight", "<f8")] if weighted else ends)


def write_numbers(folder: ScratchFolder, nodes: ProjectedNodes) -> NodeNumbers:
    """Write the ids of the nodes of one type, for all tasks."""
    path = f"ids-{ULID()}.arrow"
    sink = BytesIO()
    table = pa.table({"id": nodes.ids})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    folder.put(path, sink.getvalue())
    return NodeNumbers(path, nodes.first)


def bucket_width(num_nodes: int) -> int:
    """Return how many nodes a bucket has."""
    return max(1, -(-num_nodes // BUCKETS))


# --------------------------------------------------------------------------------------------- on executors


@lru_cache(maxsize=2)
def _read_ids(folder: ScratchFolder, path: str) -> Values:
    return column_of(pa.ipc.open_file(folder.get(path)).read_all(), "id")


def cut_edges(cut: EdgeCut, fragments: Sequence[int]) -> CutResult:
    """Task: read the edges of some fragments and write them as records in two orders."""
    columns = ["id", "src", "dst", *([] if cut.weight is None else [cut.weight])]
    batches = list(cut.rows.read(columns, cut.edges.conditions, in_fragments=fragments))
    if not batches:
        return CutResult(())
    table = pa.Table.from_batches(batches)
    begins, ends = _number(cut, cut.sources, table, "src"), _number(cut, cut.destinations, table, "dst")
    kept = np.flatnonzero((begins >= 0) & (ends >= 0))
    begins, ends = begins[kept], ends[kept]
    weights = None
    if cut.weight is not None:
        values = column_of(table, cut.weight).take(kept)
        weights, wrong = find_wrong_weights(values)
        if len(wrong):
            shown = wrong[:_SHOWN]
            ids = cast("list[str]", to_list(column_of(table, "id").take(kept[shown])))
            return CutResult((), len(wrong), tuple(zip(ids, to_list(values.take(shown)), strict=True)))
    if cut.edges.direction == "in":
        begins, ends = ends, begins
    elif cut.edges.direction == "both":
        # A loop is one hop, as in a query.
        back = np.flatnonzero(begins != ends)
        begins, ends = np.concatenate([begins, ends[back]]), np.concatenate([ends, begins[back]])
        weights = None if weights is None else np.concatenate([weights, weights[back]])
    orders: tuple[tuple[EndOrder, CompactPositions, CompactPositions], ...] = (
        ("begin", begins, ends),
        ("end", ends, begins),
    )
    return CutResult(tuple(_write_sorted(cut, order, rows, others, weights) for order, rows, others in orders))


def _number(cut: EdgeCut, numbers: NodeNumbers, table: pa.Table, column: str) -> CompactPositions:
    found = find_positions(column_of(table, column), _read_ids(cut.folder, numbers.path))
    return np.where(found >= 0, found + np.int32(numbers.first), np.int32(-1))


def _write_sorted(
    cut: EdgeCut, order: EndOrder, rows: CompactPositions, others: CompactPositions, weights: Numbers | None
) -> SortedFile:
    sorted_ = np.argsort(rows, kind="stable")
    records = np.empty(len(rows), record_type(weighted=weights is not None))
    records["row"], records["other"] = rows[sorted_], others[sorted_]
    if weights is not None:
        records["weight"] = weights[sorted_]
    width = bucket_width(cut.num_nodes)
    bounds = np.arange(-(-cut.num_nodes // width) + 1) * width
    begins = np.searchsorted(records["row"], bounds)
    path = f"edges-{ULID()}.bin"
    cut.folder.put(path, records.tobytes())
    return SortedFile(path, order, tuple(begins.tolist()))

"""Cut the edges of a projection into pieces: tasks read fragments, turn ends into numbers and write records in ranges.

Each task writes its edges twice: in ranges of the begin and of the end. A piece is a part of such a file, so that a
block is put together from what all tasks found for its rows without reading anything else. Ends that are stored as
numbers need no texts; for others a task holds the ids of the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ulid import ULID

from omnigraph.analytics import Numbers, ProjectedEdges, find_wrong_weights
from omnigraph.language.schema import NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Cache, Codes, CompactPositions, FullTable, Positions, make_full_table, sort_digits
from omnigraph.read.rows import TypeRows
from omnigraph.read.topology import TopologyTables, read_ends_of
from omnigraph.spark.scratch import ScratchFolder
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.storage.tables import Table

EndOrder: TypeAlias = Literal["begin", "end"]
"""By which end the records of a file are ordered."""
Records: TypeAlias = npt.NDArray[Any]
"""Records of ``row``, the end that they are ordered by, ``other``, the other end, and ``weight`` if there is one."""
BUCKETS: Final = 1024
"""Into how many ranges of nodes a file is divided. A block has one of them or several."""
_SHOWN: Final = 5
_NODE_CACHE_BYTES: Final = 4 * 1024**3
"""What a process keeps of a node table: its ids, if ends have no stored numbers."""


@dataclass(frozen=True, slots=True)
class SortedFile:
    """Edges of one task in one order; ``begins`` has the record that each bucket begins at, and their number."""

    path: str
    order: EndOrder
    begins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """The nodes of one type, and a file with the number of each row; -1 if it is not in the projection."""

    folder: ScratchFolder
    path: str
    type: NodeType = field(compare=False)
    table: Table | None = field(compare=False)
    """None if there are no nodes."""


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
    """Return the type of the records of a file. Without a weight, a record is also one number that sorts by its row."""
    ends = [("other", "<i4"), ("row", "<i4")]
    return np.dtype([*ends, ("weight", "<f8")] if weighted else ends)


def bucket_width(num_nodes: int) -> int:
    """Return how many nodes a bucket has: a power of two."""
    return 1 << max(0, (num_nodes - 1) // BUCKETS).bit_length()


# --------------------------------------------------------------------------------------------- on executors


@lru_cache(maxsize=2)
def _read_numbers(nodes: NodeNumbers) -> CompactPositions:
    """Return the number of each row, and a -1 at the end, for rows that are not there."""
    found = np.frombuffer(nodes.folder.get(nodes.path), np.int32)
    return np.append(found, np.int32(-1))


@lru_cache(maxsize=2)
def _open_nodes(nodes: NodeNumbers) -> FullTable:
    assert nodes.table is not None
    return make_full_table(nodes.table, nodes.type.table_key, nodes.type, Cache(_NODE_CACHE_BYTES))


def cut_edges(cut: EdgeCut, fragments: Sequence[int]) -> CutResult:
    """Task: read the edges of some fragments and write them as records in two orders."""
    if cut.sources.table is None or cut.destinations.table is None:
        return CutResult(())
    sources, destinations, values = _read_edges(cut, fragments)
    begins, ends = _read_numbers(cut.sources)[sources], _read_numbers(cut.destinations)[destinations]
    kept = np.flatnonzero((begins >= 0) & (ends >= 0))
    if values is None:
        return write_pieces(cut, begins[kept], ends[kept], None)
    weights, wrong = find_wrong_weights(values.take(kept))
    if len(wrong):
        ids = _name_edges(cut, fragments, kept[wrong[:_SHOWN]])
        return refuse_records(len(wrong), ids, values.take(kept[wrong[:_SHOWN]]))
    return write_pieces(cut, begins[kept], ends[kept], weights)


def _read_edges(cut: EdgeCut, fragments: Sequence[int]) -> tuple[CompactPositions, CompactPositions, Values | None]:
    """Return the rows of both ends in their node tables, -1 if they are not there, and the weights, in table order."""
    nodes = _open_nodes(cut.sources), _open_nodes(cut.destinations)
    weight = [] if cut.weight is None else [cut.weight]
    if not cut.edges.conditions:
        assert cut.rows.table is not None
        edges = make_full_table(cut.rows.table, cut.edges.type.table_key, cut.edges.type, Cache(0))
        ends = read_ends_of(TopologyTables(edges, *nodes, are_of_one_snapshot=True), fragments)
        return ends.sources, ends.destinations, _read_column(cut, fragments, weight)
    batches = list(cut.rows.read(["src", "dst", *weight], cut.edges.conditions, in_fragments=fragments))
    if not batches:
        nothing = np.zeros(0, np.int32)
        return nothing, nothing, None
    table = pa.Table.from_batches(batches)
    sources, destinations = (
        each.locate(column_of(table, name)).astype(np.int32) for each, name in zip(nodes, ("src", "dst"), strict=True)
    )
    return sources, destinations, column_of(table, weight[0]) if weight else None


def _read_column(cut: EdgeCut, fragments: Sequence[int], names: Sequence[str]) -> Values | None:
    if not names:
        return None
    batches = list(cut.rows.read(names, cut.edges.conditions, in_fragments=fragments))
    return column_of(pa.Table.from_batches(batches), names[0]) if batches else None


def _name_edges(cut: EdgeCut, fragments: Sequence[int], rows: Positions) -> list[str]:
    """Return the ids of some edges. They are read only for those that are refused."""
    ids = _read_column(cut, fragments, ["id"])
    assert ids is not None
    return cast("list[str]", to_list(ids.take(rows)))


def refuse_records(count: int, ids: Sequence[str], weights: Values) -> CutResult:
    """Return that some edges are refused for their weights."""
    return CutResult((), count, tuple(zip(ids[:_SHOWN], to_list(weights.slice(0, _SHOWN)), strict=True)))


def write_pieces(cut: EdgeCut, begins: CompactPositions, ends: CompactPositions, weights: Numbers | None) -> CutResult:
    """Write edges in the direction of the projection as records in two orders."""
    if not len(begins):
        return CutResult(())
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
    return CutResult(tuple(_write_ordered(cut, order, rows, others, weights) for order, rows, others in orders))


def _write_ordered(
    cut: EdgeCut, order: EndOrder, rows: CompactPositions, others: CompactPositions, weights: Numbers | None
) -> SortedFile:
    width = bucket_width(cut.num_nodes)
    buckets = (rows >> np.int32(width.bit_length() - 1)).astype(np.uint16)
    arranged = sort_digits(buckets)
    counts = np.bincount(buckets, minlength=-(-cut.num_nodes // width))
    codes: Codes = (rows.astype(np.uint64) << np.uint64(32) | others.astype(np.uint64))[arranged]
    path = f"edges-{ULID()}.bin"
    if weights is None:
        cut.folder.put(path, codes.tobytes())
    else:
        records: Records = np.empty(len(rows), [("code", "<u8"), ("weight", "<f8")])
        records["code"], records["weight"] = codes, weights[arranged]
        cut.folder.put(path, records.tobytes())
    return SortedFile(path, order, (0, *np.cumsum(counts).tolist()))

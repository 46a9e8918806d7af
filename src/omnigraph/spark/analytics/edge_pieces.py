"""Cut the edges of a projection into pieces: tasks read fragments, turn ends into numbers and write them in ranges.

Each task writes its edges twice: in ranges of the begin and of the end. A piece is a part of such a file, so that a
block is put together from what all tasks found for its rows without reading anything else; and a file has one column
after the other, because degrees need no other ends. Ends that are stored as numbers need no texts; for others a task
holds the ids of the nodes.
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

from omnigraph.analytics import Numbers, ProjectedEdges, find_wrong_weights, group_pairs
from omnigraph.language.schema import NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Cache, CompactPositions, FullTable, Positions, make_full_table
from omnigraph.read.rows import TypeRows
from omnigraph.read.topology import TopologyTables, read_ends_of
from omnigraph.spark.scratch import ScratchFolder
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.storage.tables import Table

EndOrder: TypeAlias = Literal["begin", "end"]
"""By which end the edges of a file are ordered."""
PieceColumn: TypeAlias = Literal["row", "other", "weight"]
"""What a file has, column after column: the end that edges are ordered by, the other end, and the weight, if any."""
_COLUMNS: Final[dict[PieceColumn, tuple[int, np.dtype[Any]]]] = {
    "row": (0, np.dtype("<i4")),
    "other": (4, np.dtype("<i4")),
    "weight": (8, np.dtype("<f8")),
}
"""How many bytes of each edge are in the columns before, and the type of the values."""
MAX_TASK_EDGES: Final = 5_000_000
"""How many edges a task cuts at most, unless a fragment has more: about 150 MB where no ids are looked up."""
BUCKETS: Final = 1024
"""Into how many ranges of nodes a file is divided. A block has one of them or several."""
_SHOWN: Final = 5
_NODE_CACHE_BYTES: Final = 4 * 1024**3
"""What a process keeps of a node table: its ids, if ends have no stored numbers."""


@dataclass(frozen=True, slots=True)
class SortedFile:
    """Edges of one task in one order; ``begins`` has the edge that each bucket begins at, and their number."""

    path: str
    order: EndOrder
    begins: tuple[int, ...]

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return self.begins[-1]

    def take(self, begin: int, end: int) -> EdgePiece:
        """Return the piece with the buckets from ``begin`` on and before ``end``."""
        return EdgePiece(self.path, self.num_edges, self.begins[begin], self.begins[end])


@dataclass(frozen=True, slots=True)
class EdgePiece:
    """The edges from ``begin`` on and before ``end`` in a file of ``num_edges``."""

    path: str
    num_edges: int
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin


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


def bucket_width(num_nodes: int) -> int:
    """Return how many nodes a bucket has: a power of two."""
    return 1 << max(0, (num_nodes - 1) // BUCKETS).bit_length()


def read_pieces(folder: ScratchFolder, pieces: Sequence[EdgePiece], column: PieceColumn) -> npt.NDArray[Any]:
    """Read one column of some pieces, one behind the other."""
    before, kind = _COLUMNS[column]
    found = np.empty(sum(map(len, pieces)), kind)
    at = 0
    for piece in pieces:
        begin, end = (before * piece.num_edges + place * kind.itemsize for place in (piece.begin, piece.end))
        found[at : at + len(piece)] = np.frombuffer(folder.get_range(piece.path, begin, end), kind)
        at += len(piece)
    return found


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
    """Task: read the edges of some fragments and write them in two orders."""
    if cut.sources.table is None or cut.destinations.table is None:
        return CutResult(())
    sources, destinations, values = _read_edges(cut, fragments)
    begins, ends = _read_numbers(cut.sources)[sources], _read_numbers(cut.destinations)[destinations]
    is_kept = (begins >= 0) & (ends >= 0)
    if values is None:
        # Mostly all of them, and copies take longer than to look.
        return write_pieces(cut, *((begins, ends) if is_kept.all() else (begins[is_kept], ends[is_kept])), None)
    kept = np.flatnonzero(is_kept)
    weights, wrong = find_wrong_weights(values.take(kept))
    if len(wrong):
        ids = _name_edges(cut, fragments, kept[wrong[:_SHOWN]])
        return refuse_edges(len(wrong), ids, values.take(kept[wrong[:_SHOWN]]))
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


def refuse_edges(count: int, ids: Sequence[str], weights: Values) -> CutResult:
    """Return that some edges are refused for their weights."""
    return CutResult((), count, tuple(zip(ids[:_SHOWN], to_list(weights.slice(0, _SHOWN)), strict=True)))


def write_pieces(cut: EdgeCut, begins: CompactPositions, ends: CompactPositions, weights: Numbers | None) -> CutResult:
    """Write edges in the direction of the projection in two orders."""
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
    buckets = rows >> np.int32(width.bit_length() - 1)
    shape = -(-cut.num_nodes // width), cut.num_nodes
    arranged = group_pairs(buckets, others, rows, shape)
    columns = [arranged.data, arranged.indices]
    if weights is not None:
        columns.append(group_pairs(buckets, others, weights, shape).data)
    path = f"edges-{ULID()}.bin"
    cut.folder.put(path, b"".join(column.data for column in columns))
    return SortedFile(path, order, tuple(arranged.indptr.tolist()))

"""The arrays that algorithms work on: numbered nodes, and the neighbours of each in blocks of rows.

A kernel is a pure function of one block and of the state of all nodes; it returns a value for each row of the block. An
engine applies a kernel to all blocks, which is one superstep: here in threads, because SciPy's products and NumPy's
sorts release the interpreter lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.sparse import Numbers, SparseMatrix, make_sparse, sort_pairs
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import CompactPositions, Positions, count_by_position
from omnigraph.worker_threads import WorkerThreads

Item = TypeVar("Item")
Made = TypeVar("Made")
State: TypeAlias = npt.NDArray[Any]
"""One value for each node of the graph."""
Side: TypeAlias = Literal["outgoing", "incoming", "both"]
"""Which neighbours a block lists: those that edges lead to, those that they come from, or all, each edge twice."""

BLOCK_ENTRIES: Final = 2_000_000
"""How many neighbours a block has at most, unless one node has more."""


@dataclass(frozen=True)
class AdjacencyBlock:
    """The neighbours of the nodes ``first``, ``first + 1``, ... in ascending order; parallel edges are all there.

    The neighbours of row ``r`` are ``neighbours[indptr[r]:indptr[r + 1]]``.
    """

    first: int
    indptr: CompactPositions
    neighbours: CompactPositions
    weights: Numbers | None
    num_nodes: int
    """The number of nodes of the whole graph."""

    @property
    def num_rows(self) -> int:
        """The number of nodes whose neighbours are listed."""
        return len(self.indptr) - 1

    @cached_property
    def row_numbers(self) -> CompactPositions:
        """The row that each neighbour belongs to."""
        return np.repeat(np.arange(self.num_rows, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def structure(self) -> SparseMatrix:
        """The sparse matrix with a one for each neighbour."""
        return self._make_matrix(np.ones(len(self.neighbours)))

    @cached_property
    def matrix(self) -> SparseMatrix:
        """The sparse matrix of the weights, or of ones."""
        return self.structure if self.weights is None else self._make_matrix(self.weights)

    def _make_matrix(self, values: Numbers) -> SparseMatrix:
        return make_sparse(values, self.neighbours, self.indptr, (self.num_rows, self.num_nodes))

    def gather(self, rows: Positions) -> CompactPositions:
        """Return the neighbours of some rows, one list after the other."""
        begins = self.indptr[rows]
        counts = self.indptr[rows + 1] - begins
        shifts = begins - (np.cumsum(counts, dtype=counts.dtype) - counts)
        places = np.repeat(shifts, counts)
        places += np.arange(len(places), dtype=places.dtype)
        return self.neighbours[places]


Kernel: TypeAlias = Callable[[AdjacencyBlock, State], State]
"""A pure function of a block and the state of all nodes: one value for each row of the block. It can be pickled."""


class BlockEngine(Protocol):
    """Applies kernels to all blocks of a graph."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        ...

    def count_neighbours(self, side: Side) -> Positions:
        """Return how many neighbours each node has on a side; parallel edges count. No block is built for it."""
        ...

    def sum_weights(self, side: Side) -> Numbers:
        """Return the sum of the weights of the edges of each node on a side; without weights, their number."""
        ...

    def map_rows(self, side: Side, kernel: Kernel, state: State) -> State:
        """Apply a kernel to all blocks of a side, and return the values of all nodes: one superstep."""
        ...

    def map_blocks(self, side: Side, kernel: Kernel, state: State) -> list[State]:
        """Apply a kernel that may return anything to all blocks of a side."""
        ...

    def collect(self) -> NumberedGraph:
        """Return the whole graph in this process, for kernels that take many small steps."""
        ...


@dataclass(frozen=True)
class NumberedGraph:
    """A graph of nodes 0, 1, 2, ... with an edge from ``begins[i]`` to ``ends[i]`` of weight ``weights[i]``."""

    num_nodes: int
    begins: CompactPositions
    ends: CompactPositions
    weights: Numbers | None = None

    @property
    def num_edges(self) -> int:
        """The number of edges; one that is followed in both directions counts twice."""
        return len(self.begins)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays, with those that are derived from them: an estimate."""
        return 64 * self.num_edges + 64 * self.num_nodes

    @cached_property
    def outgoing(self) -> AdjacencyBlock:
        """The nodes that the edges of each node lead to, as one block."""
        return self._build_block(self.begins, self.ends, self.weights)

    @cached_property
    def incoming(self) -> AdjacencyBlock:
        """The nodes that the edges of each node come from, as one block."""
        return self._build_block(self.ends, self.begins, self.weights)

    @cached_property
    def distinct(self) -> AdjacencyBlock:
        """As :attr:`outgoing`, but parallel edges count once and have no weights."""
        once = self._sort(self.begins, self.ends, None)
        once.sum_duplicates()
        return AdjacencyBlock(0, once.indptr, once.indices, None, self.num_nodes)

    @cached_property
    def both(self) -> AdjacencyBlock:
        """The nodes at the other ends of all edges of each node, as one block. An edge is listed at both ends."""
        weights = None if self.weights is None else np.concatenate([self.weights, self.weights])
        return self._build_block(
            np.concatenate([self.begins, self.ends]), np.concatenate([self.ends, self.begins]), weights
        )

    def _build_block(
        self, rows: CompactPositions, columns: CompactPositions, weights: Numbers | None
    ) -> AdjacencyBlock:
        found = self._sort(rows, columns, weights)
        sorted_weights = None if weights is None else found.data
        return AdjacencyBlock(0, found.indptr, found.indices, sorted_weights, self.num_nodes)

    def _sort(self, rows: CompactPositions, columns: CompactPositions, weights: Numbers | None) -> SparseMatrix:
        check_deadline()
        size = self.num_nodes, self.num_nodes
        # Without weights a byte for each edge is sorted along: SciPy sorts no pairs without values.
        return sort_pairs(rows, columns, np.ones(len(rows), np.int8) if weights is None else weights, size)

    @cached_property
    def _cut(self) -> dict[Side, list[AdjacencyBlock]]:
        return {}

    def list_blocks(self, side: Side) -> list[AdjacencyBlock]:
        """Return the blocks of a side; they share the memory of the whole."""
        if side not in self._cut:
            whole = {"outgoing": lambda: self.outgoing, "incoming": lambda: self.incoming, "both": lambda: self.both}
            self._cut[side] = cut_block(whole[side]())
        return self._cut[side]

    def _list_rows(self, side: Side) -> list[CompactPositions]:
        return {"outgoing": [self.begins], "incoming": [self.ends], "both": [self.begins, self.ends]}[side]

    def count_neighbours(self, side: Side) -> Positions:
        """Return how many neighbours each node has on a side."""
        counts = np.zeros(self.num_nodes, np.int64)
        for rows in self._list_rows(side):
            counts += count_by_position(cast("Positions", rows), None, self.num_nodes)
        return counts

    def sum_weights(self, side: Side) -> Numbers:
        """Return the sum of the weights of the edges of each node on a side; without weights, their number."""
        if self.weights is None:
            return self.count_neighbours(side).astype(np.float64)
        sums = np.zeros(self.num_nodes)
        for rows in self._list_rows(side):
            sums += np.bincount(rows, self.weights, self.num_nodes)
        return sums

    def map_rows(self, side: Side, kernel: Kernel, state: State) -> State:
        """Apply a kernel to all blocks of a side in threads."""
        found = self.map_blocks(side, kernel, state)
        return np.concatenate(found) if found else np.zeros(0, state.dtype)

    def map_blocks(self, side: Side, kernel: Kernel, state: State) -> list[State]:
        """Apply a kernel to all blocks of a side in threads."""
        return map_in_threads(lambda block: kernel(block, state), self.list_blocks(side))

    def collect(self) -> NumberedGraph:
        """Return the graph: it is in this process."""
        return self


def cut_block(whole: AdjacencyBlock, entries: int = BLOCK_ENTRIES) -> list[AdjacencyBlock]:
    """Cut a block into blocks of consecutive rows with about so many neighbours."""
    return [
        AdjacencyBlock(
            whole.first + first,
            whole.indptr[first : last + 1] - whole.indptr[first],
            whole.neighbours[whole.indptr[first] : whole.indptr[last]],
            None if whole.weights is None else whole.weights[whole.indptr[first] : whole.indptr[last]],
            whole.num_nodes,
        )
        for first, last in split_rows(np.diff(whole.indptr), entries)
    ]


def split_rows(costs: npt.NDArray[np.integer[Any]], most: int) -> list[tuple[int, int]]:
    """Split rows into ranges that cost about ``most`` each; a row that costs more stands alone."""
    total = np.cumsum(costs, dtype=np.int64)
    ranges: list[tuple[int, int]] = []
    first = 0
    while first < len(costs):
        before = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, before + most, side="right")))
        ranges.append((first, last))
        first = last
    return ranges


def map_in_threads(function: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    """Apply a function to all items, several at a time. Deadlines are observed between them."""
    check_deadline()
    if len(items) < 2:
        return [function(item) for item in items]
    with WorkerThreads(min(len(items), os.cpu_count() or 1)) as threads:
        futures = [threads.submit(function, item) for item in items]
        try:
            made: list[Made] = []
            for future in futures:
                made.append(future.result())
                check_deadline()
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return made

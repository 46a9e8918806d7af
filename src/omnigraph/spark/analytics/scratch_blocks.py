"""Blocks of a projection in a scratch folder, and the engine that applies kernels to them on executors.

A superstep is one job with a task for each block. The state of all nodes goes to the tasks as a file, because a session
over Spark Connect has no broadcast, and comes back as files, because Java would copy it several times. The job of one
kernel is planned once: what changes from one superstep to the next is the content of the file. A process of an executor
keeps the first blocks that it reads, and an executor that is lost costs the time to repeat its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from io import SEEK_CUR, BytesIO
from itertools import pairwise
from math import prod
from typing import Final, cast

import numpy as np
import orjson
from ulid import ULID

from omnigraph.analytics import AdjacencyBlock, Kernel, NumberedGraph, Numbers, Side, State, group_pairs
from omnigraph.deadlines import check_deadline
from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions
from omnigraph.spark.analytics.edge_pieces import EdgePiece, EndOrder, SortedFile, bucket_width, read_pieces
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.scratch import ScratchFolder

BLOCK_ENTRIES: Final = 5_000_000
"""How many edges a block has at most, about."""
KEPT_BYTES: Final = 512 * 1024**2
"""How many bytes of blocks a process keeps for the next superstep, about."""
_ALIGNMENT: Final = 64
"""Arrays in a file begin at a multiple of this, where they can be used as they are."""
_SMALL_STATE: Final = 64 * 1024
"""A result up to this size comes back with the job."""
_ORDERS: Final[dict[Side, tuple[EndOrder, ...]]] = {
    "outgoing": ("begin",),
    "incoming": ("end",),
    "both": ("begin", "end"),
}


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block in a file."""

    path: str
    first: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class StoredEdges:
    """The edges of a projection as sorted files: what blocks are made of."""

    num_nodes: int
    weighted: bool
    files: tuple[SortedFile, ...]

    def list_files(self, side: Side) -> list[SortedFile]:
        """Return the files that have the neighbours on a side."""
        return [file for order in _ORDERS[side] for file in self.files if file.order == order]


@dataclass(frozen=True, slots=True)
class _BlockPlan:
    """One block to be put together: a range of rows, and the pieces of files that have their edges."""

    first: int
    num_rows: int
    pieces: tuple[EdgePiece, ...]


@dataclass(frozen=True, slots=True)
class _Superstep:
    """The job of one kernel on one side, which reads the state of all nodes from a file."""

    side: Side
    kernel: Kernel
    path: str
    run: Callable[[], list[State | _StoredState | _Refusal]]


@dataclass(frozen=True)
class ScratchEngine:
    """Applies kernels to the blocks of a projection on executors."""

    executor: SparkExecutor
    folder: ScratchFolder
    edges: StoredEdges
    _blocks: dict[Side, list[StoredBlock]] = field(default_factory=dict[Side, "list[StoredBlock]"], repr=False)
    _newest: list[_Superstep] = field(default_factory=list["_Superstep"], repr=False)
    """The last superstep, if there was one: the next one mostly has the same kernel."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.edges.num_nodes

    def count_neighbours(self, side: Side) -> Positions:
        """Return how many neighbours each node has on a side, from the pieces that blocks are made of."""
        return self._sum_rows(side, _count_edges, np.int64)

    def sum_weights(self, side: Side) -> Numbers:
        """Return the sum of the weights of the edges of each node on a side; without weights, their number."""
        return self._sum_rows(side, _sum_weights if self.edges.weighted else _count_edges, np.float64)

    def _sum_rows(
        self, side: Side, sum_: Callable[[ScratchFolder, _BlockPlan], State], dtype: type[np.generic]
    ) -> State:
        check_deadline()
        plans = _plan_blocks(self.edges, side, self.executor.parallelism)
        task = partial(_store_sums, self.folder, sum_)
        found = self._take_states(self.executor.doing("counting edges").run(task, plans))
        return np.concatenate([np.zeros(0), *found]).astype(dtype)

    def map_rows(self, side: Side, kernel: Kernel, state: State) -> State:
        """Apply a kernel to all blocks of a side; return the values of all nodes."""
        found = self.map_blocks(side, kernel, state)
        return np.concatenate(found) if found else np.zeros(0, state.dtype)

    def map_blocks(self, side: Side, kernel: Kernel, state: State) -> list[State]:
        """Apply a kernel to all blocks of a side: one job."""
        check_deadline()
        step = self._prepare(side, kernel)
        self.folder.put(step.path, _dump_arrays([state]))
        try:
            found = step.run()
        finally:
            self.folder.delete(step.path)
        return self._take_states(found)

    def _prepare(self, side: Side, kernel: Kernel) -> _Superstep:
        if self._newest and (self._newest[0].side, self._newest[0].kernel) == (side, kernel):
            return self._newest[0]
        path = f"state-{ULID()}.npy"
        task = partial(_apply_kernel, self.folder, path, kernel, self.num_nodes)
        run = self.executor.doing("running an algorithm").prepare(task, self._list_blocks(side))
        self._newest[:] = [_Superstep(side, kernel, path, run)]
        return self._newest[0]

    def _take_states(self, found: Sequence[State | _StoredState | _Refusal]) -> list[State]:
        """Return what tasks computed, and remove their files."""
        for each in found:
            if isinstance(each, _Refusal):
                raise ParameterError(each.message, hint=each.hint)
        return [self._take_state(each) for each in found if not isinstance(each, _Refusal)]

    def _take_state(self, found: State | _StoredState) -> State:
        if not isinstance(found, _StoredState):
            return found
        check_deadline()
        (state,) = _load_arrays(self.folder.get(found.path))
        self.folder.delete(found.path)
        return state

    def collect(self) -> NumberedGraph:
        """Read all edges into this process."""
        check_deadline()
        pieces = [file.take(0, -1) for file in self.edges.list_files("outgoing")]
        begins, ends = (read_pieces(self.folder, pieces, column) for column in ("row", "other"))
        weights = read_pieces(self.folder, pieces, "weight") if self.edges.weighted else None
        return NumberedGraph(self.num_nodes, begins, ends, weights)

    def _list_blocks(self, side: Side) -> list[StoredBlock]:
        """Return the blocks of a side. The first call builds them, unless an earlier run did."""
        if side not in self._blocks:
            self._blocks[side] = self._find_blocks(side) or self._build_blocks(side)
        return self._blocks[side]

    def _find_blocks(self, side: Side) -> list[StoredBlock]:
        data = self.folder.find(f"{side}.json")
        found = [] if data is None else cast("list[tuple[str, int, int]]", orjson.loads(data))
        return [StoredBlock(*each) for each in found]

    def _build_blocks(self, side: Side) -> list[StoredBlock]:
        task = partial(_build_block, self.folder, self.num_nodes, self.edges.weighted)
        plans = _plan_blocks(self.edges, side, self.executor.parallelism)
        blocks = self.executor.doing("building blocks").run(task, plans)
        # Written last: whoever finds it finds all blocks.
        self.folder.put(f"{side}.json", orjson.dumps([(each.path, each.first, each.num_rows) for each in blocks]))
        return blocks


def _plan_blocks(edges: StoredEdges, side: Side, parallelism: int) -> list[_BlockPlan]:
    """Divide the nodes into ranges with about the same number of neighbours."""
    files = edges.list_files(side)
    width = bucket_width(edges.num_nodes)
    num_buckets = -(-edges.num_nodes // width)
    counts = np.zeros(num_buckets, np.int64)
    for file in files:
        counts += np.diff(file.begins)
    # All cores have the same number of blocks.
    rounds = -(-int(counts.sum()) // (BLOCK_ENTRIES * parallelism))
    plans: list[_BlockPlan] = []
    for begin, end in _divide(counts + 1, max(1, rounds) * parallelism):
        first = begin * width
        pieces = (file.take(begin, end) for file in files)
        plans.append(
            _BlockPlan(first, min(end * width, edges.num_nodes) - first, tuple(each for each in pieces if len(each)))
        )
    return plans


def _divide(costs: Positions, count: int) -> Iterator[tuple[int, int]]:
    """Divide a sequence into at most so many ranges that cost about the same."""
    total = np.cumsum(costs)
    ends = np.searchsorted(total, total[-1:] * np.arange(1, count + 1)[:, None] / count).ravel() + 1
    return pairwise([0, *dict.fromkeys(ends.tolist())])


# --------------------------------------------------------------------------------------------- on executors


@dataclass(frozen=True, slots=True)
class _Refusal:
    """What a program of the user did wrong."""

    message: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class _StoredState:
    """The values of the rows of one block, in a file."""

    path: str


def _count_edges(folder: ScratchFolder, plan: _BlockPlan) -> State:
    return np.bincount(read_pieces(folder, plan.pieces, "row") - np.int32(plan.first), minlength=plan.num_rows)


def _sum_weights(folder: ScratchFolder, plan: _BlockPlan) -> State:
    rows, weights = (read_pieces(folder, plan.pieces, column) for column in ("row", "weight"))
    return np.bincount(rows - np.int32(plan.first), weights, plan.num_rows)


def _store_sums(
    folder: ScratchFolder, sum_: Callable[[ScratchFolder, _BlockPlan], State], plan: _BlockPlan
) -> State | _StoredState:
    """Task: sum the edges of each row of a block that need not be built for it."""
    return _store_state(folder, sum_(folder, plan))


def _build_block(folder: ScratchFolder, num_nodes: int, weighted: bool, plan: _BlockPlan) -> StoredBlock:  # noqa: FBT001  bound by the caller
    """Task: put a block together from pieces, its neighbours in ascending order."""
    rows, others = (read_pieces(folder, plan.pieces, column) for column in ("row", "other"))
    rows -= np.int32(plan.first)
    weights = read_pieces(folder, plan.pieces, "weight") if weighted else np.zeros(len(rows), np.int8)
    found = group_pairs(rows, others, weights, (plan.num_rows, num_nodes))
    found.sort_indices()
    arrays = [found.indptr, found.indices, *([found.data] if weighted else [])]
    path = f"block-{ULID()}.npy"
    folder.put(path, _dump_arrays(arrays))
    return StoredBlock(path, plan.first, plan.num_rows)


@dataclass
class _KeptBlocks:
    """The blocks of one folder that this process keeps: the first ones, since all are read in turn."""

    folder: ScratchFolder | None = None
    blocks: dict[str, AdjacencyBlock] = field(default_factory=dict[str, AdjacencyBlock])
    num_entries: int = 0

    def read(self, folder: ScratchFolder, block: StoredBlock, num_nodes: int) -> AdjacencyBlock:
        """Return a block, and keep it if there is room."""
        if folder != self.folder:
            self.folder, self.blocks, self.num_entries = folder, {}, 0
        kept = self.blocks.get(block.path)
        if kept is not None:
            return kept
        indptr, neighbours, *weights = _load_arrays(folder.get(block.path))
        found = AdjacencyBlock(block.first, indptr, neighbours, weights[0] if weights else None, num_nodes)
        entries = self.num_entries + len(neighbours)
        if entries * _ENTRY_BYTES <= KEPT_BYTES:
            self.blocks[block.path], self.num_entries = found, entries
        return found


_ENTRY_BYTES: Final = 16
"""A neighbour, and its value in the matrix that kernels multiply with; about."""
_KEPT: Final = _KeptBlocks()


def _apply_kernel(
    folder: ScratchFolder, path: str, kernel: Kernel, num_nodes: int, block: StoredBlock
) -> State | _StoredState | _Refusal:
    """Task: apply a kernel to one block."""
    (state,) = _load_arrays(folder.get(path))
    try:
        found = kernel(_KEPT.read(folder, block, num_nodes), state)
    except ParameterError as error:
        return _Refusal(error.message, error.hint)
    return _store_state(folder, found)


def _store_state(folder: ScratchFolder, state: State) -> State | _StoredState:
    if state.nbytes <= _SMALL_STATE:
        return state
    # A name of its own: a task that is repeated, or late, must not replace what another one wrote.
    path = f"values-{ULID()}.npy"
    folder.put(path, _dump_arrays([state]))
    return _StoredState(path)


def _dump_arrays(arrays: Sequence[State]) -> bytes:
    parts: list[bytes | memoryview] = []
    for each in arrays:
        header = BytesIO()
        np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(each))
        parts += [header.getvalue(), np.ascontiguousarray(each).data, bytes(-each.nbytes % _ALIGNMENT)]
    return b"".join(parts)


def _load_arrays(data: bytes) -> list[State]:
    """Return arrays that share the memory of the data: a copy would take as long as a superstep."""
    source = BytesIO(data)
    found: list[State] = []
    while source.tell() < len(data):
        np.lib.format.read_magic(source)
        shape, _, kind = np.lib.format.read_array_header_1_0(source)
        found.append(np.frombuffer(data, kind, prod(shape), source.tell()).reshape(shape))
        source.seek(found[-1].nbytes, SEEK_CUR)
        source.seek(-source.tell() % _ALIGNMENT, SEEK_CUR)
    return found

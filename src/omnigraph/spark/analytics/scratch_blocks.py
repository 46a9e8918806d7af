"""Blocks of a projection in a scratch folder, and the engine that applies kernels to them on executors.

A superstep is one job with a task for each block. The state of all nodes goes to the tasks as a file, because a session
over Spark Connect has no broadcast; what they return comes back with the job. An executor keeps the blocks that it read
last, and one that is lost costs the time to repeat its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from io import BytesIO
from typing import Final, cast

import numpy as np
import orjson
from ulid import ULID

from omnigraph.analytics import AdjacencyBlock, Kernel, NumberedGraph, Side, State, split_rows
from omnigraph.deadlines import check_deadline
from omnigraph.errors import ParameterError
from omnigraph.spark.analytics.edge_pieces import EndOrder, Records, SortedFile, bucket_width, record_type
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.scratch import ScratchFolder

BLOCK_ENTRIES: Final = 2_000_000
"""How many edges a block has at most, unless one range of nodes has more."""
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
    """One block to be put together: a range of rows, and the ranges of records that it has in each file."""

    first: int
    num_rows: int
    pieces: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class ScratchEngine:
    """Applies kernels to the blocks of a projection on executors."""

    executor: SparkExecutor
    folder: ScratchFolder
    edges: StoredEdges
    _blocks: dict[Side, list[StoredBlock]] = field(default_factory=dict[Side, "list[StoredBlock]"], repr=False)

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.edges.num_nodes

    def map_rows(self, side: Side, kernel: Kernel, state: State) -> State:
        """Apply a kernel to all blocks of a side; return the values of all nodes."""
        found = self.map_blocks(side, kernel, state)
        return np.concatenate(found) if found else np.zeros(0, state.dtype)

    def map_blocks(self, side: Side, kernel: Kernel, state: State) -> list[State]:
        """Apply a kernel to all blocks of a side: one job."""
        check_deadline()
        blocks = self._list_blocks(side)
        path = f"state-{ULID()}.npy"
        self.folder.put(path, _dump_arrays([state]))
        try:
            task = partial(_apply_kernel, self.folder, path, kernel, self.num_nodes)
            found = self.executor.doing("running an algorithm").run(task, blocks)
        finally:
            self.folder.delete(path)
        for each in found:
            if isinstance(each, _Refusal):
                raise ParameterError(each.message, hint=each.hint)
        return cast("list[State]", found)

    def collect(self) -> NumberedGraph:
        """Read all edges into this process."""
        check_deadline()
        kind = record_type(weighted=self.edges.weighted)
        parts = [np.frombuffer(self.folder.get(file.path), kind) for file in self.edges.list_files("outgoing")]
        records: Records = np.concatenate([np.empty(0, kind), *parts])
        weights = np.ascontiguousarray(records["weight"]) if self.edges.weighted else None
        return NumberedGraph(
            self.num_nodes, np.ascontiguousarray(records["row"]), np.ascontiguousarray(records["other"]), weights
        )

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
    most = min(BLOCK_ENTRIES, -(-int(counts.sum()) // parallelism))
    plans: list[_BlockPlan] = []
    for begin, end in split_rows(counts + 1, most + num_buckets // parallelism + 1):
        pieces = tuple((file.path, file.begins[begin], file.begins[end]) for file in files)
        first = begin * width
        plans.append(
            _BlockPlan(first, min(end * width, edges.num_nodes) - first, tuple(p for p in pieces if p[1] < p[2]))
        )
    return plans


# --------------------------------------------------------------------------------------------- on executors


@dataclass(frozen=True, slots=True)
class _Refusal:
    """What a program of the user did wrong."""

    message: str
    hint: str | None


def _build_block(folder: ScratchFolder, num_nodes: int, weighted: bool, plan: _BlockPlan) -> StoredBlock:  # noqa: FBT001  bound by the caller
    """Task: put a block together from pieces, its neighbours in ascending order."""
    kind = record_type(weighted=weighted)
    parts = [
        np.frombuffer(folder.get_range(path, begin * kind.itemsize, end * kind.itemsize), kind)
        for path, begin, end in plan.pieces
    ]
    records: Records = np.concatenate([np.empty(0, kind), *parts])
    rows = records["row"] - plan.first
    order = np.argsort(rows.astype(np.int64) * num_nodes + records["other"], kind="stable")
    counts = np.bincount(rows, minlength=plan.num_rows)
    arrays = [np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), records["other"][order]]
    if weighted:
        arrays.append(records["weight"][order])
    path = f"block-{ULID()}.npy"
    folder.put(path, _dump_arrays(arrays))
    return StoredBlock(path, plan.first, plan.num_rows)


@lru_cache(maxsize=2)
def _read_block(folder: ScratchFolder, block: StoredBlock, num_nodes: int) -> AdjacencyBlock:
    indptr, neighbours, *weights = _load_arrays(folder.get(block.path))
    return AdjacencyBlock(block.first, indptr, neighbours, weights[0] if weights else None, num_nodes)


def _apply_kernel(
    folder: ScratchFolder, path: str, kernel: Kernel, num_nodes: int, block: StoredBlock
) -> State | _Refusal:
    """Task: apply a kernel to one block."""
    (state,) = _load_arrays(folder.get(path))
    try:
        return kernel(_read_block(folder, block, num_nodes), state)
    except ParameterError as error:
        return _Refusal(error.message, error.hint)


def _dump_arrays(arrays: Sequence[State]) -> bytes:
    sink = BytesIO()
    for each in arrays:
        np.save(sink, each, allow_pickle=False)
    return sink.getvalue()


def _load_arrays(data: bytes) -> list[State]:
    source = BytesIO(data)
    found: list[State] = []
    while source.tell() < len(data):
        found.append(np.load(source, allow_pickle=False))
    return found

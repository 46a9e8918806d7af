"""The paths that walks found, as a set of entities: a path is a position in it, and its lists are made late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.language.query import PathFunction
from omnigraph.language.query.plan import WalkEnd
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames.frame import EntityColumn, EntitySet, Mask, Positions
from omnigraph.storage.columns import Values

FindEdges: TypeAlias = Callable[[EntityColumn, EntityColumn], pa.StringArray]
"""Finds the smallest id of an edge from each left node to its right node."""
_LIST: Final = pa.list_(pa.string())


@dataclass(frozen=True, slots=True, eq=False)
class PathForest:
    """The visits of breadth-first walks: each has its node, its hops from the start, and the visit before it.

    A path is all visits from the start of a walk to one of the ``ends``; if it ``loops``, it takes the edge of its
    right end to itself after that. ``written_left`` says whether the starts are the left or the right ends.
    """

    nodes: Positions
    hops: Positions
    before: Positions
    ends: Positions
    loops: Mask
    written_left: WalkEnd

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        """The bytes of the visits."""
        return 3 * self.nodes.nbytes + self.ends.nbytes + self.loops.nbytes

    def count_hops(self, paths: Positions) -> Positions:
        """Return the number of hops of some paths."""
        return self.hops[self.ends[paths]] + self.loops[paths]

    def trace(self, paths: Positions) -> TracedPaths:
        """List the nodes of some paths, from left to right."""
        lengths = self.count_hops(paths) + 1
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        nodes = np.empty(int(offsets[-1]), np.int64)
        is_start = np.zeros(len(nodes), np.bool_)
        visits, loops = self.ends[paths], self.loops[paths]
        leftwards = self.written_left is WalkEnd.SOURCE
        # From the right end to the left one, or from the left end on; a loop doubles the right end.
        places = offsets[1:] - 1 if leftwards else offsets[:-1].copy()
        rows = np.arange(len(paths))
        if leftwards:
            nodes[places[loops]] = self.nodes[visits[loops]]
            places = places - loops
        while len(rows):
            nodes[places[rows]] = self.nodes[visits[rows]]
            is_last = self.hops[visits[rows]] == 0
            is_start[places[rows[is_last]]] = True
            if not leftwards:
                looped = rows[is_last & loops[rows]]
                nodes[places[looped] + 1] = self.nodes[visits[looped]]
            rows = rows[~is_last]
            visits[rows] = self.before[visits[rows]]
            places[rows] += -1 if leftwards else 1
        return TracedPaths(offsets, nodes, is_start)


@dataclass(frozen=True, slots=True)
class TracedPaths:
    """The nodes of paths, one path after the other, and where each path begins.

    ``is_start``: the nodes that walks began at; between two types they are of another type than the others.
    """

    offsets: Positions
    nodes: Positions
    is_start: Mask


@dataclass(frozen=True, slots=True, eq=False)
class _WalkedPaths:
    """The paths of one operator: the forest, the entities at its positions, and where their edges are found."""

    forest: PathForest
    starts: EntitySet
    others: EntitySet
    find_edges: FindEdges

    def take(self, function: PathFunction, paths: Positions) -> Values:
        """Return what a function of paths gives."""
        if function is PathFunction.HOPS:
            return cast("Values", pa.array(self.forest.count_hops(paths), pa.int64()))
        traced = self.forest.trace(paths)
        if function is PathFunction.NODES:
            return _make_lists(traced.offsets, self._take_ids(traced))
        return self._list_edges(traced)

    def _take_ids(self, traced: TracedPaths) -> pa.StringArray:
        if self.starts == self.others:
            return self.others.take_ids(traced.nodes)
        # Between two types a path is one hop.
        both = pa.concat_arrays(
            [
                self.starts.take_ids(traced.nodes[traced.is_start]).cast(pa.string()),
                self.others.take_ids(traced.nodes[~traced.is_start]).cast(pa.string()),
            ]
        )
        order = np.concatenate([np.flatnonzero(traced.is_start), np.flatnonzero(~traced.is_start)])
        return cast("pa.StringArray", both.take(np.argsort(order)))

    def _list_edges(self, traced: TracedPaths) -> Values:
        is_first = np.zeros(len(traced.nodes) + 1, np.bool_)
        is_first[traced.offsets] = True
        lefts = np.flatnonzero(~is_first[1:])
        columns = [self._column_at(places, traced) for places in (lefts, lefts + 1)]
        hops = np.diff(traced.offsets) - 1
        return _make_lists(np.concatenate([np.zeros(1, np.int64), np.cumsum(hops)]), self.find_edges(*columns))

    def _column_at(self, places: Positions, traced: TracedPaths) -> EntityColumn:
        is_start = self.starts != self.others and bool(traced.is_start[places].any())
        return EntityColumn(self.starts if is_start else self.others, traced.nodes[places])


def _make_lists(offsets: Positions, ids: pa.StringArray) -> Values:
    values = ids.cast(pa.string())
    return cast("Values", pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values).cast(_LIST))


@dataclass(frozen=True, slots=True, eq=False)
class PathSet:
    """The paths of a variable, numbered from 0."""

    parts: tuple[_WalkedPaths, ...]
    table_key: str = field(default="", init=False)

    def __len__(self) -> int:
        return sum(len(part.forest) for part in self.parts)

    def is_key(self, column: str) -> bool:
        """Never: no function of a path tells it from others."""
        del column
        return False

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """Paths have no ids."""
        raise AssertionError(f"{len(positions)} paths have no ids")

    def take_values(self, column: str, positions: Positions) -> Values:
        """Return what a function gives for the paths at some positions."""
        function, begin = PathFunction(column), 0
        if len(self.parts) == 1:
            return self.parts[0].take(function, positions)
        taken: list[Values] = []
        places: list[Positions] = []
        for part in self.parts:
            own = np.flatnonzero((positions >= begin) & (positions < begin + len(part.forest)))
            taken.append(part.take(function, positions[own] - begin))
            places.append(own)
            begin += len(part.forest)
        return pa.concat_arrays(taken).take(np.argsort(np.concatenate(places)))

    @property
    def nbytes(self) -> int:
        """The bytes of the walks."""
        return sum(part.forest.nbytes for part in self.parts)

    def extend(self, other: PathSet) -> PathSet:
        """Return these paths and others behind them."""
        return PathSet((*self.parts, *other.parts))


def make_paths(forest: PathForest, starts: EntitySet, others: EntitySet, find_edges: FindEdges) -> PathSet:
    """Make the paths of one walk: ``starts`` are the entities where it begins, ``others`` those that it finds."""
    return PathSet((_WalkedPaths(forest, starts, others, find_edges),))


def make_chains(chains: Sequence[npt.NDArray[np.int64]]) -> PathForest:
    """Make a forest of paths whose nodes are known, from left to right."""
    lengths = np.array([len(chain) for chain in chains], np.int64)
    ends = np.cumsum(lengths) - 1
    places = np.arange(int(lengths.sum()))
    hops = places - np.repeat(ends - lengths + 1, lengths)
    nodes = np.concatenate([np.zeros(0, np.int64), *chains])
    return PathForest(nodes, hops, places - 1, ends, np.zeros(len(chains), np.bool_), WalkEnd.SOURCE)

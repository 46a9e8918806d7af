"""Graphs of several shapes, as pairs of numbers: for algorithms, and for their peers in networkx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, cast

import numpy as np
import pytest

from omnigraph.analytics.kernels.blocks import NumberedGraph
from tests.selection import sized

Pairs = list[tuple[int, int]]


class Peer(Protocol):
    """A graph of networkx, as far as it is used."""

    def add_nodes_from(self, nodes: Iterable[int]) -> None: ...
    def add_weighted_edges_from(self, edges: Iterable[tuple[int, int, float]]) -> None: ...


class Networkx(Protocol):
    """What is used of networkx, which has no types."""

    def MultiDiGraph(self) -> Peer: ...  # noqa: N802  its name there
    def Graph(self, graph: Peer) -> Peer: ...  # noqa: N802  its name there
    def pagerank(self, graph: Peer, alpha: float, **options: Any) -> Mapping[int, float]: ...
    def weakly_connected_components(self, graph: Peer) -> Iterable[set[int]]: ...
    def strongly_connected_components(self, graph: Peer) -> Iterable[set[int]]: ...
    def triangles(self, graph: Peer) -> Mapping[int, int]: ...
    def core_number(self, graph: Peer) -> Mapping[int, int]: ...
    def multi_source_dijkstra_path_length(
        self, graph: Peer, sources: set[int], *, weight: str
    ) -> Mapping[int, float]: ...
    def DiGraph(self, graph: Peer) -> Peer: ...  # noqa: N802  its name there
    def betweenness_centrality(self, graph: Peer, *, normalized: bool) -> Mapping[int, float]: ...
    def adamic_adar_index(self, graph: Peer, pairs: Pairs) -> Iterable[tuple[int, int, float]]: ...
    def preferential_attachment(self, graph: Peer, pairs: Pairs) -> Iterable[tuple[int, int, float]]: ...
    def common_neighbors(self, graph: Peer, one: int, other: int) -> Iterable[int]: ...


networkx = cast("Networkx", pytest.importorskip("networkx"))


def rmat(scale: int, edges: int, seed: int) -> Pairs:
    """A power law: each edge falls into a quarter of the matrix with unequal chances, again and again."""
    chance = np.random.default_rng(seed)
    begins, ends = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        quarter = chance.choice(4, edges, p=[0.57, 0.19, 0.19, 0.05])
        begins, ends = 2 * begins + quarter // 2, 2 * ends + quarter % 2
    return [(int(a), int(b)) for a, b in zip(begins, ends, strict=True)]


def grid(width: int) -> Pairs:
    across = [(y * width + x, y * width + x + 1) for y in range(width) for x in range(width - 1)]
    down = [(y * width + x, y * width + x + width) for y in range(width - 1) for x in range(width)]
    return across + down


SHAPES: Final[Mapping[str, tuple[int, Pairs]]] = {
    "nothing": (0, []),
    "one node": (1, []),
    "no edges": (5, []),
    "a loop": (2, [(0, 0), (0, 0), (1, 0)]),
    "parallel edges": (4, [(0, 1), (0, 1), (1, 2), (2, 0), (2, 0), (0, 2), (3, 3), (3, 1)]),
    "star in": (20, [(node, 0) for node in range(1, 20)]),
    "star out": (20, [(7, node) for node in range(20) if node != 7]),
    "circle": (9, [(node, (node + 1) % 9) for node in range(9)]),
    "complete": (7, [(a, b) for a in range(7) for b in range(7) if a != b]),
    "grid": (36, grid(6)),
    "components": (60, [(a, b) for k in range(0, 60, 4) for a, b in ((k, k + 1), (k + 1, k + 2), (k + 2, k))]),
    "rmat": (2 ** sized(7, 10), rmat(sized(7, 10), sized(700, 9000), 1)),
    "sparse rmat": (256, rmat(8, 200, 2)),
}


def graph_of(shape: str, *, weighted: bool = False, both: bool = False) -> NumberedGraph:
    count, pairs = SHAPES[shape]
    ends = np.array(pairs, np.int32).reshape(-1, 2)
    begins, ends = ends[:, 0], ends[:, 1]
    weights = weights_of(shape) if weighted else None
    if both:
        back = np.flatnonzero(begins != ends)
        begins, ends = np.concatenate([begins, ends[back]]), np.concatenate([ends, begins[back]])
    return NumberedGraph(count, np.ascontiguousarray(begins), np.ascontiguousarray(ends), weights)


def weights_of(shape: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Weights in eighths, with zeros among them: their sums are exact."""
    return np.random.default_rng(5).integers(0, 40, len(SHAPES[shape][1])) / 8


def peer_of(shape: str, *, weighted: bool = False) -> Peer:
    count, pairs = SHAPES[shape]
    weights = weights_of(shape).tolist() if weighted else [1.0] * len(pairs)
    made = networkx.MultiDiGraph()
    made.add_nodes_from(range(count))
    made.add_weighted_edges_from((a, b, weight) for (a, b), weight in zip(pairs, weights, strict=True))
    return made

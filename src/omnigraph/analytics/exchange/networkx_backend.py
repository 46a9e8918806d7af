"""A backend for NetworkX: ``nx.pagerank(G, backend="omnigraph")`` runs the kernels of this package.

NetworkX finds this module by an entry point. It converts a graph, calls the function of the same name here, and gives
back what its own function would. What is not computed here, ``can_run`` leaves to NetworkX.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, Literal, cast

import numpy as np

from omnigraph.analytics.kernels import (
    NumberedGraph,
    compute_betweenness,
    compute_cores,
    compute_pagerank,
    count_triangles,
    find_communities_louvain,
    find_components,
)
from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions

_DEFAULT_SEED: Final = 0
_MAX_SEED: Final = 2**32
_LEFT: Final[Mapping[str, tuple[str, ...]]] = {
    "pagerank": ("personalization", "nstart", "dangling"),
    "betweenness_centrality": ("k", "weight", "endpoints"),
    "triangles": ("nodes",),
    "louvain_communities": ("threshold", "max_level"),
}
"""Parameters that must have their defaults."""


@dataclass(frozen=True, slots=True)
class DispatchedGraph:
    """A graph of NetworkX as arrays, with the names of its nodes."""

    __networkx_backend__: ClassVar[str] = "omnigraph"

    graph: NumberedGraph
    names: list[Any]
    directed: bool
    multigraph: bool

    def is_directed(self) -> bool:
        """Whether edges have directions, which NetworkX asks."""
        return self.directed

    def is_multigraph(self) -> bool:
        """Whether there may be parallel edges, which NetworkX asks."""
        return self.multigraph

    def name(self, values: Any) -> dict[Any, Any]:
        """Return a value for each node, as NetworkX does."""
        return dict(zip(self.names, values.tolist(), strict=True))

    def group(self, labels: Positions) -> Iterator[set[Any]]:
        """Return the nodes with the same label as sets, in the order of their first nodes."""
        found: dict[int, set[Any]] = {}
        for name, label in zip(self.names, cast("list[int]", labels.tolist()), strict=True):
            found.setdefault(label, set()).add(name)
        return iter(found.values())


def convert_from_nx(
    graph: Any, *, edge_attrs: Mapping[str, float | None] | None = None, **_: object
) -> DispatchedGraph:
    """Convert a graph of NetworkX; at most one attribute of edges becomes their weight."""
    names = list(graph)
    numbers = {name: number for number, name in enumerate(names)}
    weight, default = next(iter((edge_attrs or {}).items()), (None, None))
    edges = list(graph.edges(data=weight, default=1 if default is None else default)) if weight else list(graph.edges())
    begins = np.array([numbers[edge[0]] for edge in edges], np.int32)
    ends = np.array([numbers[edge[1]] for edge in edges], np.int32)
    weights = np.array([edge[-1] for edge in edges], np.float64) if weight else None
    if not graph.is_directed():
        back = np.flatnonzero(begins != ends)
        begins, ends = np.concatenate([begins, ends[back]]), np.concatenate([ends, begins[back]])
        weights = None if weights is None else np.concatenate([weights, weights[back]])
    made = NumberedGraph(len(names), begins, ends, weights)
    return DispatchedGraph(made, names, graph.is_directed(), graph.is_multigraph())


def convert_to_nx(result: Any, **_: object) -> Any:
    """Return a result: none is a graph."""
    return result


def can_run(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | str:
    """Whether a call is computed here; a text says why not. NetworkX asks before it converts."""
    signature = inspect.signature(globals()[name])
    given = signature.bind(*args, **kwargs).arguments
    left = [
        each for each in _LEFT.get(name, ()) if given.get(each) != signature.parameters[each].default and each in given
    ]
    if name == "core_number" and given["G"].is_directed():
        # NetworkX counts both edges of a pair, and here they are one.
        left.append("a directed graph")
    return f"{', '.join(left)} is left to networkx" if left else True


def should_run(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | str:
    """Whether it pays: it does wherever it can."""
    return can_run(name, args, kwargs)


# --------------------------------------------------------------------------------------------- functions


def pagerank(
    G: DispatchedGraph,  # noqa: N803  its name in networkx
    alpha: float = 0.85,
    personalization: None = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: None = None,
    weight: str | None = "weight",  # noqa: ARG001  taken when the graph was converted
    dangling: None = None,
) -> dict[Any, float]:
    """PageRank, until all ranks together change by less than ``tol`` for each node.

    As in networkx it is an error if ``max_iter`` rounds do not suffice.
    """
    if (personalization, nstart, dangling) != (None, None, None):
        raise ParameterError("personalization, nstart and dangling are left to networkx", hint="leave backend out")
    tolerance = tol * len(G.names)
    run = partial(compute_pagerank, G.graph, damping=alpha, teleport=None)
    before = run(iterations=max_iter - 1, tolerance=tolerance)
    ranks = run(iterations=1, tolerance=None, start=before)
    # A weight that is no number makes a change that is none, and that never is below the tolerance.
    if G.names and (max_iter < 1 or not float(np.abs(ranks - before).sum()) < tolerance):
        raise _networkx().PowerIterationFailedConvergence(max_iter)
    return G.name(ranks)


def _find_groups(graph: DispatchedGraph, connection: Literal["weak", "strong"]) -> Iterator[set[Any]]:
    return graph.group(find_components(graph.graph, connection))


def connected_components(G: DispatchedGraph) -> Iterator[set[Any]]:  # noqa: N803  its name in networkx
    """The components of a graph without directions."""
    return _find_groups(G, "weak")


def weakly_connected_components(G: DispatchedGraph) -> Iterator[set[Any]]:  # noqa: N803  its name in networkx
    """The components of a graph, whatever the directions."""
    return _find_groups(G, "weak")


def strongly_connected_components(G: DispatchedGraph) -> Iterator[set[Any]]:  # noqa: N803  its name in networkx
    """The components whose nodes all reach each other."""
    return _find_groups(G, "strong")


def triangles(G: DispatchedGraph, nodes: None = None) -> dict[Any, int]:  # noqa: ARG001, N803  as in networkx
    """The number of triangles of each node."""
    return G.name(count_triangles(G.graph))


def core_number(G: DispatchedGraph) -> dict[Any, int]:  # noqa: N803  its name in networkx
    """The core number of each node. As in networkx a loop is an error."""
    if np.any(G.graph.begins == G.graph.ends):
        raise _networkx().NetworkXNotImplemented("Input graph has self loops which is not permitted")
    return G.name(compute_cores(G.graph))


def betweenness_centrality(
    G: DispatchedGraph,  # noqa: N803  its name in networkx
    k: None = None,  # noqa: ARG001  left to networkx
    normalized: bool = True,  # noqa: FBT001, FBT002  as in networkx
    weight: None = None,  # noqa: ARG001  left to networkx
    endpoints: bool = False,  # noqa: ARG001, FBT001, FBT002  left to networkx
    seed: object = None,  # noqa: ARG001  of no use without k
) -> dict[Any, float]:
    """The share of each node in the shortest paths between all others."""
    found = compute_betweenness(G.graph, None, _DEFAULT_SEED)
    count = len(G.names)
    if normalized:
        found = found / ((count - 1) * (count - 2)) if count > 2 else found
    elif not G.directed:
        found = found / 2
    return G.name(found)


def louvain_communities(
    G: DispatchedGraph,  # noqa: N803  its name in networkx
    weight: str | None = "weight",  # noqa: ARG001  taken when the graph was converted
    resolution: float = 1,
    threshold: float = 1e-7,  # noqa: ARG001  left to networkx
    max_level: int | None = None,  # noqa: ARG001  left to networkx
    seed: Any = None,
) -> list[set[Any]]:
    """Communities of high modularity."""
    # NetworkX turns a seed, and no seed, into a generator of random numbers before it calls.
    number = _DEFAULT_SEED if seed is None else seed if isinstance(seed, int) else int(seed.randrange(_MAX_SEED))
    return list(G.group(find_communities_louvain(G.graph, resolution, number)))


def _networkx() -> Any:
    """Return NetworkX, for its errors; it has called."""
    return import_module("networkx")

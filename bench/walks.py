"""Questions of ``query.py`` answered by networkx: those about one type of edges, which is what its graphs have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from importlib import import_module
from typing import Protocol, TypeAlias, cast

from scans import Parameters, Row

# networkx has no types, so they are told here, as far as they are used.


class Graph(Protocol):
    """A ``DiGraph`` whose nodes are numbers."""

    nodes: Mapping[int, Mapping[str, object]]
    in_degree: Iterable[tuple[int, int]]
    out_degree: Mapping[int, int]

    def add_nodes_from(self, nodes: Iterable[tuple[int, Mapping[str, object]]]) -> None:
        """Add nodes with their properties."""
        ...

    def add_edges_from(self, ends: Iterable[tuple[int, int]]) -> None:
        """Add edges between them."""
        ...


class _Networkx(Protocol):
    def DiGraph(self) -> Graph: ...  # noqa: N802
    def shortest_path_length(self, graph: Graph, source: int, target: int) -> int: ...
    def single_source_shortest_path_length(self, graph: Graph, source: int, cutoff: int) -> Mapping[int, int]: ...


Graphs: TypeAlias = "Callable[[str, str], Graph]"
"""The graph of a node type and an edge type."""
Walk: TypeAlias = "Callable[[Graphs, Parameters], list[Row]]"


def networkx() -> _Networkx:
    """Return the library."""
    return cast("_Networkx", import_module("networkx"))


def _most_reached(graph: Graph) -> list[tuple[int, int]]:
    return nsmallest(3, graph.in_degree, key=lambda each: (-each[1], each[0]))


def _reached(graph: Graph, number: int | str, hops: int) -> list[Row]:
    return [(len(networkx().single_source_shortest_path_length(graph, int(number), cutoff=hops)) - 1,)]


def _paths_by_degrees(graph: Graph) -> list[Row]:
    out = graph.out_degree
    return [(sum(into * out[number] for number, into in graph.in_degree),)]


# ------------------------------------------------------------------------------------------------ the power law


def most_linked(graphs: Graphs, _: Parameters) -> list[Row]:
    """The three pages with the most links to them."""
    return list(_most_reached(graphs("Page", "Links")))


def pages_in_two_hops(graphs: Graphs, parameters: Parameters) -> list[Row]:
    """Pages that are one or two links away."""
    return _reached(graphs("Page", "Links"), parameters["number"], 2)


def pages_in_four_hops(graphs: Graphs, parameters: Parameters) -> list[Row]:
    """Pages that are one to four links away."""
    return _reached(graphs("Page", "Links"), parameters["number"], 4)


# ------------------------------------------------------------------------------------------------ the social graph


def person(graphs: Graphs, parameters: Parameters) -> list[Row]:
    """One person by key."""
    found = graphs("Person", "Follows").nodes[int(parameters["number"])]
    return [(found["name"], found["gender"], found["age"])]


def people_in_two_hops(graphs: Graphs, parameters: Parameters) -> list[Row]:
    """People who are one or two follows away."""
    return _reached(graphs("Person", "Follows"), parameters["number"], 2)


def shortest_path(graphs: Graphs, parameters: Parameters) -> list[Row]:
    """How many follows lead from one person to another."""
    graph = graphs("Person", "Follows")
    return [(networkx().shortest_path_length(graph, int(parameters["first"]), int(parameters["last"])),)]


def most_followed(graphs: Graphs, _: Parameters) -> list[Row]:
    """The three most followed."""
    graph = graphs("Person", "Follows")
    return [(number, graph.nodes[number]["name"], count) for number, count in _most_reached(graph)]


def two_follows_by_degrees(graphs: Graphs, _: Parameters) -> list[Row]:
    """Paths of two follows, as products of degrees: to list them one by one in Python takes minutes."""
    return _paths_by_degrees(graphs("Person", "Follows"))

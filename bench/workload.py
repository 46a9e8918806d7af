"""What the engines of ``query.py`` are given: a graph as frames, its schema in each language, and questions.

A question is asked in each language as one writes it there; of several ways to write the same, the one that was fastest
for that engine. What one way does that another engine is asked to find out by itself is a question of its own. The
graphs have no two edges of a type between the same
two nodes and no edge from a node to itself: so the rows of a match are the same whether an engine counts edges or
distinct neighbours, and nobody has to remove duplicates that the others keep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frames import FrameAnswer
from scans import Parameters, Scan
from walks import Walk

Numbers: TypeAlias = npt.NDArray[np.int64]


def _no_parameters() -> Parameters:
    return {}


@dataclass(frozen=True, slots=True)
class Question:
    """The same question to each engine: the rows of the answers must be equal, and in the same order.

    ``sqlite`` is its SQL where that of DuckDB cannot be used. ``scan`` answers the question from Lance alone, where one
    or two are enough; ``polars`` and ``networkx`` answer it with these libraries. ``walks``: it follows edges; the
    design has ceilings for such questions.
    """

    name: str
    gq: str
    sql: str
    cypher: str
    parameters: Parameters = field(default_factory=_no_parameters)
    sqlite: str | None = None
    scan: Scan | None = None
    polars: FrameAnswer | None = None
    networkx: Walk | None = None
    walks: bool = True


@dataclass(frozen=True, slots=True)
class Workload:
    """A graph and what is asked of it.

    ``make`` gives the rows of each type by its name, for a number of nodes and of edges: nodes begin with their number,
    edges with the numbers of their ends. In SQL and Cypher each type is a table of that name, its columns in that
    order.
    """

    name: str
    schema: str
    sql_schema: str
    cypher_schema: str
    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    make: Callable[[int, int], dict[str, pa.Table]]
    questions: tuple[Question, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """Nodes before the edges that need them."""
        return self.nodes + self.edges


# ------------------------------------------------------------------------------------------------ random graphs


@dataclass(frozen=True, slots=True)
class Skew:
    """How unequal the ends of edges are: with 1 all nodes are alike, with more a few nodes have many of the edges.

    The most frequent of n nodes has about ``n ** (-1 / skew)`` of all edges.
    """

    source: float
    destination: float


def skewed(random: np.random.Generator, nodes: int, count: int, skew: float) -> Numbers:
    """Numbers of nodes, the small ones more often."""
    return (nodes * random.random(count) ** skew).astype(np.int64)


def most_edges(nodes: int) -> int:
    """How many different edges can be found between so many nodes without looking for long."""
    return nodes * (nodes - 1) // 10


def simple_edges(random: np.random.Generator, nodes: int, edges: int, skew: Skew) -> pa.Table:
    """So many edges between different nodes, no two alike, in no order; sources and destinations are independent."""
    out, into = random.permutation(nodes), random.permutation(nodes)
    codes = np.zeros(0, np.int64)
    while len(codes) < edges:
        missing = (edges - len(codes)) * 5 // 4 + 100
        sources = out[skewed(random, nodes, missing, skew.source)]
        destinations = into[skewed(random, nodes, missing, skew.destination)]
        codes = np.union1d(codes, (sources * nodes + destinations)[sources != destinations])
    picked = random.permutation(codes)[:edges]
    return edge_table(picked // nodes, picked % nodes)


def edge_table(sources: Numbers, destinations: Numbers) -> pa.Table:
    """Edges as a frame."""
    return pa.Table.from_pydict({"from": sources, "to": destinations})

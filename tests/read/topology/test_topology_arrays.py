"""Arrays of edges, asked and walked, against the plainest loops over random multigraphs with loops."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.query.plan import WalkEnd
from omnigraph.language.query.typed_tree import EdgeStep, TraversalDirection
from omnigraph.read.frames import SkiRental, parts
from omnigraph.read.frames.frame import Positions
from omnigraph.read.match import breadth_first
from omnigraph.read.match.breadth_first import WalkBounds, walk
from omnigraph.read.topology import adjacency
from omnigraph.read.topology.adjacency import (
    Adjacency,
    are_neighbours,
    build_adjacency,
    find_edges,
    find_edges_between,
    find_neighbours,
    orient_edges,
    orient_sizes,
    propagate_weights,
    unite,
)
from tests.language.query.plan import plan_evaluator
from tests.language.query.plan.plan_evaluator import Entity, Graph
from tests.read.walked_graphs import ample_memory


@pytest.fixture(autouse=True, params=[3, 100_000], ids=["many edges", "few edges"])
def rows_at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Arrays are sorted in parts, and at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_AT_ONCE", request.param)
        yield


def test_scipy_is_imported_once_doing_without_has_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjacency, "_scipy_rental", SkiRental())
    monkeypatch.delitem(sys.modules, "scipy.sparse", raising=False)
    seconds = adjacency._IMPORT_SECONDS / 4
    assert [adjacency._should_use_scipy(seconds) for _ in range(6)] == [False] * 4 + [True] * 2


@dataclass(frozen=True)
class Edges:
    """Edges between two types of nodes, or within one."""

    num_sources: int
    num_destinations: int
    pairs: list[tuple[int, int]]

    def arrays(self, direction: TraversalDirection, *, distinct: bool) -> Adjacency:
        ends = np.array(self.pairs, np.int32).reshape(-1, 2)
        sizes = orient_sizes((self.num_sources, self.num_destinations), direction)
        return build_adjacency(orient_edges(ends[:, 0], ends[:, 1], direction), sizes, distinct=distinct)

    def steps(self, direction: TraversalDirection) -> Iterator[tuple[int, int, int]]:
        """Where each step begins and ends, and by which edge."""
        for edge, (source, destination) in enumerate(self.pairs):
            if direction is not TraversalDirection.IN:
                yield source, destination, edge
            if direction is TraversalDirection.IN or (direction is TraversalDirection.BOTH and source != destination):
                yield destination, source, edge


@st.composite
def within_one_type(draw: st.DrawFn, most: int = 8) -> Edges:
    size = draw(st.integers(1, most))
    node = st.integers(0, size - 1)
    return Edges(size, size, draw(st.lists(st.tuples(node, node), max_size=3 * most)))


@st.composite
def between_two_types(draw: st.DrawFn) -> Edges:
    sources, destinations = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    if not sources or not destinations:
        return Edges(sources, destinations, [])
    pair = st.tuples(st.integers(0, sources - 1), st.integers(0, destinations - 1))
    return Edges(sources, destinations, draw(st.lists(pair, max_size=20)))


DIRECTIONS = st.sampled_from(list(TraversalDirection))
ONE_WAY = st.sampled_from([TraversalDirection.OUT, TraversalDirection.IN])
WALKS = st.one_of(st.tuples(within_one_type(), DIRECTIONS), st.tuples(between_two_types(), ONE_WAY))


def some(positions: int, numbers: list[int]) -> Positions:
    """Positions below a number, in any order and repeated."""
    return np.array([number % positions for number in numbers if positions], np.int64)


@given(WALKS, st.lists(st.integers(0, 100), max_size=12))
def test_neighbours_and_edges_of_nodes(walked: tuple[Edges, TraversalDirection], numbers: list[int]) -> None:
    edges, direction = walked
    plain, distinct = edges.arrays(direction, distinct=False), edges.arrays(direction, distinct=True)
    asked = some(plain.num_nodes, numbers)
    steps = list(edges.steps(direction))
    expected = [(row, end, edge) for row, node in enumerate(asked) for begin, end, edge in steps if begin == node]
    found = list(zip(*(each.tolist() for each in find_edges(plain, asked)), strict=True))
    assert sorted(found) == sorted(expected)
    assert [step[:2] for step in found] == [step[:2] for step in sorted(expected)]
    once = list(zip(*(each.tolist() for each in find_neighbours(distinct, asked)), strict=True))
    assert once == sorted({(row, end) for row, end, _ in expected})
    counts = Counter(begin for begin, _, _ in steps)
    assert plain.degrees().tolist() == [counts[node] for node in range(plain.num_nodes)]


@given(WALKS, st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=12))
def test_pairs_and_the_edges_between_them(
    walked: tuple[Edges, TraversalDirection], numbers: list[tuple[int, int]]
) -> None:
    edges, direction = walked
    plain, distinct = edges.arrays(direction, distinct=False), edges.arrays(direction, distinct=True)
    if not plain.num_nodes or not plain.num_neighbours:
        return
    begins = some(plain.num_nodes, [begin for begin, _ in numbers])
    ends = some(plain.num_neighbours, [end for _, end in numbers])
    between = [
        (row, edge)
        for row, pair in enumerate(zip(begins, ends, strict=True))
        for begin, end, edge in edges.steps(direction)
        if (begin, end) == pair
    ]
    rows, found = find_edges_between(plain, begins, ends)
    assert sorted(zip(rows.tolist(), found.tolist(), strict=True)) == sorted(between)
    expected = [row in {row for row, _ in between} for row in range(len(begins))]
    assert are_neighbours(distinct, begins, ends).tolist() == expected
    beyond = np.full(len(begins), plain.num_neighbours + 3)
    assert not are_neighbours(distinct, begins, beyond).any()


@given(WALKS, st.booleans(), st.lists(st.integers(0, 2**40), min_size=8, max_size=8))
def test_weights_are_passed_on(walked: tuple[Edges, TraversalDirection], distinct: bool, numbers: list[int]) -> None:
    edges, direction = walked
    arrays = edges.arrays(direction, distinct=distinct)
    steps = [(begin, end) for begin, end, _ in edges.steps(direction)]
    steps = list(set(steps)) if distinct else steps
    given_ = np.array([numbers[node % 8] for node in range(arrays.num_nodes)], np.int64)
    received = [sum(numbers[begin % 8] for begin, end in steps if end == node) for node in range(arrays.num_neighbours)]
    for rental in (SkiRental(), SkiRental(adjacency._IMPORT_SECONDS)):
        with pytest.MonkeyPatch.context() as patch:
            patch.delitem(sys.modules, "scipy.sparse", raising=False)
            patch.setattr(adjacency, "_scipy_rental", rental)
            assert propagate_weights(arrays, given_).tolist() == received


@pytest.fixture(
    params=[
        pytest.param((4_000_000, 2**26), id="at once"),
        pytest.param((3, 2**26), id="few steps", marks=pytest.mark.slow),
        pytest.param((3, 11), id="few steps and marks"),
    ]
)
def in_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Walks in one piece, and in as many as it takes."""
    steps, marks = cast("tuple[int, int]", request.param)
    monkeypatch.setattr(breadth_first, "_HOPS_AT_ONCE", steps)
    monkeypatch.setattr(breadth_first, "_MARKS", marks)


BOUNDS = st.builds(WalkBounds, st.integers(0, 4), st.none() | st.integers(0, 5), st.sampled_from(WalkEnd)).filter(
    lambda bounds: bounds.maximum != 0
)


def plain(bounds: WalkBounds) -> plan_evaluator.Bounds:
    backwards = bounds.written_left is WalkEnd.DESTINATION
    return plan_evaluator.Bounds(bounds.minimum, bounds.maximum, backwards=backwards)


def naive(edges: Edges) -> Graph:
    named = [Entity(str(number), {}, str(begin), str(end)) for number, (begin, end) in enumerate(edges.pairs)]
    return Graph({}, {"E": tuple(named)}, {})


@pytest.mark.usefixtures("in_pieces")
class TestWalks:
    """Each test runs in one piece and in many."""

    @given(within_one_type(), DIRECTIONS, BOUNDS, st.lists(st.integers(0, 100), max_size=6))
    def test_walks_as_the_plan_says(
        self, edges: Edges, direction: TraversalDirection, bounds: WalkBounds, numbers: list[int]
    ) -> None:
        arrays, graph = edges.arrays(direction, distinct=True), naive(edges)
        sources = some(arrays.num_nodes, numbers)
        expected = [
            (row, node)
            for row, source in enumerate(sources)
            for node in sorted(
                map(int, plan_evaluator.walk(graph, [EdgeStep("E", direction)], str(source), plain(bounds)))
            )
        ]
        rows, found = walk(arrays, sources, bounds, ample_memory())
        assert list(zip(rows.tolist(), found.tolist(), strict=True)) == expected

    @given(between_two_types(), ONE_WAY)
    def test_one_hop_between_two_types(self, edges: Edges, direction: TraversalDirection) -> None:
        arrays = edges.arrays(direction, distinct=True)
        rows, found = walk(arrays, np.arange(arrays.num_nodes), WalkBounds(1, 1), ample_memory())
        steps = {(begin, end) for begin, end, _ in edges.steps(direction)}
        assert list(zip(rows.tolist(), found.tolist(), strict=True)) == sorted(steps)


@given(within_one_type(), within_one_type(), DIRECTIONS)
def test_a_union_has_each_neighbour_once(some_edges: Edges, others: Edges, direction: TraversalDirection) -> None:
    size = max(some_edges.num_sources, others.num_sources)
    both = [Edges(size, size, each.pairs) for each in (some_edges, others)]
    united = unite([each.arrays(direction, distinct=True) for each in both])
    pairs = {(begin, end) for each in both for begin, end, _ in each.steps(direction)}
    rows, found = find_neighbours(united, np.arange(size))
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == sorted(pairs)
    assert united.num_neighbours == size


def test_sums_stay_exact_beyond_what_floats_hold() -> None:
    edges = Edges(3, 3, [(0, 2), (1, 2)])
    weights = np.array([2**60 + 1, 2**60 + 2, 0])
    assert propagate_weights(edges.arrays(TraversalDirection.OUT, distinct=True), weights).tolist() == [0, 0, 2**61 + 3]

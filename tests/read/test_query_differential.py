"""Random queries over random graphs answer what the meaning of the language says, whichever way they run."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import cast

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from omnigraph.errors import Json, MemoryExceeded
from omnigraph.language.query import compile_query
from omnigraph.language.query.typed_statements import TypedMutation
from omnigraph.read.frames import Strategy, parts
from omnigraph.read.frames.cache import shared_cache
from omnigraph.read.match import counting, execute, pieces
from omnigraph.read.match import expand as expanding
from omnigraph.read.match import join as joining
from omnigraph.read.match import scan_nodes as starting
from omnigraph.read.query import QueryOptions, QueryRequest, run_query
from omnigraph.read.result import assemble as answer
from tests.model.match_model import Asked
from tests.model.query_model import expected
from tests.read.query_worlds import CATALOG, Moment, World, new_world
from tests.read.read_strategies import (
    Read,
    computations,
    counts,
    filters,
    interface_reads,
    joins,
    reads,
    searches,
    unions,
)
from tests.selection import sized

WORLDS = sized(2, 12)
THRESHOLDS = {
    (counting, "_WORTH_COLLAPSING"): 1,
    (counting, "_ROWS_PER_TUPLE"): 0,
    (expanding, "_TESTED_AT_ONCE"): 1,
    (expanding, "_WORTH_PROPAGATING"): 1,
    (expanding, "_MANY_HOPS"): 2**40,
    (execute, "_FIRST_PIECE"): 1,
    (pieces, "PIECE_ROWS"): 3,
    (joining, "_PAIRS_AT_ONCE"): 3,
    (answer, "_BATCH_ROWS"): 2,
    (parts, "ROWS_AT_ONCE"): 3,
    (starting, "_SMALL"): 0,
    (starting, "_LEAST_LOCATED"): 1,
}
"""Where the way of a query depends on how many rows there are: as low as they go, a few rows are many."""


def budget(examples: int) -> settings:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(max_examples=sized(examples, 200 * examples), suppress_health_check=slow)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    """Graphs that no test changes."""
    folder = tmp_path_factory.mktemp("worlds")
    # Hypothesis prefers what comes first: the largest.
    return [new_world(folder, seed) for seed in reversed(range(WORLDS))]


@contextmanager
def thresholds(sizes: str) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), lowest in THRESHOLDS.items() if sizes == "few rows are many" else ():
            patch.setattr(module, name, lowest)
        yield


def assert_answered(world: World, moment: Moment, read: Read, strategy: Strategy, memory: int | None = None) -> None:
    """The answer is one that the model allows."""
    compiled = compile_query(read.text, CATALOG)
    typed = compiled.typed
    assert not isinstance(typed, TypedMutation)
    asked = Asked(moment.model, compiled.bind_parameters(read.params), time.time_ns() // 1_000_000)
    question = QueryRequest(read.text, params=read.params)
    result = run_query(
        world.graph._manifest, question, moment.branch, moment.at, QueryOptions(strategy=strategy, memory=memory)
    )
    found = cast("list[Mapping[str, Json]]", result.to_json()["rows"])
    allowed = expected(typed, asked)
    assert allowed.allows(found), f"by {strategy} on {moment.branch}: {found}\nis not among the allowed {allowed}"


def drawn(worlds: list[World], data: st.DataObject, reading: st.SearchStrategy[Read]) -> tuple[World, Read]:
    number = data.draw(st.integers(0, len(worlds) - 1), "world")
    read = data.draw(reading)
    note(f"{read.text}\n{read.params}")
    return worlds[number], read


def check(worlds: list[World], data: st.DataObject, reading: st.SearchStrategy[Read], sizes: str) -> None:
    """By every strategy, with nothing in memory and then with what that left there."""
    world, read = drawn(worlds, data, reading)
    place = -1 - data.draw(st.integers(0, len(world.moments) - 1), "moment, from the last")
    with thresholds(sizes):
        for strategy in Strategy:
            shared_cache().clear()
            for _ in ("cold", "warm"):
                assert_answered(world, world.moments[place], read, strategy)


def answer_with_the_least_memory(world: World, moment: Moment, read: Read, strategy: Strategy) -> None:
    """A query that is refused for want of memory is asked again with twice as much."""
    memory = 256
    while True:
        try:
            assert_answered(world, moment, read, strategy, memory)
        except MemoryExceeded:
            memory *= 2
        else:
            return


both_sizes = pytest.mark.parametrize("sizes", ["as they are", "few rows are many"])


@both_sizes
@budget(11)
@given(data=st.data())
def test_patterns(worlds: list[World], sizes: str, data: st.DataObject) -> None:
    check(worlds, data, reads(), sizes)


@budget(14)
@given(data=st.data())
def test_conditions(worlds: list[World], data: st.DataObject) -> None:
    check(worlds, data, filters(), "as they are")


@budget(14)
@given(data=st.data())
def test_computed_values(worlds: list[World], data: st.DataObject) -> None:
    check(worlds, data, computations(), "as they are")


@both_sizes
@budget(6)
@given(data=st.data())
def test_counts_of_walks(worlds: list[World], sizes: str, data: st.DataObject) -> None:
    check(worlds, data, counts(), sizes)


@both_sizes
@budget(6)
@given(data=st.data())
def test_interfaces(worlds: list[World], sizes: str, data: st.DataObject) -> None:
    check(worlds, data, interface_reads(), sizes)


@both_sizes
@budget(6)
@given(data=st.data())
def test_unions(worlds: list[World], sizes: str, data: st.DataObject) -> None:
    check(worlds, data, unions(), sizes)


@both_sizes
@budget(6)
@given(data=st.data())
def test_joins(worlds: list[World], sizes: str, data: st.DataObject) -> None:
    check(worlds, data, joins(), sizes)


@both_sizes
@budget(3)
@given(data=st.data())
def test_searches(worlds: list[World], sizes: str, data: st.DataObject) -> None:
    check(worlds, data, searches(), sizes)


@budget(6)
@given(data=st.data())
def test_what_other_moments_left_in_memory_changes_nothing(worlds: list[World], data: st.DataObject) -> None:
    """Arrays of one version are made from those of another, and tables that nothing changed are shared."""
    world, read = drawn(worlds, data, reads())
    places = data.draw(st.lists(st.sampled_from(range(len(world.moments))), min_size=2, max_size=6, unique=True))
    shared_cache().clear()
    for place in places if data.draw(st.booleans(), "in any order") else sorted(places):
        for strategy in (Strategy.ARRAYS, Strategy.AUTO):
            assert_answered(world, world.moments[place], read, strategy)


@pytest.mark.parametrize(
    "reading", [reads(), counts(), joins(), unions(), interface_reads(), searches(), filters() | computations()]
)
@budget(3)
@given(data=st.data())
def test_with_hardly_enough_memory_the_answers_are_the_same(
    worlds: list[World], reading: st.SearchStrategy[Read], data: st.DataObject
) -> None:
    world, read = drawn(worlds, data, reading)
    sizes = data.draw(st.sampled_from(["few rows are many", "as they are"]))
    place = -1 - data.draw(st.integers(0, len(world.moments) - 1), "moment, from the last")
    with thresholds(sizes):
        for strategy in Strategy:
            answer_with_the_least_memory(world, world.moments[place], read, strategy)

"""Programs of one's own: what they hear and say, when they end, and what is refused."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
import pytest

from omnigraph.analytics.kernels import NumberedGraph, PregelProgram, PregelRules, blocks, measure_paths, run_program
from omnigraph.analytics.kernels.pregel import StateColumns
from omnigraph.errors import ParameterError
from tests.analytics.programs import Columns, find_distance, find_smallest, rank
from tests.analytics.shapes import SHAPES, graph_of


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that graphs have several blocks."""
    monkeypatch.setattr(blocks.cut_block, "__defaults__", (50,))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_smallest_node_is_heard_of_along_edges(shape: str) -> None:
    count, pairs = SHAPES[shape]
    known = list(range(count))
    for _ in range(count):
        for a, b in pairs:
            known[b] = min(known[b], known[a])
    found = run_program(graph_of(shape), find_smallest, PregelRules("min"), 10**6)
    assert [int(each) for each in found.get("smallest", [])] == known


def test_ranks_are_sums_of_shares() -> None:
    for shape in ("rmat", "parallel edges", "star in"):
        count, pairs = SHAPES[shape]
        degrees = np.bincount([a for a, _ in pairs], minlength=count)
        known = np.full(count, 1 / count)
        for _ in range(10):
            shares = known / np.maximum(degrees, 1)
            known = 0.15 / count + 0.85 * np.bincount(
                [b for _, b in pairs], [shares[a] for a, _ in pairs], minlength=count
            )
        found = run_program(graph_of(shape), rank, PregelRules(), 99)
        assert list(found) == ["rank"]
        assert found["rank"].tolist() == pytest.approx(known.tolist())


@pytest.mark.parametrize("shape", ["rmat", "grid", "parallel edges", "star out"])
def test_weights_change_messages_on_their_way(shape: str) -> None:
    graph = graph_of(shape, weighted=True)
    found = run_program(graph, find_distance, PregelRules("min", "plus_weight"), 10**6)
    assert found["distance"].tolist() == measure_paths(graph, np.array([0])).tolist()
    assert list(found) == ["distance"]


def test_a_message_may_be_multiplied_and_the_largest_may_win() -> None:
    graph = NumberedGraph(3, np.array([0, 1], np.int32), np.array([2, 2], np.int32), np.array([2.0, 5.0]))

    def hear(step: int, state: StateColumns, messages: Columns) -> tuple[StateColumns, Columns]:
        return {"heard": messages}, np.array([3, 1, 7])[state["node"]] if not step else np.ma.masked_array(
            np.zeros(3), True
        )

    def listen(step: int, state: StateColumns, messages: Columns) -> tuple[StateColumns, Columns | None]:
        return {"node": state["node"], "heard": messages}, None if step else np.array([3.0, 1.0, 7.0])[state["node"]]

    assert run_program(graph, cast("PregelProgram", listen), PregelRules("max", "times_weight"), 9)[
        "heard"
    ].tolist() == [-np.inf, -np.inf, 6.0]
    assert run_program(graph, cast("PregelProgram", listen), PregelRules("sum"), 9)["heard"].tolist() == [0, 0, 4]
    assert run_program(graph, cast("PregelProgram", hear), PregelRules("sum"), 0)["heard"].tolist() == [0, 0, 0]


WRONG: Final[list[tuple[Any, str]]] = [
    (None, "two values"),
    ((1, None), "no columns"),
    (({"x": np.zeros(1)}, None), "x of shape"),
    (({"x": np.array(["a"] * 9)}, None), "as <U1"),
    (({"x": np.ma.masked_array(np.zeros(9), True)}, None), "with a mask"),
    (({}, np.zeros((9, 2))), "messages of shape"),
]


@pytest.mark.parametrize(("returned", "problem"), WRONG)
def test_what_is_no_state_is_refused(returned: Any, problem: str) -> None:
    def answer(step: int, state: StateColumns, messages: Columns) -> Any:  # noqa: ARG001  a program
        return returned

    with pytest.raises(ParameterError, match=problem):
        run_program(graph_of("circle"), answer, PregelRules(), 3)


def test_blocks_must_agree_on_columns() -> None:
    def differ(step: int, state: StateColumns, messages: Columns) -> tuple[StateColumns, Columns]:  # noqa: ARG001  a program
        return {f"x{int(state['node'][0] > 0)}": messages}, messages

    with pytest.raises(ParameterError, match="other columns"):
        run_program(graph_of("rmat"), differ, PregelRules(), 3)


def test_a_node_that_sends_nothing_is_not_heard() -> None:
    def speak(step: int, state: StateColumns, messages: Columns) -> tuple[StateColumns, Columns | None]:
        ones = np.ones(len(messages))
        return {"node": state["node"], "heard": messages}, None if step else np.ma.masked_array(ones, state["node"] > 0)

    found = run_program(graph_of("circle"), cast("PregelProgram", speak), PregelRules("sum"), 9)
    assert found["heard"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0]

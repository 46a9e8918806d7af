"""What a schema change does without a lock: others work meanwhile, and what they did is looked at before the commit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ConflictError, ValidationError
from omnigraph.graph import Graph
from omnigraph.storage.locks import LockSettings
from omnigraph.write.commit.section import VALIDATION_ROUNDS
from omnigraph.write.commit.table_shape import TableRewrite
from omnigraph.write.evolve import apply
from tests.graphs import written
from tests.write.evolve.people_graph import BEFORE, load, make, people, with_change

UNIQUE = with_change("age: I32?", "age: I64? @unique")
"""Rows are checked, and then rewritten."""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make(tmp_path)


def do_meanwhile(graph: Graph, monkeypatch: pytest.MonkeyPatch, action: Callable[[Graph, int], object]) -> list[int]:
    """Do something else each time that the rows are checked, in another handle that waits for no lock; count it."""
    checks: list[int] = []
    check = apply.check_new_rules

    def check_and_act(*given: object) -> None:
        checks.append(len(checks))
        _act(graph, lambda other: action(other, len(checks)))
        check(*given)  # pyright: ignore[reportArgumentType]  as they came

    monkeypatch.setattr(apply, "check_new_rules", check_and_act)
    return checks


def _act(graph: Graph, action: Callable[[Graph], object]) -> None:
    other = omnigraph.open(graph.uri)
    other._manifest.locks = LockSettings(timeout=0.05)
    # A thread holds no lock of this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(action, other).result()


def _pass(*_: object) -> None:
    """Check nothing."""


def test_branches_and_tags_are_made_while_rows_are_checked_and_rewritten(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = TableRewrite.stage

    def act_and_stage(rewrite: TableRewrite, *given: object) -> object:
        _act(graph, lambda other: other.create_tag("staged"))
        return stage(rewrite, *given)  # pyright: ignore[reportArgumentType]  as they came

    monkeypatch.setattr(TableRewrite, "stage", act_and_stage)
    checks = do_meanwhile(graph, monkeypatch, lambda other, _: other.create_branch("checked"))
    assert graph.apply_schema(UNIQUE).applied
    assert len(checks) == 1
    assert {branch.name for branch in graph.branches()} == {"main", "checked"}
    assert [tag.name for tag in graph.tags()] == ["staged"]
    assert people(graph, "checked") == people(graph)
    assert graph.verify().findings == ()


@pytest.mark.parametrize(
    ("wanted", "loss", "act", "says"),
    [
        (
            with_change("nick: String?", 'alias: String? @rename_from("nick")'),
            False,
            Graph.create_branch,
            "branch 'late' has rows of node:Person under the old name",
        ),
        (
            with_change("edge LivesIn: Person -> City\n", ""),
            True,
            Graph.create_tag,
            "tag 'late' shows it",
        ),
    ],
    ids=["rename", "hard drop"],
)
def test_what_stands_in_the_way_only_since_then_is_found(
    graph: Graph,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    loss: bool,
    act: Callable[[Graph, str], object],
    says: str,
) -> None:
    do_meanwhile(graph, monkeypatch, lambda other, _: act(other, "late"))
    before = written(graph)
    with pytest.raises(ConflictError, match=says):
        graph.apply_schema(wanted, allow_data_loss=loss)
    assert graph.schema.text == BEFORE
    assert written(graph) == before
    assert graph.verify().findings == ()


def test_rows_that_come_meanwhile_meet_the_new_rules(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def insert(other: Graph, check: int) -> None:
        load(other, {"type": "Person", "data": {"name": f"dee{check}", "age": 77}})

    checks = do_meanwhile(graph, monkeypatch, insert)
    with pytest.raises(ValidationError, match="value '77' is held by 'dee1' and 'dee2'"):
        graph.apply_schema(UNIQUE)
    assert len(checks) == 3
    assert graph.schema.text == BEFORE


def test_a_schema_change_that_another_one_overtakes_begins_with_that_one(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = with_change("age: I32?", "age: I32?\n  note: String?")

    def overtake(other: Graph, check: int) -> None:
        if check == 1:
            with monkeypatch.context() as alone:
                alone.setattr(apply, "check_new_rules", _pass)
                other.apply_schema(theirs)

    checks = do_meanwhile(graph, monkeypatch, overtake)
    applied = graph.apply_schema(UNIQUE)
    assert len(checks) == 2
    assert "DropProperty" in {type(step).__name__ for step in applied.steps}
    assert graph.schema.text == UNIQUE
    assert "note" not in people(graph)["ann"]
    assert [commit.message for commit in graph.commits(limit=2)] == ["schema changed", "schema changed"]
    assert graph.verify().findings == ()


@pytest.mark.parametrize("is_long", [False, True])
def test_a_change_that_is_overtaken_each_time_ends(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """Few rows are checked under the lock in the end; many never."""

    def insert(other: Graph, check: int) -> None:
        if check <= VALIDATION_ROUNDS:
            load(other, {"type": "Person", "data": {"name": f"dee{check}", "age": 100 + check}})

    if is_long:
        monkeypatch.setattr(apply, "LONG_CHANGE_ROWS", 0)
    checks = do_meanwhile(graph, monkeypatch, insert)
    if is_long:
        with pytest.raises(ConflictError, match="other writers changed the graph 4 times"):
            graph.apply_schema(UNIQUE)
        assert graph.schema.text == BEFORE
    else:
        assert graph.apply_schema(UNIQUE).applied
    assert len(checks) == VALIDATION_ROUNDS + (not is_long)
    assert {f"dee{number}" for number in range(1, VALIDATION_ROUNDS + 1)} <= set(people(graph))
    assert graph.verify().findings == ()

"""Lagging branches: how each step looks there, how they catch up, and how they are merged."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import ConflictError, MergeConflicts, PreconditionFailed
from omnigraph.graph import Graph
from omnigraph.write.commit.section import CATCH_UP_MESSAGE
from tests.selection import daily
from tests.write.evolve.people_graph import BEFORE, head, load, make, people, with_change

OTHER = {
    "note": with_change("age: I32?", "age: I32?\n  note: String?"),
    "rank": with_change("age: I32?", 'age: I32?\n  rank: I32 @default("7")'),
    "wide": with_change("age: I32?", "age: I64?"),
    "dropped": with_change("  nick: String?\n", ""),
    "required": with_change("age: I32?", "age: I32"),
    "type": f"{BEFORE}node Boat {{ name: String @key }}\nedge Sails: Person -> Boat\n",
    "gone": with_change("edge LivesIn: Person -> City\n", "").replace("node City { name: String @key }\n", ""),
    "index": with_change("nick: String?", "nick: String? @index"),
}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph with a branch that has a row of its own."""
    graph = make(tmp_path)
    load(graph, {"type": "Person", "data": {"name": "cid", "age": 1}})
    graph.create_branch("dev")
    load(graph, {"type": "Person", "data": {"name": "dev", "age": 5, "nick": "d"}}, branch="dev")
    return graph


@pytest.mark.parametrize("change", daily(OTHER, ["dropped", "required"]))
def test_a_branch_reads_catches_up_and_is_merged(graph: Graph, change: str) -> None:
    graph.apply_schema(OTHER[change])
    shown = people(graph, "dev")
    assert set(shown) == {"ann", "bob", "cid", "dev"}
    assert {*shown["dev"]} == {*people(graph)["ann"]}
    assert shown["dev"]["age"] == 5
    assert shown["ann"] == people(graph)["ann"]
    question = 'query q() { match { $p: Person { name: "dev" } } return { $p.age } }'
    assert graph.query(question, branch="dev").to_arrow().to_pylist() == [{"p.age": 5}]
    assert graph.verify().findings == ()
    load(graph, {"type": "Person", "data": {"name": "eve", "age": 6}}, branch="dev")
    assert people(graph, "dev")["dev"] == shown["dev"]
    assert people(graph, "dev")["eve"]["age"] == 6
    graph.mutate('query q() { update Person set { age: 7 } where name = "dev" }', branch="dev")
    load(graph, {"type": "Person", "data": {"name": "fay", "age": 8}})
    graph.merge("dev")
    assert {name: row["age"] for name, row in people(graph).items()} == {
        "ann": 30, "bob": 40, "cid": 1, "dev": 7, "eve": 6, "fay": 8,
    }  # fmt: skip
    assert graph.verify().findings == ()


@pytest.mark.parametrize("change", daily(OTHER, ["type", "wide"]))
def test_a_branch_that_was_never_written_again_is_merged(graph: Graph, change: str) -> None:
    graph.apply_schema(OTHER[change])
    graph.merge("dev")
    assert people(graph)["dev"]["age"] == 5
    assert people(graph)["dev"] == people(graph, "dev")["dev"]
    assert graph.verify().findings == ()


def test_catching_up_is_a_commit_of_its_own_and_happens_once(graph: Graph) -> None:
    graph.apply_schema(OTHER["note"])
    for name in ("eve", "fay"):
        graph.mutate(f'query q() {{ insert Person {{ name: "{name}", note: "n" }} }}', branch="dev")
    assert [commit.message for commit in graph.commits("dev")][:4] == [None, None, CATCH_UP_MESSAGE, None]
    assert graph.apply_schema(BEFORE).applied
    with graph.transaction("dev") as tx:
        tx.mutate('query q() { update Person set { age: 9 } where name = "eve" }')
    assert people(graph, "dev")["eve"]["age"] == 9


def test_a_condition_on_the_head_holds_over_catching_up(graph: Graph) -> None:
    graph.apply_schema(OTHER["note"])
    first = head(graph, "dev")
    insert = 'query q() { insert Person { name: "eve", note: "n" } }'
    graph.mutate(insert, branch="dev", if_commit=first)
    with pytest.raises(PreconditionFailed):
        graph.mutate(insert.replace("eve", "fay"), branch="dev", if_commit=first)


def test_a_type_that_is_younger_than_the_branch(graph: Graph) -> None:
    graph.apply_schema(OTHER["type"])
    load(graph, {"type": "Boat", "data": {"name": "ark"}})
    assert graph.nodes("Boat", branch="dev").to_arrow().num_rows == 0
    question = "query q() { match { $p: Person $p sails $b } return { $b.name } }"
    assert graph.query(question, branch="dev").to_arrow().num_rows == 0
    load(
        graph,
        {"type": "Boat", "data": {"name": "tub"}},
        {"edge": "Sails", "from": "dev", "to": "tub"},
        branch="dev",
    )
    assert graph.query(question, branch="dev").to_arrow().to_pylist() == [{"b.name": "tub"}]
    assert graph.nodes("Boat", branch="dev").to_arrow()["id"].to_pylist() == ["tub"]
    graph.merge("dev")
    assert set(graph.nodes("Boat").to_arrow()["id"].to_pylist()) == {"ark", "tub"}
    assert graph.verify().findings == ()


def test_what_a_branch_wrote_meets_the_new_rules_when_it_is_merged(graph: Graph) -> None:
    load(graph, {"type": "Person", "data": {"name": "old", "age": 200}}, branch="dev")
    graph.apply_schema(with_change("mood: enum", "@range(age, 0..100)\n  mood: enum"))
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("dev")
    assert "old" in str(caught.value.to_json())
    assert "old" not in people(graph)


def test_renames_wait_for_branches_that_have_rows(graph: Graph) -> None:
    with pytest.raises(ConflictError, match="branch 'dev'"):
        graph.apply_schema(with_change("nick: String?", 'alias: String? @rename_from("nick")'))
    with pytest.raises(ConflictError, match="branch 'dev'"):
        graph.apply_schema(BEFORE.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")'))
    graph.merge("dev", delete_branch=True)
    assert graph.apply_schema(with_change("nick: String?", 'alias: String? @rename_from("nick")')).applied


def test_main_is_merged_into_a_branch_that_lags(graph: Graph) -> None:
    graph.apply_schema(OTHER["rank"])
    load(graph, {"type": "Person", "data": {"name": "new", "age": 2, "rank": 1}})
    graph.merge("main", "dev")
    assert {name: row["rank"] for name, row in people(graph, "dev").items()} == {
        "ann": 7, "bob": 7, "cid": 7, "dev": 7, "new": 1,
    }  # fmt: skip
    assert graph.verify().findings == ()


@pytest.mark.parametrize("rows", daily([True, False], [True]))
def test_a_type_that_was_dropped_and_added_again_starts_anew_on_branches_with_a_longer_history(
    graph: Graph, rows: bool
) -> None:
    for number in range(6):
        load(graph, {"type": "City", "data": {"name": f"town{number}"}}, branch="dev")
    if not rows:
        graph.mutate('query q() { delete City where name != "" }', branch="dev")
    graph.create_branch("child", "dev")
    graph.create_branch("grandchild", "child")
    graph.apply_schema(OTHER["gone"])
    graph.apply_schema(BEFORE)
    for branch in ("grandchild", "child", "dev"):
        assert graph.nodes("City", branch=branch).to_arrow().num_rows == 0
        load(graph, {"type": "Person", "data": {"name": branch}}, branch=branch)
        load(graph, {"type": "City", "data": {"name": "rome"}}, branch=branch)
        assert graph.nodes("City", branch=branch).to_arrow()["id"].to_pylist() == ["rome"]
    assert graph.verify().findings == ()
    graph.merge("grandchild", "child")
    graph.merge("child", "dev")
    graph.merge("dev")
    assert graph.nodes("City").to_arrow()["id"].to_pylist() == ["rome"]
    assert graph.verify().findings == ()


def test_a_type_that_got_the_name_of_a_dropped_one_starts_anew_on_branches(graph: Graph) -> None:
    """The branch has a long history of a table under the name that another, renamed type has now."""
    graph.apply_schema(with_change("node City", "node Boat { name: String @key }\nnode City"))
    for number in range(6):
        load(graph, {"type": "Boat", "data": {"name": f"b{number}"}}, branch="dev")
    graph.create_branch("child", "dev")
    graph.apply_schema(with_change("node City", "node Ship { name: String @key }\nnode City"))
    graph.apply_schema(with_change("node City", 'node Boat @rename_from("Ship") { name: String @key }\nnode City'))
    for branch in ("child", "dev"):
        load(graph, {"type": "Boat", "data": {"name": "ark"}}, branch=branch)
        assert graph.nodes("Boat", branch=branch).to_arrow()["id"].to_pylist() == ["ark"]
    graph.merge("child")
    assert graph.nodes("Boat").to_arrow()["id"].to_pylist() == ["ark"]
    assert graph.verify().findings == ()

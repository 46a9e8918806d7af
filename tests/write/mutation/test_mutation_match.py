"""Mutations that a match drives: as columns, in one commit, and compared with what others write meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ConflictingValues, ExpectedVersionMismatch, ParameterError, QueryError, ValidationError
from omnigraph.graph import Graph
from omnigraph.write.commit.section import CATCH_UP_MESSAGE
from omnigraph.write.mutation import statement_rows
from tests.graphs import rows_of, written
from tests.selection import sized
from tests.write.mutation.interleaving import meanwhile

GROW = 'query grow() { match { $v: Vessel { kind: "tug" } } update $v set { tonnage: coalesce($v.tonnage, 0) + 1 } }'
NOTE_CALLS = "query call() { match { $v callsAt $p } insert CallsAt { from: $v, to: $p, berth: $v.name } }"
NAME_TOWED = "query name() { match { $a tows $b } update $b set { name: $a.name } }"
ADD_PORT = 'query add() { insert Port { code: "p9", name: "Rostock" } }'
ADD_VESSEL = 'query add() { insert Vessel { code: "v9", name: "Nona", kind: "tug" } }'
ADD_LEG = 'query add() { insert Leg { line: "a", seq: 1 } }'
DROP_CALLS = 'query drop() { delete CallsAt where from = "v1" }'


def driven(match: str, statements: str) -> str:
    """The text of a mutation with a match."""
    return f"query q() {{ match {{ {match} }} {statements} }}"


def setting(variable: str, values: str) -> str:
    return " ".join([f"update ${variable} set", "{", values, "}"])


def names(graph: Graph, branch: str = "main") -> dict[object, object]:
    return {row["code"]: row["name"] for row in rows_of(graph, "Vessel", branch)}


def tonnages(graph: Graph, branch: str = "main") -> dict[object, object]:
    return {row["code"]: row["tonnage"] for row in rows_of(graph, "Vessel", branch)}


# --------------------------------------------------------------------------------------------- others write meanwhile


@pytest.mark.parametrize(
    ("mutation", "other", "moved"),
    [
        (GROW, ADD_VESSEL, "node:Vessel"),
        (NOTE_CALLS, ADD_PORT, "node:Port"),
        (NOTE_CALLS, DROP_CALLS, "edge:CallsAt"),
        (NAME_TOWED, 'query add() { insert Tows { from: "v3", to: "v1" } }', "edge:Tows"),
    ],
    ids=["the target", "the end of a traversal", "the edges", "edges that are only read"],
)
def test_what_a_match_read_is_compared(fleet: Graph, mutation: str, other: str, moved: str) -> None:
    elsewhere = omnigraph.open(fleet.uri)
    with pytest.raises(ExpectedVersionMismatch) as conflict, meanwhile(lambda: elsewhere.mutate(other)):
        fleet.mutate(mutation, retries=0)
    assert conflict.value.table_key == moved
    assert len(fleet.commits()) == 3


def test_a_table_that_a_match_did_not_read_may_change(fleet: Graph) -> None:
    elsewhere = omnigraph.open(fleet.uri)
    with meanwhile(lambda: elsewhere.mutate(ADD_LEG)):
        assert fleet.mutate(NOTE_CALLS).affected_edges == 1
    assert len(rows_of(fleet, "Leg")) == 1


def test_a_retry_evaluates_the_match_again(fleet: Graph) -> None:
    elsewhere = omnigraph.open(fleet.uri)
    with meanwhile(lambda: elsewhere.mutate(ADD_VESSEL)):
        result = fleet.mutate(GROW, retries=1)
    assert result.affected_nodes == 3
    assert tonnages(fleet) == {"v1": 5000, "v2": 901, "v3": 1, "v9": 1}


# --------------------------------------------------------------------------------------------- transactions, branches


def test_a_match_in_a_transaction_sees_what_came_before(fleet: Graph) -> None:
    with fleet.transaction() as tx:
        tx.mutate(ADD_VESSEL)
        assert tx.mutate(GROW).affected_nodes == 3
        with pytest.raises(ConflictingValues):
            tx.mutate("query q() { match { $v: Vessel  $w: Vessel } update $v set { name: $w.name } }")
        assert tx.mutate("query q() { match { $v: Vessel  $v.tonnage < 10 } delete $v }").affected_nodes == 2
    assert tonnages(fleet) == {"v1": 5000, "v2": 901}
    assert len(fleet.commits()) == 3


def test_a_transaction_whose_match_was_overtaken_is_a_conflict(fleet: Graph) -> None:
    before = names(fleet)

    def transact() -> None:
        with fleet.transaction() as tx:
            tx.mutate("query q() { match { $p: Port } insert Leg { line: $p.name, seq: 1 } }")
            omnigraph.open(fleet.uri).mutate(ADD_PORT)

    with pytest.raises(ExpectedVersionMismatch) as conflict:
        transact()
    assert conflict.value.table_key == "node:Port"
    assert (names(fleet), rows_of(fleet, "Leg")) == (before, [])


def test_a_lagging_branch_catches_up_first(fleet: Graph) -> None:
    fleet.create_branch("review")
    fleet.mutate(ADD_VESSEL)
    text = (Path(__file__).parents[2] / "cases" / "vessels.pg").read_text("utf-8")
    fleet.apply_schema(text.replace("  score: F64?\n", '  score: F64?\n  flag: String @default("none")\n'))
    mutation = (
        'query q() { match { $v: Vessel { kind: "tug" } } update $v set { name: concat($v.name, "/", $v.flag) } }'
    )
    assert fleet.mutate(mutation, branch="review").affected_nodes == 2
    assert names(fleet, "review") == {"v1": "Aurora", "v2": "Boreas/none", "v3": "Cetus/none"}
    assert names(fleet)["v2"] == "Boreas"
    assert [commit.message for commit in fleet.commits("review")][1] == CATCH_UP_MESSAGE


def test_if_commit_holds_for_a_match_too(fleet: Graph) -> None:
    head = fleet.commits()[0].id
    fleet.mutate(GROW, if_commit=head)
    before = written(fleet)
    with pytest.raises(omnigraph.errors.PreconditionFailed):
        fleet.mutate(GROW, if_commit=head)
    assert written(fleet) == before


# --------------------------------------------------------------------------------------------- many rows


PEOPLE = "node Person { name: String @key  age: I32?  group: I64? } edge Knows: Person -> Person { since: I64? }"


def crowd(folder: Path, count: int) -> Graph:
    """So many people, each of whom knows the next one."""
    graph = omnigraph.init(folder / "crowd.og", PEOPLE)
    people = [f"p{number}" for number in range(count)]
    numbers = pa.array(np.arange(count))
    graph.load(
        nodes={"Person": pa.table({"name": people, "age": numbers.cast(pa.int32()), "group": numbers})},
        edges={"Knows": pa.table({"from": people, "to": [*people[1:], people[0]]})},
    )
    return graph


def test_many_rows_are_one_commit_and_no_python_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are looked at one by one only where one of them does not fit."""
    count = sized(5_000, 100_000)
    graph = crowd(tmp_path, count)

    def refuse(value: object, to: object) -> object:
        raise AssertionError(f"{value} was converted to {to} by itself")

    with monkeypatch.context() as patch:
        patch.setattr(statement_rows, "convert_value", refuse)
        patch.setattr(statement_rows, "to_list", refuse)
        grown = graph.mutate("query q() { match { $a $k:knows $b } update $a set { age: $b.age + 1, group: $b.age } }")
        linked = graph.mutate(
            "query q() { match { $a $k:knows $b } insert Knows { from: $b, to: $a, since: $a.group } "
            "update $k set { since: $b.age * 2 } }"
        )
        copied = graph.mutate(
            'query q() { match { $a: Person } insert Person { name: concat("q", $a.name), age: $a.age } }'
        )
        gone = graph.mutate("query q() { match { $a: Person  $a.group is null } delete $a }")
    assert (grown.affected_nodes, linked.affected_edges, copied.affected_nodes) == (count, 2 * count, count)
    assert (gone.affected_nodes, len(graph.commits())) == (count, 6)
    ages = {row["name"]: row["age"] for row in rows_of(graph, "Person")}
    assert ages == {f"p{number}": (number + 1) % count + 1 for number in range(count)}


def test_conflicts_among_many_rows_name_the_first_hundred(tmp_path: Path) -> None:
    graph = crowd(tmp_path, 300)
    before = written(graph)
    with pytest.raises(
        ConflictingValues, match=r"Person 'p0' is given two values for 'age'.* \(and 299 more\)"
    ) as error:
        graph.mutate("query q() { match { $a <knows> $b } update $a set { age: $b.age } }")
    assert len(error.value.violations) == 100
    assert error.value.violations[1].value == [0, 2]
    assert error.value.to_json()["code"] == "conflicting_values"
    assert written(graph) == before


def test_a_value_that_does_not_fit_names_its_entity(tmp_path: Path) -> None:
    graph = crowd(tmp_path, 300)
    with pytest.raises(ValidationError, match=r"I32 on Person: 'age' of 'p\d+': \d+ does not fit I32") as error:
        graph.mutate("query q() { match { $a: Person } update $a set { age: $a.age * 100000000 } }")
    assert len(error.value.violations) == 100
    assert all(found.property == "age" and found.id is not None for found in error.value.violations)


# --------------------------------------------------------------------------------------------- values of every type


TYPES = """
node Thing {
  name: String @key
  small: I32?  large: I64?  count: U32?  huge: U64?  half: F32?  whole: F64?
  day: Date?  moment: DateTime?  safe: Bool?  tags: [String]?  marks: [I32]?  longs: [I64]?  at: Vector(2)?
  file: Blob?
}
edge Of: Thing -> Thing { file: Blob?  marks: [I64]? }
"""


@pytest.fixture
def things(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "things.og", TYPES)
    full = {
        "name": "a",
        "small": -7,
        "large": 2**40,
        "count": 7,
        "huge": 2**63,
        "half": 0.5,
        "whole": 1e300,
        "day": "2020-02-29",
        "moment": "2020-02-29T10:11:12.345Z",
        "safe": True,
        "tags": ["x", ""],
        "marks": [1, 2],
        "longs": [2**40],
        "at": [1.0, 2.0],
        "file": "base64:aGk=",
    }
    records: list[dict[str, object]] = [{"type": "Thing", "data": full}, {"type": "Thing", "data": {"name": "b"}}]
    graph.load([*records, {"edge": "Of", "from": "a", "to": "b", "data": {"id": "e", "file": "base64:aGk="}}])
    return graph


COPIED = ("small", "large", "count", "huge", "half", "whole", "day", "moment", "safe", "tags", "marks", "longs", "at")


def test_every_type_is_copied_as_it_is(things: Graph) -> None:
    values = ", ".join(f"{name}: $a.{name}" for name in COPIED)
    things.mutate(driven("$a $e:of $b", setting("b", values) + setting("e", "marks: $a.longs")))
    one, other = sorted(rows_of(things, "Thing"), key=lambda row: str(row["name"]))
    assert {name: other[name] for name in COPIED} == {name: one[name] for name in COPIED}
    assert [row["marks"] for row in rows_of(things, "Of")] == [[2**40]]


def test_an_update_keeps_blobs_and_a_parameter_sets_them(things: Graph) -> None:
    things.mutate(driven("$a $e:of $b", setting("a", "safe: ($a.small > 0)") + setting("e", "marks: [1]")))
    assert things.blob("Thing", "a", "file") == b"hi"
    assert [row["safe"] for row in rows_of(things, "Thing") if row["name"] == "a"] == [False]
    text = """query q($f: Blob) {
      match { $a $e:of $b }
      update $b set { file: $f }
      insert Thing { name: concat($a.name, $b.name), file: $f }
    }"""
    things.mutate(text, params={"f": "base64:eW8="})
    assert [things.blob("Thing", name, "file") for name in ("b", "ab")] == [b"yo", b"yo"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("small: $a.large", "1099511627776 does not fit I32"),
        ("count: $a.small", "-7 does not fit U32"),
        ("huge: $a.small", "-7 does not fit U64"),
        ("large: $a.huge", "9223372036854775808 does not fit I64"),
        ("half: $a.whole", "1e+300 is not a finite number that F32 holds"),
        ("marks: $a.longs", "element 0: 1099511627776 does not fit I32"),
    ],
)
def test_numbers_that_do_not_fit(things: Graph, value: str, message: str) -> None:
    before = written(things)
    with pytest.raises(ValidationError) as error:
        things.mutate(driven("$a: Thing", setting("a", value)))
    (violation,) = error.value.violations
    assert (violation.id, message in violation.message) == ("a", True), violation
    assert written(things) == before


# --------------------------------------------------------------------------------------------- limits, explain, profile


@pytest.mark.costly
def test_large_values_and_many_statements_are_run(fleet: Graph) -> None:
    total = " + ".join(["1"] * 2_000)
    statements = setting("v", 'name: concat($v.name, "!")') * 200
    result = fleet.mutate(driven('$v: Vessel { code: "v1" }', setting("v", f"tonnage: {total}") + statements))
    assert result.affected_nodes == 201
    assert (tonnages(fleet)["v1"], names(fleet)["v1"]) == (2_000, "Aurora!")


def test_a_value_that_is_nested_too_deeply_is_refused(fleet: Graph) -> None:
    deep = "(" * 200 + "1" + ")" * 200
    with pytest.raises(QueryError, match="nested"):
        fleet.mutate(driven("$v: Vessel", setting("v", f"tonnage: {deep}")))


def test_explain_and_profile_show_the_match_and_change_nothing(fleet: Graph) -> None:
    before = written(fleet)
    lines = fleet.explain(GROW).splitlines()
    assert [line.split("  ")[0].rstrip() for line in lines[:2]] == [
        "Mutation grow",
        "├─ Update $v { tonnage: coalesce($v.tonnage, 0) + 1 }",
    ]
    # The match also reads whether the sum failed.
    assert lines[2].startswith("└─ Project $v, coalesce($v.tonnage, 0) + 1, coalesce($v.tonnage, 0) + 1 is null and (")
    assert "rows" in lines[3]
    assert fleet.profile(GROW).row_count == 2
    for look in (fleet.explain, fleet.profile):
        with pytest.raises(ParameterError, match="'add' is a mutation without a match"):
            look(ADD_PORT)
    assert written(fleet) == before

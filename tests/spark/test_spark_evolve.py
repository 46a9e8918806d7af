"""A new schema on Spark: executors write the rows that change, and read what lags as everybody else does."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ConflictError, ReadOnly, ValidationError
from omnigraph.graph import Graph
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.storage.tables import Table
from omnigraph.write.commit.section import CATCH_UP_MESSAGE
from omnigraph.write.commit.table_shape import TableShape
from omnigraph.write.evolve.id_rewrites import RewrittenNodes
from omnigraph.write.load.run import FragmentTargets
from tests.selection import daily
from tests.write.evolve.people_graph import BEFORE, load, make, people, with_change
from tests.write.evolve.test_evolve import make_legacy
from tests.write.evolve.test_evolve_overtaken import OvertakenGraph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HUMAN = with_change(
    "age: I32?",
    'years: I64? @rename_from("age")\n  rank: I32 @default("7")',
    BEFORE.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")'),
)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph whose people lie in several fragments, and a branch of it."""
    graph = make(tmp_path)
    for name in ("dee", "eve"):
        load(graph, {"type": "Person", "data": {"name": name, "age": 50, "nick": name}})
    graph.mutate('query q() { delete Person where name = "bob" }')
    return graph


@pytest.mark.parametrize("verb", daily(["load", "merge"], ["load"]))
def test_executors_bring_a_branch_to_the_schema(
    spark: SparkSession, graph: Graph, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    graph.create_branch("june")
    graph.create_branch("july")
    load(graph, {"type": "Person", "data": {"name": "joe", "age": 7}}, branch="june")
    load(graph, {"type": "City", "data": {"name": "kiel"}}, branch="july")
    graph.apply_schema(with_change("age: I32?", 'age: I64?\n  rank: I32 @default("7")'))
    rewritten: list[str] = []
    read = TableShape.read

    def note(shape: TableShape, table: Table, *more: object) -> object:
        rewritten.append(table.uri)
        return read(shape, table, *more)  # pyright: ignore[reportArgumentType]  as they came

    # What executors do, they do elsewhere.
    monkeypatch.setattr(TableShape, "read", note)
    there = graph.spark(spark)
    if verb == "load":
        person = {"name": ["kim"], "age": [8], "rank": [9]}
        there.load(nodes={"Person": pa.table(person)}, branch="june")
    else:
        there.merge("july", "june")
    assert CATCH_UP_MESSAGE in [commit.message for commit in graph.commits("june")]
    assert rewritten == []
    found = {
        str(row["name"]): (row["age"], row["rank"])
        for row in graph.nodes("Person", branch="june").to_arrow().to_pylist()
    }
    assert (found["joe"], found["dee"]) == ((7, 7), (50, 7))


def test_rows_are_written_anew_by_executors(spark: SparkSession, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    before = graph.commits()[0].id
    with monkeypatch.context() as here:
        # Nothing is read in this process: what executors do, they do elsewhere.
        here.setattr(Table, "scan", _refused)
        applied = graph.spark(spark).apply_schema(HUMAN, actor="ann", message="people are human")
    assert applied.applied
    assert applied.commit is not None
    assert applied.commit == graph.commits()[0]
    assert (applied.commit.actor, applied.commit.message) == ("ann", "people are human")
    rows = {row["id"]: row for row in graph.nodes("Human").to_arrow().to_pylist()}
    assert {name: (row["years"], row["rank"], row["nick"]) for name, row in rows.items()} == {
        "ann": (30, 7, "a"), "cid": (None, 7, None), "dee": (50, 7, "dee"), "eve": (50, 7, "eve"),
    }  # fmt: skip
    assert len(graph.snapshot().table("Human").fragment_rows()) == 2
    assert set(people(graph, at=before)) == {"ann", "cid", "dee", "eve"}
    assert graph.verify().findings == ()
    with pytest.raises(ReadOnly):
        omnigraph.open(graph.uri, "ro").spark(spark).apply_schema(BEFORE)


@pytest.mark.usefixtures("eight_partitions")
def test_executors_rewrite_ids(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = "node Room { house: String  number: I32  @key(house, number) }\nedge Next: Room -> Room\n"
    graph, refused = (omnigraph.init(tmp_path / name, schema) for name in ("graph.og", "refused.og"))
    make_legacy(graph)
    make_legacy(refused, houses=("a", "a", "b"))
    # A sample of the ids is read here; new ids are made elsewhere.
    monkeypatch.setattr(RewrittenNodes, "make_ids", _refused)
    graph.spark(spark).apply_schema(schema, rewrite_ids=True)
    assert graph.nodes("Room").to_arrow()["id"].to_pylist() == ['["a","1"]', '["b","2"]']
    (edge,) = graph.edges("Next").to_arrow().to_pylist()
    assert (edge["from"], edge["to"]) == ('["a","1"]', '["b","2"]')
    with pytest.raises(ValidationError, match="1 ids belong to several rows, such as 'a'"):
        refused.spark(spark).apply_schema(schema, rewrite_ids=True)


NEW_RULES = {
    "@unique": ("age: I32?", "age: I32? @unique"),
    "@range": ("mood: enum(calm, glad, wild)?", "mood: enum(calm, glad, wild)?\n  @range(age, 0..45)"),
    "required": ("nick: String?", "nick: String"),
    "@card": ("edge Knows: Person -> Person {", "edge Knows: Person -> Person @card(0..1) {"),
}


@pytest.mark.usefixtures("eight_partitions")
@pytest.mark.parametrize("rule", daily(NEW_RULES, ["@unique"]))
def test_executors_check_stored_rows_against_new_rules(
    spark: SparkSession, graph: Graph, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    load(graph, {"edge": "Knows", "from": "ann", "to": "dee", "data": {"id": "k3"}})
    wanted = with_change(*NEW_RULES[rule])
    with pytest.raises(ValidationError) as here:
        graph.apply_schema(wanted)
    before = graph.commits()[0].id
    with monkeypatch.context() as driver:
        driver.setattr(Table, "scan", _refused)
        with pytest.raises(ValidationError) as there:
            graph.spark(spark).apply_schema(wanted)
    assert there.value.violations == here.value.violations
    assert (str(there.value), there.value.details) == (str(here.value), here.value.details)
    assert graph.commits()[0].id == before
    graph.mutate('query q() { delete Knows where from = "ann" }')
    graph.mutate('query q() { update Person set { age: 1, nick: "c" } where name = "cid" }')
    graph.mutate('query q() { update Person set { age: 2 } where name = "eve" }')
    graph.mutate('query q() { update Person set { age: 3 } where name = "dee" }')
    with monkeypatch.context() as driver:
        driver.setattr(Table, "scan", _refused)
        assert graph.spark(spark).apply_schema(wanted).applied
    assert graph.verify().findings == ()


def _refused(*_: object, **__: object) -> None:
    raise AssertionError("rows were read in this process")


@pytest.fixture
def lagging(graph: Graph) -> Graph:
    """The same with a branch of an older schema: a property was dropped and came again, and a required one is new."""
    graph.create_branch("dev")
    graph.apply_schema(with_change("  nick: String?\n", ""))
    graph.apply_schema(with_change("nick: String?", 'nick: String?\n  rank: I32 @default("7")\n  @unique(rank, mood)'))
    return graph


def test_what_lags_is_read_as_if_it_did_not(spark: SparkSession, lagging: Graph) -> None:
    rows = lagging.spark(spark).nodes("Person", ["id", "nick", "rank"], "dev", filter={"rank": 7}).collect()
    assert {tuple(row) for row in rows} == {(name, None, 7) for name in ("ann", "cid", "dee", "eve")}


def test_spark_shows_the_default_that_a_property_came_with(spark: SparkSession, graph: Graph) -> None:
    past = graph.commits()[0].id
    graph.create_branch("dev")
    graph.apply_schema(with_change("  nick: String?\n", ""))
    for default in ("open door", "shut gate"):
        graph.apply_schema(with_change("nick: String?", f'nick: String @default("{default}")'))
    names = {"ann", "cid", "dee", "eve"}
    on_spark = graph.spark(spark)
    rows = on_spark.nodes("Person", ["id", "nick"], "dev", filter={"nick": "open door"}).collect()
    assert {tuple(row) for row in rows} == {(name, "open door") for name in names}
    match = '$p: Person $p.nick != "shut gate" search($p.nick, "doors")'
    query = f"query q() {{ match {{ {match} }} return {{ $p.name, $p.nick }} }}"
    assert {tuple(row) for row in on_spark.query(query, branch="dev", engine="spark").collect()} == {
        (name, "open door") for name in names
    }
    # The property of the past is another one, so every row has changed, whatever it says.
    for sides in ((past, "main"), ("main", past)):
        shown = {(row.id, tuple(row.changed)) for row in on_spark.diff(*sides).collect()}
        assert shown == {(change.id, change.changed) for change in graph.diff(*sides).entities()}
        assert shown == {(name, ("nick",)) for name in names}


@pytest.mark.slow
def test_what_lags_is_written_to_on_spark(spark: SparkSession, lagging: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    on_spark = lagging.spark(spark)
    query = "query q() { match { $p: Person { rank: 7 } } return { $p.name, $p.nick } }"
    assert {row["p.nick"] for row in on_spark.query(query, branch="dev", engine="spark").collect()} == {None}
    # Nothing is written by a check, so the table lags while the rules are asked. Ann is calm, and has the default.
    with pytest.raises(ValidationError) as caught:
        on_spark.load(_file(lagging, "fay", "calm"), branch="dev", check=True)
    assert [violation.rule for violation in caught.value.violations] == ["@unique(mood, rank)"]
    on_spark.load(_file(lagging, "fay", "glad"), branch="dev")
    assert lagging.commits("dev")[1].message == CATCH_UP_MESSAGE
    rows = people(lagging, "dev")
    assert {name: row["rank"] for name, row in rows.items()} == dict.fromkeys(("ann", "cid", "dee", "eve", "fay"), 7)
    on_spark.merge("dev")
    assert people(lagging) == rows
    assert lagging.verify().findings == ()


def _file(graph: Graph, name: str, mood: str) -> Path:
    path = Path(graph.uri).parent / f"{name}.jsonl"
    path.write_bytes(orjson.dumps({"type": "Person", "data": {"name": name, "mood": mood, "rank": 7}}))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before it reads", "while it reads"])
def test_a_load_on_spark_that_is_overtaken_gets_a_conflict(
    spark: SparkSession, graph: Graph, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    rows = spark.createDataFrame([("fay", 3, "f")], "name string, age int, nick string")
    overtaken = OvertakenGraph(graph._manifest, "rw", "tests")
    change = partial(omnigraph.open(graph.uri).apply_schema, with_change("age: I32?", "age: I64?"))
    if moment == "before it reads":
        overtaken.happens = change
    else:
        find = FragmentTargets.find

        def find_and_change(targets: FragmentTargets, table_key: str) -> object:
            found = find(targets, table_key)
            change()
            return found

        monkeypatch.setattr(FragmentTargets, "find", find_and_change)
    with pytest.raises(ConflictError, match="the schema of the graph changed"):
        overtaken.load(nodes={"Person": rows}, mode="merge", engine="spark")
    monkeypatch.undo()
    assert graph.commits()[0].message == "schema changed"
    overtaken.load(nodes={"Person": rows}, mode="merge", engine="spark")
    assert people(graph)["fay"]["age"] == 3
    assert graph.verify().findings == ()

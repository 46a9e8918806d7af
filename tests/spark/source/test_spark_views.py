"""The graph in the hands of Spark: types as DataFrames and as views, all of one moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph
from omnigraph.errors import NotFound, OmniGraphError, ParameterError, ReadOnly
from omnigraph.graph import Graph
from omnigraph.language.schema import STRICTER_THAN_0_8, parse_schema
from omnigraph.spark.graph import SparkGraph
from omnigraph.spark.source import view_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Ship { name: String @key  hull: I32?  log: Blob? }
node Port { code: String @key }
edge CallsAt: Ship -> Port { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = omnigraph.init(tmp_path / "ships.og", SCHEMA)
    made.load(
        [
            *({"type": "Ship", "data": {"name": name, "hull": hull}} for name, hull in (("a", 1), ("b", 2), ("c", 3))),
            {"type": "Port", "data": {"code": "p"}},
            {"edge": "CallsAt", "from": "a", "to": "p", "data": {"id": "a-p", "since": "2024-05-01"}},
            {"edge": "CallsAt", "from": "b", "to": "p", "data": {"id": "b-p"}},
        ]
    )
    return made


@pytest.fixture
def there(graph: Graph, spark: SparkSession) -> SparkGraph:
    return graph.spark(spark)


# --------------------------------------------------------------------------------------------- DataFrames


def test_nodes_and_edges(there: SparkGraph) -> None:
    assert there.nodes("Ship").columns == ["id", "hull", "log", "name"]
    assert there.edges("CallsAt").columns == ["id", "from", "to", "since"]
    ships, calls = there.nodes("Ship", ["name", "hull"]), there.edges("callsAt", ["from", "to"])
    assert sorted(ships.collect()) == [("a", 1), ("b", 2), ("c", 3)]
    assert sorted(calls.collect()) == [("a", "p"), ("b", "p")]
    joined = calls.join(ships, calls["from"] == ships["name"]).where("hull > 1")
    assert joined.select("name", "to").collect() == [("b", "p")]


def test_a_branch_and_a_moment(there: SparkGraph, graph: Graph) -> None:
    first = graph.commits()[0]
    graph.create_branch("side")
    graph.mutate('query q() { insert Ship { name: "d" } }', branch="side")
    graph.mutate('query q() { delete CallsAt where from = "a" }')
    assert there.nodes("Ship", branch="side").count() == 4
    assert there.nodes("Ship").count() == 3
    assert there.edges("CallsAt").count() == 1
    assert there.edges("CallsAt", at=first.id).count() == 2
    assert there.edges("CallsAt", at=first.manifest_version).count() == 2
    assert there.edges("CallsAt", at=first.created_at).count() == 2


def test_a_frame_keeps_to_its_moment_when_its_branch_is_made_anew(there: SparkGraph, graph: Graph) -> None:
    graph.create_branch("side")
    frame = there.nodes("Ship", ["name"], branch="side")
    graph.delete_branch("side")
    graph.create_branch("side")
    graph.mutate('query q() { delete Ship where name = "a" }', branch="side")
    assert frame.count() == 3


def test_two_frames_of_one_snapshot_agree(there: SparkGraph, graph: Graph) -> None:
    now = there.snapshot()
    ships = now.nodes("Ship")
    graph.mutate('query q() { delete Ship where name = "a" }')
    assert ships.count() == 3
    assert now.edges("CallsAt").count() == 2
    assert there.edges("CallsAt").count() == 1


def test_a_path_is_not_taken_from_where_spark_stands(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder, with 'signs'"
    folder.mkdir()
    monkeypatch.chdir(folder)
    graph = omnigraph.init("ships.og", SCHEMA)
    assert graph.spark(spark).nodes("Ship").count() == 0


# --------------------------------------------------------------------------------------------- views


def test_one_view_for_each_type(there: SparkGraph, graph: Graph, spark: SparkSession) -> None:
    assert there.create_views() == {"node:Port": "Port", "node:Ship": "Ship", "edge:CallsAt": "CallsAt"}
    graph.mutate('query q() { delete Ship where name = "a" }')
    asked = "SELECT s.name FROM Ship s LEFT ANTI JOIN CallsAt c ON c.from = s.id"
    assert spark.sql(asked).collect() == [("c",)]
    assert spark.table("Ship").count() == 3
    there.create_views()
    assert spark.table("Ship").count() == 2
    assert spark.table("CallsAt").count() == 1


def test_views_of_a_branch_and_a_moment(there: SparkGraph, graph: Graph, spark: SparkSession) -> None:
    first = graph.commits()[0]
    graph.create_branch("side")
    graph.mutate('query q() { delete Ship where name = "a" }', branch="side")
    there.create_views(branch="side")
    assert spark.table("Ship").count() == 2
    there.create_views(branch="side", at=first.id)
    assert spark.table("Ship").count() == 3


def test_names_that_would_stand_twice_say_what_they_are() -> None:
    catalog = parse_schema("node Tows { }\nnode Port { }\nedge TOWS: Tows -> Port").catalog
    assert view_names(catalog.types()) == {"node:Port": "Port", "node:Tows": "node_Tows", "edge:TOWS": "edge_TOWS"}


def test_views_that_spark_could_not_tell_apart_are_refused() -> None:
    catalog = parse_schema("node Aa { }\nnode AA { }", tolerated=STRICTER_THAN_0_8).catalog
    with pytest.raises(ParameterError, match="two types would have the view 'node_aa'"):
        view_names(catalog.types())


# --------------------------------------------------------------------------------------------- what is refused

WRONG: list[tuple[Callable[[SparkGraph], object], type[OmniGraphError], str]] = [
    (lambda sg: sg.nodes("Shp"), NotFound, "no node type 'Shp' in this snapshot (did you mean 'Ship'?)"),
    (lambda sg: sg.nodes("CallsAt"), NotFound, "no node type 'CallsAt' in this snapshot"),
    (lambda sg: sg.edges("Ship"), NotFound, "no edge type 'Ship' in this snapshot"),
    (lambda sg: sg.nodes("Ship", branch="sde"), NotFound, "no branch 'sde'"),
    (lambda sg: sg.nodes("Ship", at="v99"), NotFound, "no manifest version 99"),
    (lambda sg: sg.create_views(branch="sde"), NotFound, "no branch 'sde'"),
    (lambda sg: sg.nodes("Ship", ["nmae", "hul"]), ParameterError, "no column 'nmae', did you mean 'name'?; Ship"),
    (lambda sg: sg.nodes("Ship", ["name", "name"]), ParameterError, "column 'name' is given twice"),
    (lambda sg: sg.nodes("Ship", []), ParameterError, "columns is empty"),
    (lambda sg: sg.nodes("Ship", filter={"hul": 1}), ParameterError, "no column 'hul' (did you mean 'hull'?)"),
    (lambda sg: sg.edges("CallsAt", filter=[("since", "<", "soon")]), ParameterError, "'since'"),
    (lambda sg: sg.nodes("Ship", "name"), ParameterError, "give a list, such as ['name']"),
]


@pytest.mark.parametrize(("ask", "kind", "message"), WRONG)
def test_errors_are_ours(
    there: SparkGraph, ask: Callable[[SparkGraph], object], kind: type[OmniGraphError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        ask(there)
    assert message in str(caught.value)


def test_a_graph_that_is_only_read_is_not_loaded_into(graph: Graph, spark: SparkSession) -> None:
    there = omnigraph.open(graph.uri, "ro").spark(spark)
    assert there.nodes("Ship").count() == 3
    with pytest.raises(ReadOnly, match="was opened read-only"):
        there.load(nodes={"Port": spark.createDataFrame([("q",)], "code string")})

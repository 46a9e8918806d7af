"""What changed between two moments as a DataFrame: the records of ``graph.diff``, found by executors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import orjson
import pytest

import omnigraph
from omnigraph.errors import Json, NotFound
from omnigraph.read.changes.diff import Diff
from omnigraph.spark.merge import candidate_rows
from tests.write.merge.social_graph import edit, knows, make, person
from tests.write.merge.test_merge_truth import truth_graph
from tests.write.merge.test_merge_types import ONE, OTHER
from tests.write.merge.test_merge_types import SCHEMA as THINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are handled like many: in several parts."""
    monkeypatch.setattr(candidate_rows, "MIN_ROWS_PER_PARTITION", 1)


def shown(frame: DataFrame) -> list[dict[str, Json]]:
    """The rows as records, in the order of a diff."""
    records = cast("list[dict[str, Json]]", frame.toArrow().to_pylist())
    for record in records:
        for name in ("before", "after"):
            image = record[name]
            record[name] = None if image is None else orjson.loads(str(image))
    return in_order(records)


def in_order(records: list[dict[str, Json]]) -> list[dict[str, Json]]:
    return sorted(records, key=lambda record: [str(record[name]) for name in ("kind", "type", "id")])


def expected(diff: Diff) -> list[dict[str, Json]]:
    return in_order(list(diff.records()))


def test_it_is_what_a_diff_here_finds(spark: SparkSession, tmp_path: Path) -> None:
    graph = truth_graph(tmp_path)
    sg = graph.spark(spark)
    found = shown(sg.diff("main", "dev"))
    assert {str(record["op"]) for record in found} == {"inserted", "updated", "deleted"}
    assert {str(record["type"]) for record in found} == {"Person", "Knows"}
    assert found == expected(graph.diff("main", "dev"))
    only = sg.diff("main", "dev", types=["Knows"])
    edit(graph, "dev", knows={"late": knows("hub", "rim")})
    assert shown(only) == [record for record in found if record["type"] == "Knows"], "it keeps to its moments"
    for tips in (False, True):
        assert shown(sg.diff("dev", tips=tips)) == expected(graph.diff("dev", tips=tips))
    assert sg.diff("main", "main").schema == only.schema
    assert sg.diff("main", "main").isEmpty()
    with pytest.raises(NotFound, match="no branch, commit, version, date or tag 'dve'"):
        sg.diff("dve")


def test_values_of_every_type_are_shown_alike(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "things.og", THINGS)
    before = graph.load([{"type": "Thing", "data": {"code": code, **ONE}} for code in "ab"]).commit
    assert before is not None
    graph.load([{"type": "Thing", "data": {"code": code, **OTHER}} for code in "bc"], mode="merge")
    assert shown(graph.spark(spark).diff(before.id)) == expected(graph.diff(before.id))


def test_a_rename_changes_no_row(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph.og", "node Person { name: String @key\n score: F64? }")
    graph.load([{"type": "Person", "data": {"name": name, "score": 0.0}} for name in ("ann", "bob", "cid")])
    first = graph.commits()[0].id
    graph.apply_schema(
        'node Human @rename_from("Person") { name: String @key\n points: F64? @rename_from("score")\n level: String? }'
    )
    graph.mutate('query q() { update Human set { points: -0.0 } where name = "ann" }')
    graph.mutate('query q() { update Human set { points: 1.0, level: "2" } where name = "bob" }')
    graph.mutate('query q() { delete Human where name = "cid" }')
    forth, back = shown(graph.spark(spark).diff(first)), shown(graph.spark(spark).diff("main", first))
    assert [(record["op"], record["type"], record["id"], record["changed"]) for record in forth] == [
        ("updated", "Human", "bob", ["level", "points"]),
        ("deleted", "Human", "cid", []),
    ]
    assert (forth, back) == (expected(graph.diff(first)), expected(graph.diff("main", first)))


@pytest.mark.slow
def test_many_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_rows, "_ROWS_PER_TASK", 1_000)
    graph = make(tmp_path, {f"p{number}": person(number % 90) for number in range(5_000)})
    graph.create_branch("dev")
    edit(graph, "dev", people={f"p{number}": person(number % 80) for number in range(2_000)})
    edit(graph, "dev", people={f"p{number}": None for number in range(2_500, 3_000)})
    assert shown(graph.spark(spark).diff("dev")) == expected(graph.diff("dev"))

"""The rules give the same violations on Spark; set rules there see whole tables instead of narrowed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from omnigraph.errors import Violation
from omnigraph.graph import Graph
from omnigraph.language.schema import parse_schema
from omnigraph.storage.location import Location
from omnigraph.write.rules.changed_table import ChangedTable
from omnigraph.write.rules.check import IncomingMode, RowChanges
from omnigraph.write.rules.row_rules import find_row_violations
from omnigraph.write.rules.set_rules import (
    SET_VIOLATIONS,
    SetRule,
    decode_set_violations,
    describe_violation,
    list_set_rules,
)
from tests.write.rules.rule_graphs import check_graph, make_changes, make_ship_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def graph(local_location: Location) -> Graph:
    return make_ship_graph(
        local_location,
        {
            "node:Ship": [
                {"code": "a", "name": "Aurora", "flag": "no", "hull": 1},
                {"code": "b", "name": "it's"},
                {"code": "c", "flag": "no"},
                {"code": "d"},
            ],
            "node:Port": [{"code": "p"}],
            "edge:CallsAt": [
                {"id": "c1", "src": "a", "dst": "p"},
                {"id": "c2", "src": "a", "dst": "p", "note": "x"},
                {"id": "c3", "src": "d", "dst": "p"},
            ],
            "edge:HomePort": [{"id": "h1", "src": "a", "dst": "p"}, {"id": "h2", "src": "b", "dst": "p"}],
            "edge:Tows": [{"id": "t1", "src": "c", "dst": "d"}],
        },
    )


def changes(graph: Graph) -> list[RowChanges]:
    """One change that breaks every kind of rule, and comes near to breaking it."""
    return [
        make_changes(
            graph,
            "node:Ship",
            [
                {"code": "e", "name": "Aurora"},
                {"code": "f", "flag": "no", "hull": 1},
                {"code": "g", "name": "it's"},
                {"code": "b", "name": "Boreas"},
                {"code": "h"},
                {"code": "h"},
            ],
            ["d"],
        ),
        make_changes(
            graph,
            "edge:CallsAt",
            [{"id": "c4", "src": "a", "dst": "p", "note": "x"}, {"id": "c5", "src": "d", "dst": "nowhere"}],
            mode=IncomingMode.FRESH,
        ),
        make_changes(graph, "edge:HomePort", [{"id": "h3", "src": "e", "dst": "p"}], ["h1"], IncomingMode.INSERT),
    ]


def on_spark(spark: SparkSession, graph: Graph, rule: SetRule, images: list[RowChanges]) -> list[Violation]:
    by_key = {image.table_key: image for image in images}
    tables: dict[str, ChangedTable] = {
        type_.table_key: ChangedTable(type_, graph.snapshot(), by_key.get(type_.table_key))
        for type_ in graph.schema.catalog.types()
    }
    for relation in rule.relations:
        rows = tables[relation.table_key].read_part(relation.part, relation.physical_columns)
        texts = pa.Table.from_batches([relation.encode(rows)])
        spark.createDataFrame(texts).createOrReplaceTempView(relation.name)
    answers = spark.sql(rule.sql).toArrow().cast(SET_VIOLATIONS)
    return [describe_violation(rule, answer) for answer in decode_set_violations(answers)]


def test_both_engines_find_the_same(spark: SparkSession, graph: Graph) -> None:
    catalog, images = graph.schema.catalog, changes(graph)
    rules = [
        *list_set_rules(catalog, "node:Ship"),
        *list_set_rules(catalog, "edge:CallsAt"),
        list_set_rules(catalog, "edge:HomePort")[-1],
    ]
    there = [violation for rule in rules for violation in on_spark(spark, graph, rule, images)]
    texts = {(rule.type, rule.rule) for rule in rules}
    here = [each for each in check_graph(graph, *images).violations if (each.type, each.rule) in texts]
    assert sorted(each.message for each in there) == sorted(each.message for each in here)
    assert set(there) == set(here)
    assert {(each.type, each.rule) for each in here} == texts - {("CallsAt", "id")}


def test_row_rules_run_in_the_workers(spark: SparkSession) -> None:
    port = parse_schema(
        "node Port { code: String @key  depth: F64?  tags: [String]?  @range(depth, ..30.0) }"
    ).catalog.nodes["Port"]
    rows = pa.table({"id": ["a", "b"], "code": ["a", None], "depth": [31.0, None], "tags": [["x", None], None]})

    def broken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from find_row_violations(port, batch).to_batches()

    columns = "row long, property string, rule string, value string, message string"
    there = spark.createDataFrame(rows).coalesce(1).mapInArrow(broken, columns).toArrow()
    assert there.to_pylist() == find_row_violations(port, rows).to_pylist()
    assert there["rule"].to_pylist() == ["@range(depth, ..30.0)", "no null items", "required"]

"""Set rules in the partitions of a shuffle find what they find in one process; there they see whole tables."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pytest

from omnigraph.errors import Violation
from omnigraph.graph import Graph
from omnigraph.spark.rules.set_rules import _check_partition
from omnigraph.spark.shuffle import Packer
from omnigraph.storage.location import Location
from omnigraph.write.rules.changed_table import ChangedTable
from omnigraph.write.rules.check import IncomingMode, RowChanges
from omnigraph.write.rules.set_rules import (
    SET_VIOLATIONS,
    SetRule,
    decode_set_violations,
    describe_violation,
    list_set_rules,
)
from tests.write.rules.rule_graphs import check_graph, make_changes, make_ship_graph


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


def in_partitions(graph: Graph, rules: list[SetRule], images: list[RowChanges], count: int) -> list[Violation]:
    """What the partitions of a shuffle find, each by itself."""
    by_key = {image.table_key: image for image in images}
    tables: dict[str, ChangedTable] = {
        type_.table_key: ChangedTable(type_, graph.snapshot(), by_key.get(type_.table_key))
        for type_ in graph.schema.catalog.types()
    }
    parts: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    for section, rule in enumerate(rules):
        for stream, relation in enumerate(rule.relations):
            rows = tables[relation.table_key].read_part(relation.part, relation.physical_columns)
            for pack in Packer(section, stream, relation.join_column, count).pack_batches([relation.encode(rows)]):
                parts[pack["partition"][0].as_py()].append(pack)
    found = [row for part in parts for batch in _check_partition(rules, None, {}, part) for row in batch.to_pylist()]
    counted = sum(row["count"] or 0 for row in found)
    told = [row for row in found if row["count"] is None]
    assert counted == len(told)
    rows = pa.Table.from_pylist(told).select(SET_VIOLATIONS.names).cast(SET_VIOLATIONS)
    return [
        describe_violation(rules[cast(int, row["rule"])], each)
        for row, each in zip(told, decode_set_violations(rows), strict=True)
    ]


@pytest.mark.parametrize("count", [1, 3, 16])
def test_partitions_find_what_the_whole_finds(graph: Graph, count: int) -> None:
    catalog, images = graph.schema.catalog, changes(graph)
    rules = [
        *list_set_rules(catalog, "node:Ship"),
        *list_set_rules(catalog, "edge:CallsAt"),
        list_set_rules(catalog, "edge:HomePort")[-1],
    ]
    there = in_partitions(graph, rules, images, count)
    texts = {(rule.type, rule.rule) for rule in rules}
    here = [each for each in check_graph(graph, *images).violations if (each.type, each.rule) in texts]
    assert sorted(each.message for each in there) == sorted(each.message for each in here)
    assert set(there) == set(here)
    assert {(each.type, each.rule) for each in here} == texts - {("CallsAt", "id")}

"""Graphs in the shape of GraphFrames: no property is lost, whatever its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import omnigraph as og

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Port { code: String @key  type: String?  type_: I32? }
edge Leg: Port -> Port { relationship: String?  km: F64? }
"""


def test_a_property_whose_name_is_needed_gets_an_underscore(tmp_path: Path, spark: SparkSession) -> None:
    graph = og.init(tmp_path / "ports.og", SCHEMA)
    graph.load(
        [
            {"type": "Port", "data": {"code": "a", "type": "sea", "type_": 7}},
            {"type": "Port", "data": {"code": "b"}},
            {"edge": "Leg", "from": "a", "to": "b", "data": {"relationship": "sails", "km": 2.5}},
        ]
    )
    with graph.spark(spark) as opened:
        vertices, edges = opened.to_graphframes(["Port"], ["Leg"])
        assert sorted(vertices.columns) == ["code", "id", "type", "type_", "type__"]
        chosen = vertices.select("id", "type", "type_", "type__").orderBy("id").collect()
        assert [tuple(row) for row in chosen] == [("a", "Port", 7, "sea"), ("b", "Port", None, None)]
        links = edges.select("src", "dst", "relationship", "relationship_", "km").collect()
        assert [tuple(row) for row in links] == [("a", "b", "Leg", "sails", 2.5)]

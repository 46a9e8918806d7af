"""Conflicts of a node type and an edge type that share their name, in entities that share their id."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import omnigraph
from omnigraph.graph import Graph
from omnigraph.write.merge.resolution_file import write_resolution
from tests.graphs import rows_of

SCHEMA = """
node Person { name: String @key }
node Call { code: String @key  line: String? }
edge Call: Person -> Person { line: String? }
"""


def load(graph: Graph, line: str, branch: str) -> None:
    """Give this value to the node and to the edge."""
    graph.load(
        [
            {"type": "Person", "data": {"name": "ann"}},
            {"type": "Call", "data": {"code": "c", "line": line}},
            {"edge": "Call", "from": "ann", "to": "ann", "data": {"id": "c", "line": line}},
        ],
        mode="merge",
        branch=branch,
    )


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Two branches that give different values to the node and to the edge."""
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    load(graph, "base", "main")
    graph.create_branch("dev")
    load(graph, "theirs", "dev")
    load(graph, "ours", "main")
    return graph


def test_each_is_decided_by_its_own_entry(graph: Graph, tmp_path: Path) -> None:
    tried = graph.merge("dev", dry_run=True)
    assert [(each.table_key, each.type, each.id) for each in tried.conflicts] == [
        ("edge:Call", "Call", "c"),
        ("node:Call", "Call", "c"),
    ]
    path = tmp_path / "june.yaml"
    with path.open("w") as file:
        write_resolution(file, graph.uri, tried.source, tried.target, "row", tried.conflicts)
    content = yaml.safe_load(path.read_text())
    for entry in content["conflicts"]:
        entry["choose"] = "theirs" if entry["table_key"] == "edge:Call" else {"line": "new"}
    path.write_text(yaml.safe_dump(content))
    graph.merge("dev", resolve=path)
    (node,), (edge,) = rows_of(graph, "node:Call"), rows_of(graph, "edge:Call")
    assert (node["line"], edge["line"]) == ("new", "theirs")


def test_an_entry_of_an_earlier_release_is_for_both(graph: Graph) -> None:
    entry = {"kind": "DivergentUpdate", "type": "Call", "id": "c", "choose": "theirs"}
    graph.merge("dev", resolve={"conflicts": [entry]})
    (node,), (edge,) = rows_of(graph, "node:Call"), rows_of(graph, "edge:Call")
    assert (node["line"], edge["line"]) == ("theirs", "theirs")

"""Values of every type in a merge: compared by value, taken from one side, given in a resolution."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph
from tests.selection import daily

SCHEMA = """
node Thing {
  code: String @key
  flag: Bool?
  big: U64?
  ratio: F64?
  day: Date?
  moment: DateTime?
  words: [String]?
  times: [DateTime]?
  vec: Vector(3)?
  body: Blob?
  kind: enum(a, b)?
}
"""
ONE = {
    "flag": True,
    "big": 2**63 + 1,
    "ratio": 0.5,
    "day": "2024-05-01",
    "moment": "2024-05-01T10:00:00.123Z",
    "words": ["x", "y"],
    "times": ["2024-05-01T10:00:00Z"],
    "vec": [1.0, 2.0, 3.0],
    "body": "base64:b25l",
    "kind": "a",
}
OTHER = {
    "flag": False,
    "big": 2**63 + 2,
    "ratio": -0.5,
    "day": "2024-05-02",
    "moment": "2024-05-01T10:00:00.124Z",
    "words": ["x"],
    "times": [],
    "vec": [1.0, 2.0, 4.0],
    "body": "base64:dHdv",
    "kind": "b",
}


def load(graph: Graph, branch: str, **data: object) -> None:
    """Load one thing in place of the existing one."""
    record = {"type": "Thing", "data": {"code": "t", **data}}
    graph.load([record], mode="merge", branch=branch)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "things.og", SCHEMA)
    load(graph, "main", **ONE)
    graph.create_branch("dev")
    return graph


def shown(graph: Graph, branch: str = "main") -> dict[str, object]:
    """Return the thing with its bytes."""
    found = graph.get("Thing", "t", branch=branch)
    assert found is not None
    return {**found, "body": graph.blob("Thing", "t", "body", branch=branch)}


def test_different_properties_of_any_type_merge(graph: Graph) -> None:
    names = sorted(ONE)
    load(graph, "dev", **ONE | {name: OTHER[name] for name in names[::2]})
    load(graph, "main", **ONE | {name: OTHER[name] for name in names[1::2]})
    graph.merge("dev", by="property")
    graph.create_branch("expected")
    load(graph, "expected", **OTHER)
    assert shown(graph) == shown(graph, "expected")


@pytest.mark.parametrize("name", daily(sorted(ONE), ["body", "moment", "ratio", "vec"]))
def test_the_same_value_on_both_sides_is_no_conflict_and_another_one_is(graph: Graph, name: str) -> None:
    load(graph, "dev", **ONE | {name: OTHER[name]})
    load(graph, "main", **ONE | {name: OTHER[name]})
    assert graph.merge("dev").nodes == {}
    load(graph, "main", **ONE | {name: None})
    load(graph, "dev", **ONE)
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev")
    (found,) = raised.value.conflicts
    assert found.properties == (name,)
    json = raised.value.to_json()
    assert json["details"]


def test_values_of_any_type_can_be_given(graph: Graph) -> None:
    load(graph, "dev", **OTHER)
    load(graph, "main", **dict.fromkeys(ONE))
    (found,) = graph.merge("dev", dry_run=True).conflicts
    assert set(found.properties) == set(ONE)
    assert found.theirs is not None
    assert (found.theirs["day"], found.theirs["body"]) == (date(2024, 5, 2), "<3 bytes>")
    assert found.theirs["moment"] == datetime(2024, 5, 1, 10, 0, 0, 124000, UTC)
    entry = {"kind": found.kind, "type": "Thing", "id": "t", "choose": ONE}
    before = shown(graph, "dev")
    graph.merge("dev", resolve={"conflicts": [entry]})
    load(graph, "dev", **ONE)
    assert shown(graph) == shown(graph, "dev") != before

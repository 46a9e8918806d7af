"""Components that go on from an earlier result: the same as from all edges, and only inserted ones are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import omnigraph as og
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph
from tests.selection import sized

SCHEMA = """
node Port { code: String @key  size: I32? }
node Vessel { name: String @key }
edge Leg: Port -> Port { km: F64? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "ports.og", SCHEMA)
    made.load([{"type": "Port", "data": {"code": code}} for code in "bcdefgh"])
    link(made, "bc", "de", "fg")
    made.analytics.project(["Port"], ["Leg"]).wcc().write("component", column="component_id", create=True)
    return made


def link(graph: Graph, *pairs: str) -> None:
    graph.load([{"edge": "Leg", "from": a, "to": b} for a, b in pairs], mode="append")


def is_warm(graph: Graph, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether no other edges were read; the components are those of all edges in any case."""
    ports = graph.analytics.project(["Port"], ["Leg"])
    caplog.clear()
    with caplog.at_level("INFO", logger="omnigraph"):
        found = ports.wcc(start="component")
    assert found.rows == ports.wcc().rows
    assert found.provenance.parameters == {"start": "component"}
    return "computed from all edges" not in caplog.text


def test_after_inserts_components_are_a_union(graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    assert is_warm(graph, caplog)
    # A new port comes before all others and renames a component; edges join old ones.
    graph.load([{"type": "Port", "data": {"code": code}} for code in "az"])
    link(graph, "ag", "ed", "ce", "hh")
    assert is_warm(graph, caplog)
    # A result that was written after a warm start can be gone on from, too.
    graph.analytics.project(["Port"], ["Leg"]).wcc(start="component").write("component", column="component_id")
    link(graph, "zh")
    graph.load([{"type": "Port", "data": {"code": "b", "size": 3}}], mode="update")
    assert is_warm(graph, caplog)
    groups = {row["id"]: row["component_id"] for row in graph.analytics.project(["Port"], ["Leg"]).wcc().rows}
    assert groups == dict(zip("abcdefghz", "abbbbaahh", strict=True))


@pytest.mark.parametrize(
    "change",
    [
        "delete Leg where from = $code",
        "delete Port where code = $code",
        'update Port set { component: "h" } where code = $code',
    ],
)
def test_after_other_changes_all_edges_are_read(graph: Graph, caplog: pytest.LogCaptureFixture, change: str) -> None:
    graph.mutate(f"query change($code: String) {{ {change} }}", params={"code": "d"})
    assert not is_warm(graph, caplog)


def test_random_inserts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = np.random.default_rng(5)
    made = og.init(tmp_path / "random.og", SCHEMA)
    made.load([{"type": "Port", "data": {"code": f"p{n:03}"}} for n in range(0, 60, 2)])
    made.load([{"edge": "Leg", "from": "p000", "to": "p002"}])
    made.analytics.project(["Port"], ["Leg"]).wcc().write("component", column="component_id", create=True)
    for part in range(sized(2, 6)):
        made.load([{"type": "Port", "data": {"code": f"p{n:03}"}} for n in range(part * 4 + 1, part * 4 + 5, 2)])
        ends = chance.integers(0, 30, (5, 2)) * 2
        made.load([{"edge": "Leg", "from": f"p{a:03}", "to": f"p{b:03}"} for a, b in ends], mode="append")
        assert is_warm(made, caplog)


def test_what_cannot_be_started_from_is_said_at_once(graph: Graph) -> None:
    ports = graph.analytics.project(["Port"], ["Leg"])
    with pytest.raises(ParameterError) as caught:
        graph.analytics.project(["Port", "Vessel"], ["Leg"], filters={"Port": {"size": 1}}).wcc(start="size")
    assert caught.value.details["problems"] == [
        "start is for a projection of one node type: a component is named by an id",
        "start is for a projection without filters",
        "start: Port.size is I32?, and no id of a component",
    ]
    with pytest.raises(ParameterError, match="has no property 'gone'"):
        ports.wcc(start="gone")
    with pytest.raises(ParameterError, match="no wcc of this projection wrote"):
        ports.wcc(start="code")
    with pytest.raises(ParameterError, match="not with at"):
        graph.analytics.project(["Port"], ["Leg"], at=graph.commits(limit=1)[0].id).wcc(start="component")


def test_a_result_of_a_branch_that_is_gone_is_not_gone_on_from(graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    graph.create_branch("other")
    link(graph, "bd")
    other = graph.analytics.project(["Port"], ["Leg"], branch="other")
    other.wcc().write("component", column="component_id")
    assert is_warm(graph, caplog)
    graph.delete_branch("other")
    assert not is_warm(graph, caplog)

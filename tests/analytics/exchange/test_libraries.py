"""Projections for other tools: tables, SciPy and NetworkX."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph.errors import Cancelled, NotFound, ParameterError, Unsupported
from omnigraph.graph import Graph
from omnigraph.read.rows import scan
from omnigraph.storage.columns import to_list

SCHEMA = """
node Port { code: String @key }
node Vessel { name: String @key }
edge Leg: Port -> Port { km: F64 }
edge CallsAt: Vessel -> Port
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "ports.og", SCHEMA)
    legs = [("rot", "ham", 300.0), ("ham", "osl", 500.0), ("rot", "ham", 0.0), ("osl", "osl", 1.0)]
    made.load(
        [
            *({"type": "Port", "data": {"code": code}} for code in ("rot", "ham", "osl")),
            {"type": "Vessel", "data": {"name": "rot"}},
            *({"edge": "Leg", "from": a, "to": b, "data": {"km": km}} for a, b, km in legs),
            {"edge": "CallsAt", "from": "rot", "to": "rot"},
        ]
    )
    return made


def test_edges_are_a_table(graph: Graph) -> None:
    legs = graph.analytics.project(["Port"], ["Leg"], weight="km")
    assert legs.nodes().to_pydict() == {"type": ["Port"] * 3, "id": ["ham", "osl", "rot"]}
    rows = legs.edges().to_pylist()
    assert sorted((row["from"], row["to"], row["weight"]) for row in rows) == [
        ("ham", "osl", 500.0),
        ("osl", "osl", 1.0),
        ("rot", "ham", 0.0),
        ("rot", "ham", 300.0),
    ]
    everything = graph.analytics.project(edges={"CallsAt": "in"}).edges().to_pylist()
    assert everything == [{"from_type": "Port", "from": "rot", "to_type": "Vessel", "to": "rot"}]


def test_a_matrix_sums_parallel_edges_and_is_a_copy(graph: Graph) -> None:
    counted, weighed = (graph.analytics.project(["Port"], ["Leg"], weight=weight) for weight in (None, "km"))
    ranks = weighed.pagerank().rows
    matrix: Any = weighed.to_scipy()
    assert matrix.toarray().tolist() == [[0, 500, 0], [0, 1, 0], [300, 0, 0]]
    assert counted.to_scipy().toarray().tolist() == [[0, 1, 0], [0, 1, 0], [2, 0, 0]]
    matrix.data[:] = 0
    assert weighed.pagerank().rows == ranks


def test_networkx_has_the_same_nodes_and_edges(graph: Graph) -> None:
    made = graph.analytics.project(["Port"], ["Leg"], weight="km").to_networkx()
    assert dict(made.nodes(data="type")) == {"ham": "Port", "osl": "Port", "rot": "Port"}
    assert sorted(made.edges(data="weight")) == [
        ("ham", "osl", 500.0),
        ("osl", "osl", 1.0),
        ("rot", "ham", 0.0),
        ("rot", "ham", 300.0),
    ]
    mixed = graph.analytics.to_networkx()
    assert set(mixed.nodes) == {("Port", "ham"), ("Port", "osl"), ("Port", "rot"), ("Vessel", "rot")}
    assert mixed.has_edge(("Vessel", "rot"), ("Port", "rot"))
    assert mixed.number_of_edges() == 5


def test_a_graph_is_handed_to_networkx_like_a_projection(graph: Graph) -> None:
    first = graph.commits(limit=1)[0].id
    graph.create_branch("less")
    graph.load([{"type": "Port", "data": {"code": "new"}}])
    made = graph.to_networkx(["Port"], {"Leg": "in"}, weight="km", filters={"Leg": [("km", ">", 0)]}, at=first)
    assert sorted(made.edges(data="weight")) == [("ham", "rot", 300.0), ("osl", "ham", 500.0), ("osl", "osl", 1.0)]
    assert "new" not in graph.to_networkx(["Port"], ["Leg"], branch="less")
    assert "new" in graph.to_networkx(["Port"], ["Leg"])
    assert set(graph.to_networkx()) == set(graph.analytics.to_networkx())
    assert graph.to_networkx(["Port"], ["Leg"], direction="both").number_of_edges() == 7
    with pytest.raises(NotFound, match="did you mean 'Port'"):
        graph.to_networkx(["Prt"])
    cancelled = og.Deadline()
    cancelled.cancel()
    with pytest.raises(Cancelled):
        graph.to_networkx(timeout=cancelled)


def test_what_is_not_installed_is_said(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> None:
        """There is no module of that name."""

    monkeypatch.setattr(scan, "find_spec", find_nothing)
    with pytest.raises(Unsupported, match="networkx is not installed"):
        graph.analytics.to_networkx()


def test_deadlines_hold(graph: Graph) -> None:
    cancelled = og.Deadline()
    cancelled.cancel()
    for call in (graph.analytics.nodes, graph.analytics.edges, graph.analytics.to_scipy, graph.analytics.to_networkx):
        with pytest.raises(Cancelled):
            call(timeout=cancelled)


def test_graphml_is_read_back(graph: Graph, tmp_path: Path) -> None:
    networkx: Any = pytest.importorskip("networkx")
    graph.load([{"type": "Port", "data": {"code": code}} for code in ('a<&>"\x01', "]]>\r\n\t", "\U0001f6a2 ")])
    path = tmp_path / "ports.graphml"
    graph.analytics.project(["Port"], ["Leg"], weight="km").to_graphml(path)
    found = networkx.read_graphml(path, force_multigraph=True)
    names = {node: data["id"] for node, data in found.nodes(data=True)}
    assert sorted(names.values()) == ["]]>\r\n\t", 'a<&>"\ufffd', "ham", "osl", "rot", "\U0001f6a2 "]
    assert {data["type"] for _, data in found.nodes(data=True)} == {"Port"}
    assert sorted((names[a], names[b], data["weight"]) for a, b, data in found.edges(data=True)) == [
        ("ham", "osl", 500.0),
        ("osl", "osl", 1.0),
        ("rot", "ham", 0.0),
        ("rot", "ham", 300.0),
    ]


def test_a_file_of_graphml_is_there_when_it_is_complete(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "ports.graphml"
    path.write_text("before")
    cancelled = og.Deadline()
    cancelled.cancel()
    with pytest.raises(Cancelled):
        graph.analytics.to_graphml(path, timeout=cancelled)
    assert path.read_text() == "before"
    with pytest.raises(NotFound, match="there is no folder"):
        graph.analytics.to_graphml(tmp_path / "none" / "ports.graphml")
    with pytest.raises(ParameterError, match="is a folder"):
        graph.analytics.to_graphml(tmp_path)


def test_cytoscape_elements_are_nodes_and_edges(graph: Graph) -> None:
    found: Any = graph.analytics.project(["Port"], ["Leg"], weight="km").to_cytoscape()
    nodes, edges = ([each["data"] for each in found["elements"][kind]] for kind in ("nodes", "edges"))
    assert nodes[0] == {"id": "n0", "value": "n0", "name": "ham", "label": "ham", "type": "Port"}
    assert sorted((each["source"], each["target"], each["weight"]) for each in edges) == [
        ("n0", "n1", 500.0),
        ("n1", "n1", 1.0),
        ("n2", "n0", 0.0),
        ("n2", "n0", 300.0),
    ]
    assert len({each["id"] for each in [*nodes, *edges]}) == 7
    assert "weight" not in str(graph.analytics.to_cytoscape())


def test_cytoscape_elements_are_read_back(graph: Graph) -> None:
    networkx: Any = pytest.importorskip("networkx")
    made = graph.analytics.project(["Port"], ["Leg"], weight="km").to_cytoscape()
    found = networkx.cytoscape_graph(json.loads(json.dumps(made)))
    names = dict(found.nodes(data="name"))
    assert found.is_directed()
    assert sorted((names[a], names[b], weight) for a, b, weight in found.edges(data="weight")) == [
        ("ham", "osl", 500.0),
        ("osl", "osl", 1.0),
        ("rot", "ham", 0.0),
        ("rot", "ham", 300.0),
    ]


def test_igraph_has_types_names_and_weights(graph: Graph) -> None:
    pytest.importorskip("igraph")
    found = graph.analytics.project(["Port"], ["Leg"], weight="km").to_igraph()
    assert (found.vs["name"], found.vs["type"]) == (["ham", "osl", "rot"], ["Port"] * 3)
    assert sorted(zip(found.get_edgelist(), found.es["weight"], strict=True)) == [
        ((0, 1), 500.0),
        ((1, 1), 1.0),
        ((2, 0), 0.0),
        ((2, 0), 300.0),
    ]
    assert found.is_directed()


def test_arrays_of_each_type_for_pytorch(graph: Graph) -> None:
    found = graph.analytics.project(edges={"Leg": "both", "CallsAt": "in"}).to_arrays()
    ids = {each.name: to_list(each.ids) for each in found.nodes}
    assert ids == {"Port": ["ham", "osl", "rot"], "Vessel": ["rot"]}
    edges = {each.name: (each.from_type, each.to_type, each.index.tolist()) for each in found.edges}
    assert edges["CallsAt"] == ("Vessel", "Port", [[0], [2]])
    assert sorted(zip(*edges["Leg"][2], strict=True)) == [(0, 1), (1, 1), (2, 0), (2, 0)]


def test_features_are_numbers_and_vectors(tmp_path: Path) -> None:
    made = og.init(
        tmp_path / "v.og",
        "node Port { code: String @key  size: I32?  v: Vector(2)?  name: String? }\nedge Leg: Port -> Port",
    )
    made.load(
        [
            {"type": "Port", "data": {"code": "a", "size": 3, "v": [1.0, 2.0]}},
            {"type": "Port", "data": {"code": "b"}},
            {"edge": "Leg", "from": "b", "to": "a"},
        ]
    )
    (nodes,) = made.analytics.to_arrays({"Port": ["v", "size"]}).nodes
    assert nodes.features is not None
    assert nodes.features.dtype == np.float32
    assert np.array_equal(nodes.features, [[1, 2, 3], [np.nan] * 3], equal_nan=True)
    with pytest.raises(ParameterError) as caught:
        made.analytics.to_pyg({"Prot": [], "Port": ["sise", "name"]})
    assert caught.value.details["problems"] == [
        "features names 'Prot', which the projection does not have",
        "Port has no property 'sise'",
        "Port.name is String?",
    ]
    if find_spec("torch_geometric") is None:
        with pytest.raises(Unsupported, match="is not installed"):
            made.analytics.to_pyg()


def test_a_hetero_data_of_pytorch_geometric(graph: Graph) -> None:
    pytest.importorskip("torch_geometric")
    data = graph.analytics.project(["Port"], ["Leg"], weight="km").to_pyg()
    assert data["Port"].num_nodes == 3
    assert data["Port", "Leg", "Port"].edge_index.shape == (2, 4)
    assert data["Port", "Leg", "Port"].edge_attr.shape == (4, 1)
    assert data.validate()

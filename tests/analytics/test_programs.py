"""Communities, walks, vectors and programs through ``graph.analytics``: columns, write-back, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph.analytics import GraphProjection
from omnigraph.errors import ParameterError, Unsupported
from omnigraph.graph import Graph
from tests.analytics.programs import find_smallest

SCHEMA = """
node Port { code: String @key }
node Vessel { name: String @key }
edge Leg: Port -> Port { km: F64 }
edge CallsAt: Vessel -> Port
"""
LEGS = [("ant", "ber"), ("ber", "cad"), ("cad", "ant"), ("dub", "eme"), ("eme", "fal"), ("fal", "dub"), ("cad", "dub")]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return make_graph(tmp_path_factory.mktemp("programs"))


def make_graph(folder: Path) -> Graph:
    made = og.init(folder / "ports.og", SCHEMA)
    made.load(
        [
            *({"type": "Port", "data": {"code": code}} for code in ("ant", "ber", "cad", "dub", "eme", "fal")),
            {"type": "Vessel", "data": {"name": "vega"}},
            *({"edge": "Leg", "from": a, "to": b, "data": {"km": 1.0}} for a, b in LEGS),
            {"edge": "CallsAt", "from": "vega", "to": "ant"},
        ]
    )
    return made


def ports(graph: Graph) -> GraphProjection:
    return graph.analytics.project(["Port"], ["Leg"])


@pytest.mark.parametrize("method", ["louvain", "leiden"])
def test_communities_are_columns(shared: Graph, method: str) -> None:
    found = getattr(ports(shared), method)(seed=2)
    assert found.columns == ["type", "id", "community", "community_type", "community_id"]
    assert [row["community_id"] for row in found.rows] == ["ant"] * 3 + ["dub"] * 3
    assert found.provenance.parameters == {"resolution": 1.0, "seed": 2, "library": "omnigraph"}


@pytest.mark.parametrize("method", ["louvain", "leiden"])
def test_a_library_that_is_not_installed_is_named_with_its_extra(
    shared: Graph, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_nothing(name: str) -> None:
        assert name == "networkit"

    monkeypatch.setattr("omnigraph.read.rows.scan.find_spec", find_nothing)
    with pytest.raises(Unsupported, match="networkit is not installed") as caught:
        getattr(ports(shared), method)(library="networkit")
    assert 'pip install "omnigraph[analytics]"' in str(caught.value)


def test_walks_have_ids_and_types(shared: Graph) -> None:
    found = shared.analytics.random_walks(source=[("Vessel", "vega"), ("Port", "dub")], length=3, walks=2)
    assert [(row["type"], row["id"]) for row in found.rows] == [("Vessel", "vega")] * 2 + [("Port", "dub")] * 2
    assert found.rows[0]["walk"] == ["vega", "ant", "ber", "cad"]
    assert found.rows[0]["walk_types"] == ["Vessel", "Port", "Port", "Port"]
    assert found.rows[2]["walk"] == ["dub", "eme", "fal", "dub"]
    assert len(ports(shared).random_walks(walks=3).rows) == 18
    with pytest.raises(ParameterError, match="several rows"):
        found.write("walk", create=True)


def test_a_program_gives_columns_that_can_be_written(tmp_path: Path) -> None:
    graph = make_graph(tmp_path)

    def count(step: int, state: Any, messages: Any) -> Any:
        if not step:
            return {"reached": state["node"] == 0, "hops": np.where(state["node"] == 0, 0, -1)}, state["node"] == 0
        is_new = (messages > 0) & ~state["reached"]
        hops = np.where(is_new, step, state["hops"])
        return {"reached": state["reached"] | is_new, "hops": hops}, np.ma.masked_array(
            np.ones(len(hops), np.int64), ~is_new
        )

    found = ports(graph).pregel(count, combine="max")
    assert found.columns == ["type", "id", "reached", "hops"]
    assert [row["hops"] for row in found.rows] == [0, 1, 2, 3, 4, 5]
    assert str(found.provenance.parameters["program"]).endswith("count")
    found.write("hops", column="hops", create=True)
    found.write("reached", create=True)
    text = "query q() { match { $p: Port } return { $p.hops as hops, $p.reached as reached } order { $p.hops } }"
    assert graph.query(text).rows == [{"hops": hops, "reached": True} for hops in range(6)]


def test_a_program_may_name_its_columns_as_it_likes(tmp_path: Path) -> None:
    """Words of the code are names like any other."""
    graph = make_graph(tmp_path)
    names = ("self", "walk", "other_type", "other_id", "score", "message", "sends", "columns", "groups")

    def number(_step: int, state: Any, _messages: Any) -> Any:
        return {name: state["node"] + at for at, name in enumerate(names)}, None

    result = ports(graph).pregel(number)
    assert result.columns == ["type", "id", *names]
    codes = ("ant", "ber", "cad", "dub", "eme", "fal")
    expected = [{name: place + at for at, name in enumerate(names)} for place in range(6)]
    assert result.rows == [{"type": "Port", "id": code, **row} for code, row in zip(codes, expected, strict=True)]
    result.write("other_id", column="other_id", create=True)
    assert [graph.get("Port", code, ["other_id"]) for code in codes] == [
        {"other_id": row["other_id"]} for row in expected
    ]


@pytest.mark.parametrize("name", ["type", "id", "Type", " message", " sends"])
def test_a_column_that_the_result_has_already_is_refused(shared: Graph, name: str) -> None:
    def number(_step: int, state: Any, _messages: Any) -> Any:
        return {name: state["node"]}, None

    with pytest.raises(ParameterError, match=f"a column '{name}', and the result has one already"):
        ports(shared).pregel(number)


def test_ranks_begin_where_an_earlier_run_ended(tmp_path: Path) -> None:
    graph = make_graph(tmp_path)
    cold = ports(graph).pagerank(tolerance=1e-12, iterations=1000)
    cold.write("rank", create=True)
    graph.load(
        [{"type": "Port", "data": {"code": "gal"}}, {"edge": "Leg", "from": "fal", "to": "gal", "data": {"km": 1.0}}]
    )
    known = ports(graph).pagerank(tolerance=1e-12, iterations=1000)
    warm = ports(graph).pagerank(tolerance=1e-12, iterations=1000, start="rank")
    assert [row["rank"] for row in warm.rows] == pytest.approx([row["rank"] for row in known.rows], abs=1e-10)
    # One round from ranks that are still true changes nothing.
    warm.write("rank")
    once = [ports(graph).pagerank(tolerance=1.0, iterations=1, start=start) for start in ("rank", None)]
    near = [
        [row["rank"] for row in found.rows] == pytest.approx([row["rank"] for row in known.rows], abs=1e-10)
        for found in once
    ]
    assert near == [True, False]


@pytest.mark.parametrize(
    ("method", "parameters", "problem"),
    [
        ("louvain", {"resolution": 0}, "resolution is 0"),
        ("leiden", {"seed": -1}, "seed is -1"),
        ("leiden", {"library": "igraph"}, "library is 'igraph'"),
        ("random_walks", {"length": 0}, "length is 0"),
        ("random_walks", {"walks": 2**30, "length": 9}, "do not fit"),
        ("random_walks", {"p": 0}, "p is 0"),
        ("embed_node2vec", {"dimension": 0}, "dimension is 0"),
        ("embed_node2vec", {"q": -1}, "q is -1"),
        ("pregel", {"program": find_smallest, "combine": "mean"}, "combine is 'mean'"),
        ("pregel", {"program": find_smallest, "along": "road"}, "along is 'road'"),
        ("pagerank", {"start": "rank"}, "start needs a tolerance"),
        ("pagerank", {"start": "rank", "tolerance": 0.1}, "no property 'rank'"),
    ],
)
def test_bad_parameters_are_refused(shared: Graph, method: str, parameters: dict[str, object], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        getattr(ports(shared), method)(**parameters)

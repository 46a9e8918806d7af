"""Projections: which nodes and edges an algorithm sees, at which commit, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest

import omnigraph as og
from omnigraph import Deadline
from omnigraph.analytics import (
    ALGORITHMS,
    AnalyticsResult,
    GraphProjection,
    list_parameters,
    run_algorithm,
)
from omnigraph.analytics.projection import projected_graph
from omnigraph.analytics.projection.projected_graph import ProjectionKey
from omnigraph.errors import Cancelled, DeadlineExceeded, NotFound, OmniGraphError, ParameterError, Unsupported
from omnigraph.graph import Graph
from omnigraph.read.frames import shared_cache
from tests.analytics.counted_deadline import CountedDeadline
from tests.analytics.programs import rank

SCHEMA = """
node Port { code: String @key  size: I32? }
node Vessel { name: String @key }
node Berth { port: String  number: I32  @key(port, number) }
edge Leg: Port -> Port { km: F64?  days: I32?  label: String? }
edge CallsAt: Vessel -> Port
edge Knows: Vessel -> Vessel
"""
LEGS = [("rot", "ham", 300.0), ("ham", "osl", 500.0), ("osl", "rot", 0.0), ("rot", "ham", 250.0), ("lis", "lis", 1.0)]


def port(code: str, size: int | None = None) -> dict[str, object]:
    return {"type": "Port", "data": {"code": code, "size": size}}


def leg(begin: str, end: str, km: float | None = 1.0, days: int = 1) -> dict[str, object]:
    return {"edge": "Leg", "from": begin, "to": end, "data": {"km": km, "days": days}}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Ports in two loads that are not in the order of their ids, vessels that call at them, and a branch with more."""
    made = og.init(tmp_path_factory.mktemp("ports") / "ports.og", SCHEMA)
    made.load([port("rot", 9), port("ham", 7), port("lis", 2)])
    made.load(
        [
            port("osl", 3),
            *({"type": "Vessel", "data": {"name": name}} for name in ("vega", "rigel")),
            *(leg(*each) for each in LEGS),
            {"edge": "CallsAt", "from": "vega", "to": "rot"},
            {"edge": "CallsAt", "from": "rigel", "to": "rot"},
            {"edge": "Knows", "from": "vega", "to": "rigel"},
        ]
    )
    made.create_branch("plan")
    made.load([port("ant", 5), leg("ant", "rot", 80.0)], branch="plan")
    return made


def values(result: AnalyticsResult, column: str | None = None) -> dict[str, object]:
    """The values of a column by type and id."""
    return {f"{row['type']} {row['id']}": row[column or result.values[0]] for row in result.rows}


def test_rows_are_ordered_by_type_and_id(graph: Graph) -> None:
    found = graph.analytics.degree()
    assert found.columns == ["type", "id", "in_degree", "out_degree"]
    assert [tuple(row.values()) for row in found.rows] == [
        ("Port", "ham", 2, 1),
        ("Port", "lis", 1, 1),
        ("Port", "osl", 1, 1),
        ("Port", "rot", 3, 2),
        ("Vessel", "rigel", 1, 1),
        ("Vessel", "vega", 0, 2),
    ]
    assert found.commit == graph.commits(limit=1)[0]
    assert found.to_pandas().shape == (6, 4)
    assert found.to_arrow().num_rows == len(found) == 6


@pytest.mark.parametrize(
    ("direction", "known"),
    [
        ("out", [(2, 1), (1, 1), (1, 1), (1, 2)]),
        ("in", [(1, 2), (1, 1), (1, 1), (2, 1)]),
        ("both", [(3, 3), (1, 1), (2, 2), (3, 3)]),
    ],
)
def test_edges_are_followed_in_a_direction(graph: Graph, direction: str, known: list[tuple[int, int]]) -> None:
    for edges in (["Leg"], {"leg": direction}):
        found = graph.analytics.project(["Port"], edges, direction=direction).degree()
        assert [(row["in_degree"], row["out_degree"]) for row in found.rows] == known


def test_edge_types_have_directions_of_their_own(graph: Graph) -> None:
    mixed = graph.analytics.project(edges={"CallsAt": "in", "Knows": "both"})
    assert values(mixed.degree(), "out_degree") == {
        "Port ham": 0,
        "Port lis": 0,
        "Port osl": 0,
        "Port rot": 2,
        "Vessel rigel": 1,
        "Vessel vega": 1,
    }
    assert mixed.degree().provenance.projection == {
        "nodes": ["Port", "Vessel"],
        "edges": {"CallsAt": "in", "Knows": "both"},
        "branch": "main",
    }


def test_all_types_are_followed_both_ways(graph: Graph) -> None:
    assert values(graph.analytics.project(direction="both").wcc(), "component_id") == {
        "Port ham": "ham",
        "Port lis": "lis",
        "Port osl": "ham",
        "Port rot": "ham",
        "Vessel rigel": "ham",
        "Vessel vega": "ham",
    }


def test_filters_leave_out_nodes_with_their_edges_and_edges(graph: Graph) -> None:
    large = graph.analytics.project(["Port"], ["Leg"], filters={"Port": [("size", ">", 2)]})
    assert values(large.degree(), "out_degree") == {"Port ham": 1, "Port osl": 1, "Port rot": 2}
    far = graph.analytics.project(["Port"], ["Leg"], filters={"Leg": iter([("km", ">=", 300)]), "Port": {"size": 9}})
    assert values(far.degree()) == {"Port rot": 0}
    assert values(far.degree()) == {"Port rot": 0}
    nobody = graph.analytics.project(["Port"], ["Leg"], filters={"node:Port": {"size": -1}})
    assert [len(run_algorithm(nobody, name, {})) for name in ALGORITHMS if not needs_nodes(name)] == [0] * 15


def needs_nodes(name: str) -> bool:
    needed = {key for key, each in list_parameters(name).items() if each.default is each.empty}
    return not {"source", "pairs"}.isdisjoint(needed)


def nodes_for(name: str) -> dict[str, object]:
    """The parameters that an algorithm cannot do without."""
    known = {"source": "rot", "pairs": [("rot", "ham")]}
    return {parameter: value for parameter, value in known.items() if parameter in list_parameters(name)}


def test_a_branch_and_a_commit_are_seen(graph: Graph) -> None:
    first, second, *_ = reversed(graph.commits())
    ports = graph.analytics.project(["Port"], ["Leg"], branch="plan")
    assert "Port ant" in values(ports.degree())
    assert ports.degree().branch == "plan"
    empty = graph.analytics.project(["Port"], ["Leg"], at=first.id).pagerank()
    assert (empty.rows, empty.commit) == ([], first)
    assert len(graph.analytics.project(["Port"], ["Leg"], at=second.id).degree()) == 3


def test_distances_are_null_where_no_path_leads(graph: Graph) -> None:
    legs = graph.analytics.project(["Port"], ["Leg"], weight="km")
    assert values(legs.shortest_paths("rot")) == {"Port ham": 250.0, "Port lis": None, "Port osl": 750.0, "Port rot": 0}
    assert values(legs.bfs(["rot", ("Port", "lis")])) == {"Port ham": 1, "Port lis": 0, "Port osl": 2, "Port rot": 0}
    everything = graph.analytics.bfs(("Vessel", "vega"))
    assert values(everything)["Port osl"] == 3
    assert values(graph.analytics.project(["Port"], ["Leg"], weight="days").shortest_paths({"code": "rot"})) == {
        "Port ham": 1.0,
        "Port lis": None,
        "Port osl": 2.0,
        "Port rot": 0.0,
    }


def test_personalized_ranks_prefer_what_is_near(graph: Graph) -> None:
    legs = graph.analytics.project(["Port"], ["Leg"])
    near = legs.pagerank(personalize="lis")
    assert near.top(1).rows == [{"type": "Port", "id": "lis", "rank": pytest.approx(1.0)}]
    assert values(legs.pagerank(personalize=["ham", "rot"])) == values(
        legs.pagerank(personalize={"ham": 2, "rot": 2.0})
    )


def test_pairs_are_rows_ordered_by_node_and_score(graph: Graph) -> None:
    legs = graph.analytics.project(["Port"], ["Leg"], direction="both")
    found = legs.similarity(top_k=1)
    assert [tuple(row.values()) for row in found.rows] == [
        ("Port", "ham", "Port", "osl", pytest.approx(1 / 3)),
        ("Port", "osl", "Port", "ham", pytest.approx(1 / 3)),
        ("Port", "rot", "Port", "ham", pytest.approx(1 / 3)),
    ]
    assert found.top(1).rows[0]["id"] == "ham"
    given = graph.analytics.link_scores([(("Vessel", "vega"), ("Port", "ham"))], metric="preferential_attachment")
    assert [tuple(row.values()) for row in given.rows] == [("Vessel", "vega", "Port", "ham", 4.0)]
    with pytest.raises(ParameterError, match="no order"):
        legs.embed_fastrp(dimension=4).top(1)


def test_the_top_rows_are_those_with_the_largest_values(graph: Graph) -> None:
    found = graph.analytics.project(["Port"], ["Leg"]).degree()
    assert [row["id"] for row in found.top(2, "in_degree").rows] == ["ham", "lis"]
    assert [row["id"] for row in found.top(9, "out_degree").rows] == ["rot", "ham", "lis", "osl"]
    assert found.top(0).rows == []
    for wrong in (lambda: found.top(-1), lambda: found.top(by="rank")):
        with pytest.raises(ParameterError):
            wrong()


def test_the_description_says_what_was_computed(graph: Graph) -> None:
    found = graph.analytics.project(["Port"], ["Leg"], filters={"Port": {"size": 9}}).pagerank(personalize=["rot"])
    assert found.to_json() == {
        "algorithm": "pagerank",
        "parameters": {"damping": 0.85, "iterations": 20, "personalize": ["rot"]},
        "projection": {
            "nodes": ["Port"],
            "edges": {"Leg": "out"},
            "filters": {"Port": "{'size': 9}"},
            "branch": "main",
        },
        "engine": "local",
        "columns": ["type", "id", "rank"],
        "branch": "main",
        "commit": graph.commits(limit=1)[0].id,
        "rows": [{"type": "Port", "id": "rot", "rank": 1.0}],
        "row_count": 1,
    }


def test_arrays_are_kept_for_the_next_algorithm(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    shared_cache().clear()
    legs = graph.analytics.project(["Port"], ["Leg"])
    known = values(legs.pagerank())
    assert [key for key in shared_cache().all_keys() if isinstance(key, ProjectionKey)]
    monkeypatch.setattr(projected_graph, "_read_edges", None)
    assert values(legs.pagerank()) == known


def test_an_older_branch_is_read_with_the_current_schema(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "ports.og", SCHEMA)
    graph.load([port("rot"), port("ham"), leg("rot", "ham")])
    graph.create_branch("old")
    graph.apply_schema(SCHEMA.replace("km: F64?", "km: F64?  tons: F64 @default(2.5)"))
    graph.load([port("osl"), leg("osl", "ham")])
    for branch in ("old", "main"):
        found = graph.analytics.project(["Port"], ["Leg"], weight="tons", branch=branch).shortest_paths("rot")
        assert values(found)["Port ham"] == 2.5


# --------------------------------------------------------------------------------------------- refused


def expect(kind: type[OmniGraphError], words: str, call: Callable[[], object]) -> None:
    with pytest.raises(kind, match=words) as raised:
        call()
    assert raised.value.hint


WRONG: Mapping[str, tuple[type[OmniGraphError], dict[str, object]]] = {
    "no node type 'Prot'": (NotFound, {"nodes": ["Prot"]}),
    "no edge type 'Lg'": (NotFound, {"edges": ["Lg"]}),
    "no node type 'Prot' in this snapshot; no edge type 'Lg'": (NotFound, {"nodes": ["Prot"], "edges": ["Lg"]}),
    "end at 'Vessel', which the projection does not have": (ParameterError, {"nodes": ["Port"], "edges": ["CallsAt"]}),
    "the projection has no edge types": (ParameterError, {"nodes": ["Berth"]}),
    "nodes is empty": (ParameterError, {"nodes": []}),
    "is named twice": (ParameterError, {"nodes": ["Port", "Port"]}),
    "a type is named twice": (ParameterError, {"edges": ["Leg", "Leg"]}),
    "edge type 'leg' is named twice": (ParameterError, {"edges": {"Leg": "in", "leg": "out"}}),
    "direction is 'up'": (ParameterError, {"direction": "up"}),
    "direction is 'down'": (ParameterError, {"edges": {"Leg": "down"}}),
    "Leg has no property 'kms'": (ParameterError, {"edges": ["Leg"], "weight": "kms"}),
    r"Leg.label is String\?": (ParameterError, {"edges": ["Leg"], "weight": "label"}),
    "CallsAt has no property 'km'; Knows has no property 'km'": (ParameterError, {"weight": "km"}),
    "a filter is for 'Vesel'": (ParameterError, {"filters": {"Vesel": {}}}),
    "a filter is for 'Vessel'": (ParameterError, {"edges": ["Leg"], "filters": {"Vessel": {}}}),
    "Port has no column 'tons'": (ParameterError, {"filters": {"Port": {"tons": 1}}}),
    "the filter is int": (ParameterError, {"filters": {"Port": 5}}),
    "nodes is 'Port'": (ParameterError, {"nodes": "Port"}),
    "no branch 'gone'": (NotFound, {"branch": "gone"}),
    "nowhere": (NotFound, {"at": "nowhere"}),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_projection_is_refused(graph: Graph, words: str) -> None:
    kind, arguments = WRONG[words]
    project = cast("Callable[..., GraphProjection]", graph.analytics.project)
    expect(kind, words, lambda: project(**arguments).degree())


@pytest.mark.parametrize(
    ("words", "algorithm", "parameters"),
    [
        ("damping is 1.5", "pagerank", {"damping": 1.5}),
        ("damping is nan", "pagerank", {"damping": float("nan")}),
        ("iterations is -1", "pagerank", {"iterations": -1}),
        ("iterations is 1.5", "label_propagation", {"iterations": 1.5}),
        ("tolerance is 0", "pagerank", {"tolerance": 0.0}),
        ("the weights of personalize are all 0", "pagerank", {"personalize": {"rot": 0}}),
        ("personalize has the weight -1", "pagerank", {"personalize": {"rot": -1}}),
        ("personalize is an empty list", "pagerank", {"personalize": []}),
        ("personalize: the projection has no Port 'x', Port 'y'", "pagerank", {"personalize": ["x", "rot", "y"]}),
        ("source is an empty list", "bfs", {"source": []}),
        ("source: the projection has no Port 'x'", "shortest_paths", {"source": "x"}),
        ("source holds", "bfs", {"source": ("Vessel", "vega")}),
        ("'code': expected String, found a number", "bfs", {"source": [5.5]}),
        ("samples is 0", "betweenness", {"samples": 0}),
        ("seed is -1", "betweenness", {"seed": -1}),
        ("metric is 'cosine'", "similarity", {"metric": "cosine"}),
        ("top_k is 0", "similarity", {"top_k": 0}),
        ("cutoff is 2.0", "similarity", {"cutoff": 2.0}),
        ("metric is 'jaccard'", "link_scores", {"pairs": [("rot", "ham")], "metric": "jaccard"}),
        ("pairs is not a list of pairs", "link_scores", {"pairs": ["rot"]}),
        ("pairs is not a list of pairs", "link_scores", {"pairs": []}),
        ("pairs: the projection has no Port 'x'", "link_scores", {"pairs": [("rot", "x")]}),
        ("dimension is 0", "embed_fastrp", {"dimension": 0}),
        ("weights has the weight -1", "embed_fastrp", {"weights": [-1]}),
        (r"weights is \[\]", "embed_fastrp", {"weights": []}),
        ("bfs needs the parameter 'source'", "bfs", {}),
        ("bfs has no parameter 'sources'; bfs needs", "bfs", {"sources": "rot"}),
        ("wcc has no parameter 'iterations'", "wcc", {"iterations": 1}),
    ],
)
def test_wrong_parameters_are_refused(graph: Graph, words: str, algorithm: str, parameters: dict[str, object]) -> None:
    legs = graph.analytics.project(["Port"], ["Leg"])
    expect(OmniGraphError, words, lambda: run_algorithm(legs, algorithm, parameters))


def test_an_unknown_algorithm_is_refused(graph: Graph) -> None:
    expect(NotFound, "no algorithm 'pagerang'", lambda: run_algorithm(graph.analytics, "pagerang", {}))


def test_nodes_of_several_types_are_named_with_their_type(graph: Graph) -> None:
    expect(ParameterError, "source holds 'rot'", lambda: graph.analytics.bfs("rot"))
    expect(NotFound, "no Vessel 'rot'", lambda: graph.analytics.bfs(("Vessel", "rot")))
    # As the command line reads it from JSON.
    expect(NotFound, "no Vessel 'rot'", lambda: graph.analytics.bfs(["Vessel", "rot"]))
    one = graph.analytics.bfs(("Port", "rot")).to_arrow()
    assert graph.analytics.bfs(["Port", "rot"]).to_arrow() == graph.analytics.bfs([["Port", "rot"]]).to_arrow() == one
    expect(ParameterError, "source holds 'rot'", lambda: graph.analytics.bfs(["rot", "Port"]))


def test_a_node_that_a_filter_left_out_is_no_source(graph: Graph) -> None:
    large = graph.analytics.project(["Port"], ["Leg"], filters={"Port": [("size", ">", 2)]})
    expect(NotFound, "no Port 'lis'", lambda: large.bfs("lis"))


@pytest.mark.parametrize(("km", "words"), [(None, "has null"), (-1.0, "has -1.0")])
def test_weights_that_are_null_or_negative_are_refused(tmp_path: Path, km: float | None, words: str) -> None:
    graph = og.init(tmp_path / "ports.og", SCHEMA)
    graph.load([port("rot"), port("ham"), leg("rot", "ham", 5.0), leg("ham", "rot", km, 9)])
    legs = graph.analytics.project(["Port"], ["Leg"], weight="km")
    expect(ParameterError, f"Leg.km is no weight for 1 edge: .* {words}", legs.pagerank)
    some = graph.analytics.project(["Port"], ["Leg"], weight="km", filters={"Leg": {"days": 1}})
    assert values(some.shortest_paths("rot")) == {"Port ham": 5.0, "Port rot": 0.0}


def test_more_nodes_or_edges_than_can_be_numbered_are_refused(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projected_graph, "LARGEST", 3)
    expect(Unsupported, "the projection has 4 nodes; at most 3", graph.analytics.project(["Port"], ["Leg"]).degree)
    monkeypatch.setattr(projected_graph, "LARGEST", 4)
    legs = graph.analytics.project(["Port"], ["Leg"], filters={"Leg": [("km", ">=", 0)]})
    expect(Unsupported, "the projection has 5 edges; at most 4", legs.degree)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_deadlines_are_observed(graph: Graph, name: str) -> None:
    parameters = nodes_for(name)
    cancelled = Deadline()
    cancelled.cancel()
    legs = graph.analytics.project(["Port"], ["Leg"], weight="km")
    with pytest.raises(Cancelled):
        getattr(legs, name)(**parameters, timeout=cancelled)
    with pytest.raises(DeadlineExceeded):
        getattr(legs, name)(**parameters, timeout=1e-9)
    for results in (run_algorithm(legs, name, parameters), run_algorithm(legs, name, parameters)):
        assert results.columns == ["type", "id", *ALGORITHMS[name].columns]


def test_a_superstep_looks_at_the_deadline(graph: Graph) -> None:
    cancelled = Deadline()

    class Stopping(float):
        """A damping that cancels the call when the first round uses it."""

        def __rsub__(self, other: float) -> float:
            cancelled.cancel()
            return other - float(self)

    with pytest.raises(Cancelled):
        graph.analytics.pagerank(damping=Stopping(0.5), iterations=10**9, timeout=cancelled)


@pytest.mark.parametrize("name", ["pagerank", "label_propagation", "pregel"])
def test_every_superstep_looks_at_the_deadline(tmp_path: Path, name: str) -> None:
    made = og.init(tmp_path / "ports.og", SCHEMA)
    # Labels of two ports change places for ever.
    made.load([port("rot"), port("ham"), leg("rot", "ham"), leg("ham", "rot")])
    legs = made.analytics.project(["Port"], ["Leg"])
    given = {"program": rank} if name == "pregel" else {}

    def count(rounds: int, most: int | None = None) -> int:
        deadline = CountedDeadline(most)
        getattr(legs, name)(**given, iterations=rounds, timeout=deadline)
        return deadline.checks

    count(1)  # the arrays are there
    total = count(6)
    assert total - count(2) >= 4
    for most in range(total):
        with pytest.raises(Cancelled):
            count(6, most)
    assert count(6, total) == total


def test_a_graph_that_is_read_only_is_analyzed_with_its_timeout(graph: Graph) -> None:
    with og.open(graph.uri, "ro", timeout=600) as reader:
        assert len(reader.analytics.pagerank()) == 6
        assert reader.analytics.timeout == reader.analytics.project().timeout == 600

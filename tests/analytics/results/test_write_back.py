"""Results that are written back: one commit on a branch, with its provenance, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import DeadlineExceeded, NotFound, OmniGraphError, ParameterError, ReadOnly, ValidationError
from omnigraph.graph import Graph
from omnigraph.language.schema import declare_property, parse_schema
from tests.graphs import written

SCHEMA = """// what we ship
node Port { code: String @key  size: I32?  score: F64?  place: String? }
node Berth { name: String  size: I32? }
edge Leg: Port -> Port { km: F64? }
edge At: Berth -> Port
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "ports.og", SCHEMA, actor="act-ann")
    made.load(
        [
            *({"type": "Port", "data": {"code": code, "size": 3}} for code in ("rot", "ham", "osl", "lis")),
            *({"edge": "Leg", "from": a, "to": b} for a, b in (("rot", "ham"), ("ham", "osl"), ("osl", "ham"))),
            {"type": "Berth", "data": {"id": "b1", "name": "one"}},
            {"edge": "At", "from": "b1", "to": "rot"},
        ]
    )
    return made


def column(graph: Graph, name: str, type_: str = "Port", branch: str = "main") -> dict[object, object]:
    rows = graph.nodes(type_, branch=branch).to_arrow().to_pylist()
    return {row["id"]: row[name] for row in rows}


def test_a_result_becomes_one_commit_that_says_where_it_comes_from(graph: Graph) -> None:
    source = graph.commits(limit=1)[0]
    ranks = graph.analytics.project(["Port"], ["Leg"]).pagerank(iterations=5)
    result = ranks.write("score", message="ports ranked")
    commit = graph.commits(limit=1)[0]
    assert (result.commit, result.nodes, result.mode) == (commit, {"Port": 4}, "update")
    assert commit.parents == (source.id,)
    assert column(graph, "score") == {row["id"]: row["rank"] for row in ranks.rows}
    assert column(graph, "size") == dict.fromkeys(("rot", "ham", "osl", "lis"), 3)
    assert commit.actor == "act-ann"
    assert (commit.message or "").split("\n") == [
        "ports ranked",
        "",
        "Algorithm: pagerank",
        'Parameters: {"damping":0.85,"iterations":5}',
        'Projection: {"nodes":["Port"],"edges":{"Leg":"out"},"branch":"main"}',
        f"Source: {source.id}",
        "Engine: local",
        f"Version: {og.__version__}",
        "Written: Port.score",
    ]
    (told,) = commit.analyses
    assert (told.commit_id, told.source, told.written) == (commit.id, source.id, ("Port.score",))
    assert (told.algorithm, told.parameters) == ("pagerank", {"damping": 0.85, "iterations": 5})
    assert (told.projection, told.engine) == (ranks.provenance.projection, "local")
    assert source.analyses == []
    assert commit.txn is not None
    assert commit.txn[0].startswith("analytics:Port.score:")
    assert commit.txn[1] == source.manifest_version
    assert graph.verify().findings == ()


def test_a_property_and_a_branch_are_created(graph: Graph) -> None:
    before = [commit.id for commit in graph.commits()]
    groups = graph.analytics.project(direction="both").wcc()
    with pytest.raises(ParameterError, match="Berth and Port have no property 'part'") as raised:
        groups.write("part")
    assert raised.value.hint == "add the line part: I64? to the schema, or give create=True"
    result = groups.write("part", branch="parts/june", from_="main", create=True)
    assert column(graph, "part", branch="parts/june") == {"rot": 0, "ham": 0, "osl": 0, "lis": 2}
    assert column(graph, "part", "Berth", "parts/june") == {"b1": 0}
    assert result.nodes == {"Berth": 1, "Port": 4}
    # On main there is the schema alone.
    assert [commit.id for commit in graph.commits()][1:] == before
    assert column(graph, "part") == dict.fromkeys(("rot", "ham", "osl", "lis"))
    assert "// what we ship" in graph.schema.text
    texts = groups.write("place", column="component_id", branch="parts/june", create=True)
    assert texts.nodes == {"Berth": 1, "Port": 4}
    assert column(graph, "place", branch="parts/june")["osl"] == "b1"
    graph.merge("parts/june")
    assert column(graph, "part")["lis"] == 2


def test_a_second_write_changes_only_what_is_new(graph: Graph) -> None:
    ports = graph.analytics.project(["Port"], ["Leg"])
    first = ports.bfs("rot").write("size", overwrite=True)
    assert column(graph, "size") == {"rot": 0, "ham": 1, "osl": 2, "lis": None}
    again = ports.project(["Port"], ["Leg"], at=first.commit.parents[0] if first.commit else None).bfs("rot")
    repeated = again.write("size")
    assert (repeated.replayed, repeated.commit) == (True, first.commit)
    graph.load([{"edge": "Leg", "from": "rot", "to": "osl"}])
    second = ports.bfs("rot").write("size")
    assert second.nodes == {"Port": 4}
    assert column(graph, "size") == {"rot": 0, "ham": 1, "osl": 1, "lis": None}
    changed = graph.diff(first.commit.id, "main").summary() if first.commit else None
    assert changed is not None
    with pytest.raises(ParameterError, match="has this result of a newer commit"):
        again.write("size")


def test_a_result_whose_values_were_replaced_is_written_again(graph: Graph) -> None:
    ports = graph.analytics.project(["Port"], ["Leg"])
    few, many = ports.pagerank(iterations=1), ports.pagerank(iterations=9)
    values = {name: {row["id"]: row["rank"] for row in result.rows} for name, result in (("few", few), ("many", many))}
    few.write("score")
    many.write("score")
    again = few.write("score")
    assert (again.replayed, column(graph, "score")) == (False, values["few"])
    repeated = few.write("score")
    assert (repeated.replayed, repeated.commit) == (True, again.commit)
    assert not many.write("score").replayed
    assert column(graph, "score") == values["many"]
    # By hand.
    graph.mutate('query q() { update Port set { score: 7.0 } where code = "rot" }')
    assert (many.write("score", overwrite=True).replayed, column(graph, "score")) == (False, values["many"])
    assert many.write("score").replayed
    (analysis,) = graph.analyses()
    assert (analysis.provenance.parameters["iterations"], analysis.is_stale) == (9, False)
    assert graph.verify().findings == ()


def test_results_of_the_same_name_and_commit_are_told_apart_by_their_values(graph: Graph) -> None:
    ports = graph.analytics.project(["Port"], ["Leg"])
    degrees = ports.degree()
    degrees.top(1).write("size", overwrite=True)
    assert column(graph, "size") == {"rot": 3, "ham": 2, "osl": 3, "lis": 3}
    assert not degrees.write("size").replayed
    assert column(graph, "size") == {"rot": 0, "ham": 2, "osl": 1, "lis": 0}
    assert degrees.top(1).write("size").replayed  # it is there

    programs = [ports.pregel(lambda _, state, __, more=more: ({"x": state["degree"] + more}, None)) for more in (1, 2)]
    written = [each.write("part", create=True).replayed for each in programs]
    assert (written, column(graph, "part")) == ([False, False], {"rot": 3, "ham": 3, "osl": 3, "lis": 2})

    pairs = [ports.link_scores([pair], metric="common_neighbours") for pair in (("rot", "osl"), ("ham", "lis"))]
    assert [each.write(edge="Likely", create=True).replayed for each in pairs] == [False, False]
    assert [(row["from"], row["to"]) for row in graph.edges("Likely").to_arrow().to_pylist()] == [("ham", "lis")]
    assert pairs[1].write(edge="Likely").replayed


def test_pairs_become_edges(graph: Graph) -> None:
    legs = graph.analytics.project(["Port"], ["Leg"], direction="both")
    alike = legs.similarity(top_k=2)
    expect(graph, ParameterError, "there is no edge type 'Alike'", lambda: alike.write(edge="Alike"))
    expect(graph, ParameterError, "similarity gives pairs of nodes", lambda: alike.write("score"))
    expect(graph, ParameterError, "pagerank gives one row", lambda: legs.pagerank().write(edge="Leg"))
    expect(graph, ParameterError, "takes a property or an edge type", lambda: alike.write("score", edge="Leg"))
    expect(graph, ParameterError, "Leg has no property 'score'", lambda: alike.write(edge="Leg"))
    expect(graph, ParameterError, "lead from Berth to Port", lambda: alike.write(edge="At"))
    expect(
        graph,
        ParameterError,
        "'other_id' is no value",
        lambda: alike.write(edge="Alike", column="other_id", create=True),
    )
    mixed = graph.analytics.project(direction="both").similarity()
    expect(graph, ParameterError, "pairs of Berth, Port are no edges of one type", lambda: mixed.write(edge="Alike"))
    alike.write(edge="Alike", create=True)

    def edges() -> dict[object, object]:
        return {(row["from"], row["to"]): row["score"] for row in graph.edges("Alike").to_arrow().to_pylist()}

    assert edges() == {(row["id"], row["other_id"]): row["score"] for row in alike.rows}
    assert graph.edges("Leg").to_arrow().num_rows == 3
    (found,) = graph.analyses()
    assert (found.written, found.is_stale) == (("Alike",), False)
    first = graph.commits(limit=1)[0]
    graph.load([{"edge": "Leg", "from": "lis", "to": "ham"}])
    legs.similarity(top_k=2).write(edge="Alike")
    assert ("lis", "osl") in edges()
    # Edges between the same nodes are the same edges: those that stay as they are do not show.
    changed = {each.id: each.op for each in graph.diff(first.id, "main", types=["Alike"]).entities()}
    kept = {f'["{row["id"]}","{row["other_id"]}"]': row["score"] for row in alike.rows}
    same = [name for name in kept if name not in changed]
    assert same
    assert {changed[name] for name in kept if name in changed} <= {"updated", "deleted"}
    assert {op for name, op in changed.items() if name not in kept} == {"inserted"}
    graph.load([{"edge": "At", "from": "b1", "to": "ham"}])
    graph.apply_schema(graph.schema.text + "edge Friend: Port -> Port { score: F64? }\n")
    graph.load([{"edge": "Friend", "from": "rot", "to": "lis"}])
    expect(graph, ParameterError, "Friend has 1 edge that no analysis wrote", lambda: alike.write(edge="Friend"))
    alike.write(edge="Friend", overwrite=True)
    assert graph.edges("Friend").to_arrow().num_rows == len(alike)


def test_vectors_are_written(graph: Graph) -> None:
    vectors = graph.analytics.project(["Port"], ["Leg"]).embed_fastrp(dimension=4)
    vectors.write("place_in_graph", create=True)
    assert "place_in_graph: Vector(4)?" in graph.schema.text
    assert column(graph, "place_in_graph") == {row["id"]: row["vector"] for row in vectors.rows}


def test_analyses_are_listed_and_stale_ones_found(graph: Graph) -> None:
    assert graph.analyses() == []
    ports = graph.analytics.project(["Port"], ["Leg"])
    source = graph.commits(limit=1)[0]
    ports.pagerank().write("score")
    (found,) = graph.analyses()
    assert (found.commit, found.source, found.written, found.is_stale) == (
        graph.commits(limit=1)[0],
        source.id,
        ("Port.score",),
        False,
    )
    assert found.provenance == ports.pagerank().provenance
    graph.load([{"type": "Berth", "data": {"name": "two"}}])
    assert [each.is_stale for each in graph.analyses()] == [False]
    graph.load([{"edge": "Leg", "from": "lis", "to": "rot"}])
    assert [each.is_stale for each in graph.analyses()] == [True]
    ports.pagerank().write("score")
    assert [(each.is_stale, each.written) for each in graph.analyses()] == [(False, ("Port.score",))]
    graph.load([{"type": "Port", "data": {"code": "ant"}}])
    assert [each.is_stale for each in graph.analyses()] == [True]


def test_only_what_a_projection_looks_at_makes_an_analysis_stale(graph: Graph) -> None:
    weigh = "query q($km: F64) { match { $a: Port  $a $e:leg $b } update $e set { km: $km } }"
    graph.mutate(weigh, params={"km": 1.0})
    legs = graph.analytics.project(["Port"], ["Leg"])
    legs.pagerank().write("score")
    graph.analytics.project(["Port"], ["Leg"], weight="km").shortest_paths("rot").write("km_from_rot", create=True)
    graph.analytics.project(["Port"], ["Leg"], filters={"Port": [("size", ">", 1)]}).degree().write("deg", create=True)

    def stale() -> dict[str, bool | None]:
        return {each.written[0].partition(".")[2]: each.is_stale for each in graph.analyses()}

    assert stale() == {"deg": False, "score": False, "km_from_rot": False}
    graph.optimize()
    graph.mutate('query q() { update Port set { place: "sea" } where code = "rot" }')
    assert stale() == {"deg": True, "score": False, "km_from_rot": False}
    graph.mutate(weigh, params={"km": 2.0})
    assert stale() == {"deg": True, "score": False, "km_from_rot": True}
    graph.mutate("query q() { match { $a: Port  $a $e:leg $b } delete $e }")
    assert stale() == {"deg": True, "score": True, "km_from_rot": True}


def test_analyses_on_a_branch_compare_with_the_branch_they_were_computed_on(graph: Graph) -> None:
    graph.create_branch("review")
    graph.analytics.project(["Port"], ["Leg"]).pagerank().write("score", branch="review")
    assert graph.analyses() == []
    assert [each.is_stale for each in graph.analyses("review")] == [False]
    graph.load([{"edge": "Leg", "from": "lis", "to": "rot"}])
    assert [each.is_stale for each in graph.analyses("review")] == [True]


def test_what_was_merged_is_written_on_the_other_branch_too(graph: Graph) -> None:
    ports = graph.analytics.project(["Port"], ["Leg"])
    ports.pagerank().write("score", branch="review", from_="main")
    graph.merge("review")
    assert [(each.written, each.is_stale) for each in graph.analyses()] == [(("Port.score",), False)]
    # No person wrote these values, so the next result may replace them, on main and on a branch of it.
    graph.load([{"edge": "Leg", "from": "lis", "to": "osl"}])
    assert [each.is_stale for each in graph.analyses()] == [True]
    ports.pagerank().write("score", branch="july", from_="main")
    assert [each.is_stale for each in graph.analyses("july")] == [False]


def test_what_was_merged_is_known_when_its_branch_is_gone(graph: Graph) -> None:
    ports = graph.analytics.project(["Port"], ["Leg"])
    graph.create_branch("stage")
    first = ports.pagerank().write("score", branch="review", from_="main")
    second = ports.degree().write("size", branch="review", overwrite=True)
    graph.merge("review", into="stage", message="ranks\n\nas agreed", delete_branch=True)
    merge = graph.merge("stage", delete_branch=True).commit
    assert merge is not None
    assert first.commit is not None
    assert second.commit is not None
    assert (merge.message or "").startswith("merge branch 'stage' into 'main'\n\nMerged: ")
    found = graph.analyses()
    assert [(each.written, each.is_stale) for each in found] == [(("Port.size",), False), (("Port.score",), False)]
    assert [each.commit for each in found] == [merge, merge]
    assert {(each.commit_id, each.written) for each in merge.analyses} == {
        (first.commit.id, ("Port.score",)),
        (second.commit.id, ("Port.size",)),
    }
    assert [each.provenance for each in found] == [ports.degree().provenance, ports.pagerank().provenance]
    assert found[1].source == first.commit.parents[0]
    # No person wrote these values; a merge brings only what is new.
    graph.load([{"edge": "Leg", "from": "lis", "to": "osl"}])
    ports.pagerank().write("score", branch="july", from_="main")
    assert (graph.merge("july").commit or merge).message == (graph.commits(limit=1)[0].message)
    assert (graph.commits(limit=1)[0].message or "").count("Merged: ") == 1
    assert graph.analyses()[0].commit == graph.commits("july", limit=1)[0]


def test_messages_of_people_are_no_analyses(graph: Graph) -> None:
    lines = [
        "Algorithm: x",
        "Parameters: y",
        "Projection: z",
        "Source: s",
        "Engine: e",
        "Version: v",
        "Written: Port.w",
    ]
    for message in ("Algorithm: pagerank", "\n".join(["t", "", *lines])):
        graph.load([{"type": "Berth", "data": {"name": message[:3]}}], message=message)
        assert graph.commits(limit=1)[0].analyses == []
    assert graph.analyses() == []


def expect(graph: Graph, kind: type[OmniGraphError], words: str, call: Callable[[], object]) -> None:
    before = written(graph), graph.schema.hash, [branch.name for branch in graph.branches()]
    with pytest.raises(kind, match=words) as raised:
        call()
    assert raised.value.hint or isinstance(raised.value, ValidationError)
    assert (written(graph), graph.schema.hash, [branch.name for branch in graph.branches()]) == before


def test_what_cannot_be_written_is_refused_and_nothing_changes(graph: Graph) -> None:
    ports = graph.analytics.project(["Port"], ["Leg"])
    ranks = ports.pagerank()
    degrees = ports.degree()
    expect(graph, ParameterError, "Port.size has values that no analysis wrote", lambda: degrees.write("size"))
    expect(graph, ParameterError, r"Port.size is I32\?, and rank F64", lambda: ranks.write("size", overwrite=True))
    named = ports.wcc()
    expect(
        graph,
        ParameterError,
        "Port.code is part of its key",
        lambda: named.write("code", column="component_id", overwrite=True),
    )
    expect(graph, ParameterError, "no column 'rang'", lambda: ranks.write("score", column="rang"))
    expect(graph, ParameterError, "Port has no property 'rnk'", lambda: ranks.write("rnk"))
    expect(graph, NotFound, "nowhere", lambda: ranks.write("score", branch="nowhere"))
    for overwrite in (False, True):
        expect(
            graph,
            NotFound,
            r'no branch \'nowhere\' in .*give from_="main" to create it',
            lambda overwrite=overwrite: ranks.write("new", branch="nowhere", create=True, overwrite=overwrite),
        )
        expect(
            graph,
            NotFound,
            "no branch, commit, version, date or tag 'nothing'",
            lambda overwrite=overwrite: ranks.write(
                "new", branch="nowhere", from_="nothing", create=True, overwrite=overwrite
            ),
        )
    expect(graph, ParameterError, r"Port.place is String\?, and rank F64", lambda: ranks.write("place"))
    expect(graph, ParameterError, "the result has no rows", lambda: ranks.top(0).write("score"))
    expect(graph, DeadlineExceeded, "not done", lambda: ranks.write("score", timeout=1e-9))
    reader = og.open(graph.uri, "ro").analytics.project(["Port"], ["Leg"]).pagerank()
    expect(graph, ReadOnly, "read-only", lambda: reader.write("score"))
    expect(
        graph,
        ParameterError,
        "Port.size has values",
        lambda: ports.bfs("rot").write("size", branch="new/one", from_="main"),
    )


def test_a_node_that_is_gone_meanwhile_is_an_error(graph: Graph) -> None:
    ranks = graph.analytics.project(["Port"], ["Leg"]).pagerank()
    graph.mutate('query q() { delete Port where code = "lis" }')
    expect(graph, ValidationError, "there is no Port to update", lambda: ranks.write("score"))


@pytest.mark.parametrize(
    "text",
    [
        "node A { x: I32 }",
        'node A @description("{ no body") /* { */ // {\n {\n  x: I32 // {\n}\n',
        "node A implements I {}\ninterface I { x: I32 }",
        "node B { y: I32 }\nnode A{x: I32}\nedge E: A -> B",
    ],
)
def test_a_property_is_declared_in_the_body_of_its_type(text: str) -> None:
    parsed = parse_schema(declare_property(text, "A", "rank: F64?"))
    assert {name: str(each.type) for name, each in parsed.catalog.nodes["A"].properties.items()} == {
        "rank": "F64?",
        "x": "I32",
    }
    rest = parse_schema(text).catalog
    assert [*parsed.catalog.nodes] == [*rest.nodes]

"""What people edited is not replaced unasked: values of a property, and edges, that an analysis wrote before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

import omnigraph as og
from omnigraph.analytics import AnalyticsResult
from omnigraph.analytics.results.edited_values import Replaced, refuse_edited
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph
from tests.counting import count_reads, counting_scans
from tests.graphs import written
from tests.maintain.ports import cleanup_now

SCHEMA = """
node Port { code: String @key  size: I32?  score: F64?  hops: I64?  level: I64 @default(0) }
node Berth { name: String @key  score: F64? }
edge Leg: Port -> Port
edge At: Berth -> Port
edge Alike: Port -> Port { score: F64  note: String? }
"""
CODES = ("ham", "lis", "osl", "rot")


def leg(begin: str, end: str) -> dict[str, object]:
    return {"edge": "Leg", "from": begin, "to": end}


def port(code: str, **data: object) -> dict[str, object]:
    return {"type": "Port", "data": {"code": code, **data}}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "ports.og", SCHEMA)
    made.load([port(code) for code in CODES[:2]])
    made.load([port(code) for code in CODES[2:]])
    made.load([leg("rot", "ham"), leg("ham", "osl"), leg("osl", "ham"), leg("lis", "ham")])
    made.load([{"type": "Berth", "data": {"name": "b1"}}, {"edge": "At", "from": "b1", "to": "rot"}])
    return made


def rank(graph: Graph, iterations: int = 20, branch: str = "main") -> AnalyticsResult:
    return graph.analytics.project(["Port"], ["Leg"], branch=branch).pagerank(iterations=iterations)


def update(graph: Graph, code: str, branch: str = "main", **values: object) -> None:
    graph.load([port(code, **values)], mode="update", branch=branch)


def scores(graph: Graph, branch: str = "main") -> dict[object, object]:
    return {row["id"]: row["score"] for row in graph.nodes("Port", branch=branch).to_arrow().to_pylist()}


def refuse(graph: Graph, result: AnalyticsResult, words: str, **where: object) -> ParameterError:
    """The error of a write that changes nothing."""
    before = written(graph), [each.name for each in graph.branches()]
    where = where if {"edge", "property"} & {*where} else {"property": "score", **where}
    with pytest.raises(ParameterError) as raised:
        result.write(**where)  # pyright: ignore[reportArgumentType]  as given
    assert re.search(words, raised.value.message), raised.value.message
    assert (written(graph), [each.name for each in graph.branches()]) == before
    assert "overwrite=True" in (raised.value.hint or "")
    return raised.value


ONE = r"Port.score has 1 value that its newest analysis did not write: rot$"


def test_a_value_that_was_changed_by_hand_is_not_replaced_unasked(graph: Graph) -> None:
    rank(graph, 1).write("score")
    graph.mutate('query q() { update Port set { score: 7.0 } where code = "rot" }')
    error = refuse(graph, rank(graph, 2), ONE)
    assert error.hint == "give overwrite=True to replace them, or another property"
    assert error.details == {
        "types": ["Port"],
        "property": "score",
        "counts": {"Port": 1},
        "ids": {"Port": ["rot"]},
        "commits": [],
    }
    refuse(graph, rank(graph, 2), ONE, branch="new", from_="main")
    rank(graph, 2).write("score", overwrite=True)
    assert scores(graph) == {row["id"]: row["rank"] for row in rank(graph, 2).rows}
    # It has been asked for: from now on these are values of an analysis.
    rank(graph, 3).write("score")
    assert graph.verify().findings == ()


def test_the_same_result_is_not_written_over_an_edit_either(graph: Graph) -> None:
    result = rank(graph)
    first = result.write("score")
    assert result.write("score").commit == first.commit
    update(graph, "rot", score=7.0)
    refuse(graph, result, ONE)
    again = result.write("score", overwrite=True)
    assert (again.replayed, scores(graph)) == (False, {row["id"]: row["rank"] for row in result.rows})
    assert result.write("score").replayed


def test_rows_without_a_value_are_nobodys(graph: Graph) -> None:
    rank(graph, 1).write("score")
    graph.mutate('query q() { update Port set { score: null } where code = "rot" }')
    graph.load([port("ant"), leg("ant", "rot")])
    update(graph, "ham", size=9)
    graph.mutate('query q() { delete Port where code = "lis" }')
    graph.optimize()
    rank(graph, 2).write("score")
    graph.mutate('query q() { delete Port where code = "osl" }')
    graph.load([port("osl")])
    rank(graph, 3).write("score")
    assert None not in scores(graph).values()


def test_rows_that_come_with_a_value_are_edited(graph: Graph) -> None:
    rank(graph, 1).write("score")
    long = "x" * 300
    graph.load([port(code, score=1.0) for code in ("ant", "é, ü", "日本", long, " ", "a'b", "z")])
    shown = f"Port.score has 7 values that its newest analysis did not write:  , a'b, ant, {long}, z and 2 more"
    assert refuse(graph, rank(graph, 2), "7 values").message == shown
    graph.mutate("query q() { delete Port where score = 1.0 }")
    graph.mutate('query q() { delete Port where code = "osl" }')
    graph.load([port("osl", score=3.0)])
    refuse(graph, rank(graph, 2), "1 value that .*: osl$")


def test_a_value_where_the_analysis_had_none_is_edited(graph: Graph) -> None:
    hops = graph.analytics.project(["Port"], ["Leg"]).bfs("rot")
    hops.write("hops")
    assert next(row for row in hops.rows if row["id"] == "lis")["distance"] is None
    update(graph, "lis", hops=5)
    refuse(graph, hops, "Port.hops has 1 value .*: lis$", property="hops")
    update(graph, "lis", hops=None)
    assert hops.write("hops").replayed


def test_a_default_is_nobodys_value_until_it_is_set(graph: Graph) -> None:
    cores = graph.analytics.project(["Port"], ["Leg"]).kcore()
    assert {row["core"] for row in cores.rows} == {1}
    cores.write("level", overwrite=True)
    graph.load([port("ant"), leg("ant", "rot")])
    again = graph.analytics.project(["Port"], ["Leg"]).kcore()
    again.write("level")
    update(graph, "rot", level=0)
    refuse(graph, again, "Port.level has 1 value .*: rot$", property="level")


def test_types_are_told_apart(graph: Graph) -> None:
    graph.analytics.project(direction="both").pagerank().write("score")
    update(graph, "rot", score=7.0)
    graph.load([{"type": "Berth", "data": {"name": "b2", "score": 1.0}}])
    both = graph.analytics.project(direction="both").pagerank(iterations=3)
    error = refuse(graph, both, "Berth.score has 1 value .*: b2; Port.score has 1 value .*: rot$")
    assert (error.details["types"], error.details["counts"]) == (["Berth", "Port"], {"Berth": 1, "Port": 1})


# --------------------------------------------------------------------------------------------- branches and merges


def test_an_edit_on_a_branch_counts_where_it_is_merged(graph: Graph) -> None:
    rank(graph).write("score", branch="review", from_="main")
    update(graph, "rot", branch="review", score=7.0)
    refuse(graph, rank(graph, 2), ONE, branch="review")
    graph.merge("review")
    refuse(graph, rank(graph, 2), ONE)
    refuse(graph, rank(graph, 2), ONE, branch="july", from_="main")


@pytest.mark.parametrize("deleted", [False, True])
def test_merged_results_are_no_edits(graph: Graph, deleted: bool) -> None:
    for number, branch in enumerate(("june", "july"), 1):
        rank(graph, number).write("score", branch=branch, from_="main")
        graph.load([{"type": "Berth", "data": {"name": f"b{number}2"}}])
        graph.merge(branch, delete_branch=deleted)
    update(graph, "ham", size=9)
    rank(graph, 3).write("score")
    update(graph, "rot", score=7.0)
    refuse(graph, rank(graph, 4), ONE)


def test_an_edit_that_a_merge_kept_is_an_edit(graph: Graph) -> None:
    rank(graph, 1).write("score")
    graph.create_branch("review")
    update(graph, "rot", score=7.0)
    rank(graph, 2).write("score", branch="review")
    graph.merge("review", prefer="ours")
    assert scores(graph)["rot"] == 7.0
    refuse(graph, rank(graph, 3), ONE)


def test_results_of_both_sides_of_a_merge_are_no_edits(graph: Graph) -> None:
    rank(graph, 1).write("score")
    graph.create_branch("review")
    rank(graph, 2).write("score", branch="review")
    mine = rank(graph, 3)
    mine.write("score")
    graph.merge("review", prefer="ours")
    assert scores(graph) == {row["id"]: row["rank"] for row in mine.rows}
    rank(graph, 4).write("score", branch="july", from_="main")
    graph.merge("july")
    update(graph, "rot", score=7.0)
    refuse(graph, rank(graph, 5), ONE)
    # What an older analysis wrote was put there by hand: it has been replaced since.
    update(graph, "ham", score=next(row["rank"] for row in mine.rows if row["id"] == "ham"))
    refuse(graph, rank(graph, 5), "2 values that .*: ham, rot$")


def test_a_branch_from_an_older_commit_knows_the_analyses_until_there(graph: Graph) -> None:
    update(graph, "rot", score=7.0)
    by_hand = graph.commits(limit=1)[0].id
    rank(graph).write("score", overwrite=True)
    refuse(graph, rank(graph, 2), "Port.score has values that no analysis wrote", branch="old", from_=by_hand)
    rank(graph, 2).write("score", branch="new", from_=graph.commits(limit=1)[0].id)


def test_what_a_revert_brings_back_is_an_edit(graph: Graph) -> None:
    update(graph, "rot", score=7.0)
    wrote = rank(graph).write("score", overwrite=True)
    assert wrote.commit is not None
    graph.revert(wrote.commit.id)
    assert graph.commits(limit=1)[0].message == f"revert {wrote.commit.id}: pagerank: Port.score"
    assert [each.commit.id for each in graph.analyses()] == [wrote.commit.id]
    refuse(graph, rank(graph, 2), ONE)


# --------------------------------------------------------------------------------------------- schema and upkeep


def test_a_property_that_was_dropped_and_added_again_is_another_one(graph: Graph) -> None:
    rank(graph).write("score")
    text = graph.schema.text
    graph.apply_schema(text.replace("score: F64?  hops", "hops"))
    graph.apply_schema(text)
    rank(graph, 2).write("score")
    graph.apply_schema(text.replace("score: F64?  hops", "hops"))
    graph.apply_schema(text)
    update(graph, "rot", score=7.0)
    refuse(graph, rank(graph, 3), "Port.score has values that no analysis wrote")


def test_a_renamed_property_has_no_analysis(graph: Graph) -> None:
    rank(graph).write("score")
    graph.apply_schema(graph.schema.text.replace("score: F64?  hops", 'rank: F64? @rename_from("score")  hops'))
    refuse(graph, rank(graph, 2), "Port.rank has values that no analysis wrote", property="rank")


def test_a_wider_type_changes_no_value(graph: Graph) -> None:
    degrees = graph.analytics.project(["Port"], ["Leg"]).degree()
    degrees.write("size")
    graph.apply_schema(graph.schema.text.replace("size: I32?", "size: I64?"))
    graph.load([leg("lis", "ham")])
    more = graph.analytics.project(["Port"], ["Leg"]).degree()
    update(graph, "rot", size=2**40)
    refuse(graph, more, "Port.size has 1 value .*: rot$", property="size")
    update(graph, "rot", size=0)
    more.write("size")


def test_a_branch_that_lags_behind_the_schema_is_compared_too(graph: Graph) -> None:
    degrees = graph.analytics.project(["Port"], ["Leg"]).degree()
    degrees.write("size", branch="review", from_="main")
    rank(graph).write("score", branch="review")
    update(graph, "ham", branch="review", size=77, score=7.0)
    text = graph.schema.text.replace("size: I32?", "size: I64?")
    graph.apply_schema(text.replace("score: F64?  hops", "note: String?  hops"))
    graph.apply_schema(text)
    refuse(graph, degrees, "Port.size has 1 value .*: ham$", property="size", branch="review")
    rank(graph, 2).write("score", branch="review")  # the values of the dropped property are nobody's
    update(graph, "rot", branch="review", size=2**40)
    refuse(graph, degrees, "Port.size has 2 values .*: ham, rot$", property="size", branch="review")


def test_a_commit_that_cleanup_removed_cannot_tell(graph: Graph) -> None:
    wrote = rank(graph).write("score")
    cleanup_now(graph, 1)
    rank(graph, 2).write("score")  # the newest commit stays
    graph.load([leg("rot", "osl")])
    graph.load([leg("rot", "lis")])
    last = graph.analyses()[0].commit
    assert wrote.commit != last
    cleanup_now(graph, 1)
    error = refuse(graph, rank(graph, 3), f"may have values that no analysis wrote: commit {last.id} cannot be read")
    assert error.details["commits"] == [last.id]
    assert error.hint == (
        "give overwrite=True if nobody changed them, or another property; a tag keeps a commit from cleanup"
    )
    rank(graph, 3).write("score", overwrite=True)
    graph.create_tag("ranked", "main")
    graph.load([leg("osl", "lis")])
    cleanup_now(graph, 1)
    rank(graph, 4).write("score")
    graph.load([leg("osl", "rot")])
    graph.load([port(str(code), score=None) for code in scores(graph)], mode="update")
    cleanup_now(graph, 1)
    rank(graph, 5).write("score")  # there is nothing to replace


def test_only_what_can_differ_is_read(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.load([port(f"p{number}") for number in range(2000)])
    rank(graph).write("score")
    graph.load([leg("rot", "osl")])
    replaced = [Replaced(graph.schema.catalog.nodes["Port"], "score")]
    with monkeypatch.context() as patch:
        reads = count_reads(patch)
        refuse_edited(graph._manifest, graph.snapshot(), replaced)
        assert [*reads] in ([], ["__manifest"])
    update(graph, "p7", size=3)
    with counting_scans() as count:
        refuse_edited(graph._manifest, graph.snapshot(), replaced)
        assert 0 < count() < 50


# --------------------------------------------------------------------------------------------- edges


def alike(graph: Graph, top_k: int = 2) -> AnalyticsResult:
    return graph.analytics.project(["Port"], ["Leg"], direction="both").similarity(top_k=top_k)


def test_edges_that_people_made_or_changed_are_not_replaced_unasked(graph: Graph) -> None:
    alike(graph).write(edge="Alike")
    graph.load([leg("rot", "osl")])
    graph.mutate('query q() { match { $a: Port { code: "ham" }  $a $e:alike $b } delete $e }')
    graph.load([{"edge": "Leg", "from": "lis", "to": "ham"}])
    alike(graph).write(edge="Alike")  # what is deleted is nobody's
    graph.load([{"edge": "Alike", "from": "rot", "to": "rot", "data": {"id": "mine", "score": 1.0}}])
    error = refuse(
        graph, alike(graph, 1), "Alike has 1 edge that its newest analysis did not write: mine$", edge="Alike"
    )
    assert error.hint == "give overwrite=True to replace them, or another edge type"
    assert (error.details["types"], error.details["ids"]) == (["Alike"], {"Alike": ["mine"]})
    alike(graph, 1).write(edge="Alike", overwrite=True)
    graph.mutate('query q() { match { $a: Port  $a $e:alike $b } update $e set { note: "seen" } }')
    count = graph.edges("Alike").to_arrow().num_rows
    refuse(graph, alike(graph), f"Alike has {count} edges that its newest analysis did not write", edge="Alike")
    result = alike(graph)
    assert [result.write(edge="Alike", overwrite=True).replayed, result.write(edge="Alike").replayed] == [False, True]


# --------------------------------------------------------------------------------------------- any history


@pytest.mark.parametrize("seed", range(4))
def test_exactly_what_was_edited_is_named(graph: Graph, seed: int) -> None:
    chance = Random(seed)  # noqa: S311  no secret
    graph.load([port(f"p{number}") for number in range(20)])
    told: Mapping[object, object] = {}
    for step in range(8):
        result = rank(graph, step + 1)
        now = scores(graph)
        edited = sorted(str(code) for code, value in now.items() if value is not None and value != told.get(code))
        if edited and step:
            error = refuse(graph, result, f"Port.score has {len(edited)} value")
            assert error.details["ids"] == {"Port": edited[:5]}
        result.write("score", overwrite=bool(edited))
        told = scores(graph)
        for code in chance.sample(sorted(map(str, told)), chance.randrange(4)):
            match chance.randrange(5):
                case 0:
                    update(graph, code, score=chance.random())
                case 1:
                    update(graph, code, score=None)
                case 2:
                    update(graph, code, size=step)
                case 3:
                    graph.mutate("query q($c: String) { delete Port where code = $c }", params={"c": code})
                case _:
                    graph.mutate("query q($c: String) { delete Port where code = $c }", params={"c": code})
                    graph.load([port(code, score=chance.choice([None, 0.5]))])
        if chance.random() < 0.3:
            graph.optimize()

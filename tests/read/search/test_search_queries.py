"""Search in whole queries: on scanned and traversed variables, in return and in order, with indexes and without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph
from omnigraph.read.search import scores as search_module

SCHEMA = """
node Paper {
  code: String @key
  title: String @index
  status: enum(open, shut) @index
  gist: Vector(2)? @index
}
edge Cites: Paper -> Paper
"""
TITLES = {
    "p1": "Foxes of the north",
    "p2": "A fox, a fox and another fox",
    "p3": "Dogs running",
    "p4": "The runner and the fox",
    "p5": "Birds",
}
GISTS: dict[str, list[float] | None] = {
    "p1": [0.0, 0.0], "p2": [1.0, 0.0], "p3": [0.0, 2.0], "p4": None, "p5": [3.0, 4.0],
}  # fmt: skip
CITES = [("p5", "p1"), ("p5", "p2"), ("p3", "p2"), ("p4", "p1")]


@pytest.fixture(scope="module", params=["indexes", "no indexes"])
def papers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Papers that no test changes."""
    graph = omnigraph.init(tmp_path_factory.mktemp("papers") / "papers.og", SCHEMA)
    with graph.transaction() as tx:
        for code, title in TITLES.items():
            tx.mutate(
                "query q($c: String, $t: String, $s: String, $g: Vector(2)?)"
                " { insert Paper { code: $c, title: $t, status: $s, gist: $g } }",
                params={"c": code, "t": title, "s": "shut" if code == "p1" else "open", "g": GISTS[code]},
            )
        for one, other in CITES:
            tx.mutate(f'query q() {{ insert Cites {{ from: "{one}", to: "{other}" }} }}')
    if request.param == "indexes":
        graph.ensure_indexes()
    return graph


def rows(graph: Graph, query: str, **params: object) -> list[tuple[object, ...]]:
    found = cast("list[Mapping[str, object]]", graph.query(query, params=params).rows)
    return [tuple(row.values()) for row in found]


def test_words_on_a_scanned_variable(papers: Graph) -> None:
    query = "query q($w: String) { match { $p: Paper search($p.title, $w) } return { $p.code } order { $p.code } }"
    assert rows(papers, query, w="fox") == [("p1",), ("p2",), ("p4",)]
    assert rows(papers, query, w="the") == []


def test_several_text_clauses_all_apply(papers: Graph) -> None:
    query = (
        'query q() { match { $p: Paper search($p.title, "fox") match_text($p.title, "runners") } return { $p.code } }'
    )
    assert rows(papers, query) == [("p4",)]


def test_words_on_a_traversed_variable(papers: Graph) -> None:
    query = """query q() {
      match { $a: Paper { code: "p5" }  $a cites $b  search($b.title, "north") }
      return { $b.code }
    }"""
    assert rows(papers, query) == [("p1",)]


def test_words_in_a_negation_and_their_opposite(papers: Graph) -> None:
    without = 'query q() { match { $p: Paper not { search($p.title, "fox") } } return { $p.code } order { $p.code } }'
    opposite = 'query q() { match { $p: Paper search($p.title, "fox") = false } return { $p.code } order { $p.code } }'
    assert rows(papers, without) == [("p3",), ("p5",)]
    assert rows(papers, opposite) == [("p3",), ("p5",)]


def test_typing_errors(papers: Graph) -> None:
    query = 'query q($e: I32) { match { $p: Paper fuzzy($p.title, "birts", $e) } return { $p.code } }'
    assert rows(papers, query, e=0) == []
    assert rows(papers, query, e=1) == [("p5",)]
    with pytest.raises(ParameterError, match="edits of fuzzy are -1"):
        rows(papers, query, e=-1)


def test_the_best_texts_with_their_scores(papers: Graph) -> None:
    query = """query q() {
      match { $p: Paper }
      return { $p.code, bm25($p.title, "fox") as score }
      order { bm25($p.title, "fox") }
    }"""
    found = rows(papers, query)
    assert found[0][0] == "p2", "the word is in it three times"
    assert {code for code, _ in found} == {"p1", "p2", "p4"}
    scores = [cast(float, score) for _, score in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("few", [0, 10_000])
def test_conditions_apply_before_the_nearest_are_taken(
    papers: Graph, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(search_module, "_FEW", few)
    query = """query q() {
      match { $p: Paper { status: "open" } }
      return { $p.code, nearest($p.gist, [0.0, 0.0]) as away }
      order { nearest($p.gist, [0.0, 0.0]) } limit 2
    }"""
    assert rows(papers, query) == [("p2", 1.0), ("p3", 2.0)]


def test_rows_of_one_entity_stay_together(papers: Graph) -> None:
    query = """query q() {
      match { $p: Paper  $q cites $p }
      return { $p.code, $q.code as by }
      order { nearest($p.gist, [1.0, 0.0]) } limit 10
    }"""
    assert rows(papers, query) == [("p2", "p3"), ("p2", "p5"), ("p1", "p4"), ("p1", "p5")]


def test_a_traversed_variable_is_ranked_among_what_was_found(papers: Graph) -> None:
    query = """query q() {
      match { $a: Paper { code: "p5" }  $a cites $b }
      return { $b.code }
      order { nearest($b.gist, [5.0, 0.0]) } limit 1
    }"""
    assert rows(papers, query) == [("p2",)]


def test_both_rankings_fused_with_the_score_they_are_ordered_by(papers: Graph) -> None:
    query = """query q() {
      match { $p: Paper }
      return { $p.code, rrf(nearest($p.gist, [0.0, 2.0]), bm25($p.title, "dogs")) as score }
      order { score } limit 3
    }"""
    assert rows(papers, query) == [("p3", 2 / 61), ("p1", 1 / 62), ("p2", 1 / 63)]


def test_a_null_vector_finds_nothing(papers: Graph) -> None:
    query = """query q($v: Vector(2)?) {
      match { $p: Paper }
      return { $p.code } order { nearest($p.gist, $v) } limit 3
    }"""
    assert rows(papers, query) == []


def test_a_text_to_be_near_to_is_embedded(papers: Graph) -> None:
    query = """query q($w: String) {
      match { $p: Paper }
      return { $p.code, nearest($p.gist, $w) as away } order { nearest($p.gist, $w) } limit 5
    }"""
    graph = omnigraph.open(Path(papers.uri), mode="ro", embed={"provider": "mock"})
    first, again = rows(graph, query, w="words"), rows(graph, query, w="words")
    assert len(first) == 4
    assert first == again
    assert first != rows(graph, query, w="other words")

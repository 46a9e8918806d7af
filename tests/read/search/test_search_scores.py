"""Scores of words: after any history those of a new index, by an independent implementation of BM25."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.graph import Graph
from omnigraph.storage import tables
from omnigraph.write.indexes import ensure_indexes
from tests.read.search.searched_graphs import DOC, add, documents
from tests.selection import sized

STEMS = {"fox": "fox", "foxes": "fox", "run": "run", "running": "run", "dog": "dog", "blue": "blue"}
STOP_WORDS = ("the", "and")
CODES = "abcdefgh"


def expected_scores(rows: Mapping[str, str | None], query: str) -> dict[str, float]:
    """BM25 with k1 = 1.2 and b = 0.75 over the documents that have words."""
    words = {code: [STEMS[word] for word in (text or "").split() if word in STEMS] for code, text in rows.items()}
    words = {code: stems for code, stems in words.items() if stems}
    average = sum(map(len, words.values())) / max(len(words), 1)
    scores: dict[str, float] = {}
    for term in (STEMS[word] for word in query.split() if word in STEMS):
        having = [code for code, stems in words.items() if term in stems]
        rarity = log(1 + (len(words) - len(having) + 0.5) / (len(having) + 0.5))
        for code in having:
            times = words[code].count(term)
            length = 0.25 + 0.75 * len(words[code]) / average
            scores[code] = scores.get(code, 0.0) + rarity * times * 2.2 / (times + 1.2 * length)
    return scores


def all_scores(graph: Graph, query: str, column: str, branch: str) -> dict[str, float]:
    """The score of every document that has one, each asked for on its own row."""
    text = f"query q($w: String) {{ match {{ $d: Doc }} return {{ $d.code as c, bm25($d.{column}, $w) as s }} }}"
    rows = graph.query(text, params={"w": query}, branch=branch).rows
    return {str(row["c"]): float(str(row["s"])) for row in rows if row["s"] is not None}


def best_scores(graph: Graph, query: str, column: str, branch: str, limit: int) -> list[tuple[str, float]]:
    """The best documents, best first."""
    text = (
        f"query q($w: String) {{ match {{ $d: Doc }} return {{ $d.code as c, bm25($d.{column}, $w) as s }} "
        f"order {{ bm25($d.{column}, $w) desc }} limit {limit} }}"
    )
    rows = graph.query(text, params={"w": query}, branch=branch).rows
    return [(str(row["c"]), float(str(row["s"]))) for row in rows]


def check_scores(graph: Graph, rows: Mapping[str, str | None], query: str, branch: str = "main") -> None:
    expected = expected_scores(rows, query)
    for column in ("body", "plain"):
        assert all_scores(graph, query, column, branch) == pytest.approx(expected, rel=1e-6, abs=1e-6)
        for limit in (1, 3):
            best = best_scores(graph, query, column, branch, limit)
            assert [score for _, score in best] == pytest.approx(
                sorted(expected.values(), reverse=True)[:limit], rel=1e-6
            )
            assert dict(best) == pytest.approx({code: expected[code] for code, _ in best}, rel=1e-6, abs=1e-6)


texts = st.one_of(st.none(), st.lists(st.sampled_from([*STEMS, *STOP_WORDS]), max_size=5).map(" ".join))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(st.sampled_from(CODES), texts, min_size=1)),
        st.tuples(st.just("set"), st.dictionaries(st.sampled_from(CODES), texts, min_size=1)),
        st.tuples(st.just("delete"), st.sampled_from(CODES)),
        st.tuples(st.sampled_from(["index", "optimize", "branch", "empty"]), st.none()),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=sized(10, 200))
@given(steps, st.lists(st.sampled_from([*STEMS, "the"]), min_size=1, max_size=3).map(" ".join))
def test_scores_are_those_of_the_live_rows_after_any_history(
    history: list[tuple[str, dict[str, str | None] | str | None]], query: str
) -> None:
    rows: dict[str, str | None] = {}
    branch = "main"
    with TemporaryDirectory() as folder:
        graph = documents(Path(folder))
        for action, value in history:
            match action, value:
                case "put", dict():
                    rows |= value
                    changed = [{"code": code, "body": text, "plain": text} for code, text in value.items()]
                    graph.load([{"type": "Doc", "data": row} for row in changed], mode="merge", branch=branch)
                case "set", dict():
                    known = {code: text for code, text in value.items() if code in rows}
                    rows |= known
                    changed = [{"code": code, "body": text, "plain": text} for code, text in known.items()]
                    if changed:
                        graph.load([{"type": "Doc", "data": row} for row in changed], mode="update", branch=branch)
                case "delete", str():
                    rows.pop(value, None)
                    graph.mutate(f'query q() {{ delete Doc where code = "{value}" }}', branch=branch)
                case "index", _:
                    ensure_indexes(graph._manifest, branch)
                case "optimize", _:
                    graph.optimize(branch=branch)
                case "branch", _:
                    graph.create_branch(f"{branch}x", branch)
                    branch = f"{branch}x"
                case _:
                    add(graph, [])
        check_scores(graph, rows, query, branch)


def test_a_deleted_row_cannot_be_inferred_from_scores(tmp_path: Path) -> None:
    graph = documents(
        tmp_path, [{"code": "a", "body": "fox"}, {"code": "b", "body": "dog"}, {"code": "c", "body": "run"}]
    )
    before = all_scores(graph, "fox", "body", "main")
    add(graph, [{"code": "secret", "body": "fox fox fox"}])
    ensure_indexes(graph._manifest, "main")
    graph.mutate('query q() { delete Doc where code = "secret" }')
    assert all_scores(graph, "fox", "body", "main") == pytest.approx(before, rel=1e-6, abs=1e-6)


def test_an_exact_index_ranks_without_our_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = documents(tmp_path, [{"code": code, "body": "fox dog"} for code in CODES])
    ensure_indexes(graph._manifest, "main")
    monkeypatch.setattr(tables, "score_texts", None)
    assert len(all_scores(graph, "fox", "body", "main")) == len(CODES)


def test_many_texts_are_split_where_one_ends(tmp_path: Path) -> None:
    rows = {f"d{number}": "fox dog " * (number % 3) + "blue" for number in range(2_500)}
    graph = documents(tmp_path, [{"code": code, "body": text, "plain": text} for code, text in rows.items()])
    ensure_indexes(graph._manifest, "main")
    graph.mutate('query q() { delete Doc where code = "d7" }')
    del rows["d7"]
    check_scores(graph, rows, "fox blue")


def test_optimize_makes_an_index_exact_again(tmp_path: Path) -> None:
    graph = documents(tmp_path, [{"code": code, "body": "fox dog"} for code in CODES])
    ensure_indexes(graph._manifest, "main")
    graph.mutate('query q() { delete Doc where code = "a" }')
    assert not tables.read_text_statistics(graph.snapshot().table(DOC), "body").is_exact
    graph.optimize()
    assert tables.read_text_statistics(graph.snapshot().table(DOC), "body").is_exact

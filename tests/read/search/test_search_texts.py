"""Words in texts: the same rows with an index, without one, and with one that lags behind."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.deadlines import Deadline
from omnigraph.errors import Cancelled, ParameterError
from omnigraph.graph import Graph
from omnigraph.language.query.ast import TextFunction
from omnigraph.language.query.typed_tree import ParameterValue, TextMatch
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.contents import read_contents
from omnigraph.read.search import text as text_search
from omnigraph.storage.columns import to_list
from omnigraph.write.indexes import ensure_indexes
from tests.read.search.searched_graphs import (
    DOC,
    TEXT,
    add,
    bm25,
    documents,
    frame_of,
    full_table,
    fuzzy,
    make_search_context,
    match,
    partial_table,
    text,
)
from tests.selection import sized

BODIES: dict[str, str | None] = {
    "a": "The quick brown foxes",
    "b": "a fox runs",
    "c": "running dogs",
    "d": None,
    "e": "the and of",
    "f": "Zürich, RUNNING!",
    "g": "",
}


@pytest.fixture(scope="module", params=["index", "no index", "half an index", "beside"])
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Documents that no test changes."""
    tmp_path = tmp_path_factory.mktemp("docs")
    rows = [{"code": code, "body": body, "plain": body} for code, body in BODIES.items()]
    match request.param:
        case "index":
            graph = documents(tmp_path, rows)
            ensure_indexes(graph._manifest, "main")
        case "half an index":
            graph = documents(tmp_path, rows[:3])
            ensure_indexes(graph._manifest, "main")
            add(graph, rows[3:])
        case "beside":
            # Every row of the index was replaced since.
            graph = documents(tmp_path, [{"code": code, "body": "fox dog zurich"} for code in BODIES])
            ensure_indexes(graph._manifest, "main")
            add(graph, rows)
        case _:
            graph = documents(tmp_path, rows)
    return graph


def found(graph: Graph, expression: TextMatch) -> set[str]:
    """The matches, asked for in both ways."""
    search = make_search_context(graph).search
    ids = set(texts_of(search.find_matching_ids(expression, DOC)))
    rows = full_table(graph)
    flags = to_list(search.score(expression, frame_of(rows)))
    named = texts_of(rows.take_ids(frame_of(rows).bindings["d"].positions))
    assert ids == {name for name, flag in zip(named, flags, strict=True) if flag}
    assert set(flags) <= {True, False}
    return ids


def texts_of(ids: pa.StringArray) -> list[str]:
    return [str(each) for each in ids.to_pylist()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fox", {"a", "b"}),
        ("Foxes running", {"a", "b", "c", "f"}),
        ("zurich", {"f"}),
        ("the", set[str]()),
        ("", set[str]()),
        ("cat", set[str]()),
        ("dog's", {"c"}),
    ],
)
@pytest.mark.parametrize("function", [TextFunction.SEARCH, TextFunction.MATCH_TEXT])
@pytest.mark.parametrize("column", ["body", "plain"])
def test_any_word_in_its_stem(docs: Graph, words: str, expected: set[str], function: TextFunction, column: str) -> None:
    assert found(docs, match(text(words), column, function)) == expected


@pytest.mark.parametrize(
    ("words", "edits", "expected"),
    [
        ("foy", 0, set[str]()),
        ("foy", 1, {"a", "b"}),
        ("zurih", 1, {"f"}),
        ("zrih", 1, set[str]()),
        ("zrih", None, {"f"}),
        ("brwn dogs", 1, {"a", "c"}),
        ("RUNING", 1, {"b", "c", "f"}),
        ("FOXED", 1, {"a", "b"}),
        ("the", 1, set[str]()),
        ("x" * 60, 2, set[str]()),
    ],
)
def test_words_with_typing_errors(docs: Graph, words: str, edits: int | None, expected: set[str]) -> None:
    assert found(docs, fuzzy(words, edits)) == expected
    assert found(docs, fuzzy(words, edits, "plain")) == expected


def test_scores_are_those_of_the_words_and_null_without_a_match(docs: Graph) -> None:
    rows = partial_table(docs, list(BODIES))
    scores = dict(
        zip(
            BODIES,
            to_list(make_search_context(docs).search.score(bm25(text("fox running")), frame_of(rows))),
            strict=True,
        )
    )
    assert {code for code, score in scores.items() if score is not None} == {"a", "b", "c", "f"}
    ranked = {code: float(str(score)) for code, score in scores.items() if score is not None}
    assert max(ranked, key=lambda code: ranked[code]) == "b", "both words are in it"
    assert min(ranked.values()) > 0


def test_nothing_matches_a_null_query_and_nothing_has_a_score(docs: Graph) -> None:
    words = ParameterValue("q", TEXT)
    search = make_search_context(docs, {"q": None}).search
    rows = frame_of(full_table(docs))
    assert set(to_list(search.score(match(words), rows))) == {False}
    assert set(to_list(search.score(bm25(words), rows))) == {None}
    assert len(search.find_matching_ids(match(words), DOC)) == 0


def test_an_entity_has_its_score_in_every_row(docs: Graph) -> None:
    rows = partial_table(docs, ["b", "c"])
    scores = to_list(make_search_context(docs).search.score(bm25(text("fox")), frame_of(rows, [1, 0, 0, 1])))
    assert scores[0] is None
    assert scores[3] is None
    assert scores[1] == scores[2] != None  # noqa: E711  all three at once


def test_scores_do_not_depend_on_the_other_candidates(docs: Graph) -> None:
    few = to_list(make_search_context(docs).search.score(bm25(text("fox")), frame_of(partial_table(docs, ["b"]))))
    many = to_list(
        make_search_context(docs).search.score(bm25(text("fox")), frame_of(partial_table(docs, ["b", "a", "c"])))
    )
    assert few[0] == many[0]


def test_edits_must_not_be_too_many_for_a_long_word(docs: Graph) -> None:
    search = make_search_context(docs).search
    with pytest.raises(ParameterError, match="so many edits") as caught:
        search.find_matching_ids(fuzzy("incomprehensibilities", 5), DOC)
    assert caught.value.hint == "use at most 2 edits"


def test_an_empty_table_and_one_without_texts(tmp_path: Path) -> None:
    graph = documents(tmp_path)
    assert found(graph, match(text("fox"))) == set()
    add(graph, [{"code": "a"}])
    assert found(graph, match(text("fox"))) == set()
    ensure_indexes(graph._manifest, "main")
    assert found(graph, match(text("fox"))) == set()


def test_the_index_in_memory_is_kept_for_the_next_query_until_rows_change(tmp_path: Path) -> None:
    graph = documents(tmp_path, [{"code": "a", "plain": "fox"}])
    cache = Cache(2**24)
    make_search_context(graph, cache=cache).search.find_matching_ids(match(text("fox"), "plain"), DOC)
    key = (read_contents(graph.snapshot(), DOC, cache), "texts", "plain")
    kept = cache.peek(key)
    make_search_context(graph, cache=cache).search.find_matching_ids(match(text("dog"), "plain"), DOC)
    assert kept is not None
    assert cache.peek(key) is kept
    add(graph, [{"code": "b", "plain": "foxes"}])
    again = make_search_context(graph, cache=cache).search.find_matching_ids(match(text("fox"), "plain"), DOC)
    assert set(texts_of(again)) == {"a", "b"}


STEMS = {"fox": "fox", "foxes": "fox", "run": "run", "running": "run", "runs": "run", "dog": "dog", "blue": "blue"}
texts = st.one_of(st.none(), st.lists(st.sampled_from([*STEMS, "the", "and"]), max_size=4).map(" ".join))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(st.sampled_from("abcdef"), texts, min_size=1)),
        st.tuples(st.just("delete"), st.sampled_from("abcdef")),
        st.tuples(st.just("index"), st.none()),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=sized(6, 60))
@given(steps, st.lists(st.sampled_from([*STEMS, "the"]), min_size=1, max_size=2).map(" ".join))
def test_after_any_history_the_rows_are_those_with_a_stem_of_a_word(
    history: list[tuple[str, dict[str, str | None] | str | None]], words: str
) -> None:
    model: dict[str, str | None] = {}
    with TemporaryDirectory() as folder:
        graph = documents(Path(folder))
        for _, given_ in history:
            match given_:
                case dict():
                    model |= given_
                    add(graph, [{"code": code, "body": body, "plain": body} for code, body in given_.items()])
                case str():
                    model.pop(given_, None)
                    graph.mutate(f'query q() {{ delete Doc where code = "{given_}" }}')
                case None:
                    ensure_indexes(graph._manifest, "main")
        wanted = {STEMS[word] for word in words.split() if word in STEMS}
        expected = {
            code for code, body in model.items() if body and wanted & {STEMS.get(word, "") for word in body.split()}
        }
        for column in ("body", "plain"):
            assert found(graph, match_of(words, column)) == expected
            assert found(graph, fuzzy(words, 0, column)) == expected
            assert found(graph, fuzzy(words, 1, column)) >= expected
            # One letter more, at an end where no stemming can hide it.
            mistyped = " ".join(f"{STEMS.get(word, word)}q" for word in words.split() if word in STEMS)
            assert found(graph, fuzzy(mistyped, 1, column)) >= expected


def match_of(words: str, column: str) -> TextMatch:
    return match(text(words), column)


def test_the_index_of_one_search_is_left_alone_when_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = documents(tmp_path, [{"code": "a", "plain": "a fox"}, {"code": "b", "plain": "a dog"}])
    query = 'query q() { match { $d: Doc  search($d.plain, "fox") } return { $d.code } }'
    deadline, go_on, build = Deadline(), Event(), text_search._index_in_memory

    def cancel_and_wait(texts: pa.Table) -> object:
        deadline.cancel()
        assert go_on.wait(60), "the search waits for its index"
        return build(texts)

    with monkeypatch.context() as patch:
        patch.setattr(text_search, "_index_in_memory", cancel_and_wait)
        with pytest.raises(Cancelled):
            _ = graph.query(query, timeout=deadline).rows
        go_on.set()
    assert graph.query(query).rows == [{"d.code": "a"}]

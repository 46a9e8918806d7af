"""Generated `.gq` programs: printing and parsing are inverse, and no text makes the parser fail."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import Problem
from omnigraph.language.query import format_queries
from omnigraph.language.query.ast import QueryDocument
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.source import Source, decode_source
from tests.language.query.query_printer import print_queries
from tests.language.query.query_strategies import broken_texts, fuzzing, query_files


@fuzzing(100)
@given(query_files)
def test_what_is_printed_parses_to_the_same_tree(file: QueryDocument) -> None:
    # Compared as text: to Python, 1, 1.0 and True are equal.
    assert repr(parse_query_text(Source(print_queries(file)))) == repr(file)


@fuzzing(50)
@given(query_files)
def test_the_layout_of_what_is_printed_parses_to_the_same_tree(file: QueryDocument) -> None:
    laid_out = format_queries(Source(print_queries(file)))
    assert isinstance(laid_out, str)
    assert repr(parse_query_text(Source(laid_out))) == repr(file)
    assert format_queries(Source(laid_out)) == laid_out


@fuzzing(100)
@given(broken_texts())
def test_a_broken_text_gives_a_tree_or_problems(text: str) -> None:
    assert_readable(parse_query_text(decode_source(text.encode("utf-8"), "broken.gq")))


@fuzzing(100)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_tree_or_problems(data: bytes) -> None:
    assert_readable(parse_query_text(decode_source(data, None)))


@fuzzing(100)
@given(st.text(max_size=60))
def test_any_text_gives_a_tree_or_problems(text: str) -> None:
    assert_readable(parse_query_text(Source(text)))


def assert_readable(parsed: QueryDocument | list[Problem]) -> None:
    if isinstance(parsed, QueryDocument):
        assert repr(parse_query_text(Source(print_queries(parsed)))) == repr(parsed)
        return
    assert parsed
    for problem in parsed:
        assert problem.code == "Q000"
        assert 1 <= problem.position.column < problem.position.end_column
        assert problem.position.column <= len(problem.position.text) + 1
        assert problem.message in problem.render()

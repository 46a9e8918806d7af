"""Whatever parses can be checked: the result is a typed query that has a plan, or problems with a place and a code."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import Problem
from omnigraph.language.query import ast
from omnigraph.language.query.check.codes import CODES
from omnigraph.language.query.check.queries import check_query
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.query.plan.planner import plan_mutation, plan_read
from omnigraph.language.query.typed_statements import TypedMutation
from omnigraph.language.schema import parse_schema
from omnigraph.language.source import Source
from tests.language.query.query_printer import print_queries
from tests.language.query.query_strategies import fuzzing, query_files

CASES = Path(__file__).parents[3] / "cases"
VESSELS = parse_schema(CASES / "vessels.pg").catalog
QUERIES = sorted(
    query
    for path in (CASES / "query_check").glob("*.case")
    for query in re.findall(r"(?ms)^--- query\n(.*?)(?=^---|\Z)", path.read_text("utf-8"))
)
TOKEN = re.compile(r'"[^"]*"|\$?\w+|\s+|.', re.DOTALL)
WORDS = sorted({token for query in QUERIES for token in TOKEN.findall(query) if not token.isspace()})


@fuzzing(200)
@given(st.sampled_from(QUERIES), st.lists(st.tuples(st.integers(0, 500), st.sampled_from(WORDS)), max_size=4))
def test_a_query_with_words_replaced(text: str, replacements: list[tuple[int, str]]) -> None:
    tokens = TOKEN.findall(text)
    words = [place for place, token in enumerate(tokens) if not token.isspace()]
    for place, word in replacements:
        tokens[words[place % len(words)]] = word
    check_any("".join(tokens))


@fuzzing(100)
@given(query_files)
def test_a_generated_program(file: ast.QueryDocument) -> None:
    check_any(print_queries(file))


def check_any(text: str) -> None:
    source = Source(text)
    file = parse_query_text(source)
    if not isinstance(file, ast.QueryDocument):
        return
    for query in file.queries:
        found = check_query(query, VESSELS, source)
        if isinstance(found, list):
            check_problems(found, text.split("\n"))
        elif not isinstance(found, TypedMutation):
            plan_read(found)
        else:
            plan_mutation(found)


def check_problems(problems: list[Problem], lines: list[str]) -> None:
    assert problems
    for problem in problems:
        assert problem.code in CODES
        assert problem.hint
        assert problem.position.text == lines[problem.position.line - 1]
        assert 1 <= problem.position.column <= len(problem.position.text) + 1
    places = [(problem.position.line, problem.position.column) for problem in problems]
    assert places == sorted(places)


def test_every_case_is_fit_for_fuzzing() -> None:
    assert len(QUERIES) > 100
    for query in QUERIES:
        check_any(query)

"""The vocabulary for editors: it knows what the grammar and the checker know, and its forms parse."""

from __future__ import annotations

import re

import pytest

from omnigraph.language.query import list_vocabulary
from omnigraph.language.query.ast import AggregateFunction, TextFunction
from omnigraph.language.query.keywords import list_grammar_calls
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.query.typed_tree import Function, PathFunction
from omnigraph.language.source import Source

FUNCTIONS = list_vocabulary().functions


def test_every_function_has_a_form() -> None:
    named = {*AggregateFunction, *TextFunction, *Function, *PathFunction}
    others = {"type", "now", "date", "datetime", "nearest", "bm25", "rrf"}
    assert set(FUNCTIONS) == {*map(str, named), *others}
    assert list_grammar_calls() <= set(FUNCTIONS)


@pytest.mark.parametrize("form", FUNCTIONS.values())
def test_a_form_parses(form: str) -> None:
    column = form.replace(", ...", "")
    parsed = parse_query_text(Source(f"query q() {{ match {{ $x: T }} return {{ {column} as n }} }}"))
    assert not isinstance(parsed, list), [problem.render() for problem in parsed]


def test_keywords_operators_and_types() -> None:
    found = list_vocabulary()
    assert {"query", "match", "return", "having", "optional", "exists", "case", "else", "insert"} <= set(found.keywords)
    assert {"=", "!=", "contains", "matches", "in", "and", "or", "+", "/"} <= set(found.operators)
    assert {"String", "I64", "DateTime", "Vector"} <= set(found.types)
    assert not {*found.keywords} & {*found.operators, *found.functions}
    assert all(re.fullmatch(r"[a-z_0-9]+", word) for word in found.keywords)
    assert set(found.to_json()) == {"keywords", "operators", "types", "functions"}

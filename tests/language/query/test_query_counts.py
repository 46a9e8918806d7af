"""Counts given as parameters (a limit, the k of rrf, the edits of fuzzy) are checked when parameters are bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import ParameterError
from omnigraph.language.query import compile_query
from omnigraph.language.schema import parse_schema

CATALOG = parse_schema(Path(__file__).parents[2] / "cases" / "vessels.pg").catalog
LIMITS = [
    "return { $v } limit $n",
    "return { $v } order { $v.code } limit $n",
    "return { count($v) as n } limit $n",
    "return { $v } order { nearest($v.prof, [1, 2]) } limit $n",
    'return { $v } order { bm25($v.name, "fox") } limit $n',
    'return { $v } order { rrf(nearest($v.prof, [1, 2]), bm25($v.name, "fox")) } limit $n',
]
RANK_CONSTANTS = [
    'return { $v } order { rrf(nearest($v.prof, [1, 2]), bm25($v.name, "fox"), $n) } limit 1',
    'return { rrf(nearest($v.prof, [1, 2]), bm25($v.name, "fox"), $n) as score }',
]
EDITS = [
    'fuzzy($v.name, "fox", $n) } return { $v }',
    'not { $v tows $w fuzzy($w.name, "fox", $n) } } return { $v }',
    '} return { $v, fuzzy($v.name, "fox", $n) as found }',
]


def _bind(rest: str, value: object, type_: str = "I64") -> object:
    text = f"query q($n: {type_}) {{ match {{ $v: Vessel {rest} }}"
    return compile_query(text, CATALOG).bind_parameters({"n": value})["n"]


@pytest.mark.parametrize("rest", LIMITS)
def test_a_limit_is_zero_or_more(rest: str) -> None:
    assert _bind("} " + rest, 0) == 0
    with pytest.raises(ParameterError, match=r"limit \$n is -1"):
        _bind("} " + rest, -1)


@pytest.mark.parametrize("rest", RANK_CONSTANTS)
def test_the_k_of_rrf_is_one_or_more(rest: str) -> None:
    assert _bind("} " + rest, 1) == 1
    with pytest.raises(ParameterError, match="the k of rrf is 0"):
        _bind("} " + rest, 0)


@pytest.mark.parametrize("rest", EDITS)
def test_the_edits_of_fuzzy_are_zero_or_more(rest: str) -> None:
    assert _bind(rest, 0) == 0
    with pytest.raises(ParameterError, match="the edits of fuzzy are -2"):
        _bind(rest, -2)


@pytest.mark.parametrize("value", [None, 1.5, "many", True, [1]])
@pytest.mark.parametrize("rest", ["} " + LIMITS[0], "} " + RANK_CONSTANTS[0], EDITS[0]])
def test_a_count_is_a_whole_number(rest: str, value: object) -> None:
    with pytest.raises(ParameterError, match="param 'n': expected I64"):
        _bind(rest, value)

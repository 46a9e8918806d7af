"""The canonical layout of ``.gq``.

Each clause of a block and each statement has a line; a block of one clause stays on its line if it fits. Commas stand
between the items of ``return``, ``having`` and assignments, and between clauses only where they may be needed.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Final, cast

from lark import Lark, Token

from omnigraph.errors import Problem
from omnigraph.language.layout import CLOSING, COMMA, OPENING, Boundary, Comma, Gap, Style, lay_out
from omnigraph.language.operators import ComparisonOperator
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.source import Source
from omnigraph.language.syntax import load_lark

_PARTS: Final = frozenset({"_RETURN", "having", "united", "order", "limit", "offset"})
_STATEMENTS: Final = frozenset({"insert", "update_bound", "delete_bound"})
_OPERATORS: Final = frozenset({"AND", "OR", "PLUS", "MINUS", "STAR", "SLASH"})
_LISTS: Final = frozenset({"projections", "assignments"})
_EDGES: Final = frozenset({"directed", "undirected", "other_edges", "hops", "exact_hops"})
_CALLS: Final = frozenset({"vector_type", "annotation", "call", "now", "aggregate", "date", "datetime"}) | frozenset(
    {"nearest", "bm25", "rrf", "text_match", "fuzzy"}
)
_NAMES: Final = frozenset({"IDENT", "FUNCTION"})
_JOINING_WORDS: Final = frozenset({"and", "or", "is", *(each for each in ComparisonOperator if each.isidentifier())})
"""Words that would go on with the clause before, where they are names."""
_TIGHT_BEFORE: Final = frozenset({",", ":", ".", "?", "|"})


def format_queries(source: Source | Problem) -> str | list[Problem]:
    """Return a text in its canonical layout, or all its syntax problems. Comments stay where they are."""
    queries = parse_query_text(source)
    if isinstance(queries, list) or isinstance(source, Problem):
        return cast("list[Problem]", queries)
    text = lay_out(source.text, _load_parser().parse(source.text), _QueryStyle())
    assert parse_query_text(Source(text)) == queries, "the layout changes the queries"
    return text


@cache
def _load_parser() -> Lark:
    return load_lark(__package__ or "", None)


class _QueryStyle(Style):
    """The style of ``.gq``."""

    chains: ClassVar = {"disjunction": None, "conjunction": None, "arithmetic": None}
    groups: ClassVar = frozenset({"group", "inversion"})

    def choose_gap(self, boundary: Boundary, left: Token, right: Token) -> Gap:
        """Return what stands between two tokens."""
        match boundary:
            case Boundary(rule="start"):
                return Gap.APART
            case Boundary(rule="clauses" | "mutation") if COMMA not in (left.type, right.type):
                return Gap.ITEM
            case Boundary(rule="query", before="LBRACE") | Boundary(rule="query", after="RBRACE"):
                return Gap.BREAK
            case Boundary(rule="annotations") | Boundary(after="annotations") | Boundary(before="annotations"):
                return Gap.BREAK
            case Boundary(rule="read" | "branch", after=part) if part in _PARTS:
                return Gap.BREAK
            case Boundary(rule="united", after="branch"):
                return Gap.BREAK
            case Boundary(rule="driven_mutation", after=part) if part in _STATEMENTS:
                return Gap.BREAK
            case Boundary(rule="disjunction" | "conjunction" | "arithmetic", after=operator) if operator in _OPERATORS:
                return Gap.LINE
            case _:
                return _choose_inner_gap(boundary, left, right)

    def choose_comma(self, boundary: Boundary, left: Token, right: Token) -> Comma:
        """Return whether a comma stands between two items, or between the last one and its bracket."""
        if boundary.rule in _EDGES:
            return Comma.AS_WRITTEN
        if right in CLOSING:
            return Comma.NO
        if boundary.rule in _LISTS or (boundary.rule == "having" and boundary.before not in {"_HAVING", "LBRACE"}):
            return Comma.YES
        if boundary.rule == "clauses" and not _may_join(left, right):
            return Comma.NO
        return Comma.AS_WRITTEN

    def shift_line(self, boundary: Boundary) -> int:
        """Return how many levels to the right of its block a line begins: annotations of a query are indented."""
        return int(boundary.rule == "annotations" or boundary.after == "annotations")

    def split_token(self, token: Token) -> list[Token]:
        """Return the token: each is one word."""
        return [token]


def _may_join(left: Token, right: Token) -> bool:
    """Whether the first token of a clause may be read as a part of the clause before."""
    return (right.type in _NAMES and right in _JOINING_WORDS) or (right == "(" and left.type in _NAMES)


def _choose_inner_gap(boundary: Boundary, left: Token, right: Token) -> Gap:
    """Return what stands between two tokens of a line, or of a block that may be broken."""
    if boundary.rule in _EDGES or boundary.after in {"hops", "exact_hops", "parameters", "other_edges"}:
        return Gap.TIGHT
    if left in OPENING or right in CLOSING:
        if left in OPENING and right in CLOSING:
            return Gap.TIGHT
        return Gap.LINE if "{" in (left, right) or "}" in (left, right) else Gap.SOFT
    if left == ",":
        return Gap.FILL if boundary.rule == "items" else Gap.LINE
    if right in _TIGHT_BEFORE or left == "." or (left == ":" and boundary.rule == "traversal"):
        return Gap.TIGHT
    if right == "(" and boundary.rule in _CALLS:
        return Gap.TIGHT
    return Gap.SPACE

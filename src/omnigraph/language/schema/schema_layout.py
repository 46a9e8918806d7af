"""The canonical layout of ``.pg``: one property or constraint to a line, declarations in the order of the text."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import ClassVar, Final

from lark import Lark, Token

from omnigraph.errors import Problem
from omnigraph.language.layout import CLOSING, OPENING, Boundary, Comma, Gap, Style, lay_out
from omnigraph.language.schema.codes import SYNTAX
from omnigraph.language.schema.parser import parse_schema_text
from omnigraph.language.source import Source
from omnigraph.language.syntax import load_lark

_TIGHT: Final = frozenset({"cardinality", "bounds_from", "bounds_to", "keyword", "optional"})
_MEMBERS: Final = frozenset({"body", "interface"})
_DECLARATIONS: Final = frozenset({"interface", "node", "edge"})
_SPANNING: Final = frozenset({"KEY", "UNIQUE", "INDEX", "RANGE", "CHECK", "CARD"})
"""Tokens that reach from ``@`` to the parenthesis, with blanks and comments between."""
_WORD_OR_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(?P<word>\w+|[@(])", re.DOTALL)


def format_schema(source: Source | Problem) -> str | list[Problem]:
    """Return a text in its canonical layout, or all its syntax problems. Comments stay where they are."""
    if isinstance(source, Problem):
        return [replace(source, code=SYNTAX)]
    schema = parse_schema_text(source)
    if isinstance(schema, list):
        return schema
    text = lay_out(source.text, _load_parser().parse(source.text), _SchemaStyle())
    assert parse_schema_text(Source(text)) == schema, "the layout changes the schema"
    return text


@cache
def _load_parser() -> Lark:
    return load_lark(__package__ or "", None)


class _SchemaStyle(Style):
    """The style of ``.pg``."""

    chains: ClassVar = {"node": "LBRACE", "edge": "LBRACE", "property": None}
    groups: ClassVar = frozenset[str]()

    def choose_gap(self, boundary: Boundary, left: Token, right: Token) -> Gap:
        """Return what stands between two tokens."""
        if boundary.rule == "start":
            is_list_of_edges = boundary.before == boundary.after == "edge" and left != "}"
            return Gap.ITEM if is_list_of_edges else Gap.APART
        if boundary.rule in _TIGHT or right in {",", ":", "?"} or left == "@" or (left in OPENING and right in CLOSING):
            return Gap.TIGHT
        if boundary.rule in _MEMBERS and (boundary.before == "LBRACE" or boundary.after == "RBRACE"):
            return Gap.BREAK
        if boundary.rule in _MEMBERS and boundary.before not in {"_INTERFACE", "TYPE"}:
            return Gap.ITEM
        if left in OPENING or right in CLOSING:
            return Gap.SOFT
        if left == ",":
            return Gap.FILL
        if right == "(":
            return Gap.TIGHT
        if right == "@" or boundary.after in {"implements", "body"}:
            return Gap.LINE
        return Gap.SPACE

    def choose_comma(self, boundary: Boundary, left: Token, right: Token) -> Comma:
        """Return that a comma stands where it is written: the grammar has no optional ones."""
        del boundary, left, right
        return Comma.AS_WRITTEN

    def shift_line(self, boundary: Boundary) -> int:
        """Return how many levels to the right of its block a line begins: a body begins where its declaration does."""
        return -1 if boundary.after == "body" and boundary.rule in _DECLARATIONS else 0

    def split_token(self, token: Token) -> list[Token]:
        """Return the words of a token: a constraint's token is an at sign, a name and a parenthesis."""
        if token.type not in _SPANNING:
            return [token]
        start = token.start_pos or 0
        return [
            Token(
                "WORD" if match.group().isidentifier() else match.group(),
                match.group(),
                start_pos=start + match.start(),
                end_pos=start + match.end(),
            )
            for match in _WORD_OR_COMMENT.finditer(token)
            if match.lastgroup == "word"
        ]

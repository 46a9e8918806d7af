"""The texts of the case files in either language, and comments to put between their tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import pytest

from omnigraph.errors import Problem
from omnigraph.language.query import format_queries
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.schema import format_schema
from omnigraph.language.schema.parser import parse_schema_text
from omnigraph.language.source import Source
from tests.case_files import CASES, find_cases, read_case

EXAMPLES: Final = CASES.parents[1] / "examples"

TRAPS: Final = (
    *"()[]{}<>\"'`\\/*@$:,?=-.#",
    *("()", "[]", "{}", '""', "''", '"(', '")', "(e.g. like this)", "//", "/*", "..", "->", "( ..", ") .."),
    *("@index (", "@key(", "@unique (a", "@range(a, 0..1)", "@check(", "@card (0..1)", '@card("', "@description("),
    *("", "*", "**", "/", "ünïcode \u2028 \x0c"),
)


@dataclass(frozen=True)
class Language:
    """One language: its parser, grammar and layout, and its tokens by a pattern that owes nothing to the grammar."""

    folder: str
    parse: Callable[[str], object]
    lay_out: Callable[[Source], str | list[Problem]]
    token: re.Pattern[str]

    @property
    def comments(self) -> list[str]:
        """A line comment and a block comment around every trap and every word of the grammar."""
        grammar = files(self.folder).joinpath("grammar.lark").read_text("utf-8")
        terminals = " ".join(re.findall(r"^_?[A-Z_0-9]+(?:\.[0-9])?:(.*)$", grammar, re.MULTILINE))
        words = sorted(set(re.findall(r"[A-Za-z][a-z_0-9]+", terminals)))
        contents = [*TRAPS, *words, " ".join((*TRAPS, *words))]
        return [each for text in contents for each in (f"//{text}\n", f"/*{text.replace('*/', '* /')} */")]

    def gaps(self, text: str) -> list[int]:
        """The offsets at which a comment may stand: the start of each token, and the end of the text."""
        return [match.start() for match in self.token.finditer(text) if match.lastgroup == "token"] + [len(text)]


def _pattern(tokens: str) -> re.Pattern[str]:
    return re.compile(rf'(?s:\s+|//[^\n]*|/\*.*?\*/)|(?P<token>(?s:"(?:[^"\\]|\\.)*")|{tokens}|.)')


SCHEMA: Final = Language(
    "omnigraph.language.schema",
    lambda text: parse_schema_text(Source(text)),
    format_schema,
    _pattern(r"->|\.\.|-?[0-9]+(?:\.[0-9]+)?(?![\w-])|\w(?:[\w]|-(?!>))*"),
)
QUERY: Final = Language(
    "omnigraph.language.query",
    lambda text: parse_query_text(Source(text)),
    format_queries,
    _pattern(r"[$@]\w+|>=|<=|!=|-?[0-9]+(?:\.[0-9]+)?|\w+"),
)
LANGUAGES: Final = pytest.mark.parametrize("language", [SCHEMA, QUERY], ids=["schema", "query"])


@cache
def texts_of(language: Language) -> tuple[str, ...]:
    """Every text of the case files and examples that is one of the language, without repetition."""
    found = {step.action.body: None for path in find_cases() for step in read_case(path).steps}
    found |= {path.read_text("utf-8"): None for path in sorted([*CASES.rglob("*.pg"), *EXAMPLES.rglob("*.[gp][qg]")])}
    return tuple(text for text in found if text.strip() and not isinstance(language.parse(text), list))


def insert(text: str, comments: Iterable[tuple[int, str]]) -> str:
    """The text with comments at offsets that grow."""
    parts, done = list[str](), 0
    for at, comment in comments:
        parts += [text[done:at], comment]
        done = at
    return "".join((*parts, text[done:]))

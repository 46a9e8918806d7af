"""Comments are blanks: put between any two tokens of the case files, whatever they hold, they change nothing.

The default run puts a comment into every gap of every text at once, chosen by a fixed seed. With OMNIGRAPH_FUZZ=large
each gap is also tried alone, with a line comment and a block comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import cycle
from random import Random
from typing import Final

import pytest

from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.schema.parser import parse_schema_text
from omnigraph.language.source import Source
from tests.case_files import CASES, find_cases, read_case
from tests.selection import LARGE, sized

ROUNDS: Final = sized(2, 20)

TRAPS: Final = (
    *"()[]{}<>\"'`\\/*@$:,?=-.#",
    *("()", "[]", "{}", '""', "''", '"(', '")', "(e.g. like this)", "//", "/*", "..", "->", "( ..", ") .."),
    *("@index (", "@key(", "@unique (a", "@range(a, 0..1)", "@check(", "@card (0..1)", '@card("', "@description("),
    *("", "*", "**", "/", "ünïcode \u2028 \x0c"),
)


@dataclass(frozen=True)
class Language:
    """One language: its parser, its grammar, and its tokens by a pattern that owes nothing to the grammar."""

    folder: str
    parse: Callable[[str], object]
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
    _pattern(r"->|\.\.|-?[0-9]+(?:\.[0-9]+)?(?![\w-])|\w(?:[\w]|-(?!>))*"),
)
QUERY: Final = Language(
    "omnigraph.language.query",
    lambda text: parse_query_text(Source(text)),
    _pattern(r"[$@]\w+|>=|<=|!=|-?[0-9]+(?:\.[0-9]+)?|\w+"),
)
LANGUAGES: Final = pytest.mark.parametrize("language", [SCHEMA, QUERY], ids=["schema", "query"])


@cache
def texts_of(language: Language) -> tuple[str, ...]:
    """Every text of the case files that is one of the language, without repetition."""
    found = {step.action.body: None for path in find_cases() for step in read_case(path).steps}
    found |= {path.read_text("utf-8"): None for path in sorted(CASES.rglob("*.pg"))}
    return tuple(text for text in found if text.strip() and not isinstance(language.parse(text), list))


def insert(text: str, comments: Iterable[tuple[int, str]]) -> str:
    """The text with comments at offsets that grow."""
    parts, done = list[str](), 0
    for at, comment in comments:
        parts += [text[done:at], comment]
        done = at
    return "".join((*parts, text[done:]))


def variants(language: Language, text: str, chance: Random) -> Iterator[str]:
    """The text with comments: in all gaps, and, in a large run, in each gap alone."""
    gaps, comments = language.gaps(text), language.comments
    for _ in range(ROUNDS):
        yield insert(text, [(at, chance.choice(comments)) for at in gaps])
    if LARGE:
        for at, comment in zip(gaps, cycle(chance.sample(comments, len(comments))), strict=False):
            yield from (insert(text, [(at, each)]) for each in (comment, *comments[-2:]))


@LANGUAGES
def test_comments_between_tokens_change_nothing(language: Language) -> None:
    texts = texts_of(language)
    assert len(texts) > 100
    chance = Random(13)  # noqa: S311  # a fixed seed
    for text in texts:
        tree = language.parse(text)
        for variant in variants(language, text, chance):
            assert language.parse(variant) == tree, variant


@LANGUAGES
def test_every_comment_is_tried_between_the_tokens_of_one_text(language: Language) -> None:
    text = max(texts_of(language), key=lambda each: len(set(language.token.findall(each))) / (len(each) + 500))
    tree = language.parse(text)
    for comment in language.comments:
        variant = insert(text, [(at, comment) for at in language.gaps(text)])
        assert language.parse(variant) == tree, variant


def test_a_comment_with_a_parenthesis_after_an_annotation() -> None:
    plain = "node A { kind: String @index\n  a: I32 }\nedge E: A -> A @card(0..1)"
    commented = plain.replace("@index", "@index\n  // text (e.g. like this)").replace("(0", '( /* ") */ 0')
    assert SCHEMA.parse(commented) == SCHEMA.parse(plain)
    assert not isinstance(SCHEMA.parse(plain), list)

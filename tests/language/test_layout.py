"""The layout of both languages: it keeps every token, every comment and the meaning, and is its own layout.

The texts are those of the case files and the examples: as they are, and with comments and line breaks between tokens.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Final

import pytest

from omnigraph.language.layout import WIDTH
from omnigraph.language.source import Source
from tests.language.commented_texts import EXAMPLES, LANGUAGES, QUERY, SCHEMA, Language, insert, texts_of
from tests.selection import sized

ROUNDS: Final = sized(1, 20)
EVERY: Final = sized(3, 1)
"""Every so many texts are tried."""
LAYOUTS: Final = Path(__file__).parent / "layouts"
BLANKS: Final = ("", " ", "  ", "\n", "\n\n", "\r\n", "\n \n\t\n")


def lay_out(language: Language, text: str) -> str:
    found = language.lay_out(Source(text))
    assert isinstance(found, str), found
    return found


def words_of(language: Language, text: str) -> list[str]:
    """The tokens and comments of a text without its commas, which are optional in places."""
    found = [match.group() for match in language.token.finditer(text)]
    return [_tidy(word) for word in found if word.strip() and word != ","]


def _tidy(word: str) -> str:
    return word.rstrip(" \t\r") if word.startswith("//") else re.sub("\r\n", "\n", word)


def check_layout(language: Language, text: str) -> str:
    laid_out = lay_out(language, text)
    assert language.parse(laid_out) == language.parse(text), text
    assert words_of(language, laid_out) == words_of(language, text), text
    assert lay_out(language, laid_out) == laid_out, text
    return laid_out


def comment_sometimes(language: Language, text: str, chance: Random) -> str:
    """Comments in some of the gaps, with blanks around them; blanks alone in others."""
    comments, added = language.comments, list[tuple[int, str]]()
    for at in language.gaps(text):
        if chance.random() < 0.2:
            before, after = chance.choices(BLANKS, k=2)
            added.append((at, f"{before} {chance.choice(comments)}{after}"))
        elif chance.random() < 0.3:
            added.append((at, chance.choice(BLANKS)))
    return insert(text, added)


@LANGUAGES
def test_a_layout_keeps_the_text_and_is_its_own(language: Language) -> None:
    for text in texts_of(language)[::EVERY]:
        laid_out = check_layout(language, text)
        assert laid_out == "" or (laid_out.endswith("\n") and not laid_out.endswith("\n\n"))
        assert "\n\n\n" not in laid_out


@LANGUAGES
def test_comments_between_any_tokens_stay_between_them(language: Language) -> None:
    chance = Random(17)  # noqa: S311  # a fixed seed
    for text in texts_of(language)[1 :: 2 * EVERY]:
        comments = language.comments
        check_layout(language, insert(text, [(at, chance.choice(comments)) for at in language.gaps(text)]))
        for _ in range(ROUNDS):
            check_layout(language, comment_sometimes(language, text, chance))


@LANGUAGES
def test_blanks_and_line_breaks_of_the_text_do_not_count(language: Language) -> None:
    for text in texts_of(language)[2 :: 2 * EVERY]:
        if "//" in text or "/*" in text:
            continue
        # Only an empty line is a choice of the author.
        tokens = [match.group() for match in language.token.finditer(re.sub(r"\n\s*\n", "\n", text))]
        one_line = "".join(" " if not token.strip() else token for token in tokens)
        many_lines = "".join("\n" if not token.strip() else token for token in tokens)
        assert lay_out(language, one_line) == lay_out(language, many_lines), text


def layouts() -> list[Path]:
    return sorted((LAYOUTS / "before").iterdir())


@pytest.mark.parametrize("before", layouts(), ids=lambda path: path.name)
def test_the_layout_is_this(before: Path) -> None:
    language = SCHEMA if before.suffix == ".pg" else QUERY
    expected = (LAYOUTS / "after" / before.name).read_text("utf-8")
    assert check_layout(language, before.read_text("utf-8")) == expected
    assert max(map(len, expected.split("\n"))) <= WIDTH


@pytest.mark.parametrize("example", sorted(EXAMPLES.rglob("*.[gp][qg]")), ids=lambda path: path.name)
def test_the_examples_are_laid_out(example: Path) -> None:
    text = example.read_text("utf-8")
    assert lay_out(SCHEMA if example.suffix == ".pg" else QUERY, text) == text


@LANGUAGES
@pytest.mark.parametrize("text", ["", " \n", "// only a comment", "\n\n/* one */ // two\r\n\r\n\r\n// three\n\n"])
def test_texts_without_declarations(language: Language, text: str) -> None:
    laid_out = check_layout(language, text)
    assert laid_out == "\n".join(
        line for line in re.sub(r"\r", "", text.strip()).replace("\n\n\n", "\n\n").split("\n")
    ) + ("\n" if text.strip() else "")


def test_a_text_with_a_mistake_has_problems_and_no_layout() -> None:
    problems = QUERY.lay_out(Source("query a( {\n}\nquery b() { match { $x Foo } }", "a.gq"))
    assert isinstance(problems, list)
    assert [(problem.position.file, problem.position.line) for problem in problems] == [("a.gq", 1), ("a.gq", 3)]


def test_deep_and_long_texts() -> None:
    deep = "(" * 90 + "$v.x = 1" + ")" * 90
    long = " or ".join(f"$v.x = {number}" for number in range(500))
    for condition in (deep, long):
        check_layout(QUERY, f"query q() {{ match {{ $v: V {condition} }} return {{ $v }} }}")

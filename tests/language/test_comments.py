"""Comments are blanks: put between any two tokens of the case files, whatever they hold, they change nothing.

The default run puts a comment into every gap of every text at once, chosen by a fixed seed. With OMNIGRAPH_FUZZ=large
each gap is also tried alone, with a line comment and a block comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from random import Random
from typing import Final

from tests.language.commented_texts import LANGUAGES, SCHEMA, Language, insert, texts_of
from tests.selection import LARGE, sized

ROUNDS: Final = sized(2, 20)


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

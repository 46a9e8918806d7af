"""Long texts in pieces that an embedding can hold: cut between sentences, the same way every time.

A pipeline calls it in SQL, ``split_text(body, 1000, 100)``; numbers of pieces make ids that a second run finds again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

_CLOSING: Final = "\"'\u201d\u2019)\\]"
_WIDE_MARKS: Final = "\u3002\uff01\uff1f"
_MARKS: Final = ".!?\u2026"
_SENTENCES: Final = re.compile(
    rf"[{_MARKS}]{{2,}}+[{_CLOSING}]*+(?=\s)"
    rf"|\S.*?(?:(?<![{_MARKS}])[{_MARKS}]++[{_CLOSING}]*+(?=\s)|[{_WIDE_MARKS}]+|(?=\n\s*\n)|\Z)",
    re.DOTALL,
)
"""A sentence ends with its marks before a space, with a mark of Chinese or Japanese, or with its paragraph.

Of many marks in a row only the first is tried, so that a line of dots takes no longer than other text.
"""
_WORDS: Final = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of a text: its number, from 0, the place of its first character in the text, and its characters."""

    number: int
    start: int
    text: str


def split_text(text: str | None, size: int = 1_000, overlap: int = 0) -> list[TextChunk]:
    """Split a text into pieces of at most ``size`` characters, between sentences where that is possible.

    A piece begins with whole sentences of the piece before, up to ``overlap`` characters of them. A longer sentence is
    cut between words, and a longer word anywhere.

    Examples:
        >>> [chunk.text for chunk in split_text("One. Two two. Three.", 14, 5)]
        ['One. Two two.', 'Three.']
    """
    if size < 1 or not 0 <= overlap < size:
        raise ParameterError(
            f"size is {size} and overlap is {overlap}", hint="give a size above 0, and an overlap below the size"
        )
    units = [] if text is None else list(_list_units(text, size))
    found: list[TextChunk] = []
    first = 0
    while first < len(units):
        end = first + 1
        while end < len(units) and units[end][1] - units[first][0] <= size:
            end += 1
        begin, stop = units[first][0], units[end - 1][1]
        found.append(TextChunk(len(found), begin, (text or "")[begin:stop]))
        first = _find_next(units, first, end, size, overlap)
    return found


def _find_next(units: list[tuple[int, int]], first: int, end: int, size: int, overlap: int) -> int:
    """Return the unit that the next piece begins with: one of those before ``end`` that may be repeated, or ``end``."""
    if end == len(units):
        return end
    following = end
    while following - 1 > first and units[end - 1][1] - units[following - 1][0] <= overlap:
        following -= 1
    # The piece must have room for something new.
    while following < end and units[end][1] - units[following][0] > size:
        following += 1
    return following


def _list_units(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a text begin and end; parts of those that are too long."""
    for sentence in _SENTENCES.finditer(text):
        begin, end = sentence.start(), sentence.start() + len(sentence.group().rstrip())
        if end - begin <= size:
            yield begin, end
        else:
            yield from _cut_sentence(text, begin, end, size)


def _cut_sentence(text: str, begin: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield parts of a long sentence: as many words as fit, or a part of a long word."""
    start = stop = begin
    for word in _WORDS.finditer(text, begin, end):
        if word.end() - start > size and stop > start:
            yield start, stop
            start = word.start()
        while word.end() - start > size:
            yield start, start + size
            start += size
        stop = word.end()
    if stop > start:
        yield start, stop

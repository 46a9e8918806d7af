"""Texts in pieces: nothing is lost, nothing is too long, and sentences stay whole where they can."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ParameterError
from omnigraph.pipeline import split_text

TEXT = "It was 3.5 km. Was it? Yes! “So.” he said.\n\nA paragraph without a mark\n\nThe last one."


def pieces(text: str, size: int, overlap: int = 0) -> list[str]:
    return [each.text for each in split_text(text, size, overlap)]


def test_pieces_end_with_sentences_and_paragraphs() -> None:
    assert pieces(TEXT, 30) == [
        "It was 3.5 km. Was it? Yes!",
        "“So.” he said.",
        "A paragraph without a mark",
        "The last one.",
    ]
    assert pieces(TEXT, 1_000) == [TEXT]
    assert pieces("一。二三。四", 4) == ["一。", "二三。四"]


def test_a_piece_begins_with_the_end_of_the_one_before() -> None:
    assert pieces("One. Two. Three. Four.", 11, 6) == ["One. Two.", "Two. Three.", "Four."]


def test_a_long_sentence_is_cut_between_words_and_a_long_word_anywhere() -> None:
    assert pieces("one two three four", 9) == ["one two", "three", "four"]
    assert pieces("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]


def test_marks_in_a_row_are_one_end() -> None:
    assert pieces("So... no?! ... Yes.", 6) == ["So...", "no?!", "...", "Yes."]
    assert pieces("...and on. .5 is half.", 12) == ["...and on.", ".5 is half."]
    # If each of the dots were tried, this would take minutes.
    assert pieces("a" + "." * 300_000 + "b", 100_000) == ["a" + "." * 99_999, "." * 100_000, "." * 100_000, ".b"]


@pytest.mark.parametrize("text", [None, "", " \n\t "])
def test_without_words_there_are_no_pieces(text: str | None) -> None:
    assert split_text(text, 10) == []


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (-1, 0), (5, 5), (5, -1)])
def test_sizes_that_make_no_sense(size: int, overlap: int) -> None:
    with pytest.raises(ParameterError, match=f"size is {size} and overlap is {overlap}"):
        split_text("text", size, overlap)


@given(st.text('ab .!?\n。\t"', max_size=120), st.integers(1, 30), st.data())
def test_every_character_is_in_a_piece(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    found = split_text(text, size, overlap)
    assert found == split_text(text, size, overlap)
    assert [each.number for each in found] == list(range(len(found)))
    covered: set[int] = set()
    for each in found:
        assert 0 < len(each.text) <= size
        assert text[each.start : each.start + len(each.text)] == each.text
        covered.update(range(each.start, each.start + len(each.text)))
    assert all(place in covered for place, character in enumerate(text) if not character.isspace())
    # Each piece begins and ends after the one before.
    for ends in ([each.start for each in found], [each.start + len(each.text) for each in found]):
        assert ends == sorted(set(ends))

"""Records of delimited text: every short text gives what the reference gives, and wherever its chunks end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from omnigraph.write.load import CsvFormat
from omnigraph.write.load.inputs import record_splitter
from omnigraph.write.load.inputs.delimited_text import parse_records
from omnigraph.write.load.inputs.record_splitter import RecordIsOpen, split_records
from tests.selection import LARGE, sized
from tests.write.load.csv_reference import Line, read_reference

COLUMNS = ("a", "b")
FORMATS = {
    "standard": CsvFormat(),
    "escape": CsvFormat(escape="\\"),
    "escape without quote": CsvFormat(quote=None, escape="\\"),
    "without quote": CsvFormat(quote=None),
    "tabs": CsvFormat(separator="\t", quote="'"),
}


def read(chunks: Sequence[str], format_: CsvFormat, *, ends_file: bool = True) -> list[Line]:
    """Return the records of a text of two columns, and the rejected lines; records of other sizes count as rejected."""
    found: list[Line] = []
    blocks = split_records("x.csv", (chunk.encode() for chunk in chunks), format_, ends_file=ends_file)
    for block in blocks:
        parsed = parse_records(block, COLUMNS, format_)
        rows = (tuple(value or "" for value in row.values()) for row in parsed.rows.to_pylist())
        found += (Line(block.first + line, row) for line, row in zip(parsed.lines.tolist(), rows, strict=True))
        found += (Line(block.first + row.line, None) for row in parsed.malformed)
    return sorted(found, key=lambda line: line.number)


def expect(text: str, format_: CsvFormat) -> list[Line]:
    """Return what the reference reads, of which records of other sizes are rejected, too."""
    return [
        line if line.values is None or len(line.values) == len(COLUMNS) else Line(line.number, None)
        for line in read_reference(text, format_)
    ]


def drop_empty(lines: Sequence[Line]) -> list[Line]:
    """Leave out records without any value. Nothing is no value, but a quoted text that is empty is one."""
    return [line for line in lines if line.values is None or any(line.values)]


def list_texts(format_: CsvFormat) -> Iterator[str]:
    """Every text of a few characters that matter, and some longer ones."""
    marks = [mark for mark in ("x", format_.separator, format_.quote, format_.escape, "\n", "\r") if mark is not None]
    for size in range(1, sized(3, 5) + 1):
        yield from map("".join, product(marks, repeat=size))
    random = Random(7)  # noqa: S311  a test
    for _ in range(sized(40, 1_000)):
        yield "".join(random.choices([*marks, "\r\n", "é", "x,y\n"], k=random.randrange(8, 40)))


@pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)
def test_texts_mean_what_the_reference_says_wherever_chunks_end(format_: CsvFormat) -> None:
    random = Random(8)  # noqa: S311  a test
    for text in list_texts(format_):
        expected = drop_empty(expect(text, format_))
        assert drop_empty(read([text], format_)) == expected, repr(text)
        places = range(1, len(text)) if LARGE else random.sample(range(1, len(text)), min(2, len(text) - 1))
        for place in places:
            assert drop_empty(read([text[:place], text[place:]], format_)) == expected, repr(
                (text[:place], text[place:])
            )
        if len(text) > 5:
            assert drop_empty(read(list(text), format_)) == expected, repr(text)


def test_a_part_of_a_file_that_ends_inside_a_record_is_told() -> None:
    assert read(["a,b\n", '"c\n', 'd",e\n'], CsvFormat(), ends_file=False) == read(['a,b\n"c\nd",e\n'], CsvFormat())
    with pytest.raises(RecordIsOpen):
        read(["a,b\n", '"c\n', "d,e\n"], CsvFormat(), ends_file=False)


def test_a_quote_counts_as_not_closed_after_a_limit_wherever_chunks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_splitter, "MAX_RECORD_BYTES", 40)
    lines = ["a,b", '"x"" y\nz",c', "d,e", 'f,"', *(f"g,{number}" for number in range(30)), 'h,"', "i,j", '"k"l,m']
    text = "\n".join(lines)
    expected = read([text], CsvFormat())
    rejected = [line.number for line in expected if line.values is None]
    assert rejected == [5, 36, 38]
    assert len(expected) == 37
    for size in range(1, len(text)):
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        assert read(chunks, CsvFormat()) == expected, size


def test_many_lines_that_lead_to_the_same_open_quote_are_read_in_time_in_proportion_to_them() -> None:
    found = read(['"a\nb",' * 20_000 + '"'], CsvFormat())
    assert len(found) == 20_001
    assert all(line.values is None for line in found)

"""Divide delimited text (CSV) into blocks of whole records, wherever the chunks of a file end.

A quote opens a value only at the start of a value, and the value ends with the closing quote (RFC 4180). A quote inside
another value is an ordinary character, so quotes cannot simply be counted. If text follows a closing quote, or a quote
is never closed, the first line of the record is set aside, and the next line begins a record.

A line ends with a line feed, a carriage return or both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.write.load.inputs.csv_format import CsvFormat
from omnigraph.write.load.inputs.record_patterns import find_end, patterns_of

MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
"""A quote that is not closed after this many bytes is taken for one that is never closed. A longer line is refused."""

_LINE_FEED: Final = ord("\n")
_RETURN: Final = ord("\r")
_BLANK_LINE: Final = b"\r\n"
"""The replacement of a line that is set aside. It counts as one line, whatever ends the line before it."""
_QUOTE_HINT: Final = "if quotes are ordinary characters, leave the option quote empty"
_NOT_CLOSED: Final = f"a quote is not closed; {_QUOTE_HINT}"
_TEXT_AFTER_QUOTE: Final = f"text follows a closing quote; double a quote inside a quoted value; {_QUOTE_HINT}"
_NOTHING_ESCAPED: Final = "the file ends after an escape character"

_RecordState: TypeAlias = Literal["whole", "open", "broken"]


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """The first line of a record with a misplaced quote. ``line`` counts from 0, within the block."""

    line: int
    text: str
    problem: str


@dataclass(frozen=True, slots=True)
class CsvBlock:
    """Whole records, in which broken lines are blank. ``first`` is the number of the first line in the file."""

    data: bytes
    first: int
    lines: int
    broken: tuple[BrokenLine, ...] = ()


class RecordIsOpen(Exception):
    """A part of a file ends inside a record."""


def split_records(
    name: str, chunks: Iterator[bytes], format_: CsvFormat, *, ends_file: bool = True
) -> Iterator[CsvBlock]:
    """Yield blocks of whole records. A text that does not end its file may end inside one: ``RecordIsOpen``."""
    splitter = _RecordSplitter(name, format_)
    for chunk in chunks:
        block = splitter.add(chunk)
        if block is not None:
            yield block
    if not ends_file and splitter.rest:
        raise RecordIsOpen
    block = splitter.finish()
    if block is not None:
        yield block


def count_lines(data: bytes, start: int = 0, end: int | None = None) -> int:
    """Count the line ends."""
    characters = np.frombuffer(data, np.uint8)[start:end]
    is_feed, is_return = characters == _LINE_FEED, characters == _RETURN
    pairs = np.count_nonzero(is_return[:-1] & is_feed[1:])
    return int(np.count_nonzero(is_feed) + np.count_nonzero(is_return) - pairs)


def find_line_ends(data: bytes) -> npt.NDArray[np.int64]:
    """Return the last byte of each line."""
    characters = np.frombuffer(data, np.uint8)
    is_end = characters == _RETURN
    is_end[:-1] &= characters[1:] != _LINE_FEED
    return np.flatnonzero(is_end | (characters == _LINE_FEED))


# --------------------------------------------------------------------------------------------- regular blocks


def _find_regular_end(data: bytes, format_: CsvFormat) -> int | None:
    """Return the end of the last whole record; None if a quote is at another place than an end of a value.

    In a regular block quotes open and close by turns, so they need not be examined one by one.
    """
    if len(data) > MAX_RECORD_BYTES or (format_.escape is not None and format_.escape.encode() in data):
        return None
    end = _find_line_end_before(data, len(data))
    quote = None if format_.quote is None else format_.quote.encode()
    if quote is None or quote not in data:
        return end
    characters = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(characters == quote[0])
    opening, closing = quotes[0::2], quotes[1::2]
    if len(closing) and closing[-1] == len(data) - 1:
        closing = closing[:-1]
    # A doubled quote closes a value and opens it again.
    is_border = np.zeros(256, np.bool_)
    is_border[list(b"\r\n" + quote + format_.separator.encode())] = True
    starts = is_border[characters[opening - 1]]
    starts[0] |= opening[0] == 0
    if not (starts.all() and is_border[characters[closing + 1]].all()):
        return None
    # A line end inside a quoted value ends no record.
    while end and (count := int(np.searchsorted(quotes, end))) % 2:
        end = _find_line_end_before(data, int(quotes[count - 1]))
    return end


def _find_line_end_before(data: bytes, stop: int) -> int:
    """Return the end of the last line that ends at or before a place; a line feed may follow a return at the end."""
    return max(data.rfind(b"\n", 0, stop), data.rfind(b"\r", 0, min(stop, len(data) - 1))) + 1


def _find_line_end(data: bytes, start: int, stop: int) -> int | None:
    """Return the end of the line at a place; None if it ends at or after ``stop``."""
    feed = data.find(b"\n", start, stop)
    at = data.find(b"\r", start, stop if feed < 0 else feed)
    if at < 0:
        return None if feed < 0 else feed + 1
    return at + (2 if data.startswith(b"\r\n", at) else 1)


# --------------------------------------------------------------------------------------------- other blocks


@dataclass(frozen=True, slots=True)
class _RecordScan:
    """A record in a text: where it ends, and where its quoted values begin. An open record needs more text."""

    state: _RecordState
    end: int
    openings: list[int]
    problem: str = ""


@dataclass(slots=True)
class _RecordSplitter:
    """Divides a file that is read in chunks. ``rest`` has the bytes of the last record so far, which may be open.

    ``misplaced`` has the quotes in the rest that are known to break a record, and why. The lines after the first line
    of a broken record may lead to the same quotes, which are looked at only once. ``misplaced_end`` follows the last.
    """

    name: str
    format: CsvFormat
    line: int = 1
    rest: bytes = b""
    misplaced: dict[int, str] = field(default_factory=dict[int, str])
    misplaced_end: int = 0

    def add(self, chunk: bytes) -> CsvBlock | None:
        """Return the whole records of the rest and a chunk, if there are any."""
        return self._take(self.rest + chunk, is_last=False)

    def finish(self) -> CsvBlock | None:
        """Return the records at the end of the text, if there are any."""
        text = self.rest
        return self._take(text if text.endswith(b"\n") else text + b"\n", is_last=True) if text else None

    def _take(self, data: bytes, *, is_last: bool) -> CsvBlock | None:
        end = None if self.misplaced_end else _find_regular_end(data, self.format)
        broken: list[BrokenLine] = []
        if end is None or (is_last and end < len(data)):
            records, end, broken = self._scan(data, is_last=is_last)
        else:
            records = data[:end]
        block = CsvBlock(records, self.line, count_lines(data, 0, end), tuple(broken))
        self.rest = data[end:]
        self.line += block.lines
        self.misplaced = {at - end: problem for at, problem in self.misplaced.items() if at >= end}
        self.misplaced_end = max(0, self.misplaced_end - end)
        return block if end else None

    def _scan(self, data: bytes, *, is_last: bool) -> tuple[bytes, int, list[BrokenLine]]:
        """Return the whole records, in which broken lines are blank, where they end, and the broken lines."""
        # A line feed may follow a return at the end.
        stop = len(data) - data.endswith(b"\r")
        pieces: list[bytes] = []
        broken: list[BrokenLine] = []
        at = kept = line = 0
        while at < stop:
            at = self._skip_whole(data, at, stop)
            record = self._read_record(data, at, stop)
            problem = self._find_problem(data, at, stop, record, is_last=is_last)
            if problem is None and record.state == "whole":
                at = record.end
                continue
            line_end = _find_line_end(data, at, stop)
            if problem is None or line_end is None:
                break
            line += count_lines(data, kept, at)
            text = data[at:line_end].rstrip(b"\r\n").decode("utf-8", "replace")
            broken.append(BrokenLine(line, text, problem))
            line += 1
            pieces += [data[kept:at], _BLANK_LINE]
            at = kept = line_end
        return b"".join([*pieces, data[kept:at]]), at, broken

    def _skip_whole(self, data: bytes, at: int, stop: int) -> int:
        """Return the start of the next record that may be open, broken or too long."""
        if len(data) > MAX_RECORD_BYTES or at < self.misplaced_end:
            return at
        return find_end(patterns_of(self.format).records, data, at, stop)

    def _read_record(self, data: bytes, start: int, stop: int) -> _RecordScan:
        """Look at one record, value by value."""
        patterns = patterns_of(self.format)
        separator, quote, escape = (
            (mark or "").encode() for mark in (self.format.separator, self.format.quote, self.format.escape)
        )
        openings: list[int] = []
        at = start
        while True:
            if quote and data.startswith(quote, at, stop):
                if at in self.misplaced:
                    return _RecordScan("broken", at, openings, self.misplaced[at])
                openings.append(at)
                at = find_end(patterns.inside, data, at + 1, stop) + 1
                if at >= stop:
                    return _RecordScan("open", stop, openings, _NOT_CLOSED)
            else:
                at = find_end(patterns.plain, data, at, stop)
                if at >= stop or (escape and data.startswith(escape, at)):
                    return _RecordScan("open", stop, openings, _NOTHING_ESCAPED)
            if data[at] in b"\r\n":
                return _RecordScan("whole", at + (2 if data.startswith(b"\r\n", at) else 1), openings)
            if not data.startswith(separator, at):
                return _RecordScan("broken", at, openings, _TEXT_AFTER_QUOTE)
            at += 1

    def _find_problem(self, data: bytes, at: int, stop: int, record: _RecordScan, *, is_last: bool) -> str | None:
        """Return what is wrong with a record, and remember the quotes that cause it."""
        if stop - at > MAX_RECORD_BYTES:
            self._refuse_long_line(data, at, stop)
        if record.state == "broken" or (record.state == "open" and is_last):
            self._add_misplaced(record.openings, record.problem)
            return record.problem
        far = [place for place in record.openings if record.end - place > MAX_RECORD_BYTES]
        if far:
            self._add_misplaced(far, _NOT_CLOSED)
            return _NOT_CLOSED
        if record.end - at > MAX_RECORD_BYTES and not record.openings:
            self._refuse_record(data[at:])
        return None

    def _add_misplaced(self, places: list[int], problem: str) -> None:
        self.misplaced.update(dict.fromkeys(places, problem))
        self.misplaced_end = max([self.misplaced_end, *(place + 1 for place in places)])

    def _refuse_long_line(self, data: bytes, at: int, stop: int) -> None:
        if (_find_line_end(data, at, stop) or stop) - at > MAX_RECORD_BYTES:
            self._refuse_record(data[at:])

    def _refuse_record(self, data: bytes) -> NoReturn:
        raise ParameterError(
            f"{self.name} has a record of more than {MAX_RECORD_BYTES >> 20} MB: {data[:60]!r}...",
            hint="the options sep, quote and escape say how it is written",
        )

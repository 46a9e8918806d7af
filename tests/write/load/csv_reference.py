"""What delimited text means, one character after the other. Slow and plain: the readers of files are compared to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.write.load import CsvFormat


@dataclass(frozen=True)
class Line:
    """What begins at a line: the values of a record, or none if the line is to be rejected."""

    number: int
    values: tuple[str, ...] | None


def read_reference(text: str, format_: CsvFormat) -> Iterator[Line]:
    """Yield all records and rejected lines of a text, but not blank lines."""
    start, number = 0, 1
    while start < len(text):
        values, end = _read_record(text, start, format_)
        if values is None:
            end = _end_of_line(text, start)
        if text[start] not in "\r\n":
            yield Line(number, values)
        number += text[start:end].replace("\r\n", "\n").replace("\r", "\n").count("\n")
        start = end


def _read_record(text: str, at: int, format_: CsvFormat) -> tuple[tuple[str, ...] | None, int]:
    """Return the values of the record at a place, none if it is broken, and its end."""
    values: list[str] = []
    while True:
        value, at = _read_value(text, at, format_)
        if value is None:
            return None, at
        values.append(value)
        if at == len(text):
            return tuple(values), at
        if text[at] in "\r\n":
            return tuple(values), at + (2 if text.startswith("\r\n", at) else 1)
        if text[at] != format_.separator:
            return None, at
        at += 1


def _read_value(text: str, at: int, format_: CsvFormat) -> tuple[str | None, int]:
    is_quoted = format_.quote is not None and text.startswith(format_.quote, at)
    at += is_quoted
    value = ""
    while at < len(text):
        char = text[at]
        if char == format_.escape:
            # An escaped line feed at the end of a file is not told from one that was added to its last line.
            if text[at + 1 :] in ("", "\n"):
                return None, at
            value, at = value + text[at + 1], at + 2
        elif is_quoted and text.startswith(2 * char, at) and char == format_.quote:
            value, at = value + char, at + 2
        elif is_quoted and char == format_.quote:
            return value, at + 1
        elif not is_quoted and char in f"{format_.separator}\r\n":
            return value, at
        else:
            value, at = value + char, at + 1
    return (None if is_quoted else value), at


def _end_of_line(text: str, start: int) -> int:
    for at in range(start, len(text)):
        if text[at] in "\r\n":
            return at + (2 if text.startswith("\r\n", at) else 1)
    return len(text)

"""What the records of delimited text (CSV) consist of, as patterns of bytes."""

from __future__ import annotations

import re
from functools import lru_cache

from omnigraph.lazy_dataclass import dataclass
from omnigraph.write.load.inputs.csv_format import CsvFormat


@dataclass(frozen=True, slots=True)
class RecordPatterns:
    """The patterns of a format. ``inside`` is a quoted value without its quotes; ``records`` is a run of records.

    ``plain_pair`` and ``inside_pair`` are two bytes that mean the second: it is escaped, or a quote that is doubled.
    """

    plain: re.Pattern[bytes]
    plain_pair: re.Pattern[bytes]
    inside: re.Pattern[bytes]
    inside_pair: re.Pattern[bytes]
    record: re.Pattern[bytes]
    records: re.Pattern[bytes]


def patterns_of(format_: CsvFormat) -> RecordPatterns:
    """Return the patterns of a format."""
    return _compile_patterns(format_.separator, format_.quote or "", format_.escape or "")


@lru_cache(maxsize=16)
def _compile_patterns(separator: str, quote: str, escape: str) -> RecordPatterns:
    """Compile the patterns. They are possessive: a record has only one reading, so backtracking cannot help."""
    mark, quotes, escapes = (re.escape(each.encode()) for each in (separator, quote, escape))
    plain_pair = escapes + b"." if escape else b"(?!)"
    inside_pair = quotes + quotes + b"|" + plain_pair
    plain = _repeat(mark + rb"\r\n" + escapes, plain_pair)
    inside = _repeat(quotes + escapes, inside_pair) if quote else b""
    quoted = quotes + inside + quotes + b"(?=[" + mark + rb"\r\n])"
    value = b"(?:" + quoted + b"|(?!" + quotes + b")" + plain + b")" if quote else plain
    line_end = rb"(?:\r\n?|\n)"
    record = value + b"(?:" + mark + value + b")*+" + line_end
    # Most lines have no quote; their values need not be told apart.
    line = b"[^" + quotes + escapes + rb"\r\n]*+" + line_end
    records = b"(?:" + line + b"|" + record + b")*+"
    texts = plain, plain_pair, inside, inside_pair, record, records
    return RecordPatterns(*(re.compile(text, re.DOTALL) for text in texts))


def _repeat(excluded: bytes, pair: bytes) -> bytes:
    """Return the pattern of any characters but some, and of pairs, which begin with one of those."""
    characters = b"[^" + excluded + b"]*+"
    return characters + b"(?:(?:" + pair + b")" + characters + b")*+"


def find_end(pattern: re.Pattern[bytes], data: bytes, start: int, stop: int | None = None) -> int:
    """Return the end of what a pattern, which may be empty, matches at a place."""
    match = pattern.match(data, start, len(data) if stop is None else stop)
    return start if match is None else match.end()


def split_values(record: bytes, format_: CsvFormat) -> list[bytes]:
    """Return the values of a whole record."""
    patterns = patterns_of(format_)
    quote = (format_.quote or "").encode()
    values: list[bytes] = []
    at = 0
    while True:
        is_quoted = bool(quote) and record.startswith(quote, at)
        start = at + is_quoted
        end = find_end(patterns.inside if is_quoted else patterns.plain, record, start)
        pair = patterns.inside_pair if is_quoted else patterns.plain_pair
        values.append(pair.sub(lambda match: match[0][1:], record[start:end]))
        at = end + is_quoted
        if not record.startswith(format_.separator.encode(), at):
            return values
        at += 1

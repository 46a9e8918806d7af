"""Read delimited text (CSV): split it into blocks of whole records, and parse a block with the line of every record.

Arrow parses a block and gives all values as texts. A record with too few or too many values does not stop it. A block
ends where a record ends, so a quoted value may span lines.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values, column_of, compute, to_bool_array
from omnigraph.write.load.inputs.sources import strip_byte_order_mark

MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
"""A longer record is refused: most likely, a quote is not closed."""
_ENCODING_OF_ARROW: Final = "utf-8"

LineNumbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How the records of a file are written. ``null_texts`` are null if they are not quoted.

    ``spans_lines``: on Spark, a quoted value may span lines; then one task reads a whole file.
    """

    separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    has_header: bool = True
    null_texts: tuple[str, ...] = ("",)
    encoding: str = _ENCODING_OF_ARROW
    spans_lines: bool = False


STANDARD_CSV: Final = CsvFormat()


@dataclass(frozen=True, slots=True)
class MalformedRow:
    """A record with too few or too many values. ``line`` counts from 0, within the block."""

    line: int
    text: str
    values: int


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """The records of a block as texts, the line of each within the block, from 0, and the malformed ones."""

    rows: pa.RecordBatch
    lines: LineNumbers
    malformed: tuple[MalformedRow, ...]


class NotUtf8(Exception):
    """A malformed record is not UTF-8 either. ``line`` counts from 0, within the block."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


# --------------------------------------------------------------------------------------------- header and encoding


def parse_header(name: str, head: bytes, format_: CsvFormat) -> tuple[list[str], int]:
    """Return the names of the columns, and the number of lines that they take. ``head`` is the start of the text.

    Without a header the names are those that Spark gives: ``_c0``, ``_c1`` and so on.
    """
    # Only the header has to be UTF-8 here: what is wrong in a record is a violation of the record.
    text = head.decode("utf-8", "surrogateescape")
    quoting = csv.QUOTE_NONE if format_.quote is None else csv.QUOTE_MINIMAL
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=format_.separator,
        quotechar=format_.quote,
        escapechar=format_.escape,
        doublequote=True,
        quoting=quoting,
    )
    try:
        first = next(reader, list[str]())
    except csv.Error as error:
        raise ParameterError(f"the header of {name} cannot be read: {error}", hint=_FORMAT_HINT) from error
    if not format_.has_header:
        return [f"_c{place}" for place in range(len(first))], 0
    if any("\udc80" <= char <= "\udcff" for each in first for char in each):
        raise ParameterError(f"the header of {name} is not UTF-8", hint=_ENCODING_HINT)
    return [each.strip() for each in first], reader.line_num


_ENCODING_HINT: Final = 'save it as UTF-8, or give its encoding: the option encoding, such as "latin-1"'
_FORMAT_HINT: Final = "the options sep, quote and escape say how it is written"


def to_utf8(name: str, chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the same text in UTF-8."""
    if codecs.lookup(encoding).name == _ENCODING_OF_ARROW:
        yield from strip_byte_order_mark(name, chunks)
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        raise ParameterError(f"{name} is not {encoding}: {error.reason}", hint=_ENCODING_HINT) from error


# --------------------------------------------------------------------------------------------- blocks of records


def split_records(name: str, chunks: Iterator[bytes], format_: CsvFormat) -> Iterator[bytes]:
    """Yield blocks that end where a record ends."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        end = find_record_end(data, format_)
        if end:
            yield data[:end]
        rest = data[end:]
        if len(rest) > MAX_RECORD_BYTES:
            raise ParameterError(
                f"{name} has a record of more than {MAX_RECORD_BYTES >> 20} MB: {rest[:60]!r}...",
                hint=f"a quote may not be closed; {_FORMAT_HINT}",
            )
    if rest:
        yield rest


def find_record_end(data: bytes, format_: CsvFormat) -> int:
    """Return the end of the last whole record; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    if format_.quote is None:
        return end
    quote = format_.quote.encode()
    if format_.escape is None and data.count(quote, 0, end) % 2 == 0:
        return end
    return _scan_last_end(data, quote, format_)


def _scan_last_end(data: bytes, quote: bytes, format_: CsvFormat) -> int:
    """Find the end of the last whole record by looking at every quoted value.

    A quote inside a value that is not quoted is an ordinary character, so quotes cannot simply be counted.
    """
    found = list(_quoted_value(quote, format_).finditer(data))
    if found and not found[-1]["end"]:
        # The last one is not closed.
        data = data[: found.pop().start()]
    end = data.rfind(b"\n")
    while found and end >= 0:
        start, stop = found.pop().span()
        if stop <= end:
            break
        end = data.rfind(b"\n", 0, start) if start <= end else end
    return end + 1


def _quoted_value(quote: bytes, format_: CsvFormat) -> re.Pattern[bytes]:
    mark, separator = re.escape(quote), re.escape(format_.separator.encode())
    escaped = b"" if format_.escape is None else re.escape(format_.escape.encode()) + b".|"
    inner = b"(?:" + escaped + mark + mark + b"|[^" + mark + b"])*+"
    return re.compile(b"(?:\\A|(?<=" + separator + b")|(?<=\n))" + mark + inner + b"(?P<end>" + mark + b"|)", re.DOTALL)


# --------------------------------------------------------------------------------------------- parsing


def parse_records(data: bytes, columns: Sequence[str], format_: CsvFormat) -> ParsedBlock:
    """Parse whole records, at least one. Records without any value are dropped, and so are blank lines."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        try:
            return _parse_with_arrow(data, columns, format_, None)
        except pa.ArrowInvalid:
            # Arrow cannot hand over a malformed record that is not UTF-8.
            raise NotUtf8(data.count(b"\n", 0, error.start)) from None
    invalid: list[arrow_csv.InvalidRow] = []
    return _parse_with_arrow(data, columns, format_, invalid)


def _parse_with_arrow(
    data: bytes, columns: Sequence[str], format_: CsvFormat, invalid: list[arrow_csv.InvalidRow] | None
) -> ParsedBlock:
    """Parse with Arrow. Malformed records are added to ``invalid``; without it, the first one is an error."""

    found = [] if invalid is None else invalid

    def keep_invalid(row: arrow_csv.InvalidRow) -> Literal["skip"]:
        found.append(row)
        return "skip"

    places = [str(place) for place in range(len(columns))]
    table = arrow_csv.read_csv(
        # The type stubs lack Arrow's own files.
        cast("IO[Any]", pa.BufferReader(data)),
        # In one block and one thread, or Arrow does not tell the numbers of invalid records.
        read_options=arrow_csv.ReadOptions(column_names=places, block_size=len(data) + 1, use_threads=False),
        parse_options=arrow_csv.ParseOptions(
            delimiter=format_.separator,
            quote_char=format_.quote or False,
            escape_char=format_.escape or False,
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=None if invalid is None else keep_invalid,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.string()),
            null_values=list(format_.null_texts),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        ),
    )
    arrays = [column_of(table, place) for place in places]
    rows = pa.RecordBatch.from_arrays(arrays, names=list(columns))
    lines, malformed = _number_lines(data, arrays, found)
    has_value = _have_values(arrays)
    if not has_value.all():
        kept = np.flatnonzero(has_value)
        rows, lines = rows.take(kept), lines[kept]
    return ParsedBlock(rows, lines, malformed)


def _number_lines(
    data: bytes, arrays: Sequence[Values], invalid: Sequence[arrow_csv.InvalidRow]
) -> tuple[LineNumbers, tuple[MalformedRow, ...]]:
    """Return the line of each record: its number, and the line breaks inside the records before it."""
    count = len(arrays[0])
    wrong = np.array([cast(int, each.number) - 1 for each in invalid], np.int64)
    is_right = np.ones(count + len(wrong), np.bool_)
    is_right[wrong] = False
    right = np.flatnonzero(is_right)
    breaks = np.zeros(count + len(wrong), np.int64)
    if data.count(b"\n") > len(breaks) - (not data.endswith(b"\n")):
        breaks[right] = sum((_count_breaks(each) for each in arrays), start=np.zeros(count, np.int64))
        breaks[wrong] = [each.text.count("\n") for each in invalid]
    lines = np.arange(len(breaks)) + np.cumsum(breaks) - breaks
    malformed = (
        MalformedRow(int(line), each.text, each.actual_columns)
        for line, each in zip(lines[wrong], invalid, strict=True)
    )
    return lines[right], tuple(malformed)


def _count_breaks(texts: Values) -> LineNumbers:
    counts = compute("count_substring", texts.view(pa.binary()), options=pc.MatchSubstringOptions("\n"))
    return compute("coalesce", counts, pa.scalar(0, counts.type)).to_numpy(zero_copy_only=False).astype(np.int64)


def _have_values(arrays: Sequence[Values]) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(arrays[0]), np.bool_)
    for each in arrays:
        found |= to_bool_array(compute("is_valid", each))
    return found

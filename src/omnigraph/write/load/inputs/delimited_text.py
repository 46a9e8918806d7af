"""Parse delimited text (CSV) with the line of every record.

Arrow parses blocks of whole records and gives all values as texts. A record with too few or too many values does not
stop it.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO, Any, Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values, column_of, compute, to_bool_array, to_list
from omnigraph.write.load.inputs.csv_format import CsvFormat
from omnigraph.write.load.inputs.record_patterns import find_end, patterns_of, split_values
from omnigraph.write.load.inputs.record_splitter import CsvBlock, count_lines, find_line_ends
from omnigraph.write.load.inputs.sources import strip_byte_order_mark

_ENCODING_OF_ARROW: Final = "utf-8"

LineNumbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MalformedRow:
    """A record that has no place in a table. ``line`` counts from 0, within the block."""

    line: int
    text: str
    problem: str


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """The records of a block as texts, the line of each within the block, from 0, and the malformed ones."""

    rows: pa.RecordBatch
    lines: LineNumbers
    malformed: tuple[MalformedRow, ...]


# --------------------------------------------------------------------------------------------- header and encoding


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """The names of the columns, and the number of lines and of bytes at the start of a block that end with them."""

    names: tuple[str, ...]
    lines: int
    size: int


def find_header(name: str, block: CsvBlock, format_: CsvFormat) -> CsvHeader | None:
    """Return the header in a block: its first record with a value. None if it has no such record.

    Without a header the names are those that Spark gives: ``_c0``, ``_c1`` and so on.
    """
    blank = f"{format_.separator} \t\r\n".encode()
    start = 0
    while start < len(block.data):
        size = find_end(patterns_of(format_).record, block.data, start)
        record = block.data[start:size]
        if record.strip(blank):
            lines = count_lines(block.data, 0, size)
            _refuse_broken_header(name, block, lines, format_)
            return CsvHeader(_parse_names(name, record, format_), lines, size)
        start = size
    _refuse_broken_header(name, block, block.lines, format_)
    return None


def _refuse_broken_header(name: str, block: CsvBlock, lines: int, format_: CsvFormat) -> None:
    problems = [broken.problem for broken in block.broken if broken.line < lines]
    if problems and format_.has_header:
        raise ParameterError(f"the header of {name} cannot be read: {problems[0]}", hint=_FORMAT_HINT)


def _parse_names(name: str, record: bytes, format_: CsvFormat) -> tuple[str, ...]:
    values = split_values(record, format_)
    if not format_.has_header:
        return tuple(f"_c{place}" for place in range(len(values)))
    try:
        return tuple(value.decode().strip() for value in values)
    except UnicodeDecodeError:
        raise ParameterError(f"the header of {name} is not UTF-8", hint=_ENCODING_HINT) from None


def skip_header(block: CsvBlock, header: CsvHeader) -> CsvBlock:
    """Return the records of a block after its header."""
    broken = tuple(replace(each, line=each.line - header.lines) for each in block.broken if each.line >= header.lines)
    return CsvBlock(block.data[header.size :], block.first + header.lines, block.lines - header.lines, broken)


_ENCODING_HINT: Final = 'save it as UTF-8, or give its encoding: the option encoding, such as "latin-1"'
_FORMAT_HINT: Final = "the options sep, quote and escape say how it is written"


def to_utf8(name: str, chunks: Iterator[bytes], encoding: str, *, starts_file: bool = True) -> Iterator[bytes]:
    """Yield the same text in UTF-8, without a byte order mark at the start of the file."""
    is_utf8 = codecs.lookup(encoding).name == _ENCODING_OF_ARROW
    text = chunks if is_utf8 else _decode(name, chunks, encoding)
    return strip_byte_order_mark(name, text) if starts_file else text


def _decode(name: str, chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else error
        raise ParameterError(f"{name} is not {encoding}: {reason}", hint=_ENCODING_HINT) from error


# --------------------------------------------------------------------------------------------- parsing


def parse_records(block: CsvBlock, columns: Sequence[str], format_: CsvFormat) -> ParsedBlock:
    """Parse the records of a block. Records without any value are dropped, and so are blank lines."""
    if not columns:
        # A file without a record that has a value.
        rows = pa.RecordBatch.from_pylist([], pa.schema([]))
        return ParsedBlock(rows, np.zeros(0, np.int64), tuple(_list_broken(block)))
    try:
        block.data.decode()
    except UnicodeDecodeError:
        parsed = _parse_bytes(block, columns, format_)
    else:
        parsed = _parse_with_arrow(block, columns, format_)
    malformed = tuple(sorted((*_list_broken(block), *parsed.malformed), key=lambda row: row.line))
    has_value = _have_values(cast("list[Values]", parsed.rows.columns))
    if has_value.all():
        return replace(parsed, malformed=malformed)
    kept = np.flatnonzero(has_value)
    return ParsedBlock(parsed.rows.take(kept), parsed.lines[kept], malformed)


def _list_broken(block: CsvBlock) -> list[MalformedRow]:
    return [MalformedRow(each.line, each.text, each.problem) for each in block.broken]


def _parse_bytes(block: CsvBlock, columns: Sequence[str], format_: CsvFormat) -> ParsedBlock:
    """Parse records that are not UTF-8.

    Arrow cannot hand over a malformed one of them, so it gets a character for each byte; values become bytes again.
    """
    null_texts = tuple(text.encode().decode("latin-1") for text in format_.null_texts)
    recoded = replace(block, data=block.data.decode("latin-1").encode())
    parsed = _parse_with_arrow(recoded, columns, replace(format_, null_texts=null_texts))
    arrays = [_to_bytes(column) for column in cast("list[Values]", parsed.rows.columns)]
    malformed = tuple(
        replace(row, text=row.text.encode("latin-1").decode("utf-8", "replace")) for row in parsed.malformed
    )
    return ParsedBlock(pa.RecordBatch.from_arrays(arrays, names=list(columns)), parsed.lines, malformed)


def _to_bytes(texts: Values) -> Values:
    values = [None if text is None else cast(str, text).encode("latin-1") for text in to_list(texts)]
    return cast("Values", pa.array(values, pa.binary()).view(pa.string()))


def _parse_with_arrow(block: CsvBlock, columns: Sequence[str], format_: CsvFormat) -> ParsedBlock:
    invalid: list[arrow_csv.InvalidRow] = []

    def keep_invalid(row: arrow_csv.InvalidRow) -> Literal["skip"]:
        invalid.append(row)
        return "skip"

    data = block.data
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
            invalid_row_handler=keep_invalid,
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
    lines, malformed = _number_lines(block, format_, arrays, invalid)
    return ParsedBlock(rows, lines, malformed)


def _number_lines(
    block: CsvBlock, format_: CsvFormat, arrays: Sequence[Values], invalid: Sequence[arrow_csv.InvalidRow]
) -> tuple[LineNumbers, tuple[MalformedRow, ...]]:
    """Return the line of each record, from 0."""
    count = len(arrays[0])
    wrong = np.array([cast(int, each.number) - 1 for each in invalid], np.int64)
    is_right = np.ones(count + len(wrong), np.bool_)
    is_right[wrong] = False
    right = np.flatnonzero(is_right)
    lines = np.arange(count + len(wrong))
    has_returns = b"\r" in block.data
    if block.lines > len(lines) and has_returns and format_.escape is not None:
        # The first half of a line end may be escaped, and then belongs to a value.
        lines = _find_lines(block, format_)
    elif block.lines > len(lines):
        breaks = np.zeros(len(lines), np.int64)
        breaks[right] = sum((_count_breaks(each, has_returns=has_returns) for each in arrays), start=breaks[right])
        breaks[wrong] = [count_lines(each.text.encode()) for each in invalid]
        lines += np.cumsum(breaks) - breaks
    malformed = (
        MalformedRow(
            int(line), each.text, f"{each.actual_columns} values in a file with {each.expected_columns} columns"
        )
        for line, each in zip(lines[wrong], invalid, strict=True)
    )
    return lines[right], tuple(malformed)


def _find_lines(block: CsvBlock, format_: CsvFormat) -> LineNumbers:
    """Return the line at which each record begins, from 0."""
    starts = [match.start() for match in patterns_of(format_).record.finditer(block.data)]
    return np.searchsorted(find_line_ends(block.data), starts)


def _count_breaks(texts: Values, *, has_returns: bool) -> LineNumbers:
    """Count the line ends in each text, as :func:`count_lines` does."""
    feeds = _count_in_each(texts, "\n")
    return feeds + _count_in_each(texts, "\r") - _count_in_each(texts, "\r\n") if has_returns else feeds


def _count_in_each(texts: Values, part: str) -> LineNumbers:
    counts = compute("count_substring", texts.view(pa.binary()), options=pc.MatchSubstringOptions(part))
    return compute("coalesce", counts, pa.scalar(0, counts.type)).to_numpy(zero_copy_only=False).astype(np.int64)


def _have_values(arrays: Sequence[Values]) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(arrays[0]), np.bool_)
    for each in arrays:
        found |= to_bool_array(compute("is_valid", each))
    return found

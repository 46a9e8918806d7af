"""The files of a dump of Neo4j: groups of CSV files with one header, and their first rows, compared with its types."""

from __future__ import annotations

import csv
import gzip
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Final, cast

import pyarrow as pa

from omnigraph.errors import NotFound, ParameterError, Violation
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.imports.import_proposal import NameRegister, make_view_name
from omnigraph.pipeline.imports.neo4j_headers import Header, HeaderField, is_neo4j_header, parse_neo4j_header
from omnigraph.pipeline.table_profile import MAX_ROWS
from omnigraph.storage.columns import Values
from omnigraph.write.load import CsvFormat, FileOptions, convert_texts, expand_path

_GROUP: Final = re.compile(r"(?:(?P<types>[^=,/\\]+)=)?(?P<files>.+)", re.DOTALL)
_ESCAPED: Final = re.compile("[\udc80-\udcff]")
"""What stands for bytes that are no text in the encoding of a file."""


@dataclass(frozen=True, slots=True)
class DumpRows:
    """The rows of one group of files: a header, and the first rows with their places."""

    files: tuple[str, ...]
    labels: tuple[str, ...]
    """The labels, or the type, that stood before the files."""
    header: Header
    rows: list[list[str | None]]
    places: list[tuple[str, int]]
    is_complete: bool
    source: str
    spans_lines: bool
    """Whether a value has several lines."""
    ends_with_line_feeds: bool
    """Whether all records end with a line feed alone."""

    @property
    def label(self) -> str:
        """The files in comments, and how many rows were looked at."""
        count = f"{len(self.rows):,} row{'' if len(self.rows) == 1 else 's'}"
        return f"{','.join(self.files)}: {count if self.is_complete else f'the first {count}'}"

    def list_column(self, place: int) -> list[str | None]:
        """Return the values of a column."""
        return [row[place] for row in self.rows]


# --------------------------------------------------------------------------------------------- reading


def is_neo4j_dump(paths: Sequence[str], options: FileOptions) -> bool:
    """Whether one of the files has a header of ``neo4j-admin``."""
    for path in paths:
        _, files = _split_group(path)
        first = next(iter(expand_path(files[0])), None)
        if first is not None and "://" not in first and first.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
            head = next(_read_records(first, options), None)
            if head is not None and is_neo4j_header(head.values):
                return True
    return False


def _split_group(path: str) -> tuple[tuple[str, ...], list[str]]:
    """Split ``Label:Other=header.csv,part.csv``, as it stands after ``--nodes=``, into labels and files."""
    found = _GROUP.fullmatch(path)
    if found is None or Path(path).exists():
        return (), [path]
    return tuple(each for each in (found["types"] or "").split(":") if each), found["files"].split(",")


@dataclass(frozen=True, slots=True)
class _Record:
    """The values of a record, the file and the line that it ends at, and whether that ends with a carriage return."""

    values: list[str]
    file: str
    line: int
    has_return: bool


def _read_records(path: str, options: FileOptions) -> Iterator[_Record]:
    given = find_csv_format(path, options)
    # A mark of UTF-8 at the start is no part of the header.
    coding, errors = "utf-8-sig" if given.encoding == "utf-8" else given.encoding, "surrogateescape"
    # By default a value of more than 131,072 characters would be refused.
    csv.field_size_limit(sys.maxsize)
    with Path(path).open("rb") as file, ExitStack() as stack:
        data = stack.enter_context(gzip.open(file)) if path.lower().endswith(".gz") else file
        text = stack.enter_context(TextIOWrapper(cast("IO[bytes]", data), encoding=coding, errors=errors, newline=""))
        quoting = csv.QUOTE_NONE if given.quote is None else csv.QUOTE_MINIMAL
        ends = [""]

        def watch() -> Iterator[str]:
            for line in text:
                ends[0] = line[-2:]
                yield line

        reader = csv.reader(
            watch(), delimiter=given.separator, quotechar=given.quote, escapechar=given.escape, quoting=quoting
        )
        try:
            for record in reader:
                yield _Record(record, path, reader.line_num, "\r" in ends[0])
        except (csv.Error, OSError, EOFError, zlib.error) as error:
            raise ParameterError(f"{path}, line {reader.line_num}: {error}") from error


def find_csv_format(path: str, options: FileOptions) -> CsvFormat:
    """Return how a file is written: without another separator, one that ends in ``.tsv`` has tabs."""
    is_tabbed = ".tsv" in Path(path.lower()).suffixes and not options.has_separator
    return replace(options.csv, separator="\t") if is_tabbed else options.csv


def _has_several_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


class DumpReader:
    """Reads groups of files, and collects what is wrong with them."""

    def __init__(self, options: FileOptions, array_delimiter: str) -> None:
        self.problems: list[Violation] = []
        self._options = options
        self._delimiter = array_delimiter
        self._sources = NameRegister()

    def read(self, path: str) -> DumpRows | None:
        """Read the header and the first rows of a group of files; None if the header is of no use."""
        labels, given = _split_group(path)
        files = [file for each in given for file in expand_path(each)]
        missing = [each for each in given if not expand_path(each)]
        if missing:
            raise NotFound("; ".join(f"there is no file '{each}'" for each in missing))
        records = (record for file in files for record in _read_records(file, self._options))
        head = next(records, _Record([], files[0], 0, has_return=False))
        names = head.values
        type_name = labels[0] if labels else ""
        if not is_neo4j_header(names):
            message = "the other files are of neo4j-admin; this header has no :ID, :START_ID, :LABEL or :TYPE"
            self.problems.append(Violation(type_name, "neo4j_roles", message, files[0], 1, value=",".join(names)))
            return None
        header, wrong = parse_neo4j_header(files[0], names, type_name)
        self.problems += wrong
        rows: list[list[str | None]] = []
        places: list[tuple[str, int]] = []
        spans_lines = any(_has_several_lines(name) for name in names)
        has_returns = head.has_return
        nulls = self._options.csv.null_texts
        # neo4j-admin may repeat the header in each file.
        wanted = (each for each in records if each.values and each.values != names)
        for each in islice(wanted, MAX_ROWS):
            record, file, line = each.values, each.file, each.line
            has_returns = has_returns or each.has_return
            if len(record) != len(names):
                message = f"the record has {len(record)} values, and the header {len(names)} fields"
                self.problems.append(Violation(type_name, "neo4j_columns", message, file, line, value=",".join(record)))
                continue
            self._check_encoding(record, file, line, type_name, header)
            spans_lines = spans_lines or any(map(_has_several_lines, record))
            rows.append([None if value in nulls else value for value in record])
            places.append((file, line))
        source = self._sources.choose(make_view_name(Path(files[-1]).name.split(".")[0], "rows"))
        is_complete = next(wanted, None) is None
        found = DumpRows(tuple(files), labels, header, rows, places, is_complete, source, spans_lines, not has_returns)
        self._check_values(found, type_name)
        return found

    def _check_encoding(self, record: Sequence[str], file: str, line: int, type_name: str, header: Header) -> None:
        for each in header.columns:
            text = record[each.place]
            if not text.isascii() and _ESCAPED.search(text):
                coding = self._options.csv.encoding
                message = f"{each.text} is not {coding}; the option encoding says what it is"
                value = _ESCAPED.sub("\ufffd", text)
                self.problems.append(
                    Violation(type_name, "neo4j_encoding", message, file, line, property=each.text, value=value)
                )

    def _check_values(self, found: DumpRows, type_name: str) -> None:
        """Compare the values with the types of the header."""
        for each in found.header.fields:
            values = found.list_column(each.place)
            if each.role in ("ID", "START_ID", "END_ID"):
                for number in (number for number, value in enumerate(values) if value is None):
                    self._add(found, number, type_name, each, "neo4j_id", f"{each.text} is empty", None)
            owners = [(number, value) for number, value in enumerate(values) if value is not None]
            item_type = each.type
            if each.type.is_list:
                split = [(number, item) for number, value in owners for item in value.split(self._delimiter)]
                owners, item_type = split, replace(each.type, is_list=False)
            if item_type.scalar is Scalar.STRING or each.role == "IGNORE":
                continue
            owners = [(number, value) for number, value in owners if not _ESCAPED.search(value)]
            texts = cast("Values", pa.array([value for _, value in owners], pa.string()))
            for mismatch in convert_texts(texts, item_type).mismatches:
                number, value = owners[mismatch.row]
                message = f"'{value}' is no {item_type}, which '{each.text}' says"
                self._add(found, number, type_name, each, "neo4j_value", message, value)

    def _add(
        self, rows: DumpRows, number: int, type_: str, field_: HeaderField, rule: str, message: str, value: str | None
    ) -> None:
        file, line = rows.places[number]
        self.problems.append(Violation(type_, rule, message, file, line, property=field_.text, value=value))

    def add_dangling(self, rows: DumpRows, number: int, type_: str, field_: HeaderField) -> None:
        """Note a relationship whose end is no node of the dump."""
        value = rows.rows[number][field_.place]
        message = f"no node has the id '{value}'" + (f" of the space {field_.space}" if field_.space else "")
        self._add(rows, number, type_, field_, "neo4j_end", message, value)

    def add_unconnected(self, rows: DumpRows, number: int, type_: str) -> None:
        """Note relationships of a type whose ends are all nodes that were not looked at."""
        file, line = rows.places[number]
        message = (
            f"no relationship of the type {type_} that was looked at connects nodes that were:"
            " give the ids of each label a space in the headers, as :ID(Person), or move such nodes up"
        )
        self.problems.append(Violation(type_, "neo4j_end", message, file, line))

    def add_repeated(self, rows: DumpRows, number: int, type_: str, field_: HeaderField) -> None:
        """Note a node whose id another one has."""
        value = rows.rows[number][field_.place]
        self._add(rows, number, type_, field_, "neo4j_id", f"the id '{value}' is there twice", value)

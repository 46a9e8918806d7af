"""The rows of a query in every output format: on stdout, or in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import IOBase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias, cast, get_args

import orjson
import typer

from omnigraph.cli.render.output import CommandResult, json_text
from omnigraph.cli.render.page import Page, pluralize, to_one_line
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.read.result import Result as QueryResult

TextFormat: TypeAlias = Literal["json", "jsonl", "csv", "kv", "markdown"]
Format: TypeAlias = Literal["table", "json", "jsonl", "csv", "kv", "markdown", "arrow", "parquet"]

_TEXT_FORMATS: tuple[TextFormat, ...] = get_args(TextFormat)
_FORMATS_BY_SUFFIX: dict[str, Format] = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".md": "markdown",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".parquet": "parquet",
}
MOST_ROWS = 200
"""A person at a terminal looks at so many."""
_SHOWN_ITEMS = 3
_BATCH_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class QueryRows(CommandResult):
    """The rows of a query on stdout."""

    result: QueryResult
    format: Format

    def to_json(self) -> Mapping[str, Json]:
        """The query, its columns and rows, and where they come from."""
        return self.result.to_json()

    def draw(self, page: Page) -> None:
        """Print the rows. Only a table needs all of them before it starts."""
        if self.format == "table":
            self._draw_table(page)
        elif self.format in _TEXT_FORMATS:
            for text in _format_rows(self.result, self.format):
                page.write(text)
        elif self.format == "arrow" and not page.out.is_terminal:
            _write_arrow(self.result, page.binary())
        else:
            raise typer.TyperException(f"--format {self.format} is not text: -o FILE writes it")

    def _draw_table(self, page: Page) -> None:
        watched = page.out.is_terminal
        shown: list[list[str]] = []
        count = 0
        for rows in _read_rows(self.result):
            count += len(rows)
            wanted = rows[: MOST_ROWS - len(shown)] if watched else rows
            shown += [[value_text(value, short=watched) for value in row.values()] for row in wanted]
        page.grid([to_one_line(name) for name in self.result.columns], shown, self._numbers())
        if count > len(shown):
            page.say(f"and {count - len(shown):,} more; --format jsonl shows all, -o FILE keeps them")
        if not count:
            page.say("no rows")

    def _numbers(self) -> list[bool]:
        return [str(type_).startswith(("int", "uint", "float", "double")) for type_ in self.result.schema.types]


@dataclass(frozen=True, slots=True)
class RowsFile(CommandResult):
    """What was written to a file."""

    result: QueryResult
    path: str
    format: Format
    row_count: int

    def to_json(self) -> Mapping[str, Json]:
        """The query, the file, and where the rows come from."""
        return {
            "query_name": self.result.query_name,
            "columns": list(self.result.columns),
            "row_count": self.row_count,
            "branch": self.result.branch,
            "commit": None if self.result.commit is None else self.result.commit.id,
            "path": self.path,
            "format": self.format,
        }

    def draw(self, page: Page) -> None:
        """One line."""
        commit = "" if self.result.commit is None else f", at commit {self.result.commit.id}"
        page.print(f"{self.path}: {pluralize(self.row_count, 'row')}{commit}")


def choose_format(path: str, asked: Format | None) -> Format:
    """Return the format of a file of rows: the one that was asked for, or that of the ending of its name."""
    found = asked or _FORMATS_BY_SUFFIX.get(Path(path).suffix.lower())
    if found == "table":
        raise typer.TyperException("--format table is for people to look at; a file has another format")
    if found is None:
        known = ", ".join(_FORMATS_BY_SUFFIX)
        raise typer.TyperException(f"the extension of '{path}' names no format: give --format, or one of {known}")
    return found


def write_rows(result: QueryResult, path: str, form: Format) -> RowsFile:
    """Write the rows to a file, which appears when it is complete."""
    # Imported here, because it brings Arrow along.
    from omnigraph.read.rows import create_file

    counted = _CountedRows(result)
    with create_file(Path(path)) as file:
        if form == "parquet":
            _write_parquet(counted, file)
        elif form == "arrow":
            _write_arrow(counted, file)
        elif form in _TEXT_FORMATS:
            for text in _format_rows(counted, form):
                file.write(text.encode())
    return RowsFile(result, path, form, counted.count)


class _CountedRows:
    """The batches of a result, counted as they pass."""

    def __init__(self, result: QueryResult) -> None:
        self.schema = result.schema
        self.columns = result.columns
        self.count = 0
        self._result = result

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the result."""
        for batch in self._result.batches(size):
            self.count += batch.num_rows
            yield batch

    def to_json(self) -> Mapping[str, Json]:
        """Return the rows as one object."""
        self.count = self._result.row_count
        return self._result.to_json()


_Rows: TypeAlias = "QueryResult | _CountedRows"


def _read_rows(result: _Rows) -> Iterator[list[dict[str, Json]]]:
    from omnigraph.read.rows import to_json_rows

    return (to_json_rows(batch) for batch in result.batches(_BATCH_ROWS))


def _format_rows(result: _Rows, form: TextFormat) -> Iterator[str]:
    match form:
        case "json":
            yield json_text(result.to_json())
        case "jsonl":
            for rows in _read_rows(result):
                yield b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows).decode()
        case "csv":
            from omnigraph.read.rows import format_csv_lines

            yield format_csv_lines([result.columns])
            for rows in _read_rows(result):
                yield format_csv_lines(row.values() for row in rows)
        case "markdown":
            yield _markdown_line(result.columns) + _markdown_line(["---"] * len(result.columns))
            for rows in _read_rows(result):
                yield "".join(
                    _markdown_line([value_text(value, short=False) for value in row.values()]) for row in rows
                )
        case "kv":
            yield from _format_properties(result)


def _format_properties(result: _Rows) -> Iterator[str]:
    width = max(map(len, result.columns))
    gap = ""
    for rows in _read_rows(result):
        for row in rows:
            lines = (f"{name:<{width}}  {value_text(value, short=False)}\n" for name, value in row.items())
            yield gap + "".join(lines)
            gap = "\n"


def _markdown_line(cells: Sequence[str]) -> str:
    escaped = (to_one_line(cell).replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |\n"


def _write_arrow(result: _Rows, stream: BinaryIO) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(cast("IOBase", stream), result.schema) as writer:
        for batch in result.batches(_BATCH_ROWS):
            writer.write_batch(batch)


def _write_parquet(result: _Rows, stream: BinaryIO) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(stream, result.schema) as writer:
        for batch in result.batches(_BATCH_ROWS):
            writer.write_batch(batch)


def value_text(value: Json, *, short: bool) -> str:
    """Format a value on one line. On a terminal a long list shows its start and its length.

    A text that would look like nothing, or like a null, stands in quotes.
    """
    if isinstance(value, str):
        return _json(value) if value in ("", "null") else to_one_line(value)
    if short and isinstance(value, Sequence) and len(value) > _SHOWN_ITEMS:
        first = ", ".join(_json(item) for item in value[:_SHOWN_ITEMS])
        return f"[{first}, … {len(value)} items]"
    return _json(value)


def _json(value: Json) -> str:
    return orjson.dumps(value).decode()

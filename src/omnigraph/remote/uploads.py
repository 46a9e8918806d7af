"""What a load sends: its records as lines of JSON in a file of their own, so that they can be sent again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, cast

import orjson
import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.errors import Json, ParameterError, Unsupported
from omnigraph.read.rows import to_json_rows
from omnigraph.remote.wire_values import to_json_value
from omnigraph.write.load import LineBlock, RecordSource, TableInput, ignore_bytes, open_frame, read_blocks

Reopen = Callable[[], IO[bytes]]


@contextmanager
def spool_records(
    source: RecordSource | None,
    nodes: Mapping[str, TableInput],
    edges: Mapping[str, TableInput],
    progress: Callable[[int], object] | None,
) -> Generator[Reopen]:
    """Write everything to one file of lines; yield a function that opens it."""
    if source is None and not nodes and not edges:
        raise ParameterError("there is nothing to load", hint="give a source, or nodes= and edges=")
    with NamedTemporaryFile(prefix="omnigraph-load-", suffix=".jsonl") as file:
        for lines in _list_lines(source, nodes, edges, progress or ignore_bytes):
            check_deadline()
            file.write(lines)
        file.flush()
        yield lambda: Path(file.name).open("rb")  # noqa: SIM115  whoever sends it closes it


def _list_lines(
    source: RecordSource | None,
    nodes: Mapping[str, TableInput],
    edges: Mapping[str, TableInput],
    count_bytes: Callable[[int], object],
) -> Iterator[bytes]:
    if source is not None:
        for block in read_blocks(source, count_bytes):
            if isinstance(block, LineBlock):
                yield b"".join(line.rstrip(b"\r\n") + b"\n" for line in block.lines)
            else:
                yield b"".join(_to_line(to_json_value(record)) for record in block.records)
    for name, table in nodes.items():
        yield from _table_lines("type", name, table)
    for name, table in edges.items():
        yield from _table_lines("edge", name, table)


def _table_lines(kind: str, name: str, table: TableInput) -> Iterator[bytes]:
    if not hasattr(table, "__arrow_c_stream__"):
        raise Unsupported(
            f"files of {name} cannot be sent to a server", hint="read them as a frame, or load lines of JSON"
        )
    for batch in open_frame(name, table):
        yield b"".join(_to_line(_to_record(kind, name, row)) for row in _to_rows(batch))


def _to_rows(batch: pa.RecordBatch) -> list[dict[str, Json]]:
    return to_json_rows(batch)


def _to_record(kind: str, name: str, row: dict[str, Json]) -> Json:
    ends = {end: row.pop(end) for end in ("from", "to") if kind == "edge" and end in row}
    return {kind: name, **ends, "data": row}


def _to_line(record: Json) -> bytes:
    return orjson.dumps(cast("object", record), option=orjson.OPT_APPEND_NEWLINE)

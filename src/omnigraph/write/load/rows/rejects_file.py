"""The file of rejected records, in either of its formats: JSON lines or Parquet, with the same columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypedDict, cast

import orjson
import pyarrow as pa

PARQUET_SUFFIX: Final = ".parquet"
LINES_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
REJECTS_SCHEMA: Final = pa.schema(
    [
        pa.field(name, pa.int64() if name == "line" else pa.string())
        for name in ("record", "file", "line", "type", "id", "rule", "message", "table_key")
    ]
)
_LINES_AT_ONCE: Final = 10_000


class RejectsLine(TypedDict):
    """One line of a file of rejected records. Its keys are part of the file format."""

    record: str
    file: str | None
    line: int | None
    type: str
    id: str | None
    rule: str
    message: str
    table_key: str | None


def encode_rejects_line(line: RejectsLine) -> bytes:
    """Return a line of a file of JSON lines."""
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def to_rejects_table(lines: Iterable[RejectsLine]) -> pa.Table:
    """Return lines as rows."""
    return pa.Table.from_pylist([dict(each) for each in lines], REJECTS_SCHEMA)


def write_rejects_lines(file: Path, parts: Iterable[pa.Table]) -> None:
    """Write rows as JSON lines."""
    with file.open("wb") as lines:
        for rows in parts:
            lines.writelines(encode_rejects_line(cast("RejectsLine", row)) for row in rows.to_pylist())


def write_rejects_parquet(file: Path, parts: Iterable[pa.Table]) -> None:
    """Write rows as Parquet."""
    # Imported here: it is slow, and few loads need it.
    import pyarrow.parquet as pq

    with pq.ParquetWriter(str(file), REJECTS_SCHEMA) as writer:
        for rows in parts:
            writer.write_table(rows)


def read_rejects_lines(file: Path) -> Iterator[pa.Table]:
    """Yield the rows of JSON lines, some thousand at a time."""
    with file.open("rb") as lines:
        while piece := list(islice(lines, _LINES_AT_ONCE)):
            yield to_rejects_table(cast("RejectsLine", orjson.loads(each)) for each in piece)

"""Read the first rows of a file as they are: texts of a CSV file, typed columns of the others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import cast

import orjson
import pyarrow as pa

from omnigraph.errors import ParameterError
from omnigraph.storage.columns import Values
from omnigraph.write.load.inputs.arrow_files import read_file_batches
from omnigraph.write.load.inputs.delimited_text import find_header, parse_records, skip_header, to_utf8
from omnigraph.write.load.inputs.record_splitter import split_records
from omnigraph.write.load.inputs.sources import LineBlock, ignore_bytes, open_chunks, read_blocks
from omnigraph.write.load.inputs.table_files import DataFile


def read_sample(file: DataFile, max_rows: int) -> pa.Table:
    """Return the first rows of a file of this machine, at most so many."""
    match file.format:
        case "csv":
            batches = _read_csv_batches(file, max_rows)
        case "jsonl":
            return _read_objects(file, max_rows)
        case "parquet" | "arrow":
            batches = read_file_batches(file, None, ignore_bytes)
    first = next(batches, None)
    if first is None:
        return pa.table({})
    found: list[pa.RecordBatch] = []
    count = 0
    for batch in chain([first], batches):
        found.append(batch.slice(0, max_rows - count))
        count += found[-1].num_rows
        if count >= max_rows:
            break
    return pa.Table.from_batches(found, first.schema)


def _read_csv_batches(file: DataFile, max_rows: int) -> Iterator[pa.RecordBatch]:
    with open_chunks(Path(file.path), ignore_bytes) as chunks:
        names: tuple[str, ...] | None = None
        count = 0
        for block in split_records(file.path, to_utf8(file.path, chunks, file.csv.encoding), file.csv):
            records = block
            if names is None:
                header = find_header(file.path, block, file.csv)
                if header is None:
                    continue
                names = header.names
                records = skip_header(block, header) if file.csv.has_header else block
                yield pa.RecordBatch.from_pylist([], pa.schema([(name, pa.string()) for name in names]))
            if records.data and count < max_rows:
                rows = parse_records(records, names, file.csv).rows.slice(0, max_rows - count)
                _refuse_other_encodings(file, rows)
                count += rows.num_rows
                yield rows


def _refuse_other_encodings(file: DataFile, rows: pa.RecordBatch) -> None:
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        raise ParameterError(f"{file.path} is not UTF-8", hint="give the option encoding") from None


def _read_objects(file: DataFile, max_rows: int) -> pa.Table:
    objects = list(islice(_parse_objects(file), max_rows))
    names = dict.fromkeys(name for each in objects for name in each)
    columns = {name: _to_column([each.get(name) for each in objects]) for name in names}
    return pa.table(columns)


def _parse_objects(file: DataFile) -> Iterator[dict[str, object]]:
    for block in read_blocks(file.path):
        for number, line in enumerate(cast("LineBlock", block).lines):
            if not line.strip():
                continue
            try:
                found: object = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                place = f"{file.path}, line {cast('LineBlock', block).first + number}"
                raise ParameterError(f"{place}: not JSON: {error.msg}") from error
            if isinstance(found, dict):
                yield cast("dict[str, object]", found)


def _to_column(values: list[object]) -> Values:
    try:
        return cast("Values", pa.array(cast("list[str]", values)))
    except (pa.ArrowException, OverflowError):
        # Values of several kinds.
        return cast(
            "Values",
            pa.array([None if value is None else orjson.dumps(value).decode() for value in values], pa.string()),
        )

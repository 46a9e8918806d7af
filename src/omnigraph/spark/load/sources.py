"""Read the input of a load as DataFrames: the lines of record files, and frames, with the file of each row."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import ParameterError
from omnigraph.read.frames import ChunkedValues
from omnigraph.spark.inputs import is_spark_frame
from omnigraph.spark.load.load_task import BLOCK, CONTENT, ENDS_FILE, LINE, PATH
from omnigraph.spark.plan_text import has_joined_files
from omnigraph.storage.columns import Values, compute, to_bool_array
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.location import has_scheme
from omnigraph.write.load import (
    UTC,
    ArrowStream,
    TimestampUnit,
    normalize_zone,
    open_frame,
    read_frame,
    translate_frame_errors,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PATTERN: Final = re.compile(r"([\\{}\[\]*?,])")
_HIDDEN: Final = ("_", ".")
_MAX_HEADER_LINES: Final = 100
_MAX_HEADER_BYTES: Final = 1 << 20
"""The columns of a remote file are read from at most this many lines, and this many bytes of each line."""


# --------------------------------------------------------------------------------------------- files of records


def names_by_path(paths: Iterable[str]) -> dict[str, str]:
    """Return the names of local files as the user gave them, by absolute path."""
    return {os.path.abspath(path): path for path in paths if not has_scheme(path)}  # noqa: PTH100  as Spark has them


def read_lines(session: SparkSession, paths: Iterable[str]) -> DataFrame:
    """Read the raw lines of files, each with its file and the block that it belongs to."""
    from pyspark.sql import functions

    block_end = functions.col("_metadata.file_block_start") + functions.col("_metadata.file_block_length")
    read = session.read.option("lineSep", "\n").text([to_spark_path(path) for path in paths])
    return read.select(
        functions.col("value").cast("binary").alias(LINE),
        functions.col("_metadata.file_path").alias(InternalColumn.FILE),
        functions.col("_metadata.file_block_start").alias(BLOCK),
        (block_end >= functions.col("_metadata.file_size")).alias(ENDS_FILE),
    )


def to_spark_path(path: str) -> str:
    """Return a path for Spark; special characters in the name of a local file are escaped."""
    if has_scheme(path) or not os.path.lexists(path):
        return path
    name = os.path.basename(path)  # noqa: PTH119  as Spark has it
    if name.startswith(_HIDDEN):
        # Spark would silently read nothing.
        raise ParameterError(f"'{name}' begins with '{name[0]}'", hint='Spark skips such files; use engine="local"')
    return "file://" + _PATTERN.sub(r"\\\1", os.path.abspath(path))  # noqa: PTH100  as above


def read_first_lines(session: SparkSession, path: str) -> bytes:
    """Read the first lines of the first of some files, in which its header is; nothing if they are empty."""
    lines = read_lines(session, [path])
    first = lines.where(lines[BLOCK] == 0).select(lines[LINE].substr(1, _MAX_HEADER_BYTES)).head(_MAX_HEADER_LINES)
    return b"".join(bytes(cast("bytes", row[0])) + b"\n" for row in first)


def read_whole_files(session: SparkSession, paths: Iterable[str]) -> DataFrame:
    """Read files as their path and their content."""
    return session.read.format("binaryFile").load([to_spark_path(path) for path in paths]).select(PATH, CONTENT)


# --------------------------------------------------------------------------------------------- frames


def to_dataframe(session: SparkSession, name: str, frame: ArrowStream) -> DataFrame:
    """Convert a frame to a DataFrame, if it is not one."""
    if is_spark_frame(frame):
        return frame
    reader = open_frame(name, frame)
    rows = pa.Table.from_batches(read_frame(name, reader), reader.schema)
    rows = pa.Table.from_arrays([_to_microseconds(column) for column in rows.columns], names=rows.schema.names)
    types = zip(rows.schema.names, rows.schema.types, strict=True)
    supported = pa.schema([(column, _supported_type(type_)) for column, type_ in types])
    with translate_frame_errors(name):
        converted = rows.cast(supported)
    return session.createDataFrame(converted)


def find_session_zone(session: SparkSession) -> str:
    """Return the time zone in which a session reads times without one."""
    return normalize_zone(cast("str", session.conf.get("spark.sql.session.timeZone")))


def _to_microseconds(column: ChunkedValues) -> ChunkedValues | Values:
    """Return nanoseconds as microseconds, such that a time with digits below a millisecond still has some."""
    kind = cast("TimestampUnit", column.type)
    if not (pa.types.is_timestamp(column.type) and kind.unit == "ns"):
        return column
    values = cast("Values", column.cast(pa.int64()).combine_chunks())
    numbers = compute("coalesce", values, pa.scalar(0)).to_numpy(zero_copy_only=False)
    microseconds = numbers // 1000
    is_hidden = (microseconds * 1000 != numbers) & (microseconds % 1000 == 0)
    mask = to_bool_array(values.is_null())
    # The largest numbers are infinite times in any unit.
    is_infinite = np.abs(numbers) == np.iinfo(np.int64).max
    kept = np.where(is_infinite, numbers, microseconds + is_hidden)
    times = cast("Values", pa.array(kept, pa.int64(), mask=mask))
    return times.cast(pa.timestamp("us", kind.tz or UTC))


def _supported_type(type_: pa.DataType) -> pa.DataType:
    """Return the nearest type that Spark supports."""
    if isinstance(type_, pa.DictionaryType):
        return _supported_type(cast("pa.DataType", type_.value_type))
    if pa.types.is_unsigned_integer(type_):
        return pa.decimal128(20, 0) if type_ == pa.uint64() else pa.int64()
    if pa.types.is_date64(type_):
        return pa.timestamp("us", "UTC")
    if pa.types.is_timestamp(type_):
        # Spark would read a time without a zone in the time zone of the session; here it is in UTC, as without Spark.
        return pa.timestamp("us", cast("TimestampUnit", type_).tz or UTC)
    return pa.string() if pa.types.is_string_view(type_) else type_


def number_files(frame: DataFrame) -> tuple[Column, dict[int, str]]:
    """Return the number of the file that each row was read from, null if unknown, and the names of files by number.

    Numbers are cheaper than names for Spark; the names are resolved here.
    """
    from pyspark.sql import functions

    unknown = functions.lit(None).cast("long")
    files = frame.inputFiles()
    if not files or has_joined_files(frame):
        return unknown, {}
    listed = frame.sparkSession.createDataFrame(pa.table({"file": files}))
    found = listed.select(functions.xxhash64("file"), "file").collect()
    return functions.xxhash64(functions.input_file_name()), dict(cast("list[tuple[int, str]]", found))

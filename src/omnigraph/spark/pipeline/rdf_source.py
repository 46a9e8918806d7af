"""Sources of RDF in a pipeline: tasks parse the files, and the rows are triples.

N-Triples are read line by line, so that a file of any size is divided among tasks. Of other formats a task parses a
whole file, which must fit its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from omnigraph.pipeline.imports import LINES, TRIPLES, find_rdf_ending, make_batches, parse_lines, parse_rdf
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.columns import column_of, to_list

RDF: Final = "rdf"
"""The format of such a source."""
_COLUMNS: Final = ", ".join(f"{name} string" for name in TRIPLES.names)


def read_triples(session: SparkSession, path: str) -> DataFrame:
    """Return the triples of files as a DataFrame. The path may be a pattern of files with the same ending."""
    if find_rdf_ending(path) in LINES:
        lines = session.read.text(path).select(sql.col("_metadata.file_name"), "value")
        return map_batches(lines, _parse_lines, _COLUMNS)
    files = session.read.format("binaryFile").load(path).select("path", "content")
    return map_batches(files, _parse_files, _COLUMNS)


def _parse_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task: parse lines of N-Triples."""
    for batch in batches:
        names = cast("list[str]", to_list(column_of(batch, "file_name")))
        texts = cast("list[str]", to_list(column_of(batch, "value")))
        for name in dict.fromkeys(names):
            mine = [text.encode() for own, text in zip(names, texts, strict=True) if own == name]
            yield from make_batches(parse_lines(name, mine, are_all=False))


def _parse_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task: parse whole files."""
    for batch in batches:
        paths = cast("list[str]", to_list(column_of(batch, "path")))
        contents = cast("list[bytes]", to_list(column_of(batch, "content")))
        for path, data in zip(paths, contents, strict=True):
            name = Path(path).name
            yield from make_batches(parse_rdf(name, data))

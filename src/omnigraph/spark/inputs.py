"""Inspect the input of a load before Spark is imported: its files, their size, and whether a frame is of Spark.

Nothing here imports Spark, because loads in one process use it too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeGuard, cast

from omnigraph.errors import ParameterError, SparkUnavailable
from omnigraph.write.load import LoadInput, RecordSource, list_table_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def require_pyspark() -> None:
    """Raise an error that names the extra if PySpark is not installed. A managed cluster brings its own."""
    if find_spec("pyspark") is None:
        raise SparkUnavailable("PySpark is not installed", hint='install it: pip install "omnigraph[spark]"')


def list_paths(source: RecordSource) -> list[str]:
    """Return the files of a source; refuse any other source, because executors could not read it."""
    given = [source] if isinstance(source, str | os.PathLike) else source
    if isinstance(given, Iterable) and not isinstance(given, Mapping):
        # An open stream is never read here: its lines could look like paths.
        parts = list(given) if isinstance(given, list | tuple) else [None]
        if all(isinstance(part, str | os.PathLike) for part in parts):
            return [os.fspath(cast("str | os.PathLike[str]", part)) for part in parts]
    raise ParameterError("Spark reads records only from files", hint='give paths, or use engine="local"')


def total_size(given: LoadInput) -> int:
    """Return the total size in bytes of the files of a load; files that this machine cannot see count as 0."""
    return sum(_size_of(path) for path in (*_list_record_paths(given.source), *list_table_files(given)))


def _list_record_paths(source: RecordSource | None) -> list[str]:
    try:
        return [] if source is None else list_paths(source)
    except ParameterError:
        return []


def _size_of(path: str) -> int:
    return os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202  it may be a URI


def is_spark_frame(frame: object) -> TypeGuard[DataFrame]:
    """Return whether a frame is a Spark DataFrame, without importing Spark."""
    kind = type(frame)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")

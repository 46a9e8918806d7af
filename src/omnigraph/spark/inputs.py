"""What a load is given: which files, how large they are, and whether a frame is one of Spark's.

Nothing here imports Spark, so that a load without it can ask.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeGuard, cast

from omnigraph.errors import ParameterError
from omnigraph.write.load import RecordSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def list_paths(source: RecordSource) -> list[str]:
    """The files of a source; anything else cannot be read by many processes."""
    given = [source] if isinstance(source, str | os.PathLike) else source
    if isinstance(given, Iterable) and not isinstance(given, Mapping):
        # A stream is never read here: its lines could be taken for paths.
        parts = list(given) if isinstance(given, list | tuple) else [None]
        if all(isinstance(part, str | os.PathLike) for part in parts):
            return [os.fspath(cast("str | os.PathLike[str]", part)) for part in parts]
    raise ParameterError("Spark reads records from files only", hint='give paths, or use engine="local"')


def total_size(source: RecordSource | None) -> int:
    """How many bytes the files of a source have, as far as this machine can tell."""
    try:
        paths = [] if source is None else list_paths(source)
    except ParameterError:
        return 0
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))  # noqa: PTH113, PTH202  may be no path here


def is_spark_frame(frame: object) -> TypeGuard[DataFrame]:
    """Whether a frame is one of Spark's; nobody has to import Spark to ask."""
    kind = type(frame)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")

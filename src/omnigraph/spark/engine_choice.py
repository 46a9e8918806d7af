"""Choose the engine of a load or an algorithm: this process or Spark. Spark is imported only if it is chosen."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from omnigraph.errors import SparkUnavailable
from omnigraph.language.schema import Schema
from omnigraph.manifest.handle import Manifest
from omnigraph.write import load as loads
from omnigraph.write.commit import CommitOptions
from omnigraph.write.load import LoadInput, LoadOptions, LoadResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_MIN_BYTES: Final = 4 * 1024**3
"""``engine="auto"`` uses Spark for files that are larger than this in total, and for any Spark DataFrame."""
SPARK_MIN_STORED_EDGES: Final = 100_000_000
"""``analyze --engine auto`` uses Spark for projections with more edges: their arrays take gigabytes in one process."""
_log = logging.getLogger("omnigraph")


def run_load(
    manifest: Manifest, schema: Schema, given: LoadInput, options: LoadOptions, commit_options: CommitOptions
) -> LoadResult:
    """Load everything as one commit, or nothing, with the engine that the options name; ``auto`` chooses one."""
    session = _choose_session(given, options)
    if session is None:
        options = replace(options, engine="local") if options.engine == "auto" else options
        return loads.load(manifest, schema, given, options, commit_options)
    from omnigraph.spark.load import load as spark_load

    return spark_load(session, manifest, schema, given, options, commit_options)


def _choose_session(given: LoadInput, options: LoadOptions) -> SparkSession | None:
    """Return the Spark session to load with, or None to load in this process."""
    if options.engine not in ("auto", "spark"):
        return None
    from omnigraph.spark.inputs import is_spark_frame, list_paths, require_pyspark, total_size

    if options.engine == "spark" and given.source is not None:
        # Fail before Java starts if the source cannot be read by Spark.
        list_paths(given.source)
    is_required = options.engine == "spark" or any(map(is_spark_frame, (*given.nodes.values(), *given.edges.values())))
    if not is_required and total_size(given) <= SPARK_MIN_BYTES:
        return None
    try:
        require_pyspark()
        from omnigraph.spark.session import get_session

        session = get_session(None)
    except SparkUnavailable as missing:
        if is_required:
            raise
        _log.warning("the load runs in this process; it would be faster on Spark: %s", missing)
        return None
    _log.info("the load runs on Spark")
    return session


def is_spark_better(num_edges: int) -> bool:
    """Whether algorithms over so many stored edges should run on Spark; without Spark a warning says so."""
    if num_edges <= SPARK_MIN_STORED_EDGES:
        return False
    from omnigraph.spark.inputs import require_pyspark

    try:
        require_pyspark()
    except SparkUnavailable as missing:
        _log.warning("the algorithm runs in this process; Spark would need less memory: %s", missing)
        return False
    return True

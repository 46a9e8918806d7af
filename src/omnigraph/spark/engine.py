"""Which engine a load takes: this process, or Spark. Nothing of Spark is imported before it is taken."""

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
"""``engine="auto"`` takes Spark for files of more bytes than this together, and for frames of Spark of any size."""
_log = logging.getLogger("omnigraph")


def load(manifest: Manifest, schema: Schema, given: LoadInput, manner: LoadOptions, terms: CommitOptions) -> LoadResult:
    """Load everything as one commit, or nothing, by the engine that the manner names; ``auto`` chooses one."""
    session = _choose_session(given, manner)
    if session is None:
        manner = replace(manner, engine="local") if manner.engine == "auto" else manner
        return loads.load(manifest, schema, given, manner, terms)
    from omnigraph.spark.load import load as spark_load

    return spark_load(session, manifest, schema, given, manner, terms)


def _choose_session(given: LoadInput, manner: LoadOptions) -> SparkSession | None:
    """The session that the load runs in; None for this process."""
    if manner.engine not in ("auto", "spark"):
        return None
    from omnigraph.spark.inputs import is_spark_frame, list_paths, total_size

    if manner.engine == "spark" and given.source is not None:
        # Before Java is started for what cannot be read there.
        list_paths(given.source)
    must = manner.engine == "spark" or any(map(is_spark_frame, (*given.nodes.values(), *given.edges.values())))
    if not must and total_size(given.source) <= SPARK_MIN_BYTES:
        return None
    from omnigraph.spark.session import get_session

    try:
        session = get_session(None)
    except SparkUnavailable as missing:
        if must:
            raise
        _log.warning("the load runs in this process, and would be faster on Spark: %s", missing)
        return None
    _log.info("the load runs on Spark")
    return session

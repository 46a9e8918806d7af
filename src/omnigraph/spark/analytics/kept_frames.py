"""Whether a snapshot has the values of a result already: executors compare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from omnigraph.language.schema import Catalog
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.diagnosis import translate_spark_errors
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.source import SparkSnapshot
from omnigraph.write.load import LoadInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def are_frames_kept(
    executor: SparkExecutor, manifest: Manifest, snapshot: Snapshot, catalog: Catalog, given: LoadInput
) -> bool:
    """Whether a snapshot has the properties of the given nodes: frames of ``id`` and properties, by type."""
    there = SparkSnapshot(executor.session, snapshot, catalog, manifest.location)
    frames = cast("Mapping[str, DataFrame]", given.nodes)
    with translate_spark_errors("comparing a result"):
        return all(_are_rows_there(there, name, rows) for name, rows in frames.items())


def _are_rows_there(there: SparkSnapshot, name: str, rows: DataFrame) -> bool:
    """Whether nodes with these ids have these values."""
    from pyspark.sql import functions as fn

    names = [each for each in rows.columns if each != "id"]
    stored = there.nodes(name, ["id", *names]).select(
        fn.col("id").alias("stored"), *(fn.col(n).alias(f"stored_{n}") for n in names)
    )
    is_same = fn.col("stored").isNotNull()
    for each in names:
        fitting = fn.col(each).cast(stored.schema[f"stored_{each}"].dataType)
        # A value that does not fit is another one.
        is_same &= fitting.eqNullSafe(fn.col(f"stored_{each}"))
        is_same &= fitting.cast(rows.schema[each].dataType).eqNullSafe(fn.col(each))
    joined = rows.join(stored, rows["id"] == stored["stored"], "left")
    return not joined.where(~is_same).limit(1).count()

"""Diffs and merges on Spark: executors compare rows by id; the driver makes one commit of what comes out."""

from omnigraph.spark.merge.diff import frame_of
from omnigraph.spark.merge.run import executors

__all__ = [
    "executors",
    "frame_of",
]

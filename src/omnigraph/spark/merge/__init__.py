"""Diff and merge on Spark: executors compare rows by id; the driver makes one commit of the result."""

from omnigraph.spark.merge.diff import diff_to_dataframe
from omnigraph.spark.merge.run import open_merge_engine

__all__ = [
    "diff_to_dataframe",
    "open_merge_engine",
]

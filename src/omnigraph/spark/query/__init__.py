"""Run queries on Spark: translate the logical plan of a query to DataFrames over one snapshot."""

from omnigraph.spark.query.result import run_query

__all__ = [
    "run_query",
]

"""Run queries on Spark: translate the logical plan of a query to DataFrames over one snapshot."""

from omnigraph.spark.query.result import query

__all__ = [
    "query",
]

"""Run queries on Spark: translate the logical plan of a query to DataFrames over one snapshot, or answer it here."""

from omnigraph.spark.query.run import SparkQueryOptions, explain_query, read_match, run_query

__all__ = [
    "SparkQueryOptions",
    "explain_query",
    "read_match",
    "run_query",
]

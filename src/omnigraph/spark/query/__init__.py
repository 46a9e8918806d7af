"""Queries on Spark: the plan of a query as DataFrames."""

from omnigraph.spark.query.result import query

__all__ = [
    "query",
]

"""A query on Spark: the plan that it has without Spark, as a DataFrame over one snapshot."""

from __future__ import annotations

from pyspark.sql import DataFrame

from omnigraph.manifest.handle import Manifest
from omnigraph.read.query import QueryOptions, QueryRequest, plan_query
from omnigraph.read.search import EmbeddingSettings
from omnigraph.spark.query.bindings import Asked
from omnigraph.spark.query.result import answered
from omnigraph.spark.source import SparkSnapshot


def query(
    manifest: Manifest, tables: SparkSnapshot, question: QueryRequest, embedding: EmbeddingSettings | None
) -> DataFrame:
    """The rows that a query has on a snapshot; its time for ``now()`` is that of this call.

    Words are searched, texts embedded and walks of more than one hop made at once, everything else when Spark runs
    the DataFrame. Rows are in the order that the query asks for until something is done that changes it.
    """
    asked = plan_query(manifest, tables.snapshot, question, QueryOptions(embedding))
    return answered(asked.plan, Asked(asked.reading, tables))

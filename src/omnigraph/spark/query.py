"""A query on Spark: the plan that it has without Spark, as a DataFrame over one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame

from omnigraph.language.source import Source
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.query import Manner, Question, planned
from omnigraph.spark.answering import answered
from omnigraph.spark.bindings import Asked
from omnigraph.spark.graph import SparkGraph


def query(
    sg: SparkGraph,
    source: str | Path | Source,
    name: str | None = None,
    params: Mapping[str, object] | None = None,
    branch: str = MAIN,
    at: Reference | None = None,
) -> DataFrame:
    """The rows that a query has now, or had; the DataFrame keeps to that moment, its time for ``now()`` included.

    Words are searched, texts embedded and walks of more than one hop made at once, everything else when Spark runs
    the DataFrame. Rows are in the order that the query asks for until something is done that changes it.
    """
    tables = sg.snapshot(branch, at)
    asked = planned(sg.manifest, tables.snapshot, Question(source, name, params), Manner(sg.embedding))
    return answered(asked.plan, Asked(asked.reading, tables))

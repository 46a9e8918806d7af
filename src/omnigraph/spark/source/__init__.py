"""Reading the graph on Spark: types and changes as data sources, and the types of values on both sides."""

from omnigraph.spark.source.change_stream import ARROW, FIELDS, row_of
from omnigraph.spark.source.snapshot import SparkSnapshot
from omnigraph.spark.source.type_reader import STORAGE, checked_columns, filter_text, pin_type
from omnigraph.spark.source.types import arrow_of, spark_type

__all__ = [
    "ARROW",
    "FIELDS",
    "STORAGE",
    "SparkSnapshot",
    "arrow_of",
    "checked_columns",
    "filter_text",
    "pin_type",
    "row_of",
    "spark_type",
]

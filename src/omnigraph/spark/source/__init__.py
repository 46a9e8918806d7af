"""Read a graph on Spark: the rows of a type, the changes of a branch as a stream, and the mapping of value types.

Rows of one type are written here too, as one commit; many types are ``spark/load``.
"""

from omnigraph.spark.source.change_stream import (
    CHANGE_ARROW_SCHEMA,
    CHANGE_FIELDS,
    CHANGE_STREAM_SCHEMA,
    ChangeStreamReader,
    parse_stream_options,
    to_change_row,
)
from omnigraph.spark.source.graph_frames import make_graph_frames
from omnigraph.spark.source.snapshot import SparkSnapshot, view_names
from omnigraph.spark.source.spark_types import arrow_schema_of, from_spark, to_spark, to_spark_type
from omnigraph.spark.source.sql import run_sql
from omnigraph.spark.source.type_reader import TypeReader, TypeReadOptions, parse_read_options
from omnigraph.spark.source.type_writer import WRITE_OPTIONS, open_type_writer

__all__ = [
    "CHANGE_ARROW_SCHEMA",
    "CHANGE_FIELDS",
    "CHANGE_STREAM_SCHEMA",
    "WRITE_OPTIONS",
    "ChangeStreamReader",
    "SparkSnapshot",
    "TypeReadOptions",
    "TypeReader",
    "arrow_schema_of",
    "from_spark",
    "make_graph_frames",
    "open_type_writer",
    "parse_read_options",
    "parse_stream_options",
    "run_sql",
    "to_change_row",
    "to_spark",
    "to_spark_type",
    "view_names",
]

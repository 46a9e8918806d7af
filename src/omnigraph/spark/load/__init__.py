"""Loads on Spark: executors read, check and write the rows; the driver makes one commit of them."""

from omnigraph.spark.inputs import is_spark_frame, paths_of, size_of
from omnigraph.spark.load.changed_table import PartRows, Reading
from omnigraph.spark.load.incoming import Blocks, DistributedRows, Run, StagedPlaces
from omnigraph.spark.load.proofs import parts_of
from omnigraph.spark.load.run import load
from omnigraph.spark.load.scratch import scratch_table
from omnigraph.spark.load.set_rules import check_on_spark
from omnigraph.spark.load.staging import stage_on_spark

__all__ = [
    "Blocks",
    "DistributedRows",
    "PartRows",
    "Reading",
    "Run",
    "StagedPlaces",
    "check_on_spark",
    "is_spark_frame",
    "load",
    "parts_of",
    "paths_of",
    "scratch_table",
    "size_of",
    "stage_on_spark",
]

"""Load on Spark: executors read, check and write the rows; the driver makes one commit of them."""

from omnigraph.spark.load.incoming_rows import BlockLines, DistributedRows, StagedPlaces, rewrite_fragments
from omnigraph.spark.load.load_task import SourceRun
from omnigraph.spark.load.run import load
from omnigraph.spark.load.staging import stage_rows

__all__ = [
    "BlockLines",
    "DistributedRows",
    "SourceRun",
    "StagedPlaces",
    "load",
    "rewrite_fragments",
    "stage_rows",
]

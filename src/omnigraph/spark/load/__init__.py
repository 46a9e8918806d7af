"""Load on Spark: executors read, check and write the rows; the driver makes one commit of them."""

from omnigraph.spark.load.changed_table import FragmentRows, RowReader
from omnigraph.spark.load.incoming_rows import BlockLines, DistributedRows, StagedPlaces, rewrite_fragments
from omnigraph.spark.load.load_task import SourceRun
from omnigraph.spark.load.run import load
from omnigraph.spark.load.set_rules import check_changes, check_stored_rows
from omnigraph.spark.load.staging import stage_rows

__all__ = [
    "BlockLines",
    "DistributedRows",
    "FragmentRows",
    "RowReader",
    "SourceRun",
    "StagedPlaces",
    "check_changes",
    "check_stored_rows",
    "load",
    "rewrite_fragments",
    "stage_rows",
]

"""The set rules on Spark: executors prove that a change keeps them, or find the rows that break them.

The rules themselves, and their SQL, are those of ``write/rules``. Nothing is written here.
"""

from omnigraph.spark.rules.changed_table import ChangedSparkTable, FragmentRows, RowReader
from omnigraph.spark.rules.set_rules import (
    FOUND,
    ViolationFrame,
    check_changes,
    check_stored_rows,
    describe_found,
    find_all_violations,
)

__all__ = [
    "FOUND",
    "ChangedSparkTable",
    "FragmentRows",
    "RowReader",
    "ViolationFrame",
    "check_changes",
    "check_stored_rows",
    "describe_found",
    "find_all_violations",
]

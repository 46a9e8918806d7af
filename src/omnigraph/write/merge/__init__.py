"""Merges and reverts: combine the changes of two histories row by row, and resolve or report the conflicts."""

from omnigraph.write.merge.alignment import MergeBase, RowImages, align_ranges, find_tables_to_merge
from omnigraph.write.merge.deltas import Counts, PreferredSide, RangeDelta, TableDelta, TableMerger, empty_delta
from omnigraph.write.merge.engine import LOCAL_MERGE_ENGINE, MergeEngine, MergePlan, TableMergePlan, is_long_staging
from omnigraph.write.merge.left_out import LeftOut, LeftOutReason
from omnigraph.write.merge.resolution_file import read_resolution, read_resolution_document, write_resolution
from omnigraph.write.merge.resolver import ConflictResolver, ResolverNotes
from omnigraph.write.merge.rules import BrokenRules, MergeSnapshots, apply_rules, exists_in
from omnigraph.write.merge.run import MergeKind, MergeOptions, MergeResult, merge, revert
from omnigraph.write.merge.three_way import MergeBy

__all__ = [
    "LOCAL_MERGE_ENGINE",
    "BrokenRules",
    "ConflictResolver",
    "Counts",
    "LeftOut",
    "LeftOutReason",
    "MergeBase",
    "MergeBy",
    "MergeEngine",
    "MergeKind",
    "MergeOptions",
    "MergePlan",
    "MergeResult",
    "MergeSnapshots",
    "PreferredSide",
    "RangeDelta",
    "ResolverNotes",
    "RowImages",
    "TableDelta",
    "TableMergePlan",
    "TableMerger",
    "align_ranges",
    "apply_rules",
    "empty_delta",
    "exists_in",
    "find_tables_to_merge",
    "is_long_staging",
    "merge",
    "read_resolution",
    "read_resolution_document",
    "revert",
    "write_resolution",
]

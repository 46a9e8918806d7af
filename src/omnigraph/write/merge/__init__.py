"""Merges and reverts: three sides of every changed row, and the conflicts between them."""

from omnigraph.write.merge.choices import Choices, Notes, Prefer
from omnigraph.write.merge.deltas import Counts, Merger, Settled
from omnigraph.write.merge.engine import HERE, MergeEngine, MergePlan, TableMergePlan, takes_long
from omnigraph.write.merge.resolution_file import read_resolution, write_resolution
from omnigraph.write.merge.rules import Sides
from omnigraph.write.merge.run import MergeOptions, MergeResult, merge, revert
from omnigraph.write.merge.sides import Base, Changed, stretches_of, tables_to_merge
from omnigraph.write.merge.three_way import By

__all__ = [
    "HERE",
    "Base",
    "By",
    "Changed",
    "Choices",
    "Counts",
    "MergeEngine",
    "MergeOptions",
    "MergePlan",
    "MergeResult",
    "Merger",
    "Notes",
    "Prefer",
    "Settled",
    "Sides",
    "TableMergePlan",
    "merge",
    "read_resolution",
    "revert",
    "stretches_of",
    "tables_to_merge",
    "takes_long",
    "write_resolution",
]

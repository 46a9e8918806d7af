"""Find what differs between two snapshots: changed rows, diffs for users, and the change feed of a branch."""

from omnigraph.read.changes.candidates import CandidateFragment, CandidateRows
from omnigraph.read.changes.compare_rows import ChangedRows, DiffSide, Op, compare_sides
from omnigraph.read.changes.compare_snapshots import (
    find_changed_tables,
    find_table_candidates,
    find_type_candidates,
    read_changes,
)
from omnigraph.read.changes.cursor import BASELINE_HINT, CURSOR_PREFIX
from omnigraph.read.changes.diff import Diff, EntityChange, TypeChanges, compute_diff, read_diff_records
from omnigraph.read.changes.entity_history import EntityRevision, read_entity_history
from omnigraph.read.changes.equality import compare_values
from omnigraph.read.changes.feed import BEGINNING, NOW, ChangeBlock, Changes, follow_changes, take_baseline
from omnigraph.read.changes.id_ranges import RowStream, group_by_id_range
from omnigraph.read.changes.type_pairs import TypePair, pair_same_type

__all__ = [
    "BASELINE_HINT",
    "BEGINNING",
    "CURSOR_PREFIX",
    "NOW",
    "CandidateFragment",
    "CandidateRows",
    "ChangeBlock",
    "ChangedRows",
    "Changes",
    "Diff",
    "DiffSide",
    "EntityChange",
    "EntityRevision",
    "Op",
    "RowStream",
    "TypeChanges",
    "TypePair",
    "compare_sides",
    "compare_values",
    "compute_diff",
    "find_changed_tables",
    "find_table_candidates",
    "find_type_candidates",
    "follow_changes",
    "group_by_id_range",
    "pair_same_type",
    "read_changes",
    "read_diff_records",
    "read_entity_history",
    "take_baseline",
]

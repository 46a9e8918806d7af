"""What differs between two snapshots: which rows, as a diff, and as a feed of commits."""

from omnigraph.read.changes.candidates import Touched, TouchedPart
from omnigraph.read.changes.changed_rows import (
    ChangedRows,
    changed_stretches,
    changed_tables,
    stretches_between,
    touched_sides,
)
from omnigraph.read.changes.compare import Side
from omnigraph.read.changes.cursor import BASELINE, PREFIX
from omnigraph.read.changes.diff import Diff, compute_diff, records_between
from omnigraph.read.changes.equality import Mask, same_values
from omnigraph.read.changes.feed import BEGINNING, NOW, ChangeBlock, Changes, baseline, follow_changes

__all__ = [
    "BASELINE",
    "BEGINNING",
    "NOW",
    "PREFIX",
    "ChangeBlock",
    "ChangedRows",
    "Changes",
    "Diff",
    "Mask",
    "Side",
    "Touched",
    "TouchedPart",
    "baseline",
    "changed_stretches",
    "changed_tables",
    "compute_diff",
    "follow_changes",
    "records_between",
    "same_values",
    "stretches_between",
    "touched_sides",
]

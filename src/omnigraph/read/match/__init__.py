"""The operators of a match on frames: scan nodes, follow edges, join, filter and count."""

from typing import TYPE_CHECKING

from omnigraph.late_imports import import_late
from omnigraph.read.match.execute import execute_match, run_match, stream_match
from omnigraph.read.match.join import find_join_comparison
from omnigraph.read.match.liveness import Leaf, StepPlan, Variables, build_spine, needed_variables
from omnigraph.read.match.pieces import Piece, measure_frame
from omnigraph.read.match.ranked_scan import (
    IN_RANKING,
    RANKED_BY_STORAGE,
    RankedScan,
    find_ranked_scans,
    plan_ranked_scan,
)
from omnigraph.read.match.scan_nodes import describe_scan_access, finds_by_id, split_predicates

if TYPE_CHECKING:
    from omnigraph.read.match.strategy import describe_edge_access, edge_walk_of
else:
    # A lookup follows no edge.
    __getattr__ = import_late(__name__, {"strategy": ("describe_edge_access", "edge_walk_of")})

__all__ = [
    "IN_RANKING",
    "RANKED_BY_STORAGE",
    "Leaf",
    "Piece",
    "RankedScan",
    "StepPlan",
    "Variables",
    "build_spine",
    "describe_edge_access",
    "describe_scan_access",
    "edge_walk_of",
    "execute_match",
    "find_join_comparison",
    "find_ranked_scans",
    "finds_by_id",
    "measure_frame",
    "needed_variables",
    "plan_ranked_scan",
    "run_match",
    "split_predicates",
    "stream_match",
]

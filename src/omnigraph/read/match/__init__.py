"""The operators of a match: scan nodes, expand along edges, join, filter, count. Each takes frames and gives frames."""

from omnigraph.read.match.counting import by_position
from omnigraph.read.match.execute import matched, matched_in_pieces
from omnigraph.read.match.expand import way_of_edges
from omnigraph.read.match.join import comparison_of
from omnigraph.read.match.liveness import Leaf, StepPlan, needed_by, spine_of
from omnigraph.read.match.scan_nodes import way_of_scan

__all__ = [
    "Leaf",
    "StepPlan",
    "by_position",
    "comparison_of",
    "matched",
    "matched_in_pieces",
    "needed_by",
    "spine_of",
    "way_of_edges",
    "way_of_scan",
]

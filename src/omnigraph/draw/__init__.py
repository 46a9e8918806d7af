"""Pictures as static SVG: schemas, histories and diffs, for notebooks, files and pages.

Nothing here knows the graph: callers bring plain facts. A picture has no script and fetches nothing; names and values
are only ever text.
"""

from omnigraph.draw.diff import DRAWN_ENTITIES, DiffEdge, DiffMark, DiffNode, draw_diff
from omnigraph.draw.history import HistoryEntry, draw_history
from omnigraph.draw.lanes import LaneEvent, LaneStep, assign_lanes
from omnigraph.draw.schema import TypeArrow, TypeBox, TypeField, draw_schema

__all__ = [
    "DRAWN_ENTITIES",
    "DiffEdge",
    "DiffMark",
    "DiffNode",
    "HistoryEntry",
    "LaneEvent",
    "LaneStep",
    "TypeArrow",
    "TypeBox",
    "TypeField",
    "assign_lanes",
    "draw_diff",
    "draw_history",
    "draw_schema",
]

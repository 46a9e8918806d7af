"""Frames: the rows of a match while it is computed, the entities they refer to, and expressions over them.

Ids are strings outside and dense integers in here. The cache of this room is all that queries keep in memory between
runs, under one budget.
"""

from omnigraph.read.frames.cache import Cache, shared_cache
from omnigraph.read.frames.comparisons import match_pattern
from omnigraph.read.frames.contents import TableContents, read_contents
from omnigraph.read.frames.entity_sets import (
    FEW_ROWS,
    FullTable,
    PartialTable,
    QueryTables,
    SkiRental,
    Strategy,
    is_loaded,
    lookup_rows,
    open_full_table,
)
from omnigraph.read.frames.evaluation import (
    EvaluationContext,
    QueryConstant,
    arrow_type_of,
    evaluate,
    evaluate_constant,
    evaluate_predicate,
    fold_constants,
)
from omnigraph.read.frames.frame import (
    EntityColumn,
    EntitySet,
    Frame,
    Mask,
    OptionalEntities,
    Positions,
    concat_frames,
    empty_positions,
    frame_of_columns,
    number_tuples,
)
from omnigraph.read.frames.kernels import convert_number
from omnigraph.read.frames.lookup import ChunkedValues, CompactPositions, find_positions
from omnigraph.read.frames.paths import FindEdges, PathForest, PathSet, make_chains, make_paths
from omnigraph.read.frames.pushdown import to_condition

__all__ = [
    "FEW_ROWS",
    "Cache",
    "ChunkedValues",
    "CompactPositions",
    "EntityColumn",
    "EntitySet",
    "EvaluationContext",
    "FindEdges",
    "Frame",
    "FullTable",
    "Mask",
    "OptionalEntities",
    "PartialTable",
    "PathForest",
    "PathSet",
    "Positions",
    "QueryConstant",
    "QueryTables",
    "SkiRental",
    "Strategy",
    "TableContents",
    "arrow_type_of",
    "concat_frames",
    "convert_number",
    "empty_positions",
    "evaluate",
    "evaluate_constant",
    "evaluate_predicate",
    "find_positions",
    "fold_constants",
    "frame_of_columns",
    "is_loaded",
    "lookup_rows",
    "make_chains",
    "make_paths",
    "match_pattern",
    "number_tuples",
    "open_full_table",
    "read_contents",
    "shared_cache",
    "to_condition",
]

"""Frames: the rows of a match while it is computed, the entities they refer to, and expressions over them.

Ids are strings outside and dense integers in here. The cache of this room is all that queries keep in memory between
runs, under one budget.
"""

from omnigraph.read.frames.alignment import align_frames, join_pieces
from omnigraph.read.frames.bases import TableLineage, lineage_of, list_bases, note_base
from omnigraph.read.frames.cache import Cache, StagedCache, shared_cache
from omnigraph.read.frames.comparisons import match_pattern, to_comparable
from omnigraph.read.frames.contents import FragmentContents, TableContents, locate_addresses, read_contents
from omnigraph.read.frames.entity_sets import (
    FEW_ROWS,
    ColumnCacheKey,
    FullTable,
    PartialTable,
    SkiRental,
    lookup_rows,
    make_full_table,
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
from omnigraph.read.frames.extended_table import ExtendedTable, WholeTable, base_of, extend_table, open_node_table
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
)
from omnigraph.read.frames.kernels import convert_number
from omnigraph.read.frames.lookup import ChunkedValues, CompactPositions, find_positions, find_sorted
from omnigraph.read.frames.parts import (
    Codes,
    RowRange,
    concat_numbers,
    count_by_position,
    find_distinct,
    find_rows,
    map_parts,
    map_values,
    mark_rows,
    number_tuples,
    order_codes,
    repeat_numbers,
    sort_distinct,
    sort_numbers,
    split_groups,
    split_parts,
    take_rows,
)
from omnigraph.read.frames.paths import FindEdges, PathForest, PathSet, make_chains, make_paths
from omnigraph.read.frames.pushdown import ID, to_condition, to_membership
from omnigraph.read.frames.query_tables import QueryTables, Strategy
from omnigraph.read.frames.version_delta import VersionDelta

__all__ = [
    "FEW_ROWS",
    "ID",
    "Cache",
    "ChunkedValues",
    "Codes",
    "ColumnCacheKey",
    "CompactPositions",
    "EntityColumn",
    "EntitySet",
    "EvaluationContext",
    "ExtendedTable",
    "FindEdges",
    "FragmentContents",
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
    "RowRange",
    "SkiRental",
    "StagedCache",
    "Strategy",
    "TableContents",
    "TableLineage",
    "VersionDelta",
    "WholeTable",
    "align_frames",
    "arrow_type_of",
    "base_of",
    "concat_frames",
    "concat_numbers",
    "convert_number",
    "count_by_position",
    "empty_positions",
    "evaluate",
    "evaluate_constant",
    "evaluate_predicate",
    "extend_table",
    "find_distinct",
    "find_positions",
    "find_rows",
    "find_sorted",
    "fold_constants",
    "frame_of_columns",
    "join_pieces",
    "lineage_of",
    "list_bases",
    "locate_addresses",
    "lookup_rows",
    "make_chains",
    "make_full_table",
    "make_paths",
    "map_parts",
    "map_values",
    "mark_rows",
    "match_pattern",
    "note_base",
    "number_tuples",
    "open_full_table",
    "open_node_table",
    "order_codes",
    "read_contents",
    "repeat_numbers",
    "shared_cache",
    "sort_distinct",
    "sort_numbers",
    "split_groups",
    "split_parts",
    "take_rows",
    "to_comparable",
    "to_condition",
    "to_membership",
]

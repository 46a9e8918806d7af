"""Algorithms over one snapshot of a graph: ranks, components, communities, distances.

A projection says which types they look at. They run over the arrays that queries use, with NumPy and SciPy, as kernels
over blocks of rows. A result is written back as one commit that says where it comes from.
"""

from omnigraph.analytics.graph_projection import GraphProjection, project_all
from omnigraph.analytics.kernels import (
    AdjacencyBlock,
    BlockEngine,
    Kernel,
    NumberedGraph,
    Numbers,
    PregelProgram,
    Side,
    State,
    group_pairs,
)
from omnigraph.analytics.named_algorithms import list_parameters, run_algorithm
from omnigraph.analytics.parameters import NodeReference
from omnigraph.analytics.projection import (
    ProjectedEdges,
    ProjectedGraph,
    ProjectedNodes,
    ProjectionPlan,
    Projector,
    count_stored_edges,
    count_stored_nodes,
    evaluate_condition,
    find_wrong_weights,
    has_numbers,
    join_ids,
    load_projection,
    number_nodes,
    refuse_beyond,
    refuse_weights,
    take_ids,
    take_types,
    to_numbers,
)
from omnigraph.analytics.result_rows import FrameMaker, ResultRows, RowSelection, find_column_type, rank_values
from omnigraph.analytics.results import (
    ALGORITHMS,
    Algorithm,
    Analysis,
    AnalyticsResult,
    Provenance,
    WriteTarget,
    list_analyses,
)

__all__ = [
    "ALGORITHMS",
    "AdjacencyBlock",
    "Algorithm",
    "Analysis",
    "AnalyticsResult",
    "BlockEngine",
    "FrameMaker",
    "GraphProjection",
    "Kernel",
    "NodeReference",
    "NumberedGraph",
    "Numbers",
    "PregelProgram",
    "ProjectedEdges",
    "ProjectedGraph",
    "ProjectedNodes",
    "ProjectionPlan",
    "Projector",
    "Provenance",
    "ResultRows",
    "RowSelection",
    "Side",
    "State",
    "WriteTarget",
    "count_stored_edges",
    "count_stored_nodes",
    "evaluate_condition",
    "find_column_type",
    "find_wrong_weights",
    "group_pairs",
    "has_numbers",
    "join_ids",
    "list_analyses",
    "list_parameters",
    "load_projection",
    "number_nodes",
    "project_all",
    "rank_values",
    "refuse_beyond",
    "refuse_weights",
    "run_algorithm",
    "take_ids",
    "take_types",
    "to_numbers",
]

"""Which part of a graph an algorithm looks at, and that part as arrays."""

from omnigraph.analytics.projection.projected_graph import (
    ProjectedGraph,
    ProjectedNodes,
    Projector,
    count_stored_edges,
    find_wrong_weights,
    load_projection,
    number_nodes,
    refuse_beyond,
    refuse_weights,
)
from omnigraph.analytics.projection.spec import (
    ProjectedEdges,
    ProjectionPlan,
    ProjectionSpec,
    make_spec,
    plan_projection,
)

__all__ = [
    "ProjectedEdges",
    "ProjectedGraph",
    "ProjectedNodes",
    "ProjectionPlan",
    "ProjectionSpec",
    "Projector",
    "count_stored_edges",
    "find_wrong_weights",
    "load_projection",
    "make_spec",
    "number_nodes",
    "plan_projection",
    "refuse_beyond",
    "refuse_weights",
]

"""Which part of a graph an algorithm looks at, and that part as arrays."""

from omnigraph.analytics.projection.projected_graph import ProjectedGraph, load_projection
from omnigraph.analytics.projection.spec import ProjectionPlan, ProjectionSpec, make_spec, plan_projection

__all__ = [
    "ProjectedGraph",
    "ProjectionPlan",
    "ProjectionSpec",
    "load_projection",
    "make_spec",
    "plan_projection",
]

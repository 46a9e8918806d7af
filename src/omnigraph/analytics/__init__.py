"""Algorithms over one snapshot of a graph: ranks, components, communities, distances.

A projection says which types they look at. They run over the arrays that queries use, with NumPy and SciPy, as kernels
over blocks of rows. A result is written back as one commit that says where it comes from.
"""

from omnigraph.analytics.graph_projection import GraphProjection, list_parameters, project_all, run_algorithm
from omnigraph.analytics.parameters import NodeReference
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
    "Algorithm",
    "Analysis",
    "AnalyticsResult",
    "GraphProjection",
    "NodeReference",
    "Provenance",
    "WriteTarget",
    "list_analyses",
    "list_parameters",
    "project_all",
    "run_algorithm",
]

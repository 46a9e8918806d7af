"""Algorithms over one snapshot of a graph: ranks, components, communities, distances.

A projection says which types they look at. They run over the arrays that queries use, with NumPy and SciPy, as kernels
over blocks of rows.
"""

from omnigraph.analytics.algorithms import ALGORITHMS, Algorithm
from omnigraph.analytics.projection import GraphProjection, NodeReference, list_parameters, project_all, run_algorithm
from omnigraph.analytics.result import AnalyticsResult, Provenance

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "AnalyticsResult",
    "GraphProjection",
    "NodeReference",
    "Provenance",
    "list_parameters",
    "project_all",
    "run_algorithm",
]

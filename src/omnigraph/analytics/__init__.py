"""Algorithms over one snapshot of a graph: ranks, components, communities, distances.

A projection says which types they look at. They run over the arrays that queries use, with NumPy and SciPy, as kernels
over blocks of rows. A result is written back as one commit that says where it comes from.
"""

from omnigraph.analytics.algorithms import ALGORITHMS, Algorithm
from omnigraph.analytics.projection import GraphProjection, NodeReference, list_parameters, project_all, run_algorithm
from omnigraph.analytics.provenance import Analysis, Provenance, list_analyses
from omnigraph.analytics.result import AnalyticsResult
from omnigraph.analytics.write_back import WriteTarget

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

"""Who finds communities of high modularity: the kernels here, or another library that was named.

It is always named, so that a result does not depend on what is installed.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from omnigraph.analytics.kernels.blocks import NumberedGraph
from omnigraph.analytics.kernels.communities_networkit import CommunityMethod, find_communities_networkit
from omnigraph.analytics.kernels.modularity import find_communities_leiden, find_communities_louvain
from omnigraph.read.frames import Positions

CommunityLibrary: TypeAlias = Literal["omnigraph", "networkit"]


def find_communities(
    graph: NumberedGraph, method: CommunityMethod, library: CommunityLibrary, resolution: float, seed: int
) -> Positions:
    """Return for each node the smallest node of its community."""
    if library == "networkit":
        return find_communities_networkit(graph, method, resolution, seed)
    find = find_communities_louvain if method == "louvain" else find_communities_leiden
    return find(graph, resolution, seed)

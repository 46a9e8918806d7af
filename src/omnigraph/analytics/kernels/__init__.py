"""Algorithms as functions of arrays: numbered nodes, and the neighbours of each in blocks of rows.

Nothing here knows a graph, a commit or a file. A kernel is a pure function of one block and of the state of all nodes,
so that it runs in threads of this process and in tasks on executors alike.
"""

from omnigraph.analytics.kernels.blocks import (
    AdjacencyBlock,
    BlockEngine,
    Kernel,
    NumberedGraph,
    Side,
    State,
    cut_block,
)
from omnigraph.analytics.kernels.centrality import compute_betweenness
from omnigraph.analytics.kernels.communities import propagate_labels
from omnigraph.analytics.kernels.community_libraries import CommunityLibrary, CommunityMethod, find_communities
from omnigraph.analytics.kernels.components import compute_cores, find_components, find_components_in_blocks
from omnigraph.analytics.kernels.distances import UNREACHABLE, measure_hops, measure_paths
from omnigraph.analytics.kernels.likeness import (
    LinkMetric,
    ScoredPairs,
    SimilarityMetric,
    embed_by_projection,
    find_similar,
    score_links,
)
from omnigraph.analytics.kernels.modularity import (
    compute_modularity,
    find_communities_leiden,
    find_communities_louvain,
)
from omnigraph.analytics.kernels.neighbourhoods import compute_clustering, count_triangles
from omnigraph.analytics.kernels.pregel import Along, Combine, PregelProgram, PregelRules, run_program
from omnigraph.analytics.kernels.ranking import compute_degrees, compute_pagerank
from omnigraph.analytics.kernels.sparse import Numbers, group_pairs
from omnigraph.analytics.kernels.walks import ENDED, WalkBias, embed_by_walks, walk_randomly

__all__ = [
    "ENDED",
    "UNREACHABLE",
    "AdjacencyBlock",
    "Along",
    "BlockEngine",
    "Combine",
    "CommunityLibrary",
    "CommunityMethod",
    "Kernel",
    "LinkMetric",
    "NumberedGraph",
    "Numbers",
    "PregelProgram",
    "PregelRules",
    "ScoredPairs",
    "Side",
    "SimilarityMetric",
    "State",
    "WalkBias",
    "compute_betweenness",
    "compute_clustering",
    "compute_cores",
    "compute_degrees",
    "compute_modularity",
    "compute_pagerank",
    "count_triangles",
    "cut_block",
    "embed_by_projection",
    "embed_by_walks",
    "find_communities",
    "find_communities_leiden",
    "find_communities_louvain",
    "find_components",
    "find_components_in_blocks",
    "find_similar",
    "group_pairs",
    "measure_hops",
    "measure_paths",
    "propagate_labels",
    "run_program",
    "score_links",
    "walk_randomly",
]

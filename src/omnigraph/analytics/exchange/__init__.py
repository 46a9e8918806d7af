"""Hand a projection to other tools: tables of edges, matrices, graphs of other libraries, and files that they read."""

from omnigraph.analytics.exchange.documents import make_cytoscape_elements, write_graphml
from omnigraph.analytics.exchange.libraries import (
    list_edges,
    list_nodes,
    make_adjacency_matrix,
    make_igraph_graph,
    make_networkx_graph,
)

__all__ = [
    "list_edges",
    "list_nodes",
    "make_adjacency_matrix",
    "make_cytoscape_elements",
    "make_igraph_graph",
    "make_networkx_graph",
    "write_graphml",
]

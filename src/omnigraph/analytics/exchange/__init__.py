"""Hand a projection to other tools: tables of edges, matrices, graphs of other libraries, and files that they read."""

from omnigraph.analytics.exchange.documents import make_cytoscape_elements, write_graphml
from omnigraph.analytics.exchange.libraries import (
    list_edges,
    list_nodes,
    make_adjacency_matrix,
    make_igraph_graph,
    make_networkx_graph,
)
from omnigraph.analytics.exchange.typed_arrays import TypedArrays, make_hetero_data, read_typed_arrays

__all__ = [
    "TypedArrays",
    "list_edges",
    "list_nodes",
    "make_adjacency_matrix",
    "make_cytoscape_elements",
    "make_hetero_data",
    "make_igraph_graph",
    "make_networkx_graph",
    "read_typed_arrays",
    "write_graphml",
]

"""The edges of a graph as arrays: their ends as numbers, neighbours of nodes, and what few changed rows make of them.

Arrays belong to a version of a table and are kept in the cache of the process. Nothing here knows a query.
"""

from omnigraph.read.topology.adjacency import (
    Adjacency,
    Hops,
    Neighbourhood,
    are_neighbours,
    build_adjacency,
    count_hops,
    expand_ranges,
    find_edges,
    find_edges_between,
    find_neighbours,
    orient_edges,
    propagate_weights,
)
from omnigraph.read.topology.corrected_adjacency import is_step_loaded, is_step_stored, load_steps
from omnigraph.read.topology.current_topology import open_topology
from omnigraph.read.topology.derived_adjacency import AdjacencyKey, load_edge_ends
from omnigraph.read.topology.edge_ends import EdgeEndsKey, TopologyTables, find_lookup_rental, read_ends_of
from omnigraph.read.topology.rebuild import had_arrays, start_rebuild
from omnigraph.read.topology.stored_hops import STORED_DIRECTIONS, make_stored_hops

__all__ = [
    "STORED_DIRECTIONS",
    "Adjacency",
    "AdjacencyKey",
    "EdgeEndsKey",
    "Hops",
    "Neighbourhood",
    "TopologyTables",
    "are_neighbours",
    "build_adjacency",
    "count_hops",
    "expand_ranges",
    "find_edges",
    "find_edges_between",
    "find_lookup_rental",
    "find_neighbours",
    "had_arrays",
    "is_step_loaded",
    "is_step_stored",
    "load_edge_ends",
    "load_steps",
    "make_stored_hops",
    "open_topology",
    "orient_edges",
    "propagate_weights",
    "read_ends_of",
    "start_rebuild",
]

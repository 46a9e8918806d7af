"""A projection as a table of edges, a SciPy matrix, or a graph of NetworkX or igraph."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from omnigraph.analytics.projection import ProjectedGraph
from omnigraph.deadlines import check_deadline
from omnigraph.read.rows import require_package
from omnigraph.storage.columns import Values, to_list

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def list_edges(projected: ProjectedGraph) -> pa.Table:
    """Return a row for each edge: the types and ids of both ends, and the weight if there is one."""
    graph = projected.graph
    types, ids = cast("Values", projected.types), projected.ids
    columns = {
        "from_type": types.take(graph.begins),
        "from": ids.take(graph.begins),
        "to_type": types.take(graph.ends),
        "to": ids.take(graph.ends),
    }
    if graph.weights is not None:
        columns["weight"] = cast("Values", pa.array(graph.weights))
    return pa.table(columns)


def list_nodes(projected: ProjectedGraph) -> pa.Table:
    """Return the type and the id of each node, in the order of their numbers."""
    return pa.table({"type": projected.types, "id": projected.ids})


def make_adjacency_matrix(projected: ProjectedGraph) -> csr_array:
    """Return the weights, or the numbers of edges, from each node (row) to each node (column)."""
    from scipy.sparse import csr_array

    edges = projected.graph.outgoing
    values = np.ones(len(edges.neighbours)) if edges.weights is None else edges.weights.copy()
    size = projected.graph.num_nodes
    # Copies: the arrays of the projection are shared with other algorithms.
    matrix = csr_array((values, edges.neighbours.copy(), edges.indptr.copy()), shape=(size, size))
    matrix.sum_duplicates()
    return matrix


def make_networkx_graph(projected: ProjectedGraph) -> Any:
    """Return a ``MultiDiGraph``. Its nodes are ids, or pairs of type and id if there are several node types."""
    require_package("networkx")
    import networkx as nx

    library = cast("Any", nx)
    check_deadline()
    types, ids = to_list(cast("Values", projected.types)), to_list(projected.ids)
    names = ids if len(projected.nodes) == 1 else list[object](zip(types, ids, strict=True))
    made = library.MultiDiGraph()
    made.add_nodes_from((name, {"type": type_, "id": id_}) for name, type_, id_ in zip(names, types, ids, strict=True))
    graph = projected.graph
    ends = [(names[a], names[b]) for a, b in zip(graph.begins.tolist(), graph.ends.tolist(), strict=True)]
    check_deadline()
    if graph.weights is None:
        made.add_edges_from(ends)
    else:
        made.add_weighted_edges_from((*pair, weight) for pair, weight in zip(ends, graph.weights.tolist(), strict=True))
    return made


def make_igraph_graph(projected: ProjectedGraph) -> Any:
    """Return a directed ``igraph.Graph``: vertices have a ``type`` and, as ``name``, their id; edges a ``weight``."""
    require_package("igraph")
    check_deadline()
    graph = projected.graph
    made = cast("Any", import_module("igraph")).Graph(
        n=graph.num_nodes, edges=np.column_stack([graph.begins, graph.ends]).tolist(), directed=True
    )
    made.vs["type"], made.vs["name"] = to_list(cast("Values", projected.types)), to_list(projected.ids)
    if graph.weights is not None:
        made.es["weight"] = graph.weights.tolist()
    return made

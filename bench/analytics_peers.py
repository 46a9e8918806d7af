"""Graph libraries beside ours, those that are installed: networkit, igraph, rustworkx, GraphBLAS, SciPy and networkx.

Each converts the same arrays of ends, which counts, into the form that an algorithm needs: with directions, each pair
once, with weights, or without directions, loops and parallel edges. How long it takes to get those arrays from stored
tables is measured apart (:func:`read_edges`), with nothing but Lance and Arrow. Not all definitions are ours: label
propagation is asynchronous elsewhere, and samples of paths begin at other nodes in networkit. None of these libraries
is needed: igraph is GPL, and only used by those who installed it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from time import process_time
from typing import Any, Literal, TypeAlias, get_args

import lance
import numpy as np
import pyarrow.compute as pc

from omnigraph.analytics.kernels import NumberedGraph, compute_modularity
from omnigraph.read.frames import sort_distinct

Array: TypeAlias = np.ndarray[Any, Any]
Form: TypeAlias = Literal["directed", "distinct", "weighted", "simple"]
Algorithms: TypeAlias = Mapping[str, tuple[Form, Callable[[Any], Any]]]
LARGEST_FOR_NETWORKX = 300_000
LARGEST_FOR_IGRAPH = LARGEST_FOR_RUSTWORKX = 3_000_000
"""Beyond, their conversions alone take longer than our algorithms: 9 to 18 s in igraph for 10 million edges."""
DAMPING, ROUNDS, SAMPLES = 0.85, 20, 16


@dataclass(frozen=True)
class EdgeArrays:
    """A graph as numbers: what libraries begin with. Paths are followed from node 0, samples of them from others."""

    num_nodes: int
    begins: Array
    ends: Array
    weights: Array
    samples: Array

    def take_form(self, form: Form) -> tuple[Array, Array]:
        """Return the begins and the ends of the edges in a form."""
        if form in ("directed", "weighted"):
            return self.begins, self.ends
        ones, others = self.begins, self.ends
        if form == "simple":
            proper = ones != others
            ones, others = ones[proper], others[proper]
            ones, others = np.minimum(ones, others), np.maximum(ones, others)
        # NumPy's unique takes ten times as long for so many numbers.
        pairs = np.sort(ones * np.int64(self.num_nodes) + others)
        return np.divmod(pairs[np.flatnonzero(np.diff(pairs, prepend=-1))], self.num_nodes)


def read_edges(tables: Mapping[str, tuple[str, int]]) -> tuple[Array, Array]:
    """Read the ends of all edges as numbers: what one has to do with stored ids before any library can begin.

    ``tables`` has the path and the version of the tables ``nodes`` and ``edges``.
    """
    nodes, edges = (lance.dataset(path, version=version) for path, version in (tables["nodes"], tables["edges"]))
    ids = nodes.to_table(["id"])["id"].combine_chunks()
    stored = edges.to_table(["src", "dst"])
    found = [np.asarray(pc.index_in(stored[end], value_set=ids)).astype(np.int64) for end in ("src", "dst")]
    return found[0], found[1]


@dataclass(frozen=True)
class PeerAnswer:
    """What a library found, and the CPU seconds that it took to convert the edges and to run."""

    convert_seconds: float
    run_seconds: float
    values: Any

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.convert_seconds + self.run_seconds


@dataclass(frozen=True)
class Peer:
    """A library: how it takes edges, and its algorithms with the form that each needs."""

    package: str
    convert: Callable[[Any, EdgeArrays, Form], Any]
    list_algorithms: Callable[[Any, EdgeArrays], Algorithms]
    most_edges: int | None = None

    def run(self, edges: EdgeArrays) -> Iterator[tuple[str, PeerAnswer]]:
        """Run all algorithms; a form is converted once, and counts for each algorithm that needs it."""
        is_too_large = self.most_edges is not None and len(edges.begins) > self.most_edges
        if is_too_large or find_spec(self.package) is None:
            return
        library = import_module(self.package)
        algorithms = self.list_algorithms(library, edges)
        for form in get_args(Form):
            chosen = {name: run for name, (needed, run) in algorithms.items() if needed == form}
            if not chosen:
                continue
            begin = process_time()
            graph = self.convert(library, edges, form)
            converted = process_time() - begin
            for name, run in chosen.items():
                begin = process_time()
                values = run(graph)
                yield name, PeerAnswer(converted, process_time() - begin, values)
            del graph
            gc.collect()


def number_groups(groups: Iterable[Iterable[int]], count: int) -> Array:
    """Return the number of the group of each node."""
    found = np.zeros(count, np.int64)
    for number, group in enumerate(groups):
        found[list(group)] = number
    return found


# --------------------------------------------------------------------------------------------- networkit


def convert_networkit(nk: Any, edges: EdgeArrays, form: Form) -> Any:
    """Return a graph of networkit."""
    pair = edges.take_form(form)
    given = (edges.weights, pair) if form == "weighted" else pair
    return nk.GraphFromCoo(given, n=edges.num_nodes, weighted=form == "weighted", directed=form != "simple")


def list_networkit(nk: Any, edges: EdgeArrays) -> Algorithms:
    """Return the algorithms of networkit."""

    def score(algorithm: Any) -> Array:
        algorithm.run()
        return np.array(algorithm.scores())

    def rank(graph: Any) -> Array:
        sinks = nk.centrality.SinkHandling.DistributeSinks
        found = nk.centrality.PageRank(graph, DAMPING, 1e-300, distributeSinks=sinks)
        found.maxIterations = ROUNDS
        return score(found)

    def group(algorithm: Any) -> Array:
        algorithm.run()
        return np.array(algorithm.getPartition().getVector())

    def measure(algorithm: Any) -> Array:
        algorithm.run()
        found = np.array(algorithm.getDistances())
        return np.where(found > 1e300, np.inf, found)

    def count_degrees(graph: Any) -> Array:
        kinds = (nk.centrality.DegreeCentrality(graph, outDeg=out, ignoreSelfLoops=False) for out in (False, True))
        return np.stack([score(each) for each in kinds])

    def count_triangles(graph: Any) -> Array:
        degrees = score(nk.centrality.DegreeCentrality(graph))
        return np.rint(score(nk.centrality.LocalClusteringCoefficient(graph, turbo=True)) * degrees * (degrees - 1) / 2)

    def cluster(graph: Any) -> Array:
        return score(nk.centrality.LocalClusteringCoefficient(graph, turbo=True))

    def estimate(graph: Any) -> None:
        nk.centrality.EstimateBetweenness(graph, len(edges.samples)).run()

    return {
        "degree": ("directed", count_degrees),
        "pagerank": ("directed", rank),
        "wcc": ("directed", lambda graph: group(nk.components.WeaklyConnectedComponents(graph))),
        "scc": ("directed", lambda graph: group(nk.components.StronglyConnectedComponents(graph))),
        "bfs": ("directed", lambda graph: measure(nk.distance.BFS(graph, 0, storePaths=False))),
        "betweenness": ("distinct", estimate),
        "shortest_paths": ("weighted", lambda graph: measure(nk.distance.Dijkstra(graph, 0, storePaths=False))),
        "triangles": ("simple", count_triangles),
        "clustering": ("simple", cluster),
        "kcore": ("simple", lambda graph: score(nk.centrality.CoreDecomposition(graph))),
        "label_propagation": ("simple", lambda graph: group(nk.community.PLP(graph))),
        "louvain": ("simple", lambda graph: group(nk.community.PLM(graph))),
        "leiden": ("simple", lambda graph: group(nk.community.ParallelLeiden(graph))),
    }


# --------------------------------------------------------------------------------------------- igraph


def convert_igraph(ig: Any, edges: EdgeArrays, form: Form) -> Any:
    """Return a graph of igraph."""
    made = ig.Graph(n=edges.num_nodes, edges=np.column_stack(edges.take_form(form)), directed=form != "simple")
    if form == "weighted":
        made.es["weight"] = edges.weights
    return made


def list_igraph(_: Any, edges: EdgeArrays) -> Algorithms:
    """Return the algorithms of igraph."""
    scale = edges.num_nodes / max(1, len(edges.samples))
    return {
        "degree": ("directed", lambda graph: np.stack([graph.degree(mode="in"), graph.degree(mode="out")])),
        "pagerank": ("directed", lambda graph: np.array(graph.pagerank(damping=DAMPING))),
        "wcc": ("directed", lambda graph: np.array(graph.connected_components("weak").membership)),
        "scc": ("directed", lambda graph: np.array(graph.connected_components("strong").membership)),
        "bfs": ("directed", lambda graph: np.array(graph.distances(0)[0])),
        "betweenness": ("distinct", lambda graph: np.array(graph.betweenness(sources=edges.samples.tolist())) * scale),
        "shortest_paths": ("weighted", lambda graph: np.array(graph.distances(0, weights="weight")[0])),
        "clustering": ("simple", lambda graph: np.array(graph.transitivity_local_undirected(mode="zero"))),
        "kcore": ("simple", lambda graph: np.array(graph.coreness())),
        "label_propagation": ("simple", lambda graph: np.array(graph.community_label_propagation().membership)),
        "louvain": ("simple", lambda graph: np.array(graph.community_multilevel().membership)),
        "leiden": (
            "simple",
            lambda graph: np.array(graph.community_leiden("modularity", n_iterations=3).membership),
        ),
    }


# --------------------------------------------------------------------------------------------- rustworkx


def convert_rustworkx(rx: Any, edges: EdgeArrays, form: Form) -> Any:
    """Return a graph of rustworkx."""
    made = rx.PyGraph() if form == "simple" else rx.PyDiGraph()
    made.add_nodes_from(range(edges.num_nodes))
    ends = [each.tolist() for each in edges.take_form(form)]
    if form == "weighted":
        made.extend_from_weighted_edge_list(list(zip(*ends, edges.weights.tolist(), strict=True)))
    else:
        made.extend_from_edge_list(list(zip(*ends, strict=True)))
    return made


def list_rustworkx(rx: Any, edges: EdgeArrays) -> Algorithms:
    """Return the algorithms of rustworkx."""
    count = edges.num_nodes

    def rank(graph: Any) -> Array:
        found = rx.pagerank(graph, alpha=DAMPING, tol=1e-7, max_iter=200)
        return np.array([found[node] for node in range(count)])

    def measure(graph: Any) -> Array:
        found = rx.dijkstra_shortest_path_lengths(graph, 0, float)
        distances = np.full(count, np.inf)
        distances[list(found.keys())] = list(found.values())
        distances[0] = 0
        return distances

    def peel(graph: Any) -> Array:
        found = rx.core_number(graph)
        return np.array([found[node] for node in range(count)])

    return {
        "pagerank": ("directed", rank),
        "wcc": ("directed", lambda graph: number_groups(rx.weakly_connected_components(graph), count)),
        "scc": ("directed", lambda graph: number_groups(rx.strongly_connected_components(graph), count)),
        "shortest_paths": ("weighted", measure),
        "kcore": ("simple", peel),
    }


# --------------------------------------------------------------------------------------------- GraphBLAS


def convert_graphblas(gb: Any, edges: EdgeArrays, form: Form) -> Any:
    """Return a matrix of GraphBLAS; where directions do not count, the part above the diagonal, by degrees."""
    rows, columns = edges.take_form(form)
    count = edges.num_nodes
    if form != "simple":
        return gb.Matrix.from_coo(rows, columns, np.ones(len(rows)), nrows=count, ncols=count, dup_op=gb.binary.plus)
    degrees = np.bincount(rows, minlength=count) + np.bincount(columns, minlength=count)
    places = np.empty(count, np.int64)
    places[np.argsort(degrees, kind="stable")] = np.arange(count)
    rows, columns = places[rows], places[columns]
    up = gb.Matrix.from_coo(
        np.minimum(rows, columns), np.maximum(rows, columns), 1, dtype=np.int64, nrows=count, ncols=count
    )
    return up, places


def list_graphblas(gb: Any, edges: EdgeArrays) -> Algorithms:
    """Return algorithms over matrices, as the tutorials of GraphBLAS write them."""
    count = edges.num_nodes

    def rank(matrix: Any) -> Array:
        degrees = matrix.reduce_rowwise(gb.monoid.plus).new()
        turned = matrix.T.new()
        ranks = gb.Vector.from_scalar(1 / count, count, dtype=float)
        for _ in range(ROUNDS):
            shares = ranks.ewise_mult(degrees, gb.binary.truediv).new()
            shared = float(ranks.dup(mask=degrees.S).reduce(gb.monoid.plus).value or 0)
            base = (1 - DAMPING) / count + DAMPING * (float(ranks.reduce(gb.monoid.plus).value) - shared) / count
            newer = gb.Vector.from_scalar(base, count, dtype=float)
            newer(gb.binary.plus).update((DAMPING * turned.mxv(shares, gb.semiring.plus_times)).new())
            ranks = newer
        return ranks.to_dense(0.0)

    def count_triangles(given: Any) -> Array:
        up, places = given
        pair, plus = gb.semiring.plus_pair[np.int64], gb.monoid.plus
        # Where the third node of a triangle is above, and where it is between: each triangle once at each node.
        above = up.mxm(up.T, pair).new(mask=up.S)
        lowest, middle = above.reduce_rowwise(plus).new(), above.reduce_columnwise(plus).new()
        between = up.mxm(up, pair).new(mask=up.S)
        highest = between.reduce_columnwise(plus).new()
        found = sum(each.to_dense(0) for each in (lowest, middle, highest))
        return np.asarray(found)[places]

    return {"pagerank": ("directed", rank), "triangles": ("simple", count_triangles)}


# --------------------------------------------------------------------------------------------- SciPy and networkx


def convert_scipy(_: Any, edges: EdgeArrays, form: Form) -> Any:
    """Return a matrix of SciPy."""
    from scipy.sparse import coo_array

    size = (edges.num_nodes, edges.num_nodes)
    pair = edges.take_form(form)
    values = edges.weights if form == "weighted" else np.ones(len(pair[0]))
    return coo_array((values, pair), shape=size).tocsr()


def list_scipy(_: Any, __: EdgeArrays) -> Algorithms:
    """Return the routines of SciPy for graphs."""
    from scipy.sparse import csgraph

    library: Any = csgraph

    def measure(matrix: Any) -> None:
        # Parallel edges are summed in a matrix, so that the paths are others.
        library.dijkstra(matrix, indices=0)

    return {
        "wcc": ("directed", lambda matrix: library.connected_components(matrix, connection="weak")[1]),
        "scc": ("directed", lambda matrix: library.connected_components(matrix, connection="strong")[1]),
        "bfs": ("directed", lambda matrix: library.dijkstra(matrix, indices=0, unweighted=True)),
        "shortest_paths": ("weighted", measure),
    }


def convert_networkx(nx: Any, edges: EdgeArrays, form: Form) -> Any:
    """Return a graph of networkx."""
    made = nx.Graph() if form == "simple" else nx.DiGraph() if form == "distinct" else nx.MultiDiGraph()
    made.add_nodes_from(range(edges.num_nodes))
    ends = [each.tolist() for each in edges.take_form(form)]
    if form == "weighted":
        made.add_weighted_edges_from(zip(*ends, edges.weights.tolist(), strict=True))
    else:
        made.add_edges_from(zip(*ends, strict=True))
    return made


def list_networkx(nx: Any, edges: EdgeArrays) -> Algorithms:
    """Return the algorithms of networkx."""
    count = edges.num_nodes

    def order(found: Any) -> Array:
        given = dict(found)
        return np.array([given.get(node, np.inf) for node in range(count)])

    return {
        "degree": ("directed", lambda graph: np.stack([order(graph.in_degree()), order(graph.out_degree())])),
        "pagerank": ("directed", lambda graph: order(nx.pagerank(graph, DAMPING))),
        "wcc": ("directed", lambda graph: number_groups(nx.weakly_connected_components(graph), count)),
        "scc": ("directed", lambda graph: number_groups(nx.strongly_connected_components(graph), count)),
        "bfs": ("directed", lambda graph: order(nx.single_source_shortest_path_length(graph, 0))),
        "betweenness": ("distinct", lambda graph: nx.betweenness_centrality(graph, k=SAMPLES, seed=1) and None),
        "shortest_paths": ("weighted", lambda graph: order(nx.single_source_dijkstra_path_length(graph, 0))),
        "triangles": ("simple", lambda graph: order(nx.triangles(graph))),
        "clustering": ("simple", lambda graph: order(nx.clustering(graph))),
        "kcore": ("simple", lambda graph: order(nx.core_number(graph))),
        "louvain": ("simple", lambda graph: number_groups(nx.community.louvain_communities(graph, seed=1), count)),
    }


# --------------------------------------------------------------------------------------------- answers


def compare_answers(name: str, edges: EdgeArrays, ours: Array, theirs: Any) -> str:
    """Return how the answers of an algorithm compare; leave the program if they should be equal and are not."""
    if theirs is None:
        return ""
    if name in ("louvain", "leiden", "label_propagation"):
        graph = NumberedGraph(edges.num_nodes, edges.begins.astype(np.int32), edges.ends.astype(np.int32))
        found = [compute_modularity(graph, np.asarray(each)) for each in (ours, theirs)]
        return f"modularity {found[0]:.4f} to {found[1]:.4f}"
    if name == "pagerank":
        return f"differ by {np.abs(ours - theirs).sum():.0e}"
    if name in ("wcc", "scc"):
        groups = np.asarray(theirs).astype(np.int64)
        pairs = sort_distinct(ours * np.int64(groups.max(initial=0) + 1) + groups)
        is_same = len(pairs) == len(sort_distinct(ours)) == len(sort_distinct(groups))
    else:
        is_same = np.allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    if not is_same:
        sys.exit(f"{name}: the answers differ")
    return "same"


PEERS = (
    Peer("networkit", convert_networkit, list_networkit),
    Peer("igraph", convert_igraph, list_igraph, LARGEST_FOR_IGRAPH),
    Peer("rustworkx", convert_rustworkx, list_rustworkx, LARGEST_FOR_RUSTWORKX),
    Peer("graphblas", convert_graphblas, list_graphblas),
    Peer("scipy", convert_scipy, list_scipy),
    Peer("networkx", convert_networkx, list_networkx, LARGEST_FOR_NETWORKX),
)

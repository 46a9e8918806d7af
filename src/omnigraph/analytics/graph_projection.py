"""``graph.analytics``: a part of a graph at a commit, and the algorithms that run on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from omnigraph.analytics.algorithm_run import AlgorithmRun
from omnigraph.analytics.exchange import (
    TypedArrays,
    list_edges,
    list_nodes,
    make_adjacency_matrix,
    make_cytoscape_elements,
    make_hetero_data,
    make_igraph_graph,
    make_networkx_graph,
    read_typed_arrays,
    write_graphml,
)
from omnigraph.analytics.kernels import (
    UNREACHABLE,
    Along,
    Combine,
    CommunityLibrary,
    LinkMetric,
    PregelProgram,
    PregelRules,
    SimilarityMetric,
    compute_betweenness,
    compute_clustering,
    compute_cores,
    compute_degrees,
    compute_pagerank,
    count_triangles,
    embed_by_projection,
    embed_by_walks,
    find_communities,
    find_components,
    find_components_in_blocks,
    find_similar,
    measure_hops,
    measure_paths,
    propagate_labels,
    run_program,
    score_links,
    walk_randomly,
)
from omnigraph.analytics.parameters import (
    NodeReference,
    check_at_least_one,
    check_communities,
    check_dimension,
    check_iterations,
    check_range,
    check_seed,
    check_weight,
    check_word,
    list_given_nodes,
    make_bias,
    make_teleport,
    read_start,
    split_pairs,
    to_parameter_json,
)
from omnigraph.analytics.projection import (
    ProjectionPlan,
    ProjectionSpec,
    Projector,
    count_stored_edges,
    load_projection,
    make_spec,
    plan_projection,
)
from omnigraph.analytics.results import AnalyticsResult, WriteTarget
from omnigraph.analytics.warm_components import load_warm_components
from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.errors import Json, ParameterError
from omnigraph.language.schema import Catalog
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.references import Reference, take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import Filter

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@observe_timeouts
@check_calls
class GraphProjection:
    """Nodes and edges of some types at a commit. Nothing is read before an algorithm runs.

    ``graph.analytics`` is the projection of all types on main; :meth:`project` chooses others.
    """

    def __init__(
        self, target: WriteTarget, spec: ProjectionSpec, timeout: Timeout = None, projector: Projector | None = None
    ) -> None:
        self._target = target
        self._projector = projector
        self._spec = spec
        self.timeout = timeout

    def project(
        self,
        nodes: Sequence[str] | None = None,
        edges: Sequence[str] | Mapping[str, str] | None = None,
        *,
        weight: str | None = None,
        direction: str = "out",
        filters: Mapping[str, Filter] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
    ) -> GraphProjection:
        """Choose node types, edge types with directions, a property as weight, filters, and a branch or a commit.

        Without ``nodes``, those at the ends of the edges; without ``edges``, all between the nodes. Edges are followed
        as they point (``"out"``), against it (``"in"``) or both ways; ``edges={"Knows": "both"}`` says it for a type.
        """
        spec = make_spec(nodes, edges, weight, direction, filters, branch, at)
        return GraphProjection(self._target, spec, self.timeout, self._projector)

    # ----------------------------------------------------------------------------------------- algorithms

    def degree(self, *, timeout: Timeout = None) -> AnalyticsResult:
        """Return how many edges end at each node, and how many begin there. Parallel edges count."""
        run = self._begin("degree", {})
        ends, begins = compute_degrees(run.projected.engine)
        return run.finish(in_degree=ends, out_degree=begins)

    def pagerank(
        self,
        *,
        damping: float = 0.85,
        iterations: int = 20,
        tolerance: float | None = None,
        personalize: NodeReference | None = None,
        start: str | None = None,
        timeout: Timeout = None,
    ) -> AnalyticsResult:
        """Return the PageRank of each node, as LDBC Graphalytics defines it: ranks sum to 1.

        There are ``iterations`` rounds; with a tolerance they end when all ranks together change by less. With
        ``personalize``, jumps lead to these nodes only: a list of nodes, or a mapping of ids to weights. ``start`` is a
        property with the ranks of an earlier run: fewer rounds are needed from there.
        """
        check_range("damping", damping, 0, 1)
        check_iterations(iterations)
        if tolerance is not None and not tolerance > 0:
            raise ParameterError(f"tolerance is {tolerance}", hint="give a number above 0")
        parameters: dict[str, Json] = {"damping": damping, "iterations": iterations}
        if tolerance is not None:
            parameters["tolerance"] = tolerance
        if personalize is not None:
            parameters["personalize"] = to_parameter_json(personalize)
        if start is not None:
            if tolerance is None:
                raise ParameterError(
                    "start needs a tolerance", hint="without one the ranks would depend on where they started"
                )
            parameters["start"] = start
        run = self._begin("pagerank", parameters)
        teleport = None if personalize is None else make_teleport(run.projected, personalize)
        ranks = compute_pagerank(
            run.projected.engine,
            damping=damping,
            iterations=iterations,
            tolerance=tolerance,
            teleport=teleport,
            start=None if start is None else read_start(run.projected, start),
        )
        return run.finish(rank=ranks)

    def wcc(self, *, start: str | None = None, timeout: Timeout = None) -> AnalyticsResult:
        """Return the weakly connected component of each node, named after its smallest node.

        ``start`` is a property with the ``component_id`` that an earlier run wrote on the branch. If nodes and edges
        were only inserted since, no others are read; else components are computed from all edges, with the same result.
        """
        if start is not None:
            warm = self._begin_warm(start)
            if warm is not None:
                return warm.finish_groups("component", find_components(warm.projected.graph, "weak"))
        run = self._begin("wcc", {} if start is None else {"start": start})
        projected = run.projected
        # Here one pass over all edges is faster than one over each block.
        found = (
            find_components(projected.graph, "weak")
            if projected.is_here
            else find_components_in_blocks(projected.engine)
        )
        return run.finish_groups("component", found)

    def scc(self, *, timeout: Timeout = None) -> AnalyticsResult:
        """Return the strongly connected component of each node, named after its smallest node."""
        run = self._begin("scc", {})
        return run.finish_groups("component", find_components(run.projected.graph, "strong"))

    def label_propagation(self, *, iterations: int = 10, timeout: Timeout = None) -> AnalyticsResult:
        """Return the community of each node by synchronous label propagation; of equal labels the smallest wins."""
        check_iterations(iterations)
        run = self._begin("label_propagation", {"iterations": iterations})
        return run.finish_groups("label", propagate_labels(run.projected.engine, iterations))

    def louvain(
        self,
        *,
        resolution: float = 1.0,
        seed: int = 0,
        library: CommunityLibrary = "omnigraph",
        timeout: Timeout = None,
    ) -> AnalyticsResult:
        """Return the community of each node by the Louvain method, named after its smallest node.

        Directions do not count, weights do. With a larger resolution there are more and smaller communities.
        ``library="networkit"`` needs the extra ``analytics``; it looks at the timeout only before and after its work.
        """
        check_communities(resolution, seed, library)
        run = self._begin("louvain", {"resolution": resolution, "seed": seed, "library": library})
        found = find_communities(run.projected.graph, "louvain", library, resolution, seed)
        return run.finish_groups("community", found)

    def leiden(
        self,
        *,
        resolution: float = 1.0,
        seed: int = 0,
        library: CommunityLibrary = "omnigraph",
        timeout: Timeout = None,
    ) -> AnalyticsResult:
        """Return the community of each node by the Leiden method: as :meth:`louvain`, and each is connected."""
        check_communities(resolution, seed, library)
        run = self._begin("leiden", {"resolution": resolution, "seed": seed, "library": library})
        found = find_communities(run.projected.graph, "leiden", library, resolution, seed)
        return run.finish_groups("community", found)

    def triangles(self, *, timeout: Timeout = None) -> AnalyticsResult:
        """Return how many triangles each node is part of. Directions, loops and parallel edges do not count."""
        run = self._begin("triangles", {})
        return run.finish(triangles=count_triangles(run.projected.graph))

    def clustering(self, *, timeout: Timeout = None) -> AnalyticsResult:
        """Return the local clustering coefficient of each node, as LDBC Graphalytics defines it."""
        run = self._begin("clustering", {})
        return run.finish(coefficient=compute_clustering(run.projected.graph))

    def kcore(self, *, timeout: Timeout = None) -> AnalyticsResult:
        """Return the core number of each node. Directions, loops and parallel edges do not count."""
        run = self._begin("kcore", {})
        return run.finish(core=compute_cores(run.projected.graph))

    def bfs(self, source: NodeReference, *, timeout: Timeout = None) -> AnalyticsResult:
        """Return the number of hops from the nearest source to each node; null if there is no path."""
        run = self._begin("bfs", {"source": to_parameter_json(source)})
        levels = measure_hops(
            run.projected.graph, run.projected.locate("source", list_given_nodes("source", source, run.projected))
        )
        return run.finish(distance=pa.array(levels, mask=levels == UNREACHABLE))

    def shortest_paths(self, source: NodeReference, *, timeout: Timeout = None) -> AnalyticsResult:
        """Return the weight of the lightest path from the nearest source to each node; null if there is no path.

        Without a weight each edge weighs 1.
        """
        run = self._begin("shortest_paths", {"source": to_parameter_json(source)})
        distances = measure_paths(
            run.projected.graph, run.projected.locate("source", list_given_nodes("source", source, run.projected))
        )
        return run.finish(distance=pa.array(distances, mask=np.isinf(distances)))

    def betweenness(self, *, samples: int | None = None, seed: int = 0, timeout: Timeout = None) -> AnalyticsResult:
        """Return for each node its share of the shortest paths, by hops, between all ordered pairs of other nodes.

        With ``samples``, paths from so many nodes are followed, drawn by chance, and the sum is scaled up.
        """
        if samples is not None and samples < 1:
            raise ParameterError(f"samples is {samples}", hint="give the number of nodes to start from, at least 1")
        check_seed(seed)
        run = self._begin("betweenness", {"samples": samples, "seed": seed})
        return run.finish(centrality=compute_betweenness(run.projected.graph, samples, seed))

    def similarity(
        self, *, metric: str = "jaccard", top_k: int = 10, cutoff: float = 0.0, timeout: Timeout = None
    ) -> AnalyticsResult:
        """Return for each node the others whose out-neighbours are most alike, best first: a row for each pair."""
        chosen = check_word("metric", metric, SimilarityMetric)
        if not 0 < top_k < 2**31:
            raise ParameterError(f"top_k is {top_k}", hint="give the number of others for each node, at least 1")
        check_range("cutoff", cutoff, 0, 1)
        run = self._begin("similarity", {"metric": metric, "top_k": top_k, "cutoff": cutoff})
        pairs = find_similar(run.projected.graph, cast("SimilarityMetric", chosen), top_k, cutoff)
        return run.finish_pairs(pairs.nodes, pairs.others, pairs.scores)

    def link_scores(
        self, pairs: Sequence[object], *, metric: str = "adamic_adar", timeout: Timeout = None
    ) -> AnalyticsResult:
        """Return a score for each given pair of nodes, by their common neighbours, in the order of the pairs."""
        chosen = check_word("metric", metric, LinkMetric)
        ends = split_pairs(pairs)
        run = self._begin("link_scores", {"metric": metric, "pairs": len(ends)})
        nodes, others = (run.projected.locate("pairs", [pair[end] for pair in ends]) for end in (0, 1))
        scores = score_links(run.projected.graph, nodes, others, cast("LinkMetric", chosen))
        return run.finish_pairs(nodes, others, scores)

    def random_walks(
        self,
        *,
        length: int = 10,
        walks: int = 1,
        source: NodeReference | None = None,
        p: float = 1.0,
        q: float = 1.0,
        seed: int = 0,
        timeout: Timeout = None,
    ) -> AnalyticsResult:
        """Return walks of at most ``length`` edges, so many from each node or each source, by the weights of edges.

        ``p`` and ``q`` are those of node2vec: how rare steps back are, and steps away from the node before.
        """
        check_at_least_one("length", length)
        check_at_least_one("walks", walks)
        bias = make_bias(p, q)
        check_seed(seed)
        parameters: dict[str, Json] = {"length": length, "walks": walks, "p": p, "q": q, "seed": seed}
        if source is not None:
            parameters["source"] = to_parameter_json(source)
        run = self._begin("random_walks", parameters)
        count = run.projected.num_nodes
        starts = np.arange(count)
        if source is not None:
            starts = run.projected.locate("source", list_given_nodes("source", source, run.projected))
        if len(starts) * walks * (length + 1) >= 2**31:
            raise ParameterError(
                f"{len(starts) * walks:,} walks of {length:,} steps do not fit",
                hint="give sources, or fewer or shorter walks",
            )
        found = walk_randomly(run.projected.graph, np.repeat(starts, walks), length, bias, seed)
        return run.finish_walks(found)

    def embed_node2vec(
        self,
        *,
        dimension: int = 128,
        walks: int = 10,
        length: int = 20,
        window: int = 5,
        p: float = 1.0,
        q: float = 1.0,
        seed: int = 0,
        timeout: Timeout = None,
    ) -> AnalyticsResult:
        """Return a vector for each node from what random walks meet within ``window`` steps of each other."""
        check_dimension(dimension)
        for name, given in (("walks", walks), ("length", length), ("window", window)):
            check_at_least_one(name, given)
        bias = make_bias(p, q)
        check_seed(seed)
        parameters: dict[str, Json] = {"dimension": dimension, "walks": walks, "length": length, "window": window}
        run = self._begin("embed_node2vec", {**parameters, "p": p, "q": q, "seed": seed})
        vectors = embed_by_walks(
            run.projected.graph, dimension, walks=walks, length=length, window=min(window, length), bias=bias, seed=seed
        )
        return run.finish_vectors(vectors)

    def embed_fastrp(
        self,
        *,
        dimension: int = 128,
        weights: Sequence[float] = (0.0, 1.0, 1.0),
        seed: int = 0,
        timeout: Timeout = None,
    ) -> AnalyticsResult:
        """Return a vector for each node by fast random projection; ``weights`` are those of its rounds."""
        check_dimension(dimension)
        rounds = [check_weight("weights", each) for each in weights]
        if not any(rounds):
            raise ParameterError(f"weights is {list(weights)}", hint="give one for each round, not all of them 0")
        check_seed(seed)
        run = self._begin("embed_fastrp", {"dimension": dimension, "weights": list[Json](rounds), "seed": seed})
        vectors = embed_by_projection(run.projected.graph, dimension, tuple(rounds), seed)
        return run.finish_vectors(vectors)

    def pregel(
        self,
        program: PregelProgram,
        *,
        combine: str = "sum",
        along: str = "copy",
        iterations: int = 30,
        timeout: Timeout = None,
    ) -> AnalyticsResult:
        """Run a program of one's own: ``program(step, state, messages)`` returns the new state and what nodes send.

        ``state`` has NumPy columns for the nodes of a block; in step 0 ``node``, ``degree`` and ``count``. ``messages``
        has for each node what its neighbours sent in the step before, combined by ``"sum"``, ``"min"`` or ``"max"``;
        ``along="plus_weight"`` or ``"times_weight"`` changes a message by the weight of the edge. It ends when no node
        sends, or after so many iterations. The columns of the last state are those of the result.
        """
        rules = PregelRules(
            cast("Combine", check_word("combine", combine, Combine)), cast("Along", check_word("along", along, Along))
        )
        check_iterations(iterations)
        if not callable(program):
            raise ParameterError("program is no function", hint="give a function of step, state and messages")
        name = getattr(program, "__qualname__", type(program).__qualname__)
        parameters: dict[str, Json] = {"program": name, "combine": combine, "along": along, "iterations": iterations}
        run = self._begin("pregel", parameters)
        return run.finish(**run_program(run.projected.engine, program, rules, iterations))

    # ----------------------------------------------------------------------------------------- other tools

    def count_stored_edges(self, *, timeout: Timeout = None) -> int:
        """Return how many edges the types of the projection have, with those that filters leave out. Reads none."""
        snapshot, _, plan = self._plan()
        return count_stored_edges(snapshot, plan)

    def nodes(self, *, timeout: Timeout = None) -> pa.Table:
        """Return the type and the id of each node, ordered by both. Algorithms and matrices number nodes this way."""
        return list_nodes(self._load().projected)

    def edges(self, *, timeout: Timeout = None) -> pa.Table:
        """Return the edges as they are followed: ``from_type``, ``from``, ``to_type``, ``to``, ``weight``."""
        return list_edges(self._load().projected)

    def to_scipy(self, *, timeout: Timeout = None) -> csr_array:
        """Return a sparse matrix of the weights, or of the numbers of edges; rows and columns are :meth:`nodes`."""
        return make_adjacency_matrix(self._load().projected)

    def to_networkx(self, *, timeout: Timeout = None) -> Any:
        """Return a ``networkx.MultiDiGraph`` of ids, or of pairs of type and id if there are several node types."""
        return make_networkx_graph(self._load().projected)

    def to_igraph(self, *, timeout: Timeout = None) -> Any:
        """Return a directed ``igraph.Graph``, if igraph is installed; the names of vertices are ids."""
        return make_igraph_graph(self._load().projected)

    def to_arrays(self, features: Mapping[str, Sequence[str]] | None = None, *, timeout: Timeout = None) -> TypedArrays:
        """Return the nodes and stored edges one type at a time, as NumPy arrays, for learning on graphs.

        ``features={"Port": ["size", "vector"]}`` makes a matrix from numbers and vectors; null is not a number.
        """
        return read_typed_arrays(*self._plan(), features or {})

    def to_pyg(self, features: Mapping[str, Sequence[str]] | None = None, *, timeout: Timeout = None) -> Any:
        """Return :meth:`to_arrays` as a ``HeteroData`` of PyTorch Geometric, if it is installed."""
        return make_hetero_data(self.to_arrays(features))

    def to_graphml(self, path: str | Path, *, timeout: Timeout = None) -> None:
        """Write a file of GraphML, for Gephi, yEd and others: types, ids, edges and weights."""
        write_graphml(self._load().projected, path)

    def to_cytoscape(self, *, timeout: Timeout = None) -> dict[str, Json]:
        """Return the nodes and edges as Cytoscape and Cytoscape.js read them from JSON."""
        return make_cytoscape_elements(self._load().projected)

    # ----------------------------------------------------------------------------------------- running

    def _begin(self, algorithm: str, parameters: Mapping[str, Json]) -> AlgorithmRun:
        """Read the projection at its commit, for an algorithm."""
        return replace(self._load(), algorithm=algorithm, parameters=parameters)

    def _load(self) -> AlgorithmRun:
        """Read the projection at its commit."""
        snapshot, catalog, plan = self._plan()
        load = load_projection if self._projector is None else self._projector.load
        return AlgorithmRun("", {}, snapshot, plan, load(snapshot, catalog, plan), self._target)

    def _begin_warm(self, start: str) -> AlgorithmRun | None:
        """Begin with the components that an earlier run wrote; None if all edges must be read."""
        if self._spec.at is not None:
            raise ParameterError("start goes with a branch, not with at", hint="leave at out, or start")
        snapshot, _, plan = self._plan()
        warm = load_warm_components(self._target.manifest, snapshot, plan, start)
        return None if warm is None else AlgorithmRun("wcc", {"start": start}, snapshot, plan, warm, self._target)

    def _plan(self) -> tuple[Snapshot, Catalog, ProjectionPlan]:
        """Take a snapshot, and compare the projection with its schema."""
        snapshot = take_snapshot(self._target.manifest, self._spec.branch, self._spec.at)
        catalog = load_schema_of(self._target.manifest, snapshot.schema_ir_hash).catalog
        return snapshot, catalog, plan_projection(self._spec, catalog)

    def __repr__(self) -> str:
        spec = self._spec
        return f"GraphProjection(nodes={spec.nodes}, edges={spec.edges}, branch={spec.branch!r}, at={spec.at!r})"


def project_all(target: WriteTarget, timeout: Timeout, projector: Projector | None = None) -> GraphProjection:
    """Return the projection of all types on main; ``projector`` says where its edges are, here or on executors."""
    return GraphProjection(target, ProjectionSpec(), timeout, projector)

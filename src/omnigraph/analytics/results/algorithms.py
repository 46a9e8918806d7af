"""The algorithms by name: the columns of their results, and what each computes in a few words."""

from __future__ import annotations

from typing import Final

from omnigraph.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm. Its parameters are those of the method of the same name."""

    name: str
    columns: tuple[str, ...]
    summary: str

    @property
    def value(self) -> str:
        """The column that matters most: it is sorted by and written, unless another one is named."""
        return "score" if "score" in self.columns else self.columns[0]


ALGORITHMS: Final = {
    each.name: each
    for each in (
        Algorithm("degree", ("in_degree", "out_degree"), "how many edges end and begin at each node"),
        Algorithm("pagerank", ("rank",), "PageRank, also personalized"),
        Algorithm("wcc", ("component", "component_type", "component_id"), "weakly connected components"),
        Algorithm("scc", ("component", "component_type", "component_id"), "strongly connected components"),
        Algorithm("label_propagation", ("label", "label_type", "label_id"), "communities by label propagation"),
        Algorithm("louvain", ("community", "community_type", "community_id"), "communities of high modularity"),
        Algorithm("leiden", ("community", "community_type", "community_id"), "such communities, all of them connected"),
        Algorithm("triangles", ("triangles",), "how many triangles each node is part of"),
        Algorithm("clustering", ("coefficient",), "local clustering coefficients"),
        Algorithm("kcore", ("core",), "core numbers"),
        Algorithm("bfs", ("distance",), "hops from one node or several"),
        Algorithm("shortest_paths", ("distance",), "the weight of the lightest path from one node or several"),
        Algorithm("betweenness", ("centrality",), "how many shortest paths lead over each node"),
        Algorithm("similarity", ("other_type", "other_id", "score"), "the nodes whose neighbours are most alike"),
        Algorithm("link_scores", ("other_type", "other_id", "score"), "scores of pairs that may become edges"),
        Algorithm("random_walks", ("walk", "walk_types"), "random walks from each node, or from some"),
        Algorithm("embed_node2vec", ("vector",), "vectors by what random walks meet together"),
        Algorithm("embed_fastrp", ("vector",), "vectors by fast random projection"),
    )
}

"""The algorithms by name: the columns of their results, and what each computes in a few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm. Its parameters are those of the method of the same name."""

    name: str
    columns: tuple[str, ...]
    summary: str


ALGORITHMS: Final = {
    each.name: each
    for each in (
        Algorithm("degree", ("in_degree", "out_degree"), "how many edges end and begin at each node"),
        Algorithm("pagerank", ("rank",), "PageRank, also personalized"),
        Algorithm("wcc", ("component", "component_type", "component_id"), "weakly connected components"),
        Algorithm("scc", ("component", "component_type", "component_id"), "strongly connected components"),
        Algorithm("label_propagation", ("label", "label_type", "label_id"), "communities by label propagation"),
        Algorithm("triangles", ("triangles",), "how many triangles each node is part of"),
        Algorithm("clustering", ("coefficient",), "local clustering coefficients"),
        Algorithm("kcore", ("core",), "core numbers"),
        Algorithm("bfs", ("distance",), "hops from one node or several"),
        Algorithm("shortest_paths", ("distance",), "the weight of the lightest path from one node or several"),
    )
}

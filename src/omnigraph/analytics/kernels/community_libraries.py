"""Who finds communities of high modularity: the kernels here, or networkit, if a call names it.

It is always named, so that a result does not depend on what is installed. Only this module imports networkit, whose
parallel methods run on one thread, so that a seed decides everything.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from omnigraph.analytics.kernels.blocks import NumberedGraph
from omnigraph.analytics.kernels.components import name_after_smallest
from omnigraph.analytics.kernels.modularity import (
    find_communities_leiden,
    find_communities_louvain,
    split_into_connected,
)
from omnigraph.deadlines import check_deadline
from omnigraph.read.frames import Positions

CommunityLibrary: TypeAlias = Literal["omnigraph", "networkit"]
CommunityMethod: TypeAlias = Literal["louvain", "leiden"]
_ONE_AT_A_TIME: Final = Lock()
"""The number of threads and the seed of networkit belong to the process."""


def find_communities(
    graph: NumberedGraph, method: CommunityMethod, library: CommunityLibrary, resolution: float, seed: int
) -> Positions:
    """Return for each node the smallest node of its community."""
    if library == "networkit":
        return _ask_networkit(graph, method, resolution, seed)
    find = find_communities_louvain if method == "louvain" else find_communities_leiden
    return find(graph, resolution, seed)


def _ask_networkit(graph: NumberedGraph, method: CommunityMethod, resolution: float, seed: int) -> Positions:
    """Return for each node the smallest node of its community, found by networkit; those of Leiden are connected.

    A deadline is looked at before and after, not while networkit works.
    """
    check_deadline()
    if graph.sum_weights("both").sum() <= 0:
        return np.arange(graph.num_nodes)
    library: Any = import_module("networkit")
    # It takes edges in the order that they are given in, and that of tables is another one on Spark.
    edges = graph.outgoing
    # It reads the memory of the ends as unsigned integers of 64 bits, whatever they are.
    ends = edges.row_numbers.astype(np.uint64), edges.neighbours.astype(np.uint64)
    given = ends if edges.weights is None else (edges.weights, ends)
    with _ONE_AT_A_TIME, _use_one_thread(library, seed):
        made = library.GraphFromCoo(given, n=graph.num_nodes, weighted=edges.weights is not None)
        algorithm = (
            library.community.PLM(made, gamma=resolution)
            if method == "louvain"
            else library.community.ParallelLeiden(made, gamma=resolution)
        )
        algorithm.run()
        found = np.array(algorithm.getPartition().getVector(), np.int64)
    check_deadline()
    # It does not promise that communities are connected.
    if method == "leiden":
        return split_into_connected(graph, found)
    return name_after_smallest(np.unique(found, return_inverse=True)[1])


@contextmanager
def _use_one_thread(library: Any, seed: int) -> Generator[None]:
    threads = library.getMaxNumberOfThreads()
    library.setNumberOfThreads(1)
    library.setSeed(seed, False)  # noqa: FBT003  no names there
    try:
        yield
    finally:
        library.setNumberOfThreads(threads)

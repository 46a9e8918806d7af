"""Load a projection on Spark: executors number its nodes and cut up its edges.

The folder of a projection is named after the contents of its tables and what it chooses, so that all algorithms of a
session use the same blocks, and the next session those that a killed one left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, cast

import orjson
import pyarrow as pa

from omnigraph.analytics import (
    ProjectedGraph,
    ProjectionPlan,
    count_stored_edges,
    count_stored_nodes,
    load_projection,
    refuse_beyond,
    refuse_weights,
)
from omnigraph.deadlines import check_deadline
from omnigraph.language.schema import Catalog
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import read_contents, shared_cache
from omnigraph.read.rows import open_type_rows
from omnigraph.spark.analytics.edge_joins import cut_by_joins
from omnigraph.spark.analytics.edge_pieces import MAX_TASK_EDGES, EdgeCut, EndOrder, SortedFile, cut_edges
from omnigraph.spark.analytics.node_numbers import StoredNodes, number_stored_nodes
from omnigraph.spark.analytics.ranged_rows import RangedRows
from omnigraph.spark.analytics.scratch_blocks import ScratchEngine, StoredEdges
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.scratch import FolderUse, ScratchFolder, use_named_folder
from omnigraph.write.executor import group_evenly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK_MIN_EDGES: Final = 20_000_000
SPARK_MIN_NODES: Final = 10_000_000
"""With fewer of both an algorithm runs in the driver's process: to start its jobs and to cut the edges takes longer
than the rounds there, and the ids take about a gigabyte at most."""
MAX_TASK_NODES: Final = 20_000_000
"""With more nodes, ends are numbered by joins: else each task holds the ids, and about 36 bytes more for each."""
_INDEX: Final = "edges.json"
_LAYOUT: Final = b"columns"
"""What the files of a folder are like. Folders that another version left have other names."""
_log = logging.getLogger("omnigraph")


@dataclass(frozen=True, slots=True)
class SparkProjector:
    """Loads projections for algorithms on Spark. ``hold`` refers to each folder that is used, while it is open."""

    session: SparkSession
    manifest: Manifest
    hold: Callable[[FolderUse], object]

    def load(self, snapshot: Snapshot, catalog: Catalog, plan: ProjectionPlan) -> ProjectedGraph:
        """Return the projection, with edges on executors if there are many of them."""
        edge_count, node_count = count_stored_edges(snapshot, plan), count_stored_nodes(snapshot, plan)
        if edge_count < SPARK_MIN_EDGES and node_count < SPARK_MIN_NODES:
            _log.info("the projection has %d edges: the algorithm runs in the driver's process", edge_count)
            local = load_projection(snapshot, catalog, plan)
            return ProjectedGraph(local.nodes, local.engine, "spark-driver")
        use = use_named_folder(self.manifest, _name_folder(snapshot, plan))
        self.hold(use)
        folder = use.folder
        executor = SparkExecutor(self.session, "reading a projection")
        nodes = number_stored_nodes(executor, use, snapshot, plan)
        edges = _find_edges(folder)
        if edges is None:
            edges = _cut_all(executor, folder, snapshot, plan, nodes)
            folder.put(_INDEX, orjson.dumps(asdict(edges)))
        engine = ScratchEngine(executor, folder, edges)
        return ProjectedGraph(nodes, engine, "spark", partial(RangedRows, executor, nodes))

    def make_frame(self, table: pa.Table) -> DataFrame:
        """Return a result as a DataFrame."""
        return self.session.createDataFrame(table)


def _name_folder(snapshot: Snapshot, plan: ProjectionPlan) -> bytes:
    """Return a digest of everything that the edges and their numbers depend on."""
    cache = shared_cache()
    types = [*(node for node, _ in plan.nodes), *(each.type for each in plan.edges)]
    contents = [read_contents(snapshot, each.table_key, cache) for each in types]
    told = [_LAYOUT, orjson.dumps(plan.to_json(), option=orjson.OPT_SORT_KEYS), *(each.digest for each in contents)]
    return blake2b(b"\0".join(told), digest_size=20).digest()


def _find_edges(folder: ScratchFolder) -> StoredEdges | None:
    """Return what an earlier run left; None if it did not get so far."""
    data = folder.find(_INDEX)
    if data is None:
        return None
    found = cast("dict[str, object]", orjson.loads(data))
    files = cast("list[dict[str, object]]", found["files"])
    return StoredEdges(
        cast("int", found["num_nodes"]),
        cast("bool", found["weighted"]),
        tuple(
            SortedFile(str(each["path"]), cast("EndOrder", each["order"]), tuple(cast("list[int]", each["begins"])))
            for each in files
        ),
    )


def _cut_all(
    executor: SparkExecutor,
    folder: ScratchFolder,
    snapshot: Snapshot,
    plan: ProjectionPlan,
    nodes: tuple[StoredNodes, ...],
) -> StoredEdges:
    """Cut the edges of all types; refuse weights that are none, as the projection of one process does."""
    count = sum(len(part) for part in nodes)
    numbers = {part.type.name: part.row_numbers for part in nodes}
    files: list[SortedFile] = []
    for edges in plan.edges:
        check_deadline()
        rows = open_type_rows(snapshot, edges.type)
        if rows.table is None:
            continue
        sources, destinations = numbers[edges.type.from_type], numbers[edges.type.to_type]
        cut = EdgeCut(folder, rows, edges, plan.weight, sources, destinations, count)
        if count > MAX_TASK_NODES:
            found = cut_by_joins(executor, cut)
        else:
            stored = rows.table.fragment_rows()
            most = min(MAX_TASK_EDGES, -(-sum(stored.values()) // executor.parallelism) or 1)
            found = executor.run(partial(cut_edges, cut), group_evenly(stored, most))
        if plan.weight is not None and any(each.num_wrong for each in found):
            wrong = [pair for each in found for pair in each.wrong]
            refuse_weights(edges.type, plan.weight, sum(each.num_wrong for each in found), wrong)
        files += [file for each in found for file in each.files]
    refuse_beyond(sum(file.num_edges for file in files if file.order == "begin"), "edges")
    return StoredEdges(count, plan.weight is not None, tuple(files))

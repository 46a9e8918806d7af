"""One run of an algorithm on one snapshot, from the arrays to a result with its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.analytics.kernels import ENDED, Numbers
from omnigraph.analytics.projection import ProjectedGraph, ProjectionPlan
from omnigraph.analytics.results import ALGORITHMS, AnalyticsResult, Provenance, WriteTarget
from omnigraph.deadlines import check_deadline
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import Positions
from omnigraph.storage.columns import Values, take_where


@dataclass(frozen=True, slots=True)
class AlgorithmRun:
    """One run of an algorithm on one snapshot."""

    algorithm: str
    parameters: Mapping[str, Json]
    snapshot: Snapshot
    plan: ProjectionPlan
    projected: ProjectedGraph
    target: WriteTarget

    def finish(self, **columns: Values | npt.NDArray[Any]) -> AnalyticsResult:
        """Return the result: a row for each node, with these columns."""
        return self._finish(self.projected.types, self.projected.ids, columns)

    def finish_pairs(self, nodes: Positions, others: Positions, scores: Numbers) -> AnalyticsResult:
        """Return the result: a row for each pair of nodes."""
        types, ids = cast("Values", self.projected.types), self.projected.ids
        columns = {"other_type": types.take(others), "other_id": ids.take(others), "score": scores}
        return self._finish(types.take(nodes), ids.take(nodes), columns)

    def finish_vectors(self, vectors: npt.NDArray[np.float32]) -> AnalyticsResult:
        """Return the result: a vector for each node."""
        flat = cast("pa.FloatArray", pa.array(vectors.ravel()))
        return self.finish(vector=cast("Values", pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])))

    def finish_walks(self, walks: npt.NDArray[np.int64]) -> AnalyticsResult:
        """Return the result: a row for each walk, with the ids and the types of its nodes."""
        types, ids = cast("Values", self.projected.types), self.projected.ids
        is_node = walks != ENDED
        counts = np.concatenate([[0], np.cumsum(is_node.sum(axis=1))]).astype(np.int32)
        offsets = cast("pa.Int32Array", pa.array(counts))
        nodes = walks[is_node]
        lists = {
            name: cast("Values", pa.ListArray.from_arrays(offsets, column.take(nodes)))
            for name, column in (("walk", ids), ("walk_types", types))
        }
        starts = walks[:, 0]
        return self._finish(types.take(starts), ids.take(starts), lists)

    def _finish(
        self, types: Values | pa.StringArray, ids: Values, columns: Mapping[str, Values | npt.NDArray[Any]]
    ) -> AnalyticsResult:
        check_deadline()
        from importlib.metadata import version

        values = [pa.array(column) if isinstance(column, np.ndarray) else column for column in columns.values()]
        names = ["type", "id", *columns]
        assert self.algorithm not in ALGORITHMS or tuple(names[2:]) == ALGORITHMS[self.algorithm].columns
        table = pa.table([types, ids, *values], names=names)
        projection: dict[str, Json] = {**self.plan.to_json(), "branch": self.snapshot.branch}
        provenance = Provenance(
            self.algorithm, self.parameters, projection, self.projected.engine_name, version("omnigraph")
        )
        return AnalyticsResult(provenance, table, self.target, branch=self.snapshot.branch, commit=self.snapshot.commit)

    def finish_groups(self, name: str, groups: Positions) -> AnalyticsResult:
        """Return a result whose values are nodes that stand for groups: their numbers, types and ids."""
        types, ids = cast("Values", self.projected.types), self.projected.ids
        columns = {name: groups, f"{name}_type": take_where(types, groups), f"{name}_id": take_where(ids, groups)}
        return self.finish(**columns)

"""One run of an algorithm on one snapshot, from the arrays to a result with its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.analytics.kernels import ENDED, Numbers
from omnigraph.analytics.projection import ProjectedGraph, ProjectionPlan, take_ids, take_types
from omnigraph.analytics.result_rows import ResultRows
from omnigraph.analytics.results import ALGORITHMS, AnalyticsResult, Provenance, TableRows, WriteTarget
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

    def finish(self, /, **columns: Values | npt.NDArray[Any]) -> AnalyticsResult:
        """Return the result: a row for each node, with these columns."""
        return self._finish_nodes(columns, None)

    def finish_pairs(self, nodes: Positions, others: Positions, scores: Numbers) -> AnalyticsResult:
        """Return the result: a row for each pair of nodes."""
        projected = self.projected
        columns: dict[str, Values] = {
            "type": take_types(projected.nodes, nodes),
            "id": take_ids(projected.nodes, nodes),
            "other_type": take_types(projected.nodes, others),
            "other_id": take_ids(projected.nodes, others),
            "score": cast("Values", pa.array(scores)),
        }
        return self._finish(TableRows(pa.table(columns)))

    def finish_vectors(self, vectors: npt.NDArray[np.float32]) -> AnalyticsResult:
        """Return the result: a vector for each node."""
        flat = cast("pa.FloatArray", pa.array(vectors.ravel()))
        return self.finish(vector=cast("Values", pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])))

    def finish_walks(self, walks: npt.NDArray[np.int64]) -> AnalyticsResult:
        """Return the result: a row for each walk, with the ids and the types of its nodes."""
        projected = self.projected
        is_node = walks != ENDED
        counts = np.concatenate([[0], np.cumsum(is_node.sum(axis=1))]).astype(np.int32)
        offsets = cast("pa.Int32Array", pa.array(counts))
        nodes = walks[is_node]
        starts = walks[:, 0]
        columns: dict[str, Values] = {
            "type": take_types(projected.nodes, starts),
            "id": take_ids(projected.nodes, starts),
            "walk": cast("Values", pa.ListArray.from_arrays(offsets, take_ids(projected.nodes, nodes))),
            "walk_types": cast("Values", pa.ListArray.from_arrays(offsets, take_types(projected.nodes, nodes))),
        }
        return self._finish(TableRows(pa.table(columns)))

    def finish_groups(self, name: str, groups: Positions) -> AnalyticsResult:
        """Return a result whose values are nodes that stand for groups: their numbers, types and ids."""
        return self._finish_nodes({name: groups}, name)

    def _finish_nodes(self, columns: Mapping[str, Values | npt.NDArray[Any]], groups: str | None) -> AnalyticsResult:
        """Return a row for each node. Values of the column ``groups`` are nodes, which get columns for their names."""
        values = {
            name: cast("Values", pa.array(column)) if isinstance(column, np.ndarray) else column
            for name, column in columns.items()
        }
        make = self.projected.make_rows
        return self._finish(self._make_table(values, groups) if make is None else make(values, groups))

    def _make_table(self, columns: Mapping[str, Values], groups: str | None) -> TableRows:
        types, ids = cast("Values", self.projected.types), self.projected.ids
        named: dict[str, Values] = {}
        if groups is not None:
            numbers = columns[groups].to_numpy()
            named = {f"{groups}_type": take_where(types, numbers), f"{groups}_id": take_where(ids, numbers)}
        return TableRows(pa.table({"type": types, "id": ids, **columns, **named}))

    def _finish(self, rows: ResultRows) -> AnalyticsResult:
        check_deadline()
        from importlib.metadata import version

        values = tuple(rows.schema.names[2:])
        assert self.algorithm not in ALGORITHMS or values == ALGORITHMS[self.algorithm].columns
        projection: dict[str, Json] = {**self.plan.to_json(), "branch": self.snapshot.branch}
        provenance = Provenance(
            self.algorithm, self.parameters, projection, self.projected.engine_name, version("omnigraph")
        )
        return AnalyticsResult(provenance, rows, self.target, branch=self.snapshot.branch, commit=self.snapshot.commit)

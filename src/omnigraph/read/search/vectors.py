"""Compute exact Euclidean distances and find the nearest rows.

Distances are computed in double precision from the stored floats, so that every path gives the same. Lance computes in
single precision: a search asks it for more rows than needed, until no row that it left out can be among the nearest,
and then ranks by the exact distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.read.frames import FEW_ROWS
from omnigraph.read.search.top_k import FetchRows, RankedRows
from omnigraph.storage.columns import Values, column_of, compute
from omnigraph.storage.filters import quote_name
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.tables import Table, search_vectors

Vector: TypeAlias = npt.NDArray[np.float32]
Distances: TypeAlias = npt.NDArray[np.float64]
"""NaN where a vector is null."""

_FLOATS_AT_ONCE: Final = 1 << 16
"""Floats converted to doubles at a time; the fastest of 2^14 to 2^22, or near it, for 16, 64 and 768 dimensions."""
_F32_EPSILON: Final = 2.0**-23
_MAX_STALE_ENTRIES: Final = 64
"""With more index entries than this for each live row, reading all rows is faster."""


def compute_distances(vectors: Values, query: Vector) -> Distances:
    """Return the distance of each vector from the query; NaN for a null."""
    found = np.full(len(vectors), np.nan)
    valid = vectors.is_valid().to_numpy(zero_copy_only=False)
    if not valid.any():
        return found
    lists = vectors.drop_null()
    matrix = (
        cast("pa.FloatArray", compute("list_flatten", lists))
        .to_numpy(zero_copy_only=False)
        .reshape(len(lists), len(query))
    )
    found[valid] = _compute_in_blocks(matrix, query.astype(np.float64))
    return found


def _compute_in_blocks(matrix: npt.NDArray[np.float32], query: npt.NDArray[np.float64]) -> Distances:
    found = np.empty(len(matrix))
    step = max(1, _FLOATS_AT_ONCE // len(query))
    for begin in range(0, len(matrix), step):
        differences = matrix[begin : begin + step] - query
        found[begin : begin + step] = np.sqrt(np.einsum("ij,ij->i", differences, differences))
    return found


def fetch_nearest(
    table: Table, column: str, query: Vector, where: str | None = None, columns: Sequence[str] = ()
) -> FetchRows:
    """Return how to fetch the nearest matching rows. Columns are read if the rows are few.

    They cannot be ranked if single precision cannot tell them apart, or if the index has too many entries of deleted
    rows.
    """
    # The rounding error of a sum of n squares is at most n epsilon, plus one for each difference.
    tolerance = (len(query) + 2) * _F32_EPSILON

    def fetch(count: int) -> RankedRows | None:
        rows = search_vectors(table, column, query, count, where=where, columns=columns if count <= FEW_ROWS else ())
        exact = compute_distances(column_of(rows, column), query)
        if rows.num_rows < count:
            # An index that is older than the last compaction still returns rows that were deleted before it.
            matching = _count_matching(table, column, where)
            if rows.num_rows == matching:
                return RankedRows(rows, exact, np.inf)
            if count > _MAX_STALE_ENTRIES * matching:
                return None
        squared = column_of(rows, InternalColumn.SQUARED_DISTANCE).to_numpy()
        furthest = float(np.sqrt(squared.max())) if len(squared) else 0.0
        return RankedRows(rows, exact, furthest * (1 - tolerance)) if np.isfinite(furthest) else None

    return fetch


def _count_matching(table: Table, column: str, where: str | None) -> int:
    not_null = f"{quote_name(column)} IS NOT NULL"
    return table.count_rows(not_null if where is None else f"({where}) AND {not_null}")

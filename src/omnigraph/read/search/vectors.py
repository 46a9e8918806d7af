"""Compute exact Euclidean distances and find the nearest rows.

Distances are computed in double precision from the stored floats, so that every path gives the same. Lance computes in
single precision: a search asks it for more rows than needed, until no row that it left out can be among the nearest,
and then ranks by the exact distances.
"""

from __future__ import annotations

from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.storage.columns import Values, column_of, compute
from omnigraph.storage.filters import quote_name
from omnigraph.storage.row_search import SQUARED_DISTANCE, search_vectors
from omnigraph.storage.staging import IndexKind
from omnigraph.storage.table import Table

Vector: TypeAlias = npt.NDArray[np.float32]
Distances: TypeAlias = npt.NDArray[np.float64]
"""NaN where a vector is null."""

DISTANCE: Final = "distance"
_FLOATS_AT_ONCE: Final = 1 << 16
"""Floats converted to doubles at a time; the fastest of 2^14 to 2^22, or near it, for 16, 64 and 768 dimensions."""
_SPARE: Final = 16
_WIDENING: Final = 4
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


def has_vector_index(table: Table, column: str) -> bool:
    """Whether a column has a vector index; Lance also reads the rows that it does not cover."""
    return any(
        index.kind == IndexKind.IVF_FLAT and index.columns == (column,) and index.rows
        for index in table.list_indexes().values()
    )


def find_nearest_rows(table: Table, column: str, query: Vector, limit: int, where: str | None) -> pa.Table | None:
    """Return at least the ``limit`` nearest matching rows with their distances, and all rows tied with the last one.

    None if single precision cannot tell the rows apart, or if the index has too many entries of deleted rows.
    """
    # The rounding error of a sum of n squares is at most n epsilon, plus one for each difference.
    tolerance = (len(query) + 2) * _F32_EPSILON
    count = limit + _SPARE
    while True:
        rows = search_vectors(table, column, query, count, where=where)
        exact = compute_distances(column_of(rows, column), query)
        if rows.num_rows < count:
            # An index that is older than the last compaction still returns rows that were deleted before it.
            matching = _count_matching(table, column, where)
            if rows.num_rows == matching:
                return _to_distance_table(rows, exact)
            if count > _MAX_STALE_ENTRIES * matching:
                return None
        if rows.num_rows >= max(1, limit):
            furthest = float(np.sqrt(column_of(rows, SQUARED_DISTANCE).to_numpy().max()))
            if not np.isfinite(furthest):
                return None
            if np.partition(exact, limit - 1)[limit - 1] < furthest * (1 - tolerance):
                return _to_distance_table(rows, exact)
        count *= _WIDENING


def _count_matching(table: Table, column: str, where: str | None) -> int:
    not_null = f"{quote_name(column)} IS NOT NULL"
    return table.count_rows(not_null if where is None else f"({where}) AND {not_null}")


def _to_distance_table(rows: pa.Table, exact: Distances) -> pa.Table:
    return pa.Table.from_arrays([column_of(rows, "id"), pa.array(exact)], names=["id", DISTANCE])

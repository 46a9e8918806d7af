"""Euclidean distances: exact, computed in double precision from the stored floats, and so the same on every path.

Lance computes in single precision. Where it looks for the nearest, it is asked for some more than are wanted, until
what it left out can no longer be among them; what is ranked then are the exact distances.
"""

from __future__ import annotations

from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.storage.columns import Values, column_of, compute
from omnigraph.storage.filters import quoted_name
from omnigraph.storage.pinned import Table
from omnigraph.storage.searching import SQUARED_DISTANCE, vectors_near
from omnigraph.storage.staging import IndexKind

Vector: TypeAlias = npt.NDArray[np.float32]
Distances: TypeAlias = npt.NDArray[np.float64]
"""NaN where there is no distance."""

DISTANCE: Final = "distance"
_AT_ONCE: Final = 1 << 16
"""Floats that are widened together: of 2^14 to 2^22 at or near the fastest, for 16, 64 and 768 dimensions."""
_SPARE: Final = 16
_WIDENING: Final = 4
_UNIT: Final = 2.0**-23
_MOST_GONE: Final = 64
"""With so many entries of an index for each row that is there, looking at all rows is quicker."""


def compute_distances(vectors: Values, query: Vector) -> Distances:
    """How far each vector is from the query; NaN for a null."""
    found = np.full(len(vectors), np.nan)
    there = vectors.is_valid().to_numpy(zero_copy_only=False)
    if not there.any():
        return found
    lists = vectors.drop_null()
    matrix = (
        cast("pa.FloatArray", compute("list_flatten", lists))
        .to_numpy(zero_copy_only=False)
        .reshape(len(lists), len(query))
    )
    found[there] = _distances(matrix, query.astype(np.float64))
    return found


def _distances(matrix: npt.NDArray[np.float32], query: npt.NDArray[np.float64]) -> Distances:
    found = np.empty(len(matrix))
    step = max(1, _AT_ONCE // len(query))
    for begin in range(0, len(matrix), step):
        away = matrix[begin : begin + step] - query
        found[begin : begin + step] = np.sqrt(np.einsum("ij,ij->i", away, away))
    return found


def has_vector_index(table: Table, column: str) -> bool:
    """Whether an index of the vectors is there; what it does not cover is read beside it."""
    return any(
        index.kind == IndexKind.IVF_FLAT and index.columns == (column,) and index.rows
        for index in table.indexes().values()
    )


def find_nearest_rows(table: Table, column: str, query: Vector, limit: int, where: str | None) -> pa.Table | None:
    """At least the ``limit`` nearest rows that match, and all that are as far as the last of them, with distances.

    None where single precision cannot tell them apart, or where too many rows that are gone take the places of others.
    """
    # The sum of n squares is off by no more than n units in the last place, and n differences by one each.
    tolerance = (len(query) + 2) * _UNIT
    count = limit + _SPARE
    while True:
        rows = vectors_near(table, column, query, count, where=where)
        exact = compute_distances(column_of(rows, column), query)
        if rows.num_rows < count:
            # An index that is older than the last compaction still finds the rows that were deleted before it.
            matching = _matching(table, column, where)
            if rows.num_rows == matching:
                return _with_distances(rows, exact)
            if count > _MOST_GONE * matching:
                return None
        if rows.num_rows >= max(1, limit):
            furthest = float(np.sqrt(column_of(rows, SQUARED_DISTANCE).to_numpy().max()))
            if not np.isfinite(furthest):
                return None
            if np.partition(exact, limit - 1)[limit - 1] < furthest * (1 - tolerance):
                return _with_distances(rows, exact)
        count *= _WIDENING


def _matching(table: Table, column: str, where: str | None) -> int:
    there = f"{quoted_name(column)} IS NOT NULL"
    return table.count_rows(there if where is None else f"({where}) AND {there}")


def _with_distances(rows: pa.Table, exact: Distances) -> pa.Table:
    return pa.Table.from_arrays([column_of(rows, "id"), pa.array(exact)], names=["id", DISTANCE])

"""SciPy's sparse matrices with types, as far as they are used here. SciPy is imported when one is made."""

from __future__ import annotations

from typing import Any, Literal, Protocol, Self, TypeAlias, cast, overload

import numpy as np
import numpy.typing as npt

from omnigraph.read.frames import CompactPositions, Positions

Numbers: TypeAlias = npt.NDArray[np.float64]
IntegerArray: TypeAlias = Positions | CompactPositions


class SparseMatrix(Protocol):
    """A matrix of compressed sparse rows."""

    shape: tuple[int, int]
    indptr: CompactPositions
    indices: CompactPositions
    data: Numbers
    T: SparseMatrix

    @overload
    def __matmul__(self, other: Numbers) -> Numbers: ...
    @overload
    def __matmul__(self, other: SparseMatrix) -> Self: ...
    def __add__(self, other: SparseMatrix) -> Self: ...
    def __getitem__(self, chosen: slice | tuple[slice, slice] | IntegerArray) -> SparseMatrix: ...
    def multiply(self, other: SparseMatrix) -> SparseMatrix:
        """Multiply element by element."""
        ...

    def sum(self, axis: int) -> Numbers:
        """Sum rows or columns."""
        ...

    def sum_duplicates(self) -> None:
        """Sum the entries at the same place."""
        ...

    def sort_indices(self) -> None:
        """Sort each row by its columns."""
        ...

    def tocsr(self) -> Self:
        """Return the matrix in compressed sparse rows."""
        ...


def make_sparse(
    values: npt.NDArray[Any], columns: CompactPositions, indptr: CompactPositions, shape: tuple[int, int]
) -> SparseMatrix:
    """Return a matrix of compressed sparse rows; entries at one place are kept apart."""
    from scipy.sparse import csr_array

    return cast("SparseMatrix", csr_array((values, columns, indptr), shape=shape))


def sort_pairs(
    rows: IntegerArray, columns: IntegerArray, values: npt.NDArray[Any], shape: tuple[int, int]
) -> SparseMatrix:
    """Return a matrix from entries in any order, sorted by row and column; those at one place are kept apart.

    These are two sorts by counting, so that the time is linear. Entries at one place keep their order.
    """
    turned: Any = cast("Any", group_pairs(columns, rows, values, (shape[1], shape[0]))).tocsc()
    return make_sparse(turned.data, turned.indices, turned.indptr, shape)


def group_pairs(
    rows: IntegerArray, columns: IntegerArray, values: npt.NDArray[Any], shape: tuple[int, int]
) -> SparseMatrix:
    """Return a matrix from entries in any order, which those of one row keep; those at one place are kept apart.

    This is one sort by counting.
    """
    from scipy.sparse import coo_array

    pairs: Any = coo_array((values, (rows, columns)), shape=shape)
    # Else entries at one place would be summed.
    pairs.has_canonical_format = True
    return cast("SparseMatrix", pairs.tocsr())


def link_pairs(rows: IntegerArray, columns: IntegerArray, size: int) -> SparseMatrix:
    """Return a square matrix with a one for each pair; those at one place are kept apart, and no row is sorted."""
    return group_pairs(rows, columns, np.ones(len(rows)), (size, size))


def make_sparse_from_pairs(values: Numbers, rows: IntegerArray, columns: IntegerArray, size: int) -> SparseMatrix:
    """Return a square matrix from entries in any order; those at one place are summed."""
    from scipy.sparse import coo_array

    return cast("SparseMatrix", coo_array((values, (rows, columns)), shape=(size, size)).tocsr())


def find_runs(values: npt.NDArray[Any]) -> Positions:
    """Return where runs of equal values begin."""
    is_first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def transpose(matrix: SparseMatrix) -> SparseMatrix:
    """Return the transposed matrix in compressed sparse rows."""
    return matrix.T.tocsr()


def replace_values(matrix: SparseMatrix, values: Numbers) -> SparseMatrix:
    """Return a matrix with other values at the same places."""
    return make_sparse(values, matrix.indices, matrix.indptr, matrix.shape)


def keep_entries(matrix: SparseMatrix, places: Positions) -> SparseMatrix:
    """Return a matrix of some of the entries, which are given by their places, in ascending order."""
    indptr = np.searchsorted(places, matrix.indptr).astype(np.int32)
    return make_sparse(matrix.data[places], matrix.indices[places], indptr, matrix.shape)


def rows_of(matrix: SparseMatrix) -> Positions:
    """Return the row of each entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


class _GraphRoutines(Protocol):
    """What is used of ``scipy.sparse.csgraph``, which has no types."""

    def connected_components(self, graph: SparseMatrix, *, connection: str) -> tuple[int, Positions]: ...
    def dijkstra(self, graph: SparseMatrix, *, indices: Positions, min_only: bool) -> Numbers: ...


def _import_routines() -> _GraphRoutines:
    from scipy.sparse import csgraph

    return cast("_GraphRoutines", csgraph)


def label_components(matrix: SparseMatrix, connection: Literal["weak", "strong"]) -> tuple[int, Positions]:
    """Return the number of components, and the number of the component of each node.

    For strong components no two entries may be at the same place: SciPy would never return.
    """
    return _import_routines().connected_components(matrix, connection=connection)


def find_lightest_paths(matrix: SparseMatrix, sources: Positions) -> Numbers:
    """Return the weight of the lightest path from the nearest source to each node; infinite if there is none."""
    return _import_routines().dijkstra(matrix, indices=sources, min_only=True)

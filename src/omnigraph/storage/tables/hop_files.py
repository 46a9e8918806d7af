"""Files beside an edge table that hold its hops in one direction, in order: for each node the nodes it leads to.

A file covers some fragments of edges. It counts the rows of node fragments, as files of ends do, and is named after the
first fragment of the table, so that the next one replaces it. What changed since is for the reader to find out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Literal, TypeAlias, cast

import numpy as np

from omnigraph.errors import StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.tables.derived_files import (
    NodeRows,
    RowNumbers,
    derived_path,
    list_node_rows,
    open_objects,
    parse_node_rows,
    read_derived_file,
    write_derived_file,
)
from omnigraph.storage.tables.fragments import TableFragment
from omnigraph.storage.tables.table import Table

HopDirection: TypeAlias = Literal["out", "in"]

_MAGIC: Final = b"OGHOPS01"


@dataclass(frozen=True, slots=True, eq=False)
class CoveredEdges:
    """A fragment of edges whose hops are in a file: all but those of rows that were deleted when it was written."""

    files: tuple[str, ...]
    count: int
    deletions: str | None
    deleted: RowNumbers
    """The offsets of the deleted rows, sorted."""

    @property
    def num_rows(self) -> int:
        """The number of rows whose hops are in the file."""
        return self.count - len(self.deleted)


@dataclass(frozen=True, slots=True, eq=False)
class StoredHops:
    """The hops of some fragments: node ``n`` leads to ``neighbours[indptr[n]:indptr[n + 1]]``, in ascending order."""

    indptr: RowNumbers
    neighbours: RowNumbers
    begin_rows: tuple[NodeRows, ...]
    """What the nodes where hops begin count."""
    end_rows: tuple[NodeRows, ...]
    """What the neighbours count."""
    covered: tuple[CoveredEdges, ...]
    has_parallel_edges: bool


def read_hop_file(table: Table, first: TableFragment, direction: HopDirection) -> StoredHops | None:
    """Return the stored hops of a table with this first fragment; None without a file, or if it is not whole."""
    found = read_derived_file(table, _path_of(first, direction), _MAGIC)
    if found is None:
        return None
    header, numbers = found
    if (header["first"], header["direction"]) != (list(first.identity_files), direction):
        return None
    listed = cast("list[tuple[list[str], int, str | None, int]]", header["edges"])
    begin_rows, end_rows = parse_node_rows(header["begins"]), parse_node_rows(header["ends"])
    counts = [sum(each.count for each in begin_rows) + 1, cast(int, header["hops"]), *(each[3] for each in listed)]
    bounds = np.cumsum([0, *counts]).tolist()
    indptr, neighbours, *deleted = (numbers[begin:end] for begin, end in pairwise(bounds))
    covered = tuple(
        CoveredEdges(tuple(files), count, deletions, offsets)
        for (files, count, deletions, _), offsets in zip(listed, deleted, strict=True)
    )
    return StoredHops(indptr, neighbours, begin_rows, end_rows, covered, cast(bool, header["parallel"]))


def write_hop_file(table: Table, first: TableFragment, direction: HopDirection, hops: StoredHops) -> None:
    """Write the hops of a table, in place of an earlier file."""
    header: dict[str, object] = {
        "first": list(first.identity_files),
        "direction": direction,
        "edges": [[list(each.files), each.count, each.deletions, len(each.deleted)] for each in hops.covered],
        "begins": list_node_rows(hops.begin_rows),
        "ends": list_node_rows(hops.end_rows),
        "hops": len(hops.neighbours),
        "parallel": hops.has_parallel_edges,
    }
    columns = [hops.indptr, hops.neighbours, *(each.deleted for each in hops.covered)]
    write_derived_file(table, _path_of(first, direction), _MAGIC, header, columns)


def has_hop_file(table: Table, first: TableFragment, direction: HopDirection) -> bool:
    """Whether there is a file, whatever is in it."""
    objects = open_objects(table)
    try:
        return objects is not None and objects.head(_path_of(first, direction)) is not None
    except StorageError:
        return False


def _path_of(first: TableFragment, direction: HopDirection) -> str:
    return f"{derived_path(first)}.{direction}"

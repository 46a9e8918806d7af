"""Files beside an edge table that hold the ends of the edges of one fragment as numbers.

A file says for each row of a fragment which row of which node fragment its source and its destination are. Whether
these nodes are still there is for the reader to find out.
"""

from __future__ import annotations

from typing import Final

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.tables.derived_files import (
    NodeRows,
    RowNumbers,
    derived_path,
    list_node_rows,
    parse_node_rows,
    read_derived_file,
    write_derived_file,
)
from omnigraph.storage.tables.fragments import TableFragment
from omnigraph.storage.tables.table import Table

LEAST_NUMBERED_ROWS: Final = 10_000
"""Fragments with fewer rows have no file: their ids are located in a few milliseconds."""
_MAGIC: Final = b"OGENDS01"


@dataclass(frozen=True, slots=True, eq=False)
class StoredEnds:
    """The ends of all rows of a fragment, also of deleted ones.

    A number counts the rows of the listed node fragments, one after another. It is -1 where no node was known.
    """

    sources: RowNumbers
    destinations: RowNumbers
    source_rows: tuple[NodeRows, ...]
    destination_rows: tuple[NodeRows, ...]


def read_end_file(table: Table, fragment: TableFragment) -> StoredEnds | None:
    """Return the stored ends of a fragment; None without a file, or if it is not whole or of something else."""
    found = read_derived_file(table, derived_path(fragment), _MAGIC)
    if found is None:
        return None
    header, numbers = found
    count = fragment.physical_rows
    if len(numbers) != 2 * count or (header["edges"], header["rows"]) != (list(fragment.identity_files), count):
        return None
    source_rows, destination_rows = parse_node_rows(header["sources"]), parse_node_rows(header["destinations"])
    return StoredEnds(numbers[:count], numbers[count:], source_rows, destination_rows)


def write_end_file(table: Table, fragment: TableFragment, ends: StoredEnds) -> None:
    """Write the ends of a fragment, in place of an earlier file."""
    header: dict[str, object] = {
        "edges": list(fragment.identity_files),
        "rows": len(ends.sources),
        "sources": list_node_rows(ends.source_rows),
        "destinations": list_node_rows(ends.destination_rows),
    }
    write_derived_file(table, derived_path(fragment), _MAGIC, header, [ends.sources, ends.destinations])

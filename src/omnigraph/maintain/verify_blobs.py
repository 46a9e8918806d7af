"""Reading every blob of a snapshot to its last byte: a scan of rows shows only where blobs lie, not that they do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from omnigraph.errors import OmniGraphError
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import EXTERNAL_BLOB, blob_properties_of, descriptors_of, measure_blob
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.table import ROW_ADDRESS, Table

MOST_BROKEN: Final = 1_000
"""So many are listed of one branch; whoever has more has another problem."""


@dataclass(slots=True)
class BlobCheck:
    """How many blobs there are, how many bytes, and what is wrong: the row and the property, and why."""

    count: int = 0
    bytes: int = 0
    broken: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def check_blobs(catalog: Catalog, snapshot: Snapshot) -> BlobCheck:
    """Read all of them, those that lie outside of the graph too."""
    found = BlobCheck()
    for type_ in catalog.types():
        if type_.table_key in snapshot.pins:
            table = snapshot.table(type_.table_key)
            for name in blob_properties_of(type_):
                if name in table.schema.names:
                    _read_column(type_, table, name, found)
    return found


def _read_column(type_: NodeType | EdgeType, table: Table, name: str, found: BlobCheck) -> None:
    for id_, address, said in _blobs(table, name):
        if len(found.broken) >= MOST_BROKEN:
            return
        where = f"{type_.name} {id_}, {name}"
        try:
            size = measure_blob(table, name, address)
        except OmniGraphError as error:
            found.broken.append((where, error.message))
            continue
        found.count += 1
        found.bytes += size
        if said is not None and size != said:
            found.broken.append((where, f"it has {size:,} bytes; its row says {said:,}"))


def _blobs(table: Table, name: str) -> Iterator[tuple[str, int, int | None]]:
    """The id and address of every row that has a blob, and its size; of a whole object elsewhere nobody says it."""
    for batch in table.scan(["id", name], with_row_address=True, one_by_one=True):
        ids = cast("list[str]", to_list(column_of(batch, "id")))
        addresses = cast("list[int]", to_list(column_of(batch, ROW_ADDRESS)))
        for id_, address, descriptor in zip(ids, addresses, descriptors_of(batch, name), strict=True):
            if descriptor is not None:
                size = cast(int, descriptor["size"])
                yield id_, address, None if descriptor["kind"] == EXTERNAL_BLOB and not size else size

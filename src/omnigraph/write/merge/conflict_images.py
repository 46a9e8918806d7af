"""Entities as a person reads them in a conflict: properties by name, the ends of an edge, Python's own values.

Of a blob it is told where it lies or how many bytes it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import numpy as np
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import (
    PUBLIC_NAMES,
    blob_properties_of,
    public_schema_of,
    to_public_batch,
    to_python_rows,
    value_columns_of,
)
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.filters import AnyOf
from omnigraph.write.blobs import BlobValue
from omnigraph.write.merge.three_way import SideRows
from omnigraph.write.mutation import PendingTable


def shown_name(column: str) -> str:
    """What a column is called outside."""
    return PUBLIC_NAMES.get(column, column)


def stored_name(name: str) -> str:
    """The column that a name outside means."""
    return next((column for column, outside in PUBLIC_NAMES.items() if outside == name), name)


def build_images(type_: NodeType | EdgeType, side: SideRows) -> list[dict[str, object] | None]:
    """Each row as a dict; None where there is none."""
    found: list[dict[str, object] | None] = [None] * len(side.exists)
    places = np.flatnonzero(side.exists)
    rows = side.rows.take(places)
    columns = value_columns_of(type_)
    schema = public_schema_of(type_, columns)
    images = [
        image
        for batch in rows.select(columns).combine_chunks().to_batches()
        for image in to_python_rows(to_public_batch(batch, schema))
    ]
    for name in blob_properties_of(type_):
        for image, blob in zip(images, cast("list[BlobValue | None]", to_list(column_of(rows, name))), strict=True):
            image[name] = _describe_blob(blob)
    for place, image in zip(places.tolist(), images, strict=True):
        found[place] = image
    return found


def _describe_blob(blob: BlobValue | None) -> str | None:
    if blob is None:
        return None
    return blob["uri"] if blob["data"] is None else f"<{len(blob['data']):,} bytes>"


def read_stored_rows(
    snapshot: Snapshot, type_: NodeType | EdgeType, ids: Iterable[str], column: str = "id"
) -> pa.Table:
    """The rows of a snapshot that have one of some texts in a column, whole, as they can be written again."""
    wanted = AnyOf((column,), pa.array(sorted(set(ids)), pa.string()))
    return PendingTable(type_, snapshot).read_matching(wanted)


def read_images(snapshot: Snapshot, type_: NodeType | EdgeType, ids: Iterable[str]) -> Mapping[str, dict[str, object]]:
    """The images of some entities as a snapshot has them, by id."""
    return build_images_by_id(type_, read_stored_rows(snapshot, type_, ids))


def build_images_by_id(type_: NodeType | EdgeType, rows: pa.Table) -> Mapping[str, dict[str, object]]:
    """The images of rows, by id."""
    images = build_images(type_, SideRows(rows, np.ones(rows.num_rows, np.bool_)))
    found = cast("list[str]", to_list(column_of(rows, "id")))
    return {id_: image for id_, image in zip(found, images, strict=True) if image is not None}

"""Entity images for conflicts: property names, edge ends and Python values, as a person reads them.

A blob is shown as its URI or its size.
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
from omnigraph.storage.filters import ValueIn
from omnigraph.write.merge.three_way import SideRows
from omnigraph.write.mutation import PendingTable
from omnigraph.write.row_values import BlobValue


def to_public_name(column: str) -> str:
    """Return the public name of a column."""
    return PUBLIC_NAMES.get(column, column)


def to_column_name(name: str) -> str:
    """Return the column of a public name."""
    return next((column for column, public in PUBLIC_NAMES.items() if public == name), name)


def build_images(type_: NodeType | EdgeType, side: SideRows) -> list[dict[str, object] | None]:
    """Return the image of each row as a dict; None where the row does not exist."""
    by_index: list[dict[str, object] | None] = [None] * len(side.exists)
    indexes = np.flatnonzero(side.exists)
    rows = side.rows.take(indexes)
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
    for index, image in zip(indexes.tolist(), images, strict=True):
        by_index[index] = image
    return by_index


def _describe_blob(blob: BlobValue | None) -> str | None:
    if blob is None:
        return None
    return blob["uri"] if blob["data"] is None else f"<{len(blob['data']):,} bytes>"


def read_stored_rows(
    snapshot: Snapshot, type_: NodeType | EdgeType, ids: Iterable[str], column: str = "id"
) -> pa.Table:
    """Read the whole rows of a snapshot whose column has one of some values. They can be written again."""
    condition = ValueIn((column,), pa.array(sorted(set(ids)), pa.string()))
    return PendingTable(type_, snapshot).read_matching(condition)


def read_images(snapshot: Snapshot, type_: NodeType | EdgeType, ids: Iterable[str]) -> Mapping[str, dict[str, object]]:
    """Return the images of some entities in a snapshot, by id."""
    return build_images_by_id(type_, read_stored_rows(snapshot, type_, ids))


def build_images_by_id(type_: NodeType | EdgeType, rows: pa.Table) -> Mapping[str, dict[str, object]]:
    """Return the images of rows, by id."""
    images = build_images(type_, SideRows(rows, np.ones(rows.num_rows, np.bool_)))
    row_ids = cast("list[str]", to_list(column_of(rows, "id")))
    return {id_: image for id_, image in zip(row_ids, images, strict=True) if image is not None}

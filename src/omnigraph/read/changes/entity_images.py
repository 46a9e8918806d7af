"""Convert changed rows to what users see: entities with Python or JSON values, and Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Final, Generic, TypeVar, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.changes.compare_rows import ChangedRows, Op
from omnigraph.read.changes.equality import compare_values
from omnigraph.read.changes.type_pairs import ColumnPair, Type
from omnigraph.read.frames import Mask
from omnigraph.read.rows import (
    PUBLIC_NAMES,
    BlobValue,
    blob_properties_of,
    blob_to_text,
    public_schema_of,
    to_json_rows,
    to_public_batch,
    to_python_rows,
)
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, make_nulls, to_bool_array, to_list
from omnigraph.storage.lagging_columns import choose_wider_type

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ImageFormat(Generic[Value]):
    """The functions that convert rows and blobs to Python or to JSON values."""

    rows: Callable[[pa.RecordBatch], list[dict[str, Value]]]
    blob: Callable[[BlobValue], Value]


def _to_bytes_or_uri(value: BlobValue) -> object:
    return blob_to_text(value) if value["data"] is None else value["data"]


PYTHON: Final[ImageFormat[object]] = ImageFormat(to_python_rows, _to_bytes_or_uri)
JSON: Final[ImageFormat[Json]] = ImageFormat(to_json_rows, blob_to_text)


@dataclass(frozen=True, slots=True)
class EntityImages(Generic[Value]):
    """One changed row: its images by property, and the properties that differ."""

    id: str
    op: Op
    before: dict[str, Value] | None
    after: dict[str, Value] | None
    changed: tuple[str, ...]


def read_entities(
    parts: Iterable[ChangedRows], types: tuple[Type, Type], form: ImageFormat[Value]
) -> Iterator[EntityImages[Value]]:
    """Yield the rows of some parts, of all ops, in the order of their ids."""
    return merge(*(_to_entities(part, types, form) for part in parts), key=attrgetter("id"))


def _to_entities(part: ChangedRows, types: tuple[Type, Type], form: ImageFormat[Value]) -> list[EntityImages[Value]]:
    ids = cast("list[str]", to_list(column_of(part.rows, "id")))
    absent_images = [None] * part.num_rows
    before = absent_images if part.before is None else _to_images(part.before, types[0], form)
    after = absent_images if part.after is None else _to_images(part.after, types[1], form)
    return [
        EntityImages(id_, part.op, old, new, changed)
        for id_, old, new, changed in zip(ids, before, after, list_changed_properties(part), strict=True)
    ]


def list_changed_properties(part: ChangedRows) -> list[tuple[str, ...]]:
    """Return for each row of an update the properties that differ; the ends of an edge are ``from`` and ``to``."""
    before, after = part.before, part.after
    if before is None or after is None:
        return [()] * part.num_rows
    differ: dict[str, Mask] = {}
    for column in part.columns:
        mask = _mark_differing_column(before, after, column)
        # A dropped property and another one of its name are reported as one.
        differ[column.name] = mask | differ[column.name] if column.name in differ else mask
    public = [PUBLIC_NAMES.get(name, name) for name in differ]
    # Most rows differ in the same properties as many others, so each combination is built once.
    masks = [row.tobytes() for row in np.column_stack([*differ.values()])]
    properties = {mask: tuple(name for name, differs in zip(public, mask, strict=True) if differs) for mask in {*masks}}
    return [properties[mask] for mask in masks]


def _mark_differing_column(before: pa.RecordBatch, after: pa.RecordBatch, column: ColumnPair) -> Mask:
    """Return where a column differs between two images. It is null on a side that does not have the property."""
    if column.before is not None and column.after is not None:
        values = column_of(before, column.before), column_of(after, column.after)
        type_ = choose_wider_type(*(each.type for each in values))
        return ~compare_values(*(each if each.type == type_ else each.cast(type_) for each in values))
    return to_bool_array(compute("is_valid", column_of(before if column.after is None else after, column.name)))


def _to_images(rows: pa.RecordBatch, type_: Type, form: ImageFormat[Value]) -> list[dict[str, Value]]:
    blobs = blob_properties_of(type_)
    plain = [name for name in rows.schema.names if name not in blobs]
    found = form.rows(to_public_batch(rows.select(plain), public_schema_of(type_, plain)))
    for name in blobs:
        blob_values = cast("list[BlobValue | None]", to_list(column_of(rows, name)))
        for image, value in zip(found, blob_values, strict=True):
            image[name] = cast("Value", None) if value is None else form.blob(value)
    names = [PUBLIC_NAMES.get(name, name) for name in rows.schema.names if name != "id"]
    return [{name: image[name] for name in names} for image in found]


# --------------------------------------------------------------------------------------------- Arrow


def diff_schema_of(types: tuple[Type, Type]) -> pa.Schema:
    """The Arrow schema of the changes of one type."""
    before, after = (_image_type_of(type_) for type_ in types)
    return pa.schema(
        [
            pa.field("op", pa.string()),
            pa.field("id", pa.string()),
            pa.field("changed", pa.list_(pa.string())),
            pa.field("before", before),
            pa.field("after", after),
        ]
    )


def build_diff_batch(parts: Sequence[ChangedRows], types: tuple[Type, Type]) -> pa.RecordBatch:
    """Build one batch of some parts, in the order of ids, with the images as structs."""
    schema = diff_schema_of(types)
    rows = pa.Table.from_batches([_to_batch(part, schema) for part in parts], schema).sort_by("id")
    return pa.RecordBatch.from_arrays([column_of(rows, name) for name in schema.names], schema=schema)


def _image_type_of(type_: Type) -> pa.DataType:
    schema = public_schema_of(type_, [name for name in arrow_schema(type_).names if name != "id"])
    return pa.struct(list(zip(schema.names, schema.types, strict=True)))


def _to_batch(part: ChangedRows, schema: pa.Schema) -> pa.RecordBatch:
    count = part.num_rows
    columns = [
        pa.array([str(part.op)] * count, pa.string()),
        column_of(part.rows, "id"),
        pa.array(list_changed_properties(part), pa.list_(pa.string())),
        _to_struct(part.before, count, schema.types[3]),
        _to_struct(part.after, count, schema.types[4]),
    ]
    return pa.RecordBatch.from_arrays(cast("list[Values]", columns), schema=schema)


def _to_struct(rows: pa.RecordBatch | None, count: int, type_: pa.DataType) -> Values:
    if rows is None:
        return make_nulls(count, type_)
    fields = list(cast("Iterable[pa.Field[pa.DataType]]", type_))
    image = to_public_batch(rows.select([name for name in rows.schema.names if name != "id"]), pa.schema(fields))
    return cast("Values", pa.StructArray.from_arrays(cast("list[Values]", image.columns), fields=fields))

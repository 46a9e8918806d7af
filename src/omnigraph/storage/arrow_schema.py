"""The Arrow schemas of tables: the columns of a type on disk.

``id`` comes first, then ``src`` and ``dst`` of an edge, then the properties by name. This is the one module of
the languages that needs Arrow to be imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pyarrow as pa

from omnigraph.derived_values import keep_derived
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue

_SCALARS: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.string(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.date64(),
}

_NUMBERS_OF_DATES: dict[Scalar, pa.DataType] = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}

BLOB = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.string()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
    ]
)
_BLOB_METADATA = {"ARROW:extension:name": "lance.blob.v2", "ARROW:extension:metadata": ""}


@keep_derived(1024)
def arrow_schema(type_: NodeType | EdgeType) -> pa.Schema:
    """Return the columns of a type's table."""
    own = ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",)
    columns = [pa.field(name, pa.string(), nullable=False) for name in own]
    return pa.schema([*columns, *(arrow_field(each.name, each.type) for each in type_.properties.values())])


@keep_derived(1024)
def column_types(type_: NodeType | EdgeType) -> Mapping[str, tuple[pa.DataType, str]]:
    """Return the Arrow type of each column of a type's table, and the text of that type."""
    schema = arrow_schema(type_)
    return {name: (each, str(each)) for name, each in zip(schema.names, schema.types, strict=True)}


def arrow_field(name: str, type_: ValueType) -> pa.Field[pa.DataType]:
    """Return the column of a property."""
    if type_.scalar is Scalar.BLOB:
        return pa.field(name, BLOB, nullable=type_.nullable, metadata=_BLOB_METADATA)
    return pa.field(name, arrow_type(type_), nullable=type_.nullable)


def arrow_type(type_: ValueType) -> pa.DataType:
    """Return the Arrow type of a value type. Blobs have none: they need a field with metadata."""
    if type_.dimension is not None:
        return pa.list_(pa.field("item", pa.float32()), type_.dimension)
    scalar = _SCALARS[type_.scalar]
    return pa.list_(pa.field("item", scalar)) if type_.is_list else scalar


def arrow_values(type_: ValueType, values: Sequence[ConstantValue]) -> pa.Array[pa.Scalar[pa.DataType]]:
    """Return values of a type other than Blob as a column. Dates are days, date-times are milliseconds."""
    target = arrow_type(type_)
    plain = _plain_type_of(type_)
    if plain is None:
        return pa.array(values, target)
    # Made from datetime objects, a date64 would lose the time of day.
    return pa.array(values, plain).cast(target)


def arrow_constants(type_: ValueType, values: pa.Array[pa.Scalar[pa.DataType]]) -> list[ConstantValue]:
    """Return a column of a type other than Blob as constants; the reverse of :func:`arrow_values`."""
    plain = _plain_type_of(type_)
    found = cast("list[object]", cast("pa.Int64Array", values if plain is None else values.cast(plain)).to_pylist())
    return [
        cast(ConstantValue, tuple(cast("list[object]", each)) if isinstance(each, list) else each) for each in found
    ]


def _plain_type_of(type_: ValueType) -> pa.DataType | None:
    """Return the type of the numbers that dates are stored as; None for other types."""
    plain = _NUMBERS_OF_DATES.get(type_.scalar)
    return pa.list_(pa.field("item", plain)) if plain is not None and type_.is_list else plain

"""The types of ``.pg`` as Spark has them, and rows of our tables in exactly the Arrow types that Spark takes.

Spark has no unsigned numbers: a ``U32`` becomes a long, a ``U64`` a decimal of 20 digits. Its instants count
microseconds where ours count milliseconds. A vector is an array of floats, an enum a text, and a blob a descriptor that
says where its bytes lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from omnigraph.errors import ParameterError
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.rows import PUBLIC_NAMES, to_public_schema
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, absent, column_of

BLOB: Final = StructType(
    [
        StructField("kind", IntegerType()),
        StructField("position", LongType()),
        StructField("size", LongType()),
        StructField("blob_id", LongType()),
        StructField("blob_uri", StringType()),
    ]
)
"""Where the bytes of a blob lie, as a scan of Lance says it."""

_SCALARS: Final[Mapping[Scalar, DataType]] = {
    Scalar.STRING: StringType(),
    Scalar.BLOB: BLOB,
    Scalar.BOOL: BooleanType(),
    Scalar.I32: IntegerType(),
    Scalar.I64: LongType(),
    Scalar.U32: LongType(),
    Scalar.U64: DecimalType(20, 0),
    Scalar.F32: FloatType(),
    Scalar.F64: DoubleType(),
    Scalar.DATE: DateType(),
    Scalar.DATETIME: TimestampType(),
    Scalar.VECTOR: ArrayType(FloatType()),
}
_SYSTEM_COLUMNS: Final = frozenset({"id", *PUBLIC_NAMES})


def to_spark_type(type_: ValueType) -> DataType:
    """The Spark type of values of a type."""
    scalar = _SCALARS[type_.scalar]
    return ArrayType(scalar) if type_.is_list else scalar


def stored_names_of(type_: NodeType | EdgeType) -> dict[str, str]:
    """The columns of a type as Spark shows them, each with its name in the table."""
    return {PUBLIC_NAMES.get(name, name): name for name in arrow_schema(type_).names}


def to_spark_schema(type_: NodeType | EdgeType, columns: Iterable[str]) -> StructType:
    """Columns of a type as Spark shows them.

    A property is nullable even where the schema requires it: a branch may lag behind the schema, and what Spark is told
    to have no nulls it does not look at.
    """
    stored = stored_names_of(type_)
    return StructType([_to_spark_field(type_, name, stored[name]) for name in columns])


def _to_spark_field(type_: NodeType | EdgeType, name: str, stored: str) -> StructField:
    if stored in _SYSTEM_COLUMNS:
        return StructField(name, StringType(), nullable=False)
    return StructField(name, to_spark_type(type_.properties[stored].type))


# --------------------------------------------------------------------------------------------- rows


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """The Arrow types in which Spark takes rows; batches of any other are refused."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Rows of our table, its columns in the order of the target, as Spark takes them."""
    shown = to_public_schema(rows.schema).types
    columns = [
        _convert(column_of(rows, name), seen, wanted)
        for name, seen, wanted in zip(rows.schema.names, shown, target.types, strict=True)
    ]
    for column, field in zip(columns, cast("Iterable[pa.Field[pa.DataType]]", target), strict=True):
        if column.null_count and not field.nullable:
            raise ParameterError(f"column '{field.name}' holds nulls", hint="let the schema say that it is nullable")
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _convert(values: Values, seen: pa.DataType, wanted: pa.DataType) -> Values:
    if values.type == wanted:
        return values
    if pa.types.is_struct(wanted) and values.null_count == len(values):
        # A table without the column gives nulls of the type that blobs are written in, not of what a scan shows.
        return absent(len(values), wanted)
    if seen != values.type:
        values = values.view(seen)
    return values.cast(wanted)

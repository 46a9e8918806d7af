"""Map the types of ``.pg`` to Spark types, and rows of our tables to the Arrow types that Spark accepts.

Spark has no unsigned integers: a ``U32`` becomes a long, a ``U64`` a decimal of 20 digits. Its timestamps have
microseconds, ours milliseconds. A vector becomes an array of floats, an enum a string, and a blob a descriptor of
where its bytes are stored.
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
from omnigraph.storage.arrow_schema import arrow_schema, arrow_type
from omnigraph.storage.columns import Values, column_of, make_nulls

BLOB: Final = StructType(
    [
        StructField("kind", IntegerType()),
        StructField("position", LongType()),
        StructField("size", LongType()),
        StructField("blob_id", LongType()),
        StructField("blob_uri", StringType()),
    ]
)
"""The descriptor of a blob: where its bytes are stored, as a Lance scan returns it."""

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
    """Return the Spark type of a value type."""
    scalar = _SCALARS[type_.scalar]
    return ArrayType(scalar) if type_.is_list else scalar


def stored_names_of(type_: NodeType | EdgeType) -> dict[str, str]:
    """The columns of a type: the name that Spark shows, and the name in the table."""
    return {PUBLIC_NAMES.get(name, name): name for name in arrow_schema(type_).names}


def to_spark_schema(type_: NodeType | EdgeType, columns: Iterable[str]) -> StructType:
    """Return the Spark schema of some columns of a type.

    Properties are nullable even if the schema requires them: the table of a lagging branch may hold nulls, and Spark
    does not check columns that are declared as not nullable.
    """
    stored = stored_names_of(type_)
    return StructType([_to_spark_field(type_, name, stored[name]) for name in columns])


def _to_spark_field(type_: NodeType | EdgeType, name: str, stored: str) -> StructField:
    if stored in _SYSTEM_COLUMNS:
        return StructField(name, StringType(), nullable=False)
    return StructField(name, to_spark_type(type_.properties[stored].type))


# --------------------------------------------------------------------------------------------- rows


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark requires of batches."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Convert rows of a table to the target schema, which has the same columns in the same order."""
    shown = to_public_schema(rows.schema).types
    columns = [
        _convert(column_of(rows, name), public_type, target_type)
        for name, public_type, target_type in zip(rows.schema.names, shown, target.types, strict=True)
    ]
    for column, field in zip(columns, cast("Iterable[pa.Field[pa.DataType]]", target), strict=True):
        if column.null_count and not field.nullable:
            raise ParameterError(f"column '{field.name}' holds nulls", hint="declare it nullable in the schema")
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _convert(values: Values, public_type: pa.DataType, target_type: pa.DataType) -> Values:
    if values.type == target_type:
        return values
    if pa.types.is_struct(target_type) and values.null_count == len(values):
        # If the table lacks the column, its nulls have the type in which blobs are written, not read.
        return make_nulls(len(values), target_type)
    if public_type != values.type:
        values = values.view(public_type)
    return values.cast(target_type)


def from_spark(values: Values, type_: ValueType) -> Values:
    """Convert a column of Spark to the type in which the local engine computes."""
    declared = arrow_type(type_)
    public = to_public_schema(pa.schema([pa.field("value", declared)])).types[0]
    return values.cast(public).view(declared) if public != declared else values.cast(declared)

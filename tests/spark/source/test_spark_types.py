"""Every type of ``.pg`` on Spark, and back: no bit of a value is lost on the way."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

import omnigraph
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph
from omnigraph.language.schema import parse_schema
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.rows.type_rows import TypeRows
from omnigraph.spark.source.spark_types import (
    BLOB,
    arrow_schema_of,
    stored_names_of,
    to_spark,
    to_spark_schema,
    to_spark_type,
)
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.columns import column_of
from omnigraph.write.load.rows.conversion import can_convert, convert_arrow
from tests.graphs import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Thing {
  code: String @key
  text: String?  flag: Bool?  small: I32?  large: I64?  count: U32?  huge: U64?  half: F32?  whole: F64?
  day: Date?  moment: DateTime?  kind: enum(red, green)?  point: Vector(3)?
  texts: [String]?  flags: [Bool]?  smalls: [I32]?  larges: [I64]?  counts: [U32]?  huges: [U64]?
  halves: [F32]?  wholes: [F64]?  days: [Date]?  moments: [DateTime]?
}
edge Holds: Thing -> Thing { weight: F32?  since: DateTime? }
"""
MOMENT = datetime(2024, 5, 1, 10, 30, 0, 123_000, UTC)
FULL: dict[str, object] = {
    "code": "full",
    "text": "é'`\n",
    "flag": False,
    "small": -(2**31),
    "large": -(2**63),
    "count": 2**32 - 1,
    "huge": 2**64 - 1,
    "half": 0.10000000149011612,
    "whole": 5e-324,
    "day": date(1, 1, 1),
    "moment": MOMENT,
    "kind": "red",
    "point": [1.0, -0.5, 0.0],
    "texts": ["", "a"],
    "flags": [True, False],
    "smalls": [2**31 - 1],
    "larges": [2**63 - 1],
    "counts": [2**32 - 1],
    "huges": [2**63, 2**64 - 1],
    "halves": [-0.5],
    "wholes": [1.7976931348623157e308],
    "days": [date(9999, 12, 31)],
    "moments": [MOMENT, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)],
}
EMPTY: dict[str, object] = {"code": "empty", **{name: list[object]() for name in FULL if name.endswith("s")}}
BARE: dict[str, object] = {"code": "bare"}
NAMES = {
    Scalar.STRING: "string",
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "bigint",
    Scalar.U32: "bigint",
    Scalar.U64: "decimal(20,0)",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = omnigraph.init(tmp_path / "things.og", SCHEMA)
    made.load([{"type": "Thing", "data": data} for data in (FULL, EMPTY, BARE)])
    made.load([{"edge": "Holds", "from": "full", "to": "bare", "data": {"id": "h", "weight": 1.5, "since": MOMENT}}])
    return made


# --------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(("scalar", "name"), NAMES.items())
def test_a_scalar_and_a_list_of_it(scalar: Scalar, name: str) -> None:
    for nullable in (True, False):
        assert to_spark_type(ValueType(scalar, nullable)).simpleString() == name
        assert to_spark_type(ValueType(scalar, nullable, is_list=True)).simpleString() == f"array<{name}>"


def test_enums_are_texts_vectors_are_arrays_and_blobs_are_descriptors() -> None:
    assert to_spark_type(ValueType(Scalar.STRING, enum_values=("a", "b"))) == StringType()
    assert to_spark_type(ValueType(Scalar.VECTOR, dimension=3)).simpleString() == "array<float>"
    assert to_spark_type(ValueType(Scalar.BLOB)) == BLOB


def can_load(found: DataType, type_: ValueType) -> bool:
    return can_convert(to_arrow_type(found, timezone="UTC"), type_)


def test_every_type_but_a_descriptor_can_be_loaded_from_its_spark_type() -> None:
    for each in parse_schema(SCHEMA).catalog.nodes["Thing"].properties.values():
        assert can_load(to_spark_type(each.type), each.type), each
    blob = ValueType(Scalar.BLOB)
    assert not can_load(to_spark_type(blob), blob)
    assert can_load(BinaryType(), blob)


@pytest.mark.parametrize(
    ("found", "type_", "expected"),
    [
        (ShortType(), ValueType(Scalar.I64), True),
        (LongType(), ValueType(Scalar.I32), True),
        (DecimalType(38, 0), ValueType(Scalar.U64), True),
        (DecimalType(20, 2), ValueType(Scalar.U64), True),
        (DoubleType(), ValueType(Scalar.I64), False),
        (StringType(), ValueType(Scalar.I64), False),
        (StringType(), ValueType(Scalar.DATETIME), True),
        (ArrayType(DoubleType()), ValueType(Scalar.VECTOR, dimension=2), True),
        (IntegerType(), ValueType(Scalar.I32, is_list=True), False),
    ],
)
def test_what_can_be_loaded(found: DataType, type_: ValueType, expected: bool) -> None:
    assert can_load(found, type_) is expected


def test_only_what_a_table_itself_needs_is_never_null() -> None:
    holds = parse_schema("node Thing { code: String }\nedge Holds: Thing -> Thing { since: Date  weight: F32? }")
    columns = to_spark_schema(holds.catalog.edges["Holds"], ["to", "from", "id", "since"])
    assert [(each.name, each.nullable) for each in columns] == [
        ("to", False),
        ("from", False),
        ("id", False),
        ("since", True),
    ]


# --------------------------------------------------------------------------------------------- values

_MOMENTS = st.integers(-62_135_596_800_000, 253_402_300_799_999)
VALUES: dict[Scalar, st.SearchStrategy[ConstantValue]] = {
    Scalar.STRING: st.text(max_size=9),
    Scalar.BOOL: st.booleans(),
    Scalar.I32: st.integers(-(2**31), 2**31 - 1),
    Scalar.I64: st.integers(-(2**63), 2**63 - 1),
    Scalar.U32: st.integers(0, 2**32 - 1),
    Scalar.U64: st.integers(0, 2**64 - 1),
    Scalar.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.DATE: st.integers(-719_162, 2_932_896),
    Scalar.DATETIME: _MOMENTS,
}


@pytest.mark.parametrize("scalar", VALUES)
@given(data=st.data())
def test_values_come_back_as_they_were(scalar: Scalar, data: st.DataObject) -> None:
    for type_, values in (
        (ValueType(scalar, nullable=True), st.none() | VALUES[scalar]),
        (ValueType(scalar, nullable=True, is_list=True), st.none() | st.lists(VALUES[scalar], max_size=3).map(tuple)),
    ):
        stored = arrow_values(type_, data.draw(st.lists(values, max_size=5)))
        target = arrow_schema_of(StructType([StructField("x", to_spark_type(type_))]))
        there = to_spark(pa.record_batch({"x": stored}), target)
        assert there.schema == target
        back = convert_arrow(column_of(there, "x"), type_)
        assert back.mismatches == ()
        assert back.values.equals(stored)


def test_vectors_lose_their_length_and_nothing_else() -> None:
    type_ = ValueType(Scalar.VECTOR, nullable=True, dimension=2)
    stored = arrow_values(type_, [(1.0, 0.5), None, (-0.0, 3.0)])
    there = to_spark(
        pa.record_batch({"x": stored}), arrow_schema_of(StructType([StructField("x", to_spark_type(type_))]))
    )
    assert there.to_pylist() == [{"x": [1.0, 0.5]}, {"x": None}, {"x": [-0.0, 3.0]}]


def test_nulls_where_spark_was_promised_none_are_an_error() -> None:
    target = arrow_schema_of(StructType([StructField("x", IntegerType(), nullable=False)]))
    with pytest.raises(ParameterError, match="column 'x' holds nulls"):
        to_spark(pa.record_batch({"x": pa.array([1, None], pa.int32())}), target)


def test_what_a_table_lacks_is_null_in_every_type(graph: Graph) -> None:
    newer = parse_schema(SCHEMA.replace("code:", "photo: Blob?  sizes: [U64]?  seen: DateTime?  code:")).catalog
    type_ = newer.nodes["Thing"]
    names = ["photo", "sizes", "seen", "code"]
    assert [stored_names_of(type_)[name] for name in names] == names
    target = arrow_schema_of(to_spark_schema(type_, names))
    rows = TypeRows(type_, graph.snapshot().table("Thing"))
    found = pa.Table.from_batches([to_spark(batch, target) for batch in rows.read(names)])
    assert found.schema == target
    assert sorted(map(str, found["code"].to_pylist())) == ["bare", "empty", "full"]
    assert [found[name].null_count for name in names] == [3, 3, 3, 0]


# --------------------------------------------------------------------------------------------- through Spark


def test_spark_shows_every_value(spark: SparkSession, graph: Graph) -> None:
    # Python's own times cannot hold the first and the last of ours in every zone.
    things = graph.spark(spark).nodes("Thing").drop("moments")
    found = {row["code"]: row.asDict() for row in things.collect()}
    naive = {
        # Spark gives Python its times in the zone of the machine and without one.
        "moment": MOMENT.astimezone().replace(tzinfo=None),
        "huge": Decimal(2**64 - 1),
        "huges": [Decimal(2**63), Decimal(2**64 - 1)],
    }
    full = {name: value for name, value in {**FULL, **naive}.items() if name != "moments"}
    assert {name: found["full"][name] for name in full} == full
    assert found["empty"]["texts"] == found["empty"]["huges"] == []
    assert {name for name, value in found["bare"].items() if value is not None} == {"id", "code"}


def test_what_spark_read_makes_the_same_graph(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    there = graph.spark(spark)
    copy = omnigraph.init(tmp_path / "copy.og", SCHEMA)
    copy.load(
        nodes={"Thing": there.nodes("Thing").toArrow()}, edges={"Holds": there.edges("Holds").toArrow()}, engine="local"
    )
    for name in ("Thing", "Holds"):
        by_id = [sorted(rows_of(each, name), key=lambda row: cast(str, row["id"])) for each in (graph, copy)]
        assert by_id[0] == by_id[1]
    assert sorted(copy.export()) == sorted(graph.export())


def test_blobs_come_as_descriptors(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "docs.og", "node Doc { name: String @key  file: Blob? }")
    graph.load([{"type": "Doc", "data": {"name": "a", "file": "base64:eHl6"}}, {"type": "Doc", "data": {"name": "b"}}])
    found = graph.spark(spark).nodes("Doc", ["name", "file"]).orderBy("name")
    assert found.selectExpr("name", "file.size").collect() == [("a", 3), ("b", None)]
    assert found.where("file IS NULL").select("name").collect() == [("b",)]

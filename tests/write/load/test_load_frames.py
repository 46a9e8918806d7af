"""Data frames: Arrow, pandas and polars frames per type, their columns, and rows that do not fit."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal, cast

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.language.schema import parse_schema
from omnigraph.language.types import Scalar, ValueType
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.write.load.inputs.load_input import LoadInput, resolve_tables
from omnigraph.write.load.inputs.records import read_records
from omnigraph.write.load.inputs.sources import ignore_bytes
from omnigraph.write.load.inputs.table_reader import open_tables
from omnigraph.write.load.rows.conversion import convert_arrow, convert_values
from omnigraph.write.load.rows.validation import RawBatch, validate_batch
from tests.graphs import rows_of, written
from tests.selection import daily

WIDE = parse_schema(
    "node Wide { key: I64 @key  b: Bool?  i: I32?  f: F32?  d: F64?  day: Date?  at: DateTime?  word: String?"
    ' kind: enum(a, b)?  words: [String]?  vec: Vector(2)?  body: Blob?  level: I32 @default("3") }'
).catalog


def read_wide(table: pa.Table) -> RawBatch:
    """Read the rows of the wide type from a frame."""
    (opened,) = open_tables(WIDE, resolve_tables(WIDE, LoadInput(nodes={"Wide": table})))
    (draft,) = opened.read(ignore_bytes)
    assert isinstance(draft, RawBatch)
    return draft


def wide(**columns: Values | Sequence[object]) -> pa.Table:
    """Read rows of the wide type from the columns of a frame; fail on any error."""
    count = len(next(iter(columns.values())))
    table = pa.table({"key": list(range(count)), **columns})
    admitted = validate_batch(read_wide(table))
    assert [each.violations for each in admitted.rejected] == []
    return pa.Table.from_batches([admitted.rows])


PORTS = {"code": ["a", "b"], "name": ["A", "B"], "depth": [1.5, None]}


@pytest.mark.parametrize(
    "frame",
    [
        pa.table(PORTS),
        pa.table(PORTS).to_reader(),
        pa.record_batch(PORTS),
        pd.DataFrame(PORTS, index=pd.Index([7, 8])),
        pl.DataFrame(PORTS),
        pl.DataFrame(PORTS).with_columns(pl.col("name").cast(pl.Categorical)),
    ],
    ids=["table", "reader", "batch", "pandas", "polars", "categories"],
)
def test_frames_of_every_kind(fleet: Graph, frame: pa.Table) -> None:
    result = fleet.load(nodes={"Port": frame}, edges={"callsat": pa.table({"from": ["v1"], "to": ["b"]})})
    assert (result.nodes, result.edges) == ({"Port": 2}, {"CallsAt": 1})
    found = {row["code"]: (row["id"], row["name"], row["depth"]) for row in rows_of(fleet, "Port")}
    assert (found["a"], found["b"]) == (("a", "A", 1.5), ("b", "B", None))


def test_records_and_frames_are_one_load(fleet: Graph) -> None:
    ports = pa.table(PORTS)
    result = fleet.load([{"edge": "CallsAt", "from": "v1", "to": "a"}], nodes={"Port": ports})
    assert (result.nodes, result.edges) == ({"Port": 2}, {"CallsAt": 1})


def test_an_overwrite_with_an_empty_frame_empties_the_table(fleet: Graph) -> None:
    for empty in (pa.table({}), pa.table({"from": pa.array([], pa.string()), "to": pa.array([], pa.string())})):
        before = len(fleet.commits())
        result = fleet.load(edges={"Tows": empty}, mode="overwrite", allow_empty=True)
        assert (result.edges, len(fleet.commits())) == ({"Tows": 0}, before + 1)
        assert rows_of(fleet, "Tows") == []
    assert fleet.load(edges={"Tows": pa.table({})}).commit is None


def test_columns_of_other_arrow_types() -> None:
    moment = datetime(2024, 1, 1, 8, 0, 0, 123_987)
    rows = wide(
        i=pa.array([1, -(2**31)], pa.int64()),
        f=pa.array([1, None], pa.int8()),
        d=pa.array([2**53 + 1, 1], pa.int64()),
        day=pa.array([datetime(2001, 5, 4), None], pa.timestamp("ns")),
        at=pa.array([moment, datetime(1969, 12, 31, 23, 59, 59, 999_999)], pa.timestamp("us", "UTC")),
        word=pa.array(["a", None], pa.large_string()),
        kind=cast("Values", pa.array(["a", "b"]).dictionary_encode()),
        words=pa.array([["x"], None], pa.large_list(pa.string_view())),
        vec=pa.array([[1, 2], None], pa.list_(pa.float64(), 2)),
        body=pa.array([b"hi", None], pa.binary()),
        b=pa.nulls(2),
    )
    assert rows["i"].to_pylist() == [1, -(2**31)]
    assert (rows["f"].to_pylist(), rows["d"].to_pylist()) == ([1.0, None], [float(2**53 + 1), 1.0])
    assert rows["day"].to_pylist() == [date(2001, 5, 4), None]
    assert rows["at"].cast(pa.int64()).to_pylist() == [1704096000123, -1]
    assert (rows["words"].to_pylist(), rows["vec"].to_pylist()) == ([["x"], None], [[1.0, 2.0], None])
    assert (rows["kind"].to_pylist(), rows["b"].to_pylist(), rows["level"].to_pylist()) == (
        ["a", "b"],
        [None] * 2,
        [3, 3],
    )
    first, second = cast("list[dict[str, object] | None]", to_list(column_of(rows, "body")))
    assert first is not None
    assert (first["data"], second) == (b"hi", None)


def test_dates_as_texts_numbers_and_dates() -> None:
    times: list[Sequence[object]] = [["2024-01-01T08:00:00Z"], [1704096000000], ["2024-01-01 09:00+01:00"]]
    for at in times:
        assert wide(at=at)["at"].cast(pa.int64()).to_pylist() == [1704096000000]
    day = date(2001, 5, 4)
    days: list[Values | Sequence[object]] = [["2001-05-04"], [day], pa.array([day], pa.date64())]
    for given_day in days:
        assert wide(day=given_day)["day"].to_pylist() == [day]
        assert wide(at=given_day)["at"].cast(pa.int64()).to_pylist() == [988934400000]
    assert wide(day=[11446])["day"].to_pylist() == [day]


@pytest.mark.parametrize(
    ("column", "rule"),
    [
        ({"i": pa.array([1, 2**31])}, "I32?"),
        ({"f": pa.array([1, 1e39])}, "F32?"),
        ({"d": pa.array([1, float("nan")])}, "finite"),
        ({"day": pa.array(["2001-05-04", "x"])}, "Date?"),
        ({"day": pa.array([datetime(2001, 5, 4), datetime(2001, 5, 4, 1)])}, "Date?"),
        ({"at": pa.array(["2001-05-04", "x"])}, "DateTime?"),
        ({"at": pa.array([0, 2**62])}, "DateTime?"),
        ({"kind": pa.array(["a", "c"])}, "enum(a, b)"),
        ({"words": pa.array([["a"], [None]])}, "no null items"),
        ({"vec": pa.array([[1.0, 2.0], [1.0]])}, "Vector(2)"),
        ({"body": pa.array(["s3://b/k", "base64:?"])}, "Blob?"),
        ({"id": pa.array(["0", "7"])}, "@key(key)"),
    ],
)
def test_values_that_do_not_fit_name_column_and_row(
    column: dict[str, pa.Array[pa.Scalar[pa.DataType]]], rule: str
) -> None:
    table = pa.table({"key": [0, 1], **column})
    admitted = validate_batch(read_wide(table))
    ((found,),) = [each.violations for each in admitted.rejected]
    assert (found.file, found.line, found.id, found.property, found.rule) == (
        "nodes['Wide']", 2, "1", next(iter(column)), rule,
    )  # fmt: skip
    assert admitted.rows.num_rows == 1


def test_columns_that_cannot_be_are_refused_together(fleet: Graph) -> None:
    before = written(fleet)
    with pytest.raises(ParameterError) as caught:
        fleet.load(nodes={"Port": pa.table({"code": [1], "nam": ["x"], "depth": ["9"]})})
    assert caught.value.details["problems"] == [
        "nodes['Port']: no property 'nam', did you mean 'name'?",
        "nodes['Port']: column 'code' is int64, which is no String",
        "nodes['Port']: column 'depth' is string, which is no F64?",
        "nodes['Port']: column 'name' is missing",
    ]
    for wrong in (
        {"edges": {"Tows": pa.table({"from": ["v1"]})}},
        {"edges": {"Tows": pa.table({"from": ["v1"], "to": [1.5]})}},
        {"edges": {"Twos": pa.table({})}},
        {"nodes": {"port": pa.table({})}},
        {"nodes": {"Port": [{"code": "x"}]}},
    ):
        with pytest.raises(ParameterError):
            fleet.load(**wrong)  # pyright: ignore[reportArgumentType]  that is the point
    assert written(fleet) == before


@pytest.mark.parametrize(
    "ends",
    [
        {"from": ['["N","1"]'], "to": [7]},
        {"from": [{"line": "N", "seq": 1}], "to": [{"number": 7}]},
        {"from.line": ["N"], "from.seq": [1], "to.number": [7]},
    ],
)
def test_ends_by_id_and_by_key(tmp_path: Path, ends: dict[str, list[object]]) -> None:
    graph = omnigraph.init(
        tmp_path / "g.og",
        "node Leg { line: String  seq: I32  @key(line, seq) }\nnode Quay { number: U32 @key }\nedge At: Leg -> Quay",
    )
    graph.load(nodes={"Leg": pa.table({"line": ["N"], "seq": [1]}), "Quay": pa.table({"number": [7]})})
    with pytest.raises(ParameterError, match="neither an id nor a key of Leg"):
        graph.load(edges={"At": pa.table({"from": [{"line": "N", "seq": "1"}], "to": ["7"]})})
    graph.load(edges={"At": pa.table(ends)})
    assert [(row["src"], row["dst"]) for row in rows_of(graph, "At")] == [('["N","1"]', "7")]


def test_a_row_that_breaks_a_rule_with_others_is_named(fleet: Graph) -> None:
    with pytest.raises(ValidationError) as caught:
        fleet.load(edges={"Tows": pa.table({"from": ["v1", "v1"], "to": ["v2", "nobody"]})})
    assert [(each.file, each.line) for each in caught.value.violations] == [("edges['Tows']", 2)]


JSON_VALUES: dict[str, st.SearchStrategy[object]] = {
    "I32": st.integers(-(2**31), 2**31 - 1),
    "U64": st.integers(0, 2**64 - 1),
    "F64": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70),
    "F32": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "Bool": st.booleans(),
    "String": st.text(),
    "Date": st.dates().map(date.isoformat),
    "DateTime": st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
}


@pytest.mark.parametrize("scalar", daily(JSON_VALUES, ["String", "DateTime", "F64"]))
@given(data=st.data())
def test_a_column_at_once_and_value_by_value_are_the_same(scalar: str, data: st.DataObject) -> None:
    type_ = ValueType(Scalar(scalar))
    values = data.draw(st.lists(JSON_VALUES[scalar] | st.none(), max_size=8))
    together = convert_values(values, type_)
    alone = [convert_values([value], type_) for value in values]
    assert together.mismatches == ()
    assert to_list(together.values) == [to_list(each.values)[0] for each in alone]
    lists = convert_values([values, None, []], ValueType(Scalar(scalar), is_list=True))
    assert to_list(lists.values) == [to_list(together.values), None, []]


@given(days=st.lists(st.integers(-700_000, 2_900_000)), unit=st.sampled_from(["ms", "us"]))
def test_instants_come_out_of_every_unit_as_they_went_in(days: list[int], unit: Literal["ms", "us"]) -> None:
    moments = [datetime(1970, 1, 1) + timedelta(days=day, milliseconds=day) for day in days]
    found = convert_arrow(pa.array(moments, pa.timestamp(unit)), ValueType(Scalar.DATETIME))
    assert to_list(found.values.cast(pa.int64())) == [day * 86_400_000 + day for day in days]


def test_a_record_and_a_frame_give_the_same_row() -> None:
    data = {"key": 4, "i": 3, "d": 0.5, "day": "2001-05-04", "at": "2024-01-01T08:00:00.001Z", "words": ["x"]}
    (draft,) = read_records(WIDE, io.StringIO(json.dumps({"type": "Wide", "data": data}) + "\n"))
    assert isinstance(draft, RawBatch)
    frame = pa.Table.from_pylist([data])
    assert validate_batch(draft).rows == validate_batch(read_wide(frame)).rows

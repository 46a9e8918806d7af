"""Columns come, go, and get other names and nullability, while the files stay where they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.language.types import Scalar, ValueType
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_field
from omnigraph.storage.lance_internals.schema_fields import can_reshape
from omnigraph.storage.tables import IndexKind, Table
from tests.deleting import delete_where

ID = pa.field("id", pa.string(), nullable=False)
AGE = pa.field("age", pa.int32(), nullable=False)
TAGS = pa.field("tags", pa.list_(pa.string()))
STORED = pa.schema([ID, AGE, TAGS])


@pytest.fixture
def stored(tmp_path: Path) -> Table:
    rows = pa.table({"id": ["a", "b"], "age": [1, 2], "tags": [["x"], None]}, schema=STORED)
    return tables.create_table(str(tmp_path / "t"), rows, "made")


def reshaped(table: Table, wanted: pa.Schema, **old_names: str) -> Table:
    assert can_reshape(table.schema, wanted, old_names)
    return tables.commit(table, tables.reshape(table, wanted, old_names), "op")


def data_files(table: Table) -> list[str]:
    return [file.path for fragment in table.dataset.get_fragments() for file in fragment.data_files()]


@pytest.mark.parametrize(
    "new",
    [
        pa.field("note", pa.string()),
        pa.field("marks", pa.list_(pa.field("item", pa.float64()))),
        pa.field("place", pa.list_(pa.field("item", pa.float32()), 3)),
        arrow_field("scan", ValueType(Scalar.BLOB, nullable=True)),
    ],
    ids=lambda field: field.name,
)
def test_a_new_column_is_null_and_can_be_filled(stored: Table, new: pa.Field[pa.DataType]) -> None:
    wanted = pa.schema([ID, AGE, new, TAGS])
    wider = reshaped(stored, wanted)
    assert data_files(wider) == data_files(stored)
    assert wider.schema.names == wanted.names
    assert [row[new.name] for row in wider.scan().read_all().to_pylist()] == [None, None]
    value = {"note": "n", "marks": [1.5], "place": [1.0, 2.0, 3.0], "scan": {"data": b"z"}}[new.name]
    more = pa.table({"id": ["c"], "age": [3], new.name: [value], "tags": [None]}, schema=wanted)
    staged = tables.append(wider, more)
    assert staged is not None
    filled = tables.commit(wider, staged, "op").scan().read_all()
    assert filled["id"].to_pylist() == ["a", "b", "c"]
    assert filled["age"].to_pylist() == [1, 2, 3]
    assert filled["tags"].to_pylist() == [["x"], None, None]
    assert filled[new.name].null_count == 2


def test_columns_go_and_get_other_names_with_their_indexes(stored: Table) -> None:
    index = tables.build_index(stored, "age", IndexKind.BTREE)
    assert index is not None
    stored = tables.commit(stored, index, "op")
    wanted = pa.schema([ID, pa.field("years", pa.int32())])
    other = reshaped(stored, wanted, years="age")
    assert other.scan().read_all().to_pylist() == [{"id": "a", "years": 1}, {"id": "b", "years": 2}]
    assert [index.columns for index in other.list_indexes().values()] == [("years",)]
    assert other.scan(["id"], filter="years = 2").read_all()["id"].to_pylist() == ["b"]


def test_what_was_dropped_is_not_revived_by_its_name(stored: Table) -> None:
    without = reshaped(stored, pa.schema([ID, AGE]))
    again = reshaped(without, STORED)
    assert again.scan().read_all()["tags"].to_pylist() == [None, None]


def test_a_column_may_be_null_and_then_must_not(stored: Table) -> None:
    relaxed = reshaped(stored, pa.schema([ID, pa.field("age", pa.int32()), TAGS]))
    more = pa.table({"id": ["c"], "age": pa.array([None], pa.int32()), "tags": [None]}, schema=relaxed.schema)
    staged = tables.append(relaxed, more)
    assert staged is not None
    assert tables.commit(relaxed, staged, "op").count_rows("age IS NULL") == 1
    gone = delete_where(relaxed.open_at(None), "age IS NULL")
    assert gone is not None
    assert not reshaped(tables.commit(relaxed.open_at(None), gone, "op"), STORED).schema.field("age").nullable


def test_other_types_and_columns_that_must_be_filled_need_other_files(stored: Table) -> None:
    assert not can_reshape(stored.schema, pa.schema([ID, pa.field("age", pa.int64())]), {})
    assert not can_reshape(stored.schema, pa.schema([ID, pa.field("new", pa.int64(), nullable=False)]), {})

"""Rows that make room for others in one commit: found by their addresses, right for indexes and row versions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_UPDATED_AT,
    Addresses,
    IndexKind,
    Table,
    append,
    build_index,
    create_table,
    delete_at,
    replace_rows,
)
from tests.storage.tables.sample_tables import ages, operation_of, people, put, table_of


def addresses(table: Table, where: str) -> Addresses:
    return table.scan([], filter=where, with_row_address=True).read_all()[ROW_ADDRESS].to_numpy()


def test_some_go_and_some_come(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=1, bob=2, cid=3)
    staged = replace_rows(table, addresses(table, "id IN ('ann', 'bob')"), people(ann=10, dan=4))
    assert operation_of(staged) == "Update"
    newer = put(table, staged)
    assert ages(newer) == {"ann": 10, "cid": 3, "dan": 4}
    assert ages(table) == {"ann": 1, "bob": 2, "cid": 3}
    assert ages(newer, f"{ROW_UPDATED_AT} > {table.version}") == {"ann": 10, "dan": 4}
    assert newer.version == table.version + 1


def test_a_fragment_that_is_emptied_goes(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=1)
    table = put(table, append(table, people(bob=2)))
    newer = put(table, replace_rows(table, addresses(table, "id = 'ann'"), people(cid=3)))
    assert ages(newer) == {"bob": 2, "cid": 3}
    assert len(newer.fragment_rows()) == 2


def test_an_index_sees_what_came_and_not_what_went(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=1, bob=2)
    table = put(table, build_index(table, "id", IndexKind.BTREE))
    newer = put(table, replace_rows(table, addresses(table, "id = 'ann'"), people(ann=10, cid=3)))
    assert ages(newer, "id IN ('ann', 'bob', 'cid')") == {"ann": 10, "bob": 2, "cid": 3}
    assert ages(newer, "id = 'ann'") == {"ann": 10}


@pytest.mark.parametrize("where", ["id = 'ann'", "age > 0"])
def test_rows_are_deleted_by_address(tmp_path: Path, where: str) -> None:
    table = table_of(tmp_path, ann=1, bob=2)
    found = addresses(table, where)
    staged = delete_at(table, found)
    newer = put(table, staged)
    assert newer.count_rows() == 2 - len(found)
    assert newer.read_commits(table.version, newer.version)[0].operation == "Delete"


def test_a_blob_that_lies_elsewhere_may_come(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"elsewhere")
    blob = pa.struct(
        [("data", pa.large_binary()), ("uri", pa.string()), ("position", pa.uint64()), ("size", pa.uint64())]
    )
    metadata = {"ARROW:extension:name": "lance.blob.v2", "ARROW:extension:metadata": ""}
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("body", blob, metadata=metadata)])

    def row(**value: object) -> pa.Table:
        whole = {"data": None, "uri": None, "position": None, "size": None, **value}
        return pa.Table.from_pylist([{"id": "a", "body": whole}], schema=schema)

    table = create_table(str(tmp_path / "files"), row(data=b"inside"), "op")
    newer = put(table, replace_rows(table, addresses(table, "id = 'a'"), row(uri=(tmp_path / "outside").as_uri())))
    assert [body for _, body in newer.dataset.read_blobs("body", indices=[0])] == [b"elsewhere"]

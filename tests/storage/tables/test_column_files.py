"""Columns that are replaced in place: the rows stay where they are, and only those that changed get a new version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.lance_internals import list_commit_files
from omnigraph.storage.location import Location
from omnigraph.storage.tables import (
    ROW_CREATED_AT,
    ROW_ID,
    ROW_UPDATED_AT,
    Access,
    FragmentColumns,
    IndexKind,
    NodeRows,
    Table,
    append,
    audit_version,
    build_index,
    carry_over_indexes,
    carry_over_rewrites,
    compact,
    create_table,
    create_table_branch,
    delete_at,
    list_fragments,
    open_table,
    replace_column_values,
    reshape,
    restore,
)
from tests.storage.tables.sample_tables import put

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("age", pa.int64()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"r{number}" for number in numbers],
            "age": list(numbers),
            "tags": [[str(number)] for number in numbers],
            "vec": [[number, 0.0] for number in numbers],
        },
        schema=SCHEMA,
    )


def fill(uri: str, access: Access | None = None) -> Table:
    """Fragments of four rows: 0 to 3, 4 to 7; row 1 is deleted."""
    table = create_table(uri, rows(0, 0), "op", access)
    for first in (0, 4):
        table = put(table, append(table, rows(first, 4)))
    return put(table, delete_at(table, np.array([1], np.uint64)))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return fill(str(tmp_path / "rows"))


def change(table: Table, fragment_id: int, offsets: list[int], columns: Mapping[str, list[object]]) -> Table:
    """Give all rows of a fragment these values; those at the offsets differ from what is stored."""
    fields = [cast("pa.Field[pa.DataType]", SCHEMA.field(name)) for name in columns]
    values = pa.table(dict(columns), schema=pa.schema(fields))
    part = FragmentColumns(fragment_id, np.array(offsets, np.uint64), values.to_reader())
    return put(table, replace_column_values(table, list(columns), [part]), "op-columns")


def read(table: Table, column: str, filter_: str | None = None) -> dict[str, object]:
    found = table.scan(["id", column], filter=filter_).read_all()
    return dict(zip(cast("list[str]", found["id"].to_pylist()), found[column].to_pylist(), strict=True))


def test_one_column_changes_and_nothing_else(table: Table) -> None:
    before = {name: read(table, name) for name in ("tags", "vec", ROW_CREATED_AT)}
    ids = table.scan(["id"], with_row_id=True).read_all().column(ROW_ID)
    after = change(table, 0, [0, 3], {"age": [100, None, 2, 103]})
    assert read(after, "age") == {"r0": 100, "r2": 2, "r3": 103, "r4": 4, "r5": 5, "r6": 6, "r7": 7}
    assert {name: read(after, name) for name in before} == before
    assert after.scan(["id"], with_row_id=True).read_all().column(ROW_ID) == ids
    # Row 2 was written again with its own value.
    assert {id_ for id_, version in read(after, ROW_UPDATED_AT).items() if version == after.version} == {"r0", "r3"}
    (made,) = after.read_commits(table.version, after.version)
    assert (made.operation, made.operation_id, made.replaces_columns) == ("Update", "op-columns", True)
    assert read(table, "age")["r0"] == 0


def test_lists_vectors_and_several_columns_and_again(table: Table) -> None:
    table = change(table, 1, [0, 1], {"tags": [["x", "y"], [], ["6"], ["7"]], "vec": [[9, 9], None, [6, 0], [7, 0]]})
    assert read(table, "tags")["r4"] == ["x", "y"]
    assert (read(table, "vec")["r4"], read(table, "vec")["r5"]) == ([9.0, 9.0], None)
    # The file of both columns stays for one of them, and goes when nothing is read from it.
    table = change(table, 1, [0], {"tags": [["z"], [], ["6"], ["7"]]})
    table = change(table, 1, [0], {"vec": [[1, 1], None, [6, 0], [7, 0]]})
    assert (read(table, "tags")["r4"], read(table, "vec")["r4"]) == (["z"], [1.0, 1.0])
    assert len(table.dataset.get_fragments()[1].metadata.files) == 3


def test_a_column_that_no_file_has(table: Table) -> None:
    wider = SCHEMA.append(pa.field("rank", pa.float64()))
    table = put(table, reshape(table, wider, {}))
    values = pa.table({"rank": [0.5, None, 0.25, 0.0]}, schema=pa.schema([pa.field("rank", pa.float64())]))
    part = FragmentColumns(1, np.arange(4, dtype=np.uint64), values.to_reader())
    table = put(table, replace_column_values(table, ["rank"], [part]))
    assert read(table, "rank") == {"r0": None, "r2": None, "r3": None, "r4": 0.5, "r5": None, "r6": 0.25, "r7": 0.0}


def check_forks(table: Table) -> None:
    fork = create_table_branch(table, "review/1")
    fork = change(fork, 0, [0], {"age": [100, None, 2, 3]})
    assert (read(fork, "age")["r0"], read(table.open_at(None), "age")["r0"]) == (100, 0)
    second = create_table_branch(fork, "second")
    second = change(second, 0, [2], {"age": [100, None, 102, 3]})
    again = open_table(second.uri, "second", second.version, Access(second.access.storage_options))
    assert (read(again, "age")["r0"], read(again, "age")["r2"], read(fork, "age")["r2"]) == (100, 102, 2)
    assert read(put(again, restore(again, fork.version)), "age")["r2"] == 2


def test_on_forks(table: Table) -> None:
    check_forks(table)


def test_on_an_object_store(s3_location: Location) -> None:
    check_forks(fill(s3_location.join("nodes/rows"), Access(s3_location.options())))


def test_compaction_keeps_values_and_versions(table: Table) -> None:
    table = change(table, 0, [0], {"age": [100, None, 2, 3]})
    before = {name: read(table, name) for name in ("age", "tags", ROW_UPDATED_AT, ROW_CREATED_AT)}
    table = put(table, compact(table))
    assert len(table.fragment_rows()) == 1
    assert {name: read(table, name) for name in before} == before


def test_indexes_over_other_columns_stay(table: Table) -> None:
    table = put(table, build_index(table, "id", IndexKind.BTREE))
    table = change(table, 0, [0], {"age": [100, None, 2, 3]})
    assert table.list_indexes()["id_idx"].rows == 7
    assert read(table, "age", "id = 'r0'") == {"r0": 100}


def test_what_is_known_of_ids_stays_known(table: Table) -> None:
    before = [NodeRows.of(each) for each in list_fragments(table)]
    after = change(table, 0, [0], {"age": [100, None, 2, 3]})
    assert [NodeRows.of(each) for each in list_fragments(after)] == before
    assert [each.files for each in list_fragments(after)] != [each.files for each in list_fragments(table)]


def test_what_was_built_before_is_not_carried_over(table: Table) -> None:
    """An index of the old values would find them in a row that has kept its id."""
    index, rewritten = build_index(table, "age", IndexKind.BTREE), compact(table)
    assert index is not None
    assert rewritten is not None
    after = change(table, 0, [0], {"age": [100, None, 2, 3]})
    assert carry_over_indexes(index, table, after) is None
    assert carry_over_rewrites(rewritten, table, after) is None


def test_the_new_file_is_one_that_the_commit_wrote(table: Table) -> None:
    values = pa.table({"age": [100, None, 2, 3]}, schema=pa.schema([pa.field("age", pa.int64())]))
    part = FragmentColumns(0, np.array([0], np.uint64), values.to_reader())
    staged = replace_column_values(table, ["age"], [part])
    data = {each.path for each in list_commit_files(staged.transaction.operation) if each.path.startswith("data/")}
    assert data.isdisjoint(table.list_files())
    after = put(table, staged)
    assert data == after.list_files() - table.list_files()
    transaction = after.dataset.read_transaction(after.version)
    assert transaction is not None
    assert data <= {each.path for each in list_commit_files(transaction.operation)}


def test_it_can_be_looked_at_before_it_is_committed(table: Table) -> None:
    values = pa.table({"age": [100, None, 2, 3]}, schema=pa.schema([pa.field("age", pa.int64())]))
    part = FragmentColumns(0, np.array([0], np.uint64), values.to_reader())
    staged = replace_column_values(table, ["age"], [part])
    assert read(audit_version(table, staged), "age")["r0"] == 100
    assert read(table.open_at(None), "age")["r0"] == 0

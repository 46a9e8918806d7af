"""A pinned table reads its own version, and says exactly what is missing when it is."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from omnigraph.errors import HistoryGone, NotFound, ParameterError, StorageError
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_CREATED_AT,
    ROW_ID,
    ROW_UPDATED_AT,
    Access,
    Table,
    append,
    branch_uri,
    commit,
    create_table_branch,
    delete_table_branch,
    drop_versions,
    open_table,
    set_config,
)
from tests.storage.tables.sample_tables import PEOPLE, ages, people, put, table_of, upsert


def test_a_table_opens_at_exactly_its_version(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    newer = put(table, upsert(table, people(ann=30)))
    assert ages(open_table(table.uri, None, 2)) == {"ann": 3}
    assert ages(open_table(table.uri, "main", 3)) == {"ann": 30}
    assert open_table(table.uri).version == 3
    assert (table.head_version(), table.open_at(None).version, newer.open_at(2).version) == (3, 3, 2)
    assert open_table(table.uri, "main", 3) == newer


def test_columns_filter_limit_and_row_facts_are_pushed_down(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3, bob=4, cid=5)
    assert table.scan(["id"], filter="age > 3", limit=1).read_all().to_pylist() == [{"id": "bob"}]
    facts = table.scan([ROW_CREATED_AT, ROW_UPDATED_AT], limit=1, with_row_id=True, with_row_address=True).read_all()
    assert facts.to_pylist() == [{ROW_CREATED_AT: 2, ROW_UPDATED_AT: 2, ROW_ID: 0, ROW_ADDRESS: 0}]
    assert (table.count_rows(), table.count_rows("age > 3")) == (3, 2)
    assert table.schema == PEOPLE


def test_a_scan_is_a_stream_with_its_schema(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    reader = table.scan(["age"])
    assert isinstance(reader, pa.RecordBatchReader)
    assert (reader.schema.names, reader.read_all().num_rows) == (["age"], 0)


def test_a_scan_after_a_fragment_shows_what_was_written_since(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3, bob=4)
    newer = put(table, append(table, people(cid=5)))
    assert newer.fragment_rows() == {0: 2, 1: 1}
    assert newer.scan(["id"], after_fragment=0).read_all().to_pylist() == [{"id": "cid"}]
    assert newer.scan(["id"], after_fragment=1).read_all().num_rows == 0
    assert newer.scan(["id"], after_fragment=-1).read_all().num_rows == 3


def test_a_wrong_filter_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="No field named nope"):
        table_of(tmp_path, ann=3).scan(filter="nope = 1").read_all()


def test_a_failure_while_streaming_is_translated(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    shutil.rmtree(tmp_path / "people" / "data")
    reader = open_table(table.uri, access=Access()).scan()
    with pytest.raises(StorageError, match="Not found"):
        reader.read_all()


def test_what_is_missing_is_told_apart(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    create_table_branch(table, "dev")
    with pytest.raises(NotFound, match="there is no table at"):
        open_table(str(tmp_path / "nothing"))
    with pytest.raises(NotFound, match="has no branch 'review/1'"):
        open_table(table.uri, "review/1", 2)
    with pytest.raises(NotFound, match="has no version 9: the newest is 2"):
        open_table(table.uri, None, 9)
    with pytest.raises(NotFound, match="on branch 'dev' has no version 9"):
        open_table(table.uri, "dev", 9)
    newer = put(table, upsert(table, people(bob=4)))
    assert drop_versions(newer, [1]) > 0
    with pytest.raises(HistoryGone, match="version 1 was removed by cleanup"):
        open_table(table.uri, None, 1)
    with pytest.raises(HistoryGone):
        newer.read_commits(0, 1)


def test_transactions_say_what_happened_and_whose_it_is(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    table = put(table, upsert(table, people(ann=4)), "op-2")
    table = set_config(table, {"k": "v"})
    facts = table.read_commits(0, table.version)
    assert [(fact.version, fact.operation, fact.operation_id) for fact in facts] == [
        (1, "Overwrite", "op-create"),
        (2, "Append", "op"),
        (3, "Update", "op-2"),
        (4, "UpdateConfig", None),
    ]
    assert len({fact.transaction_uuid for fact in facts}) == 4
    assert table.read_commits(4, 4) == []


def test_a_branch_knows_its_parent_and_its_incarnation(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    dev = create_table_branch(table, "dev")
    create_table_branch(dev, "child")
    refs = dev.list_branches()
    assert {name: (ref.parent, ref.parent_version) for name, ref in refs.items()} == {
        "dev": (None, 2),
        "child": ("dev", 2),
    }
    assert refs["child"].identifier[: len(refs["dev"].identifier)] == refs["dev"].identifier
    assert delete_table_branch(table, "child")
    assert create_table_branch(dev, "child").list_branches()["child"].identifier != refs["child"].identifier


def test_storage_calls_are_counted(tmp_path: Path) -> None:
    table = open_table(table_of(tmp_path, ann=3).uri)
    table.storage_calls()
    assert ages(table) == {"ann": 3}
    counted = table.storage_calls()
    assert counted.reads > 0
    assert counted.read_bytes > 0
    assert (counted.writes, counted.written_bytes) == (0, 0)
    staged = append(table, people(bob=4))
    assert staged is not None
    commit(table, staged, "op")
    assert table.storage_calls().writes > 0


def test_a_table_travels_to_another_process(tmp_path: Path) -> None:
    table = create_table_branch(table_of(tmp_path, ann=3), "dev")
    put(table, upsert(table, people(ann=30)))
    arrived = cast("Table", pickle.loads(pickle.dumps(table)))  # noqa: S301  our own bytes
    assert arrived == table
    assert ages(arrived) == {"ann": 3}


def test_credentials_are_not_printed() -> None:
    assert "hush" not in repr(Access({"aws_secret_access_key": "hush"}))


@pytest.mark.parametrize(
    ("uri", "branch", "expected"),
    [
        ("/g/nodes/x", None, "/g/nodes/x"),
        ("/g/nodes/x", "main", "/g/nodes/x"),
        ("/g/nodes/x", "review/1", "/g/nodes/x/tree/review/1"),
        ("s3+ddb://b/g?ddbTableName=t", "dev", "s3+ddb://b/g/tree/dev?ddbTableName=t"),
    ],
)
def test_where_a_branch_lies(uri: str, branch: str | None, expected: str) -> None:
    assert branch_uri(uri, branch) == expected

"""The same primitives on an object store: options and session reach every call, missing things are told apart."""

from __future__ import annotations

import pytest

from omnigraph.errors import AlreadyExists, HistoryGone, NotFound, PublishContention
from omnigraph.storage.lance_internals import CommitRefused
from omnigraph.storage.location import Location
from omnigraph.storage.tables import (
    Access,
    IndexKind,
    Table,
    append,
    audit_version,
    build_index,
    compact,
    create_table,
    create_table_branch,
    delete_table_branch,
    drop_versions,
    merge_rows,
    open_table,
    overwrite,
    restore,
)
from tests.deleting import delete_where
from tests.storage.tables.sample_tables import ages, people, put, upsert


@pytest.fixture
def table(s3_location: Location) -> Table:
    return create_table(s3_location.join("nodes/people"), people(ann=3), "op", Access(s3_location.options()))


def test_stage_and_commit(table: Table) -> None:
    staged = upsert(table, people(ann=30, bob=4))
    assert staged is not None
    assert ages(audit_version(table, staged)) == {"ann": 30, "bob": 4}
    table = put(table, staged)
    table = put(table, append(table, people(cid=5, dan=6)))
    table = put(table, build_index(table, "id", IndexKind.BTREE))
    table = put(table, delete_where(table, "age = 5"))
    table = put(table, delete_where(table, "id = 'ann'"))
    table = put(table, compact(table))
    assert ages(open_table(table.uri, None, table.version, Access(table.access.storage_options))) == {
        "bob": 4,
        "dan": 6,
    }
    table = put(table, restore(table, 1))
    assert (ages(table), table.head_version()) == ({"ann": 3}, table.version)
    assert table.read_commits(table.version - 1, table.version)[0].operation_id == "op"


def test_a_detached_version_is_refused_where_it_would_become_head(ddb_location: Location) -> None:
    table = create_table(ddb_location.join("nodes/people"), people(ann=3), "op", Access(ddb_location.options()))
    staged = append(table, people(bob=4))
    assert staged is not None
    with pytest.raises(ValueError, match="DynamoDB"):
        audit_version(table, staged)
    assert put(table, staged).head_version() == 2


def test_the_later_of_two_loses(table: Table) -> None:
    merge_rows(table, people(ann=4), on="id")
    with pytest.raises(PublishContention):
        merge_rows(table, people(ann=5), on="id")
    with pytest.raises(CommitRefused):
        put(table, overwrite(table, people()))
    assert ages(table.open_at(None)) == {"ann": 4}


def test_branches(table: Table) -> None:
    fork = create_table_branch(table, "review/1")
    late = append(fork, people(bob=4))
    assert ages(put(fork, late)) == {"ann": 3, "bob": 4}
    assert ages(table.open_at(None)) == {"ann": 3}
    assert delete_table_branch(table, "review/1")
    with pytest.raises(NotFound, match="has no branch"):
        open_table(table.uri, "review/1", 1, table.access)


def test_what_is_missing_is_told_apart(table: Table) -> None:
    with pytest.raises(AlreadyExists):
        create_table(table.uri, people(), "op", table.access)
    with pytest.raises(NotFound, match="there is no table"):
        open_table(f"{table.uri}-nothing", access=table.access)
    with pytest.raises(NotFound, match="has no version 9"):
        table.open_at(9)
    newer = put(table, append(table, people(bob=4)))
    drop_versions(newer, [1])
    with pytest.raises(HistoryGone):
        table.open_at(1)

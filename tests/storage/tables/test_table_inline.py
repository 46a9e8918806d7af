"""The writes that commit at once: the manifest's compare-and-swap, metadata, branches, cleanup."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from omnigraph.errors import AlreadyExists, InputError, NotFound, ParameterError, PublishContention
from omnigraph.storage import failpoints
from omnigraph.storage.lance_internals import CommitRefused
from omnigraph.storage.tables import (
    IndexKind,
    Table,
    append,
    build_index,
    create_table,
    create_table_branch,
    delete_table_branch,
    drop_versions,
    merge_rows,
    open_table,
    set_config,
    set_field_metadata,
    set_schema_metadata,
)
from tests.storage.tables.sample_tables import ages, people, put, table_of, upsert

KEY = pa.field("object_id", pa.string(), False, {"lance-schema:unenforced-primary-key": "true"})


def manifest_rows(**versions: int) -> pa.Table:
    schema = pa.schema([KEY, pa.field("version", pa.int64())])
    return pa.table({"object_id": list(versions), "version": list(versions.values())}, schema=schema)


def manifest_of(folder: Path) -> Table:
    return create_table(str(folder / "manifest"), manifest_rows(head=0), "op")


def keys(table: Table) -> list[str]:
    return sorted(cast("list[str]", table.open_at(None).scan(["object_id"]).read_all()["object_id"].to_pylist()))


def test_merged_rows_update_and_insert_in_one_version(tmp_path: Path) -> None:
    table = manifest_of(tmp_path)
    merged = merge_rows(table, manifest_rows(head=1, commit=1))
    assert (merged.version, table.version) == (2, 1)
    assert merged.scan().read_all().sort_by("object_id").to_pylist() == [
        {"object_id": "commit", "version": 1},
        {"object_id": "head", "version": 1},
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [({"head": 1, "one": 1}, {"head": 2, "two": 2}), ({"new": 1}, {"new": 2})],
    ids=["a shared row", "a shared new key"],
)
def test_of_two_publishers_on_one_version_the_later_loses(
    tmp_path: Path, first: dict[str, int], second: dict[str, int]
) -> None:
    table = manifest_of(tmp_path)
    merge_rows(table, manifest_rows(**first))
    before = keys(table)
    with pytest.raises(PublishContention):
        merge_rows(table, manifest_rows(**second))
    assert keys(table) == before


def test_the_fence_holds_beside_an_index_on_the_key(tmp_path: Path) -> None:
    table = manifest_of(tmp_path)
    table = put(table, build_index(table, "object_id", IndexKind.BTREE))
    merge_rows(table, manifest_rows(new=1))
    with pytest.raises(PublishContention):
        merge_rows(table, manifest_rows(new=2))


def test_metadata_is_set_beside_what_is_there(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table = set_config(table, {"table_version_management": "true"})
    table = set_schema_metadata(table, {"stamp": "3", "other": "x"})
    table = set_schema_metadata(table, {"stamp": "4"})
    table = set_field_metadata(table, "id", {"lance-schema:unenforced-primary-key": "true"})
    assert table.version == 5
    assert table.dataset.config() == {"table_version_management": "true"}
    assert set_config(table, {"table_version_management": None}).dataset.config() == {}
    assert table.schema.metadata == {b"stamp": b"4", b"other": b"x"}
    assert table.schema.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}


def test_two_stamps_on_one_version_the_later_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    set_schema_metadata(table, {"stamp": "4"})
    with pytest.raises(CommitRefused):
        set_schema_metadata(table, {"stamp": "4"})


def test_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    fork = create_table_branch(table, "review/1")
    assert (fork.branch, fork.version, fork.uri) == ("review/1", 2, table.uri)
    fork = put(fork, upsert(fork, people(bob=4)))
    assert (fork.version, ages(fork)) == (3, {"ann": 3, "bob": 4})
    assert ages(table.open_at(None)) == {"ann": 3}
    assert ages(open_table(table.uri, "review/1", 3)) == {"ann": 3, "bob": 4}
    other = create_table_branch(fork, "review/2")
    assert (other.version, ages(other), other.list_branches()["review/2"].parent) == (3, ages(fork), "review/1")


def test_a_fork_stands_on_an_old_version_too(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    put(table, upsert(table, people(bob=4)))
    fork = create_table_branch(table, "dev")
    assert (fork.version, fork.head_version(), ages(fork)) == (2, 2, {"ann": 3})


def test_inline_writes_land_on_the_branch_of_their_table(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    fork = set_schema_metadata(create_table_branch(table, "dev"), {"stamp": "4"})
    assert (fork.version, table.head_version()) == (3, 2)


def test_a_branch_of_that_name_exists(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    create_table_branch(table, "dev")
    with pytest.raises(AlreadyExists, match="has a branch 'dev' already"):
        create_table_branch(table, "dev")


def test_a_name_that_lance_does_not_take(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="Branch name"):
        create_table_branch(table_of(tmp_path), "a..b")


def test_a_deleted_branch_is_gone(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    create_table_branch(table, "dev")
    assert delete_table_branch(table, "dev")
    assert not delete_table_branch(table, "dev")
    assert not table.is_leftover_branch("dev")
    with pytest.raises(NotFound, match="has no branch 'dev'"):
        open_table(table.uri, "dev", 2)


def test_a_session_does_not_take_a_new_branch_for_its_deleted_namesake(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    first = create_table_branch(table, "dev")
    first = put(first, upsert(first, people(ann=4)))
    assert ages(first.open_at(3)) == {"ann": 4}
    elsewhere = open_table(table.uri)
    delete_table_branch(elsewhere, "dev")
    second = create_table_branch(elsewhere, "dev")
    put(second, upsert(second, people(ann=5)))
    assert ages(open_table(table.uri, "dev", 3, table.access)) == {"ann": 5}


def test_a_branch_with_children_stays(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    create_table_branch(create_table_branch(table, "dev"), "child")
    with pytest.raises(InputError, match="referenced"):
        delete_table_branch(table, "dev")
    assert set(table.list_branches()) == {"dev", "child"}


def test_the_storage_that_a_late_writer_brings_back_is_seen_and_never_reused(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    fork = create_table_branch(table, "dev")
    late = append(fork, people(bob=4))
    delete_table_branch(table, "dev")
    put(fork, late)
    assert table.is_leftover_branch("dev")
    with pytest.raises(AlreadyExists, match="storage of a deleted branch"):
        create_table_branch(table, "dev")
    shutil.rmtree(tmp_path / "people" / "tree" / "dev")
    assert not table.is_leftover_branch("dev")
    assert ages(create_table_branch(table, "dev")) == {"ann": 3}


def test_dropped_versions_are_exactly_those_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    for age in (4, 5, 6):
        table = put(table, upsert(table, people(ann=age)))
    staged = append(table, people(bob=1))
    assert drop_versions(table, []) == 0
    assert drop_versions(table, [1, 3]) > 0
    assert [ages(table.open_at(version))["ann"] for version in (2, 4, 5)] == [3, 5, 6]
    assert ages(put(table, staged)) == {"ann": 6, "bob": 1}, "staged files are not touched"


def test_inline_writes_pass_the_seam(tmp_path: Path) -> None:
    table = manifest_of(tmp_path)
    with failpoints.record_writes() as steps:
        table = merge_rows(table, manifest_rows(head=1))
        table = set_config(table, {"k": "v"})
        create_table_branch(table, "dev")
        delete_table_branch(table, "dev")
        drop_versions(table, [1])
    assert [step.name for step in steps] == [
        "table.merge",
        "table.metadata",
        "table.branch.create",
        "table.branch.delete",
        "table.versions.drop",
    ]

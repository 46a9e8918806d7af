"""The compare-and-swap that a publish stands on: when Lance's merge-insert is one, and how it is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceDataset, MergeInsertBuilder, Transaction

PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
Build: TypeAlias = Callable[[LanceDataset], MergeInsertBuilder]


def manifest(folder: Path, metadata: dict[str, str] | None = None) -> str:
    """A table of keys and numbers that holds the head row at 0."""
    key = pa.field("key", pa.string(), nullable=False, metadata=metadata)
    rows = pa.table({"key": ["head"], "n": [0]}, schema=pa.schema([key, pa.field("n", pa.int64())]))
    return lance.write_dataset(rows, str(folder / "t"), enable_stable_row_ids=True).uri


def rows(**numbers: int) -> pa.Table:
    schema = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("n", pa.int64())])
    return pa.table({"key": list(numbers), "n": list(numbers.values())}, schema=schema)


def upserting(dataset: LanceDataset, on: str = "key") -> MergeInsertBuilder:
    return dataset.merge_insert(on).when_matched_update_all().when_not_matched_insert_all().conflict_retries(0)


def publishing(dataset: LanceDataset) -> MergeInsertBuilder:
    return upserting(dataset).use_index(use_index=False)


def race(uri: str, first: pa.Table, second: pa.Table, build: Build = publishing) -> None:
    """Two writers that read the same version."""
    one, other = lance.dataset(uri), lance.dataset(uri)
    build(one).execute(first)
    build(other).execute(second)


def keys(uri: str) -> list[str]:
    return sorted(cast("list[str]", lance.dataset(uri).to_table()["key"].to_pylist()))


def test_with_the_annotation_only_one_writer_inserts_a_new_key(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    with pytest.raises(OSError, match=r"^Too many concurrent writers. Attempted 0 retries"):
        race(uri, rows(new=1), rows(new=2))
    assert keys(uri) == ["head", "new"]


def test_without_the_annotation_both_insert_it(tmp_path: Path) -> None:
    uri = manifest(tmp_path)
    race(uri, rows(new=1), rows(new=2))
    assert keys(uri) == ["head", "new", "new"]


def test_writers_of_different_keys_both_win(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    race(uri, rows(one=1), rows(two=2))
    assert keys(uri) == ["head", "one", "two"]


def test_an_index_on_the_key_loses_it_unless_the_index_is_not_used(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    lance.dataset(uri).create_scalar_index("key", "BTREE")
    race(uri, rows(new=1), rows(new=2), upserting)
    assert keys(uri) == ["head", "new", "new"]
    with pytest.raises(OSError, match="Too many concurrent writers"):
        race(uri, rows(newer=1), rows(newer=2), publishing)
    assert keys(uri) == ["head", "new", "new", "newer"]


def test_another_join_column_loses_it(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    race(uri, rows(new=1), rows(new=2), lambda dataset: upserting(dataset, on="n").use_index(use_index=False))
    assert keys(uri) == ["head", "new", "new"]


def test_a_new_key_twice_in_one_batch_is_inserted_twice(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    publishing(lance.dataset(uri)).execute(pa.concat_tables([rows(new=1), rows(new=2)]))
    assert keys(uri) == ["head", "new", "new"]


def test_an_existing_key_twice_in_one_batch_is_refused(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    with pytest.raises(OSError, match="Ambiguous merge insert"):
        publishing(lance.dataset(uri)).execute(pa.concat_tables([rows(head=1), rows(head=2)]))


def test_staging_loses_it_for_new_keys(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    for transaction in [staged(uri, rows(new=1)), staged(uri, rows(new=2))]:
        LanceDataset.commit(uri, transaction, max_retries=0)
    assert keys(uri) == ["head", "new", "new"]


def staged(uri: str, data: pa.Table) -> Transaction:
    # Both must be staged before one is committed: the list in the caller is built first.
    return cast("tuple[Transaction, object]", publishing(lance.dataset(uri)).execute_uncommitted(data))[0]


@pytest.mark.parametrize("metadata", [PRIMARY_KEY, None], ids=["annotated", "plain"])
def test_a_row_that_both_update_is_a_fence_inline(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    uri = manifest(tmp_path, metadata)
    with pytest.raises(OSError, match="Too many concurrent writers"):
        race(uri, rows(head=1, one=1), rows(head=2, two=2))
    assert keys(uri) == ["head", "one"]


def test_a_row_that_both_update_is_a_fence_when_staged(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    winner, loser = staged(uri, rows(head=1)), staged(uri, rows(head=2))
    LanceDataset.commit(uri, winner, max_retries=0)
    with pytest.raises(OSError, match="conflict"):
        LanceDataset.commit(uri, loser, max_retries=0)


def test_with_retries_the_loser_silently_overwrites_the_winner(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    race(uri, rows(head=1), rows(head=2), lambda dataset: publishing(dataset).conflict_retries(1))
    assert lance.dataset(uri).to_table()["n"].to_pylist() == [2]


def test_a_plain_append_is_contention_too(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    late = lance.dataset(uri)
    lance.write_dataset(rows(other=1), lance.dataset(uri), mode="append")
    with pytest.raises(OSError, match="Too many concurrent writers"):
        publishing(late).execute(rows(new=1))


def test_insert_if_absent_fails_on_a_key_that_is_there(tmp_path: Path) -> None:
    uri = manifest(tmp_path, PRIMARY_KEY)
    once = lance.dataset(uri).merge_insert("key").when_matched_fail().when_not_matched_insert_all().conflict_retries(0)
    once.execute(rows(audit=1))
    again = lance.dataset(uri).merge_insert("key").when_matched_fail().when_not_matched_insert_all().conflict_retries(0)
    with pytest.raises(OSError, match=r"Merge insert failed|found matching row"):
        again.execute(rows(audit=2))
    assert keys(uri) == ["audit", "head"]


def test_an_empty_merge_still_makes_a_version(tmp_path: Path) -> None:
    dataset = lance.dataset(manifest(tmp_path, PRIMARY_KEY))
    publishing(dataset).execute(rows())
    assert dataset.version == 2


def test_the_annotation_and_the_stamp_survive_a_merge_and_a_compaction(tmp_path: Path) -> None:
    dataset = lance.dataset(manifest(tmp_path, PRIMARY_KEY))
    dataset.update_schema_metadata({"stamp": "4"})
    publishing(dataset).execute(rows(new=1))
    dataset.optimize.compact_files()
    assert dataset.lance_schema.unenforced_primary_key()[0].name() == "key"
    assert dataset.schema.metadata == {b"stamp": b"4"}


def test_the_annotation_can_be_added_later_but_not_changed(tmp_path: Path) -> None:
    dataset = lance.dataset(manifest(tmp_path))
    dataset.update_field_metadata({"key": dict(PRIMARY_KEY)})
    with pytest.raises(OSError, match="Too many concurrent writers"):
        race(dataset.uri, rows(new=1), rows(new=2))
    with pytest.raises(OSError, match="primary key"):
        dataset.update_field_metadata({"key": {"lance-schema:unenforced-primary-key": None}})

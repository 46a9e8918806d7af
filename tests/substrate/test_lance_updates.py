"""The compare-and-swap of most publishes: an Update by hand that removes one row by its address and adds a fragment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import lance
import pyarrow as pa
import pytest
from lance import fragment as lance_fragment
from lance.commit import CommitConflictError
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.optimize import Compaction

SCHEMA = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("n", pa.int64())])


def rows(*keys: str) -> pa.Table:
    return pa.table({"key": list(keys), "n": [0] * len(keys)}, schema=SCHEMA)


def manifest(folder: Path) -> LanceDataset:
    """A table whose newest fragment holds the head row."""
    uri = str(folder / "t")
    lance.write_dataset(rows("old"), uri, enable_stable_row_ids=True)
    return lance.write_dataset(rows("first", "head"), uri, mode="append")


def find_head(dataset: LanceDataset) -> tuple[int, int]:
    shown = dataset.scanner(filter="key = 'head'", with_row_address=True).to_table()
    found = cast("list[int]", shown["_rowaddr"].to_pylist())
    assert len(found) == 1, "the head row is there twice"
    return divmod(found[0], 2**32)


def stage(dataset: LanceDataset, key: str) -> Transaction:
    fragment_id, offset = find_head(dataset)
    new = lance_fragment.write_fragments(rows(key, "head"), dataset, mode="append", enable_stable_row_ids=True)
    fragment = dataset.get_fragment(fragment_id)
    assert fragment is not None
    left = fragment.delete_rows([offset])
    emptied, shrunk = ([fragment_id], []) if left is None else ([], [left])
    return Transaction(dataset.version, LanceOperation.Update(emptied, shrunk, new, fields_modified=[]))


def commit(dataset: LanceDataset, transaction: Transaction) -> LanceDataset:
    return LanceDataset.commit(dataset, transaction, max_retries=0)


def publish(dataset: LanceDataset) -> None:
    commit(dataset, stage(dataset, "theirs"))


def merge(dataset: LanceDataset) -> None:
    builder = dataset.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    builder.conflict_retries(0).use_index(use_index=False).execute(rows("theirs", "head"))


def compact(dataset: LanceDataset) -> None:
    plan = Compaction.plan(dataset, {})
    Compaction.commit(dataset, [task.execute(dataset) for task in plan.tasks])


@pytest.mark.parametrize("theirs", [publish, merge, compact])
def test_only_one_writer_replaces_the_head_row(tmp_path: Path, theirs: Callable[[LanceDataset], None]) -> None:
    mine = manifest(tmp_path)
    staged = stage(mine, "mine")
    theirs(lance.dataset(mine.uri))
    with pytest.raises(CommitConflictError):
        commit(mine, staged)
    now = lance.dataset(mine.uri)
    assert "mine" not in now.to_table()["key"].to_pylist()
    find_head(now)


def test_an_older_merge_or_compaction_loses_to_it(tmp_path: Path) -> None:
    dataset = manifest(tmp_path)
    stale, plan = dataset.checkout_version(dataset.version), Compaction.plan(dataset, {})
    done = [task.execute(dataset) for task in plan.tasks]
    assert done
    commit(dataset, stage(dataset, "mine"))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(stale)
    with pytest.raises(OSError, match="Retryable commit conflict"):
        Compaction.commit(dataset, done)
    find_head(lance.dataset(dataset.uri))


def test_new_rows_are_of_the_version_that_added_them_and_lie_in_order_in_the_newest_fragment(tmp_path: Path) -> None:
    dataset = manifest(tmp_path)
    for number in range(3):
        dataset = commit(dataset, stage(dataset, f"c{number}"))
        newest = max(fragment.fragment_id for fragment in dataset.get_fragments())
        assert find_head(dataset) == (newest, 1)
    created = dataset.scanner(columns=["key", "_row_created_at_version"]).to_table().to_pylist()
    assert {row["key"]: row["_row_created_at_version"] for row in created} == {
        "old": 1,
        "first": 2,
        "c0": 3,
        "c1": 4,
        "c2": 5,
        "head": 5,
    }

"""What Lance does with changes that are staged first and committed later."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.fragment import RowIdSequence
from lance.optimize import Compaction, CompactionOptions

from tests.substrate.operations import (
    SCHEMA,
    Stage,
    appending,
    commit,
    deleting,
    indexing,
    overwriting,
    restoring,
    rows,
    two_fragments,
    updating,
    write,
)


def ids(dataset: LanceDataset) -> str:
    return "".join(sorted(cast("list[str]", dataset.to_table()["id"].to_pylist())))


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    return two_fragments(tmp_path / "t")


def test_a_staged_append_lands_on_top_of_a_newer_one(dataset: LanceDataset) -> None:
    late = appending("f")(dataset)
    commit(dataset, appending("e")(dataset), max_retries=0)
    landed = commit(dataset, late, max_retries=0)
    assert (landed.version, ids(landed)) == (dataset.version + 2, "abcdef")


def test_committing_the_same_append_twice_inserts_twice(dataset: LanceDataset) -> None:
    staged = Transaction(dataset.version, appending("e")(dataset))
    LanceDataset.commit(dataset, staged, max_retries=0)
    assert ids(LanceDataset.commit(dataset, staged, max_retries=0)) == "abcdee"


def test_only_an_overwrite_without_retries_insists_on_its_version(dataset: LanceDataset) -> None:
    late = overwriting(dataset)
    commit(dataset, appending("e")(dataset))
    with pytest.raises(CommitConflictError, match=r"^Commit conflict for version 3: Failed to commit"):
        commit(dataset, late, max_retries=0)


@pytest.mark.parametrize(
    "stage",
    [appending("e"), deleting(0, "a"), updating("a"), overwriting],
    ids=["append", "delete", "update", "overwrite"],
)
def test_a_restore_refuses_what_was_staged_before_it(dataset: LanceDataset, stage: Stage) -> None:
    late = stage(dataset)
    commit(dataset, restoring(dataset))
    with pytest.raises(CommitConflictError):
        commit(dataset, late, max_retries=0)


def test_a_restore_buries_what_it_does_not_know(dataset: LanceDataset) -> None:
    commit(dataset, appending("e")(dataset))
    landed = LanceDataset.commit(dataset, Transaction(2, LanceOperation.Restore(2)), max_retries=0)
    assert (landed.version, ids(landed)) == (4, "abcd")


def test_row_and_fragment_ids_are_not_used_again_after_a_restore(dataset: LanceDataset) -> None:
    commit(dataset, appending("e")(dataset))
    restored = LanceDataset.commit(dataset, Transaction(3, LanceOperation.Restore(2)), max_retries=0)
    landed = commit(restored, appending("f")(restored))
    assert [fragment.fragment_id for fragment in landed.get_fragments()] == [0, 1, 3]
    assert landed.to_table(with_row_id=True)["_rowid"].to_pylist() == [0, 1, 2, 3, 5]


def test_an_update_committed_on_a_newer_version_brings_deleted_rows_back(dataset: LanceDataset) -> None:
    staged = updating("a")(dataset)
    newer = commit(dataset, deleting(0, "b")(dataset))
    assert ids(newer) == "acd"
    assert ids(commit(newer, staged, max_retries=0)) == "abcd"


def test_properties_and_uuid_are_kept(dataset: LanceDataset) -> None:
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge = cast("tuple[Transaction, object]", builder.execute_uncommitted(rows("a")))[0]
    append = Transaction(dataset.version + 1, appending("e")(dataset))
    for transaction in (merge, append):
        transaction.transaction_properties = {"whose": "mine"}
        landed = LanceDataset.commit(dataset, transaction, max_retries=0)
        read = landed.read_transaction(landed.version)
        assert read is not None
        assert (read.uuid, read.transaction_properties) == (transaction.uuid, {"whose": "mine"})


def test_the_handle_stays_and_inline_writes_move_theirs(dataset: LanceDataset) -> None:
    commit(dataset, appending("e")(dataset))
    assert dataset.version == 2
    own = dataset.checkout_version(2)
    own.update_config({"k": "v"})
    assert (own.version, dataset.version) == (4, 2)


def test_a_detached_version_opens_by_its_number_only(dataset: LanceDataset) -> None:
    staged = Transaction(dataset.version, appending("e")(dataset))
    detached = LanceDataset.commit(dataset, staged, detached=True)
    assert detached.version >= 2**63
    assert ids(lance.dataset(dataset.uri, version=detached.version)) == "abcde"
    assert (lance.dataset(dataset.uri).version, dataset.latest_version) == (2, 2)
    landed = LanceDataset.commit(dataset, staged, max_retries=0)
    assert (landed.version, ids(landed)) == (3, "abcde")


def test_a_fragment_that_lost_all_rows_is_none(dataset: LanceDataset) -> None:
    fragment = dataset.get_fragment(0)
    assert fragment is not None
    assert fragment.delete("true") is None
    assert fragment.delete_rows([0, 1]) is None


def test_updated_rows_keep_their_row_id_only_if_told(dataset: LanceDataset) -> None:
    (new,) = write(dataset, rows("a", v=9))
    new.row_id_meta = RowIdSequence([0]).to_inline_metadata()
    fragment = dataset.get_fragment(0)
    assert fragment is not None
    left = fragment.delete_rows([0])
    assert left is not None
    landed = commit(dataset, LanceOperation.Update(updated_fragments=[left], new_fragments=[new]))
    found = landed.to_table(columns=["_row_created_at_version"], filter="id = 'a'", with_row_id=True).to_pylist()
    assert found == [{"_row_created_at_version": 1, "_rowid": 0}]


def test_a_compaction_makes_two_versions_and_carries_no_properties(dataset: LanceDataset) -> None:
    rewrites = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
    own = dataset.checkout_version(2)
    Compaction.commit(own, rewrites)
    assert own.version == 4
    read = [own.read_transaction(version) for version in (3, 4)]
    # ReserveFragments has no class of its own in Python.
    assert [type(transaction.operation).__name__ for transaction in read if transaction] == ["BaseOperation", "Rewrite"]
    with pytest.raises(ValueError, match="Invalid compaction option: transaction_properties"):
        Compaction.plan(dataset, cast("CompactionOptions", {"transaction_properties": {"whose": "mine"}}))


def test_a_compaction_lands_on_top_of_a_newer_append(dataset: LanceDataset) -> None:
    rewrites = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
    commit(dataset, appending("e")(dataset))
    own = dataset.checkout_version(2)
    Compaction.commit(own, rewrites)
    assert (own.version, ids(own)) == (5, "abcde")


def test_a_compaction_and_an_index_build_refuse_each_other_in_spite_of_stable_row_ids(tmp_path: Path) -> None:
    one, other = two_fragments(tmp_path / "one"), two_fragments(tmp_path / "other")
    rewrites = [task.execute(one) for task in Compaction.plan(one, {}).tasks]
    commit(one, indexing("v")(one))
    with pytest.raises(OSError, match=r"^Retryable commit conflict .* Rewrite"):
        Compaction.commit(one.checkout_version(2), rewrites)
    late = indexing("v")(other)
    other.optimize.compact_files()
    with pytest.raises(CommitConflictError, match="CreateIndex"):
        LanceDataset.commit(other, Transaction(2, late), max_retries=0)


def test_an_inverted_index_must_be_merged_before_it_is_committed(dataset: LanceDataset) -> None:
    built = dataset.create_index_uncommitted("id", "INVERTED", name="id_idx", fragment_ids=[0, 1])
    merged = dataset.merge_existing_index_segments([built])
    assert [file.path for file in built.files or ()] != [file.path for file in merged.files or ()]
    landed = commit(dataset, LanceOperation.CreateIndex([merged], []))
    assert landed.to_table(full_text_query="c")["id"].to_pylist() == ["c"]


def test_an_inverted_index_that_was_not_merged_breaks_queries(dataset: LanceDataset) -> None:
    built = dataset.create_index_uncommitted("id", "INVERTED", name="id_idx", fragment_ids=[0, 1])
    landed = commit(dataset, LanceOperation.CreateIndex([built], []))
    with pytest.raises((OSError, ValueError, RuntimeError)):
        landed.to_table(full_text_query="c")


def test_replacing_an_index_without_naming_the_old_one_panics(dataset: LanceDataset) -> None:
    def build(on: LanceDataset) -> LanceOperation.CreateIndex:
        built = on.create_index_uncommitted("id", "INVERTED", name="id_idx", replace=True, fragment_ids=[0, 1])
        return LanceOperation.CreateIndex([on.merge_existing_index_segments([built])], [])

    first = commit(dataset, build(dataset))
    with pytest.raises(BaseException, match="not implemented") as panic:
        commit(first, build(first))
    assert not isinstance(panic.value, Exception)
    assert type(panic.value).__name__ == "PanicException"


def test_an_empty_overwrite_keeps_stable_row_ids(dataset: LanceDataset) -> None:
    landed = commit(dataset, LanceOperation.Overwrite(SCHEMA, []))
    assert (landed.count_rows(), landed.has_stable_row_ids, landed.schema) == (0, True, SCHEMA)


def test_an_empty_table_is_created_without_fragments(tmp_path: Path) -> None:
    dataset = lance.write_dataset(SCHEMA.empty_table(), str(tmp_path / "empty"), enable_stable_row_ids=True)
    assert (dataset.version, len(dataset.get_fragments()), dataset.config()) == (1, 0, {})


def test_an_error_of_the_source_stream_keeps_its_words_but_not_its_class(dataset: LanceDataset) -> None:
    def batches() -> object:
        yield rows("e").to_batches()[0]
        raise LookupError("line 7 is broken")

    reader = pa.RecordBatchReader.from_batches(SCHEMA, cast("list[pa.RecordBatch]", batches()))
    with pytest.raises(OSError, match="line 7 is broken"):
        lance.write_dataset(reader, dataset, mode="append")
    assert dataset.latest_version == 2

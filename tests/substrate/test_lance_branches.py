"""Branches of one Lance dataset: where they live, and how a late writer brings a dead one back."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceDataset

from tests.substrate.operations import appending, commit, rows, two_fragments


def ids(dataset: LanceDataset) -> str:
    return "".join(sorted(cast("list[str]", dataset.to_table()["id"].to_pylist())))


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    return two_fragments(tmp_path / "t")


def test_a_branch_goes_on_from_the_version_it_was_made_at(dataset: LanceDataset) -> None:
    fork = dataset.create_branch("review/1", 2)
    assert (fork.version, fork.uri) == (2, f"{dataset.uri}/tree/review/1")
    landed = commit(fork, appending("e")(fork))
    assert (landed.version, ids(landed)) == (3, "abcde")
    assert (dataset.latest_version, ids(lance.dataset(dataset.uri))) == (2, "abcd")
    assert ids(lance.dataset(f"{dataset.uri}/tree/review/1", version=3)) == "abcde"


def test_a_checked_out_branch_gives_the_uri_of_the_root(dataset: LanceDataset) -> None:
    dataset.create_branch("dev", 2)
    checked_out = dataset.checkout_version(("dev", None))
    assert checked_out.uri == dataset.uri
    lance.write_dataset(rows("e"), checked_out.uri, mode="append")
    assert ids(lance.dataset(dataset.uri)) == "abcde", "the string wrote to main"
    assert ids(lance.dataset(f"{dataset.uri}/tree/dev")) == "abcd"


def test_a_handle_at_the_tree_folder_stays_there(dataset: LanceDataset) -> None:
    dataset.create_branch("dev", 2)
    tree = f"{dataset.uri}/tree/dev"
    assert lance.dataset(tree).checkout_version(2).uri == tree


def test_a_number_counts_on_the_branch_of_the_handle(dataset: LanceDataset) -> None:
    fork = dataset.create_branch("dev", 2)
    fork = commit(fork, appending("e")(fork))
    child = fork.create_branch("child", 3)
    assert ids(child) == "abcde"
    ref = dataset.branches.list()["child"]
    assert (ref["parent_branch"], ref["parent_version"], len(ref["branch_identifier"])) == ("dev", 3, 2)
    with pytest.raises(OSError, match="was not found"):
        dataset.create_branch("other", 3)


def test_the_identifier_tells_a_branch_from_its_namesake(dataset: LanceDataset) -> None:
    dataset.create_branch("dev", 2)
    before = dataset.branches.list()["dev"]["branch_identifier"]
    dataset.branches.delete("dev")
    dataset.create_branch("dev", 2)
    assert dataset.branches.list()["dev"]["branch_identifier"] != before


def test_creating_one_that_exists_fails_opaquely(dataset: LanceDataset) -> None:
    dataset.create_branch("dev", 2)
    with pytest.raises(OSError, match="Clone operation should not enter build_manifest"):
        dataset.create_branch("dev", 2)


def test_one_with_children_cannot_be_deleted(dataset: LanceDataset) -> None:
    dataset.create_branch("dev", 2).create_branch("child", 2)
    with pytest.raises(OSError, match=r"^Ref conflict error: Branch dev is referenced"):
        dataset.branches.delete("dev")


def test_deleting_one_that_is_not_there(dataset: LanceDataset) -> None:
    with pytest.raises(ValueError, match=r"^Ref not found error: Branch dev does not exist"):
        dataset.branches.delete("dev")


def test_a_late_writer_brings_a_deleted_branch_back(dataset: LanceDataset) -> None:
    fork = dataset.create_branch("dev", 2)
    late = appending("e")(fork)
    dataset.branches.delete("dev")
    tree = Path(dataset.uri) / "tree" / "dev"
    assert not tree.exists()
    assert commit(fork, late).version == 3
    assert tree.exists()
    assert dataset.branches.list() == {}
    assert lance.dataset(str(tree)).version == 3, "it opens, although no ref names it"


def test_making_a_branch_over_a_leftover_fails_opaquely(dataset: LanceDataset) -> None:
    fork = dataset.create_branch("dev", 2)
    late = appending("e")(fork)
    dataset.branches.delete("dev")
    commit(fork, late)
    with pytest.raises(OSError, match=r"2.manifest was not found"):
        dataset.create_branch("dev", 2)
    assert dataset.branches.list() == {}
    dataset = commit(dataset, appending("f")(dataset))
    with pytest.raises(OSError, match="Clone operation should not enter build_manifest"):
        dataset.create_branch("dev", 3)


def test_making_a_branch_costs_the_same_whatever_the_size_of_the_table(tmp_path: Path) -> None:
    def storage_calls(letters: int) -> tuple[int, int]:
        dataset = lance.write_dataset(rows("a" * letters), str(tmp_path / f"n{letters}"), max_rows_per_file=1000)
        dataset.io_stats_incremental()
        dataset.create_branch("dev", 1)
        return cast("int", dataset.io_stats_snapshot().read_iops), cast("int", dataset.io_stats_snapshot().write_iops)

    reads, writes = storage_calls(1)
    assert writes > 0
    assert storage_calls(20_000) == (reads, writes)


def test_row_ids_are_no_identity_across_branches(dataset: LanceDataset) -> None:
    fork = dataset.create_branch("dev", 2)
    there = commit(fork, appending("e")(fork)).to_table(filter="id = 'e'", with_row_id=True)
    here = commit(dataset, appending("f")(dataset)).to_table(filter="id = 'f'", with_row_id=True)
    assert there["_rowid"].to_pylist() == here["_rowid"].to_pylist() == [4]


def test_a_branch_does_not_survive_a_move(dataset: LanceDataset, tmp_path: Path) -> None:
    dataset.create_branch("dev", 2)
    moved = (tmp_path / "t").rename(tmp_path / "moved")
    assert ids(lance.dataset(moved)) == "abcd"
    with pytest.raises((OSError, pa.ArrowException), match=r"[Nn]ot found"):
        ids(lance.dataset(moved / "tree" / "dev"))

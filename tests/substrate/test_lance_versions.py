"""Row versions, metadata, cleanup and counters: what Lance remembers, and what it lets go."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

import lance
import pytest
from lance.dataset import LanceDataset, Transaction

from tests.substrate.operations import appending, commit, rows, two_fragments, updating

ROW_VERSIONS = ["id", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    return two_fragments(tmp_path / "t")


def reads(dataset: LanceDataset) -> int:
    """How often the handle read since it was last asked."""
    return cast("int", dataset.io_stats_incremental().read_iops)


def row_versions(dataset: LanceDataset, where: str | None = None) -> dict[str, tuple[int, int]]:
    found = cast("list[dict[str, object]]", dataset.to_table(columns=ROW_VERSIONS, filter=where).to_pylist())
    return {
        cast("str", row["id"]): cast("tuple[int, int]", (row[ROW_VERSIONS[1]], row[ROW_VERSIONS[2]])) for row in found
    }


def test_row_versions_tell_when_a_row_came_and_last_changed(dataset: LanceDataset) -> None:
    landed = commit(dataset, updating("an")(dataset))
    expected = {"a": (1, 3), "b": (1, 1), "c": (2, 2), "d": (2, 2), "n": (3, 3)}
    assert row_versions(landed) == expected
    assert set(row_versions(landed, "_row_last_updated_at_version > 2")) == {"a", "n"}
    landed.optimize.compact_files()
    assert row_versions(landed) == expected, "compaction keeps them"
    fork = landed.create_branch("dev", landed.version)
    assert row_versions(fork) == expected, "and so does a branch"


def test_without_stable_row_ids_the_row_versions_are_a_silent_one(tmp_path: Path) -> None:
    dataset = lance.write_dataset(rows("a"), str(tmp_path / "t"))
    dataset = lance.write_dataset(rows("b"), dataset, mode="append")
    assert row_versions(dataset) == {"a": (1, 1), "b": (1, 1)}
    assert row_versions(dataset, "_row_created_at_version > 1") == {}


def test_stable_row_ids_cannot_be_had_later(tmp_path: Path) -> None:
    dataset = lance.write_dataset(rows("a"), str(tmp_path / "t"))
    dataset = lance.write_dataset(rows("b"), dataset, mode="append", enable_stable_row_ids=True)
    assert not dataset.has_stable_row_ids


def test_two_updates_of_the_schemas_metadata_conflict_on_different_keys_too(dataset: LanceDataset) -> None:
    late = lance.dataset(dataset.uri)
    dataset.update_schema_metadata({"one": "1"})
    with pytest.raises(OSError, match=r"^Incompatible transaction"):
        late.update_schema_metadata({"two": "2"})
    assert lance.dataset(dataset.uri).schema.metadata == {b"one": b"1"}


def test_metadata_updates_make_one_version_each(dataset: LanceDataset) -> None:
    dataset.update_config({"k": "v"})
    dataset.update_schema_metadata({"stamp": "4"})
    dataset.update_field_metadata({"id": {"note": "key"}})
    assert dataset.version == 5
    assert dataset.config() == {"k": "v"}
    assert dataset.schema.field("id").metadata == {b"note": b"key"}
    assert lance.dataset(dataset.uri, version=2).schema.metadata is None


def test_cleanup_of_named_versions_spares_the_others_and_staged_files(dataset: LanceDataset) -> None:
    staged = appending("e")(dataset)
    dataset = commit(dataset, appending("f")(dataset))
    dataset.cleanup_old_versions(versions=[1, 3])
    assert [version["version"] for version in dataset.versions()] == [2, 3], "the current one is never removed"
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(dataset.uri, version=1)
    assert commit(dataset, staged).count_rows() == 6


def test_cleanup_of_unverified_files_destroys_what_is_about_to_be_committed(dataset: LanceDataset) -> None:
    staged = appending("e")(dataset)
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    landed = commit(dataset, staged)
    with pytest.raises(ValueError, match="Not found"):
        landed.to_table()


def test_cleanup_leaves_detached_manifests(dataset: LanceDataset) -> None:
    LanceDataset.commit(dataset, Transaction(2, appending("e")(dataset)), detached=True)
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert len(list((Path(dataset.uri) / "_versions").glob("d*.manifest"))) == 1


def test_cleanup_on_main_spares_what_a_branch_stands_on(dataset: LanceDataset) -> None:
    dataset.create_branch("dev", 1)
    dataset.cleanup_old_versions(versions=[1])
    assert lance.dataset(f"{dataset.uri}/tree/dev").count_rows() == 2


def test_cleanup_spares_what_branches_and_their_branches_ever_showed(dataset: LanceDataset) -> None:
    root = dataset.uri
    fork = dataset.create_branch("dev", 2)
    fork = commit(fork, appending("e")(fork)).create_branch("kid", 3)
    kid = commit(fork, appending("k")(fork))
    lance.write_dataset(rows("q"), f"{root}/tree/dev", mode="overwrite")
    lance.write_dataset(rows("r"), f"{root}/tree/dev", mode="append")
    lance.write_dataset(rows("x"), root, mode="overwrite")
    lance.dataset(f"{root}/tree/dev").cleanup_old_versions(versions=[2, 3, 4])
    lance.dataset(root).cleanup_old_versions(versions=[1, 2])
    assert [ref["version"] for ref in lance.dataset(root).version_refs()] == [2, 3], (
        "the one that dev was made from stays"
    )
    assert [ref["version"] for ref in lance.dataset(f"{root}/tree/dev").version_refs()] == [3, 5]
    assert (kid.version, lance.dataset(f"{root}/tree/kid").to_table().num_rows) == (4, 6)
    assert lance.dataset(f"{root}/tree/kid", version=3).to_table().num_rows == 5
    assert lance.dataset(f"{root}/tree/dev").to_table().num_rows == 2


def test_tracked_files_name_the_folders_of_all_branches(dataset: LanceDataset) -> None:
    fork = dataset.create_branch("dev", 2)
    dev = commit(fork, appending("e")(fork))
    dev.create_scalar_index("id", "BTREE")
    found = cast("list[dict[str, object]]", lance.dataset(dev.uri).tracked_files().read_all().to_pylist())
    folders = {(str(each["base_uri"]).rpartition("/")[2], str(each["type"])) for each in found}
    assert {("t", "data file"), ("dev", "data file"), ("dev", "index file"), ("dev", "transaction file")} <= folders


def test_a_compaction_of_an_indexed_table_cannot_be_read_back(dataset: LanceDataset) -> None:
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    with pytest.raises(TypeError, match="RewrittenIndex"):
        dataset.read_transaction(dataset.version)


def test_the_transaction_of_a_removed_version_cannot_be_read(dataset: LanceDataset) -> None:
    dataset.cleanup_old_versions(versions=[1])
    with pytest.raises(OSError, match="was not found"):
        dataset.read_transaction(1)


def test_storage_calls_are_counted_per_handle(dataset: LanceDataset) -> None:
    handle = lance.dataset(dataset.uri)
    reads(handle)
    handle.to_table()
    assert reads(handle) > 0
    assert reads(handle) == 0


def test_a_shared_session_saves_the_storage_a_second_reading(dataset: LanceDataset) -> None:
    session = lance.Session()  # pyright: ignore[reportPrivateImportUsage]  documented there, but not marked as exported
    alone = reads(lance.dataset(dataset.uri, version=2, session=session))
    assert reads(lance.dataset(dataset.uri, version=2, session=session)) < alone

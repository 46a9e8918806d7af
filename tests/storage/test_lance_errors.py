"""Each meaning is provoked for real: Lance raises, and one of our errors comes out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments  # pyright: ignore[reportUnknownVariableType]  it takes types that have no stubs here
from lance.optimize import Compaction

from omnigraph.errors import (
    AlreadyExists,
    HistoryGone,
    InputError,
    NotFound,
    ParameterError,
    PublishContention,
    ReadOnly,
    StorageError,
)
from omnigraph.storage.lance_internals import CommitRefused, translate_errors

ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]})


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    return lance.write_dataset(ROWS, str(tmp_path / "t"), enable_stable_row_ids=True)


def open_nothing(dataset: LanceDataset) -> None:
    lance.dataset(f"{dataset.uri}-nothing")


def open_no_branch(dataset: LanceDataset) -> None:
    lance.dataset(f"{dataset.uri}/tree/dev")


def check_out_no_branch(dataset: LanceDataset) -> None:
    dataset.checkout_version(("dev", None))


def delete_no_branch(dataset: LanceDataset) -> None:
    dataset.branches.delete("dev")


def open_no_version(dataset: LanceDataset) -> None:
    lance.dataset(dataset.uri, version=9)


def check_out_no_version(dataset: LanceDataset) -> None:
    dataset.checkout_version(9)


def read_no_transaction(dataset: LanceDataset) -> None:
    dataset.read_transaction(9)


def restore_no_version(dataset: LanceDataset) -> None:
    LanceDataset.commit(dataset, LanceOperation.Restore(9))


def create_again(dataset: LanceDataset) -> None:
    lance.write_dataset(ROWS, dataset.uri)


def branch_again(dataset: LanceDataset) -> None:
    dataset.create_branch("dev", 1)
    dataset.create_branch("dev", 1)


def delete_a_parent(dataset: LanceDataset) -> None:
    dataset.create_branch("dev", 1).create_branch("child", 1)
    dataset.branches.delete("dev")


def name_a_branch_badly(dataset: LanceDataset) -> None:
    dataset.create_branch("a..b", 1)


def filter_by_nothing(dataset: LanceDataset) -> None:
    dataset.to_table(filter="nothing > 1")


def filter_by_noise(dataset: LanceDataset) -> None:
    dataset.to_table(filter="id >> ( 1")


def append_other_columns(dataset: LanceDataset) -> None:
    write_fragments(pa.table({"other": [1]}), dataset)


def merge_a_key_twice(dataset: LanceDataset) -> None:
    dataset.merge_insert("id").when_matched_update_all().execute(pa.concat_tables([ROWS, ROWS]))


def publish_too_late(dataset: LanceDataset) -> None:
    for handle in (lance.dataset(dataset.uri), dataset):
        handle.merge_insert("id").when_matched_update_all().conflict_retries(0).execute(ROWS)


def append_after_an_overwrite(dataset: LanceDataset) -> None:
    staged = LanceOperation.Append(write_fragments(ROWS, dataset))
    lance.write_dataset(ROWS, dataset.uri, mode="overwrite")
    LanceDataset.commit(dataset, staged, read_version=1, max_retries=0)


def overwrite_too_late(dataset: LanceDataset) -> None:
    lance.write_dataset(ROWS, dataset.uri, mode="append")
    staged = LanceOperation.Overwrite(ROWS.schema, [])
    LanceDataset.commit(dataset, staged, read_version=1, max_retries=0)


def stamp_too_late(dataset: LanceDataset) -> None:
    lance.dataset(dataset.uri).update_schema_metadata({"a": "1"})
    dataset.update_schema_metadata({"b": "2"})


def compact_beside_a_delete(dataset: LanceDataset) -> None:
    dataset = lance.write_dataset(ROWS, dataset, mode="append")
    rewrites = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
    lance.dataset(dataset.uri).delete("n = 1")
    Compaction.commit(dataset, rewrites)


def read_a_broken_file(dataset: LanceDataset) -> None:
    for file in (Path(dataset.uri) / "data").iterdir():
        file.write_bytes(b"broken")
    lance.dataset(dataset.uri).to_table()


def read_a_missing_file(dataset: LanceDataset) -> None:
    for file in (Path(dataset.uri) / "data").iterdir():
        file.unlink()
    lance.dataset(dataset.uri).to_table()


def open_a_broken_manifest(dataset: LanceDataset) -> None:
    for file in (Path(dataset.uri) / "_versions").glob("*.manifest"):
        file.write_bytes(b"broken")
    lance.dataset(dataset.uri)


def build_an_index_twice(dataset: LanceDataset) -> None:
    for _ in range(2):
        dataset.create_scalar_index("id", "BTREE", replace=False)


def write_where_nobody_may(_: LanceDataset) -> None:
    lance.write_dataset(ROWS, "/sys/omnigraph-test")


def write_below_a_file(dataset: LanceDataset) -> None:
    file = Path(dataset.uri).with_name("file")
    file.write_text("")
    lance.write_dataset(ROWS, str(file / "t"))


def panic(dataset: LanceDataset) -> None:
    """Two inverted indexes of one name, the second of which does not replace the first."""
    for _ in range(2):
        built = dataset.create_index_uncommitted("id", "INVERTED", name="i", replace=True, fragment_ids=[0])
        operation = LanceOperation.CreateIndex([dataset.merge_existing_index_segments([built])], [])
        dataset = LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def write_while_the_folder_goes(dataset: LanceDataset) -> None:
    def give_rows() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        shutil.rmtree(Path(dataset.uri) / "data")
        yield from ROWS.to_batches()

    write_fragments(pa.RecordBatchReader.from_batches(ROWS.schema, give_rows()), dataset)


MEANINGS: list[tuple[Callable[[LanceDataset], None], type[Exception], str]] = [
    (open_nothing, NotFound, "was not found"),
    (open_no_branch, NotFound, "was not found"),
    (check_out_no_branch, NotFound, "Not found"),
    (delete_no_branch, NotFound, "Branch dev does not exist"),
    (open_no_version, HistoryGone, "that version is not there"),
    (check_out_no_version, HistoryGone, "that version is not there"),
    (read_no_transaction, HistoryGone, "that version is not there"),
    (restore_no_version, HistoryGone, "that version is not there"),
    (create_again, AlreadyExists, "already exists"),
    (branch_again, AlreadyExists, "Clone"),
    (delete_a_parent, InputError, "Branch dev is referenced"),
    (name_a_branch_badly, ParameterError, "Branch name"),
    (filter_by_nothing, ParameterError, "No field named nothing"),
    (filter_by_noise, ParameterError, "sql parser error"),
    (append_other_columns, ParameterError, "fields did not match"),
    (merge_a_key_twice, ParameterError, "Ambiguous merge insert"),
    (publish_too_late, PublishContention, "Too many concurrent writers"),
    (append_after_an_overwrite, CommitRefused, "Incompatible transaction"),
    (overwrite_too_late, CommitRefused, "Commit conflict"),
    (stamp_too_late, CommitRefused, "Incompatible transaction"),
    (compact_beside_a_delete, CommitRefused, "Retryable commit conflict"),
    (read_a_broken_file, StorageError, "Invalid range"),
    (read_a_missing_file, StorageError, "Not found"),
    (open_a_broken_manifest, StorageError, "sufficient data"),
    (build_an_index_twice, StorageError, "already exists"),
    (write_where_nobody_may, ReadOnly, "os error"),
    (write_below_a_file, StorageError, "Not a directory"),
    (write_while_the_folder_goes, NotFound, "the folder went away"),
    (panic, StorageError, "Lance panicked: not implemented"),
]


def test_a_version_file_that_goes_between_two_looks_of_lance_is_history() -> None:
    """The text is what Lance said beside a cleanup: a single call of it cannot be stopped in the middle."""
    text = (
        "LanceError(IO): Generic N/A error: Not found: /g/__manifest/_versions/18446744073709551605.manifest, "
        "/lance/rust/lance-io/src/object_reader.rs:335:56, /lance/rust/lance/src/dataset.rs:776:26"
    )
    with pytest.raises(HistoryGone, match="that version is not there"), translate_errors("node:Person"):
        raise ValueError(text)


@pytest.mark.parametrize(("provoke", "kind", "words"), MEANINGS, ids=[provoke.__name__ for provoke, _, _ in MEANINGS])
def test_what_lance_means(
    dataset: LanceDataset, provoke: Callable[[LanceDataset], None], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as raised, translate_errors("node:Person"):
        provoke(dataset)
    text = str(raised.value)
    assert type(raised.value) is kind
    assert text.startswith("node:Person")
    assert words in text
    assert ".rs:" not in text, "where in Lance's source it happened is of no use"
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize(
    ("provoke", "retryable"),
    [
        (append_after_an_overwrite, False),
        (stamp_too_late, False),
        (overwrite_too_late, True),
        (compact_beside_a_delete, True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_refusal_says_whether_to_try_again(
    dataset: LanceDataset, provoke: Callable[[LanceDataset], None], retryable: bool
) -> None:
    with pytest.raises(CommitRefused) as refused, translate_errors("node:Person"):
        provoke(dataset)
    assert refused.value.retryable is retryable


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), NotFound("ours"), KeyError("a mistake")])
def test_what_is_not_lances_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, translate_errors("node:Person"):
        raise error
    assert raised.value is error


def test_a_full_disk_says_so(tmp_path: Path) -> None:
    # A limit on the size of files is the nearest to a full disk that a test may have; Lance treats both alike.
    child = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path / "t")], capture_output=True, text=True, check=False
    )
    assert "StorageError: node:Person: " in child.stderr
    assert "File too large" in child.stderr


_FULL = """
import resource, signal, sys
import lance, pyarrow as pa
from omnigraph.storage.lance_internals import translate_errors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with translate_errors("node:Person"):
    lance.write_dataset(pa.table({"n": list(range(100000))}), sys.argv[1])
"""

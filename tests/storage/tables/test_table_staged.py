"""Stage, then commit: nothing is visible before, exactly one version after."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import cast

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import AlreadyExists, HistoryGone
from omnigraph.storage import failpoints
from omnigraph.storage.lance_internals import CommitRefused, HeadMoved
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_UPDATED_AT,
    FragmentText,
    IndexKind,
    Table,
    append,
    append_fragments,
    audit_version,
    build_index,
    commit,
    compact,
    create_table,
    create_table_branch,
    delete_table_branch,
    open_table,
    overwrite,
    overwrite_fragments,
    plan_compaction,
    remove_rows,
    restore,
    run_compaction,
    stage_rewrites,
    update_fragments,
    write_rows,
)
from tests.deleting import delete_where
from tests.storage.tables.sample_tables import PEOPLE, ages, operation_of, people, put, table_of, upsert


def test_a_new_table_is_empty_and_has_our_write_parameters(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    assert (table.version, table.count_rows(), len(table.dataset.get_fragments())) == (1, 0, 0)
    assert table.dataset.has_stable_row_ids
    assert table.dataset.data_storage_version == "2.2"
    assert table.dataset.config() == {}, "no automatic cleanup"
    assert [fact.operation_id for fact in table.read_commits(0, 1)] == ["op-create"]


def test_a_table_may_be_born_with_rows(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), people(ann=3), "op")
    assert (table.version, ages(table)) == (1, {"ann": 3})


def test_creating_where_a_table_is_changes_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    with pytest.raises(AlreadyExists):
        create_table(table.uri, people(), "op")
    assert ages(open_table(table.uri)) == {"ann": 3}


def test_staged_rows_are_invisible_until_the_commit(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    staged = append(table, people(bob=4))
    assert staged is not None
    assert (operation_of(staged), staged.version, staged.committed_version) == ("Append", 2, 3)
    assert (table.head_version(), ages(open_table(table.uri))) == (2, {"ann": 3})

    landed = commit(table, staged, "op-7")

    assert (landed.version, ages(landed)) == (3, {"ann": 3, "bob": 4})
    assert (table.version, ages(table)) == (2, {"ann": 3}), "the pinned handle stays where it was"
    (fact,) = landed.read_commits(2, 3)
    assert (fact.operation, fact.operation_id, fact.transaction_uuid) == ("Append", "op-7", staged.transaction_uuid)


def test_rows_may_come_as_a_stream(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    drawn: list[int] = []

    def batches() -> object:
        for number in range(5):
            drawn.append(number)
            yield people(**{f"p{number}": number}).to_batches()[0]

    reader = pa.RecordBatchReader.from_batches(PEOPLE, cast("list[pa.RecordBatch]", batches()))
    assert drawn == []
    assert len(ages(put(table, append(table, reader)))) == 5


def test_nothing_to_do_stages_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    assert append(table, people()) is None
    assert append_fragments(table, []) is None
    assert delete_where(table, "age > 100") is None
    assert compact(table) is None
    assert build_index(table_of(tmp_path / "empty"), "id", IndexKind.BTREE) is None


def test_overwrite_replaces_rows_and_schema(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    landed = put(table, overwrite(table, pa.table({"id": ["x"], "name": ["X"]})))
    assert landed.schema.names == ["id", "name"]
    assert landed.scan().read_all().to_pylist() == [{"id": "x", "name": "X"}]


def test_an_empty_overwrite_leaves_an_empty_table_with_stable_row_ids(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    emptied = put(table, overwrite(table, people()))
    assert (emptied.version, emptied.count_rows(), emptied.schema) == (3, 0, PEOPLE)
    assert emptied.dataset.has_stable_row_ids
    assert ages(put(emptied, append(emptied, people(bob=4)))) == {"bob": 4}


def test_delete_by_predicate_over_several_fragments(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3, bob=40)
    table = put(table, append(table, people(cid=50, dan=60)))
    table = put(table, append(table, people(eve=5)))
    staged = delete_where(table, "age > 30")
    assert staged is not None
    landed = commit(table, staged, "op")
    assert ages(landed) == {"ann": 3, "eve": 5}
    assert landed.read_commits(table.version, landed.version)[0].operation == "Delete"


def test_restore_brings_an_older_version_back_as_a_new_one(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    newer = put(table, append(table, people(bob=4)))
    restored = put(newer, restore(newer, table.version), "op-back")
    assert (restored.version, ages(restored)) == (4, {"ann": 3})
    assert [(fact.operation, fact.operation_id) for fact in restored.read_commits(3, 4)] == [("Restore", "op-back")]


def test_restoring_a_version_that_is_not_there(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    with pytest.raises(HistoryGone):
        put(table, restore(table, 77))
    assert table.head_version() == 2


def test_an_append_over_a_moved_head_is_noticed(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    late = append(table, people(bob=4))
    put(table, append(table, people(cid=5)))
    with pytest.raises(HeadMoved) as moved:
        put(table, late)
    assert (moved.value.expected, moved.value.actual) == (3, 4)


def test_a_commit_that_lance_refuses_changes_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    late = append(table, people(bob=4))
    put(table, overwrite(table, people(cid=5)))
    with pytest.raises(CommitRefused) as refused:
        put(table, late)
    assert not refused.value.retryable
    assert ages(open_table(table.uri)) == {"cid": 5}


def test_a_staged_change_is_committed_on_its_own_pin_only(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    staged = append(table, people(bob=4))
    newer = put(table, upsert(table, people(ann=5)))
    with pytest.raises(ValueError, match="staged on version 2, committed on 3"):
        put(newer, staged)


def test_auditing_staged_rows_leaves_head_alone(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    staged = upsert(table, people(ann=30, bob=4))
    assert staged is not None
    audit = audit_version(table, staged)
    assert ages(audit) == {"ann": 30, "bob": 4}
    assert audit.version >= 2**63
    assert (table.head_version(), ages(open_table(table.uri))) == (2, {"ann": 3})
    assert ages(audit.open_at(audit.version)) == {"ann": 30, "bob": 4}
    assert ages(commit(table, staged, "op")) == {"ann": 30, "bob": 4}


def test_fragments_written_elsewhere_are_appended(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    elsewhere = open_table(table.uri, None, table.version)
    texts = [text for part in (people(bob=4), people(cid=5, dan=6)) for text in write_rows(elsewhere, part)]
    staged = append_fragments(table, texts)
    assert staged is not None
    assert ages(commit(table, staged, "op")) == {"ann": 3, "bob": 4, "cid": 5, "dan": 6}


def test_fragments_written_elsewhere_replace_everything(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    texts = [text for part in (people(bob=4), people(cid=5)) for text in write_rows(table, part, "overwrite")]
    assert ages(put(table, overwrite_fragments(table, PEOPLE, texts))) == {"bob": 4, "cid": 5}


def test_a_distributed_upsert_from_its_parts(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3, bob=4)
    table = put(table, append(table, people(cid=5)))
    new = write_rows(table, people(bob=40, cid=50, dan=6))
    staged = update_fragments(table, *without(table, "bob", "cid"), new)
    assert operation_of(staged) == "Update"
    landed = commit(table, staged, "op")
    assert ages(landed) == {"ann": 3, "bob": 40, "cid": 50, "dan": 6}
    assert set(ages(landed, f"{ROW_UPDATED_AT} > {table.version}")) == {"bob", "cid", "dan"}


def test_a_distributed_upsert_may_remove_more_than_it_brings_or_only_remove(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3, bob=4)
    table = put(table, append(table, people(cid=5)))
    staged = update_fragments(table, *without(table, "bob", "cid"), write_rows(table, people(bob=40)))
    assert operation_of(staged) == "Update"
    table = commit(table, staged, "op")
    assert ages(table) == {"ann": 3, "bob": 40}
    staged = update_fragments(table, *without(table, "bob"), ())
    assert operation_of(staged) == "Delete"
    assert ages(commit(table, staged, "op")) == {"ann": 3}


def without(table: Table, *ids: str) -> tuple[list[int], list[FragmentText]]:
    """The fragments that become empty without some rows, and those that lose some, as executors find them."""
    named = ", ".join(f"'{id_}'" for id_ in ids)
    old = table.scan(["id"], filter=f"id IN ({named})", with_row_address=True).read_all()
    updated: list[FragmentText] = []
    removed: list[int] = []
    for address in cast("list[int]", old[ROW_ADDRESS].to_pylist()):
        left = remove_rows(table, address >> 32, [address & 0xFFFFFFFF])
        if left is None:
            removed.append(address >> 32)
        else:
            updated.append(left)
    return removed, updated


@pytest.mark.parametrize(
    ("column", "kind"), [("id", IndexKind.BTREE), ("text", IndexKind.INVERTED), ("asVec", IndexKind.IVF_FLAT)]
)
def test_an_index_is_built_used_and_replaced(tmp_path: Path, column: str, kind: IndexKind) -> None:
    table = create_table(str(tmp_path / "docs"), documents(50), "op")
    table = put(table, build_index(table, column, kind))
    table = put(table, append(table, documents(10, start=50)))
    assert indexed(table) == {f"{column}_idx": (kind, (column,), 50)}
    rebuilt = put(table, build_index(table, column, kind))
    assert indexed(rebuilt) == {f"{column}_idx": (kind, (column,), 60)}
    assert rebuilt.version == 4
    assert found_by(rebuilt, kind) == ["d7"]


def test_a_table_is_read_while_an_index_on_it_is_built(tmp_path: Path) -> None:
    """Threads share the handle of a table, and Lance lends it to one that builds an index alone."""
    table = create_table(str(tmp_path / "many"), pa.table({"id": [f"{number:>20}" for number in range(300_000)]}), "op")
    builder = threading.Thread(target=lambda: build_index(table, "id", IndexKind.BTREE))
    builder.start()
    while builder.is_alive():
        assert next(table.scan(["id"], limit=1)).num_rows == 1
    builder.join()


def test_a_table_is_read_while_a_branch_of_it_is_deleted(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "many"), pa.table({"id": [f"{number:>20}" for number in range(1000)]}), "op")
    for number in range(20):
        create_table_branch(table, f"b{number}")

    def delete_all() -> None:
        for number in range(20):
            delete_table_branch(table, f"b{number}")

    deleter = threading.Thread(target=delete_all)
    deleter.start()
    while deleter.is_alive():
        assert next(table.scan(["id"], limit=1)).num_rows == 1
    deleter.join()
    assert not table.list_forks()


def documents(count: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": [f"d{n}" for n in numbers],
            "text": [f"word{n} common" for n in numbers],
            "asVec": pa.array([[float(n), 1.0] for n in numbers], pa.list_(pa.float32(), 2)),
        }
    )


def indexed(table: Table) -> dict[str, tuple[str, tuple[str, ...], int]]:
    return {name: (index.kind, index.columns, index.rows) for name, index in table.list_indexes().items()}


def found_by(table: Table, kind: IndexKind) -> list[str]:
    match kind:
        case IndexKind.BTREE:
            scanner = table.dataset.scanner(columns=["id"], filter="id = 'd7'")
        case IndexKind.INVERTED:
            scanner = table.dataset.scanner(columns=["id"], full_text_query="word7")
        case IndexKind.IVF_FLAT:
            scanner = table.dataset.scanner(columns=["id"], nearest={"column": "asVec", "q": [7.0, 1.0], "k": 1})
    assert "index" in scanner.explain_plan().lower() or "ann" in scanner.explain_plan().lower()
    return cast("list[str]", scanner.to_table()["id"].to_pylist())


def test_vectors_that_are_all_missing_are_not_indexed(tmp_path: Path) -> None:
    vectors = pa.array([None, None], pa.list_(pa.float32(), 2))
    table = create_table(str(tmp_path / "t"), pa.table({"id": ["a", "b"], "vec": vectors}), "op")
    assert build_index(table, "vec", IndexKind.IVF_FLAT) is None


def test_compaction_keeps_rows_and_carries_its_operation(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    table = put(table, build_index(table, "id", IndexKind.BTREE))
    for name in ("bob", "cid", "dan"):
        table = put(table, append(table, people(**{name: 1})))
    rewrites = [run_compaction(table, pickle.loads(pickle.dumps(task))) for task in plan_compaction(table)]  # noqa: S301  our own bytes
    staged = stage_rewrites(table, pickle.loads(pickle.dumps(rewrites)))  # noqa: S301  our own bytes
    assert staged is not None
    assert operation_of(staged) == "Rewrite"
    landed = commit(table, staged, "op")
    assert len(landed.dataset.get_fragments()) < len(table.dataset.get_fragments())
    assert ages(landed, "id IN ('ann', 'dan')") == {"ann": 3, "dan": 1}
    facts = [(fact.operation, fact.operation_id) for fact in landed.read_commits(table.version, landed.version)]
    assert facts == [("Rewrite", "op")]


def test_fragment_ids_never_come_again(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    table = put(table, append(table, people(bob=4)))
    table = put(table, append(table, people(cid=5)))
    table = put(table, build_index(table, "id", IndexKind.BTREE))
    highest = max(table.fragment_rows())
    table = put(table, delete_where(table, "id = 'cid'"))
    assert max(table.fragment_rows()) < highest
    table = put(table, compact(table))
    assert list(table.fragment_rows()) == [highest + 1]
    assert table.list_indexes()["id_idx"].rows == 0, "what the index knew lies elsewhere now"
    assert ages(table, "id IN ('ann', 'bob', 'cid')") == {"ann": 3, "bob": 4}


def test_what_lance_compacted_by_itself_can_be_told(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    table = put(table, append(table, people(bob=4)))
    table = put(table, build_index(table, "id", IndexKind.BTREE))
    table.dataset.checkout_version(table.version).optimize.compact_files()
    head = table.refresh()
    assert [fact.operation for fact in head.read_commits(table.version, head.version)] == [
        "ReserveFragments",
        "Rewrite",
    ]


def test_compaction_beside_a_delete_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    table = put(table, append(table, people(bob=4)))
    staged = compact(table)
    put(table, delete_where(table, "id = 'bob'"))
    with pytest.raises(CommitRefused) as refused:
        put(table, staged)
    assert refused.value.retryable
    now = open_table(table.uri)
    assert ages(now) == {"ann": 3}
    assert [fact.operation for fact in now.read_commits(table.version, now.version)] == ["Delete"]


def test_blobs_are_staged_inline_and_by_reference(tmp_path: Path) -> None:
    blob = cast("pa.Field[pa.DataType]", lance.blob_field("file"))
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), blob])
    outside = tmp_path / "outside"
    outside.write_bytes(b"far")

    def files(**values: bytes | str) -> pa.Table:
        return pa.table([pa.array(list(values)), lance.blob_array(list(values.values()))], schema=schema)

    def contents(table: Table) -> list[bytes | None]:
        found = table.dataset.take_blobs("file", indices=list(range(table.count_rows())))
        return [one.readall() if one else None for one in found]

    table = create_table(str(tmp_path / "t"), files(a=b"one"), "op")
    table = put(table, append(table, files(b=outside.as_uri())))
    table = put(table, upsert(table, files(a=b"two")))
    assert contents(table) == [b"far", b"two"]
    table = put(table, overwrite(table, files(c=outside.as_uri())))
    assert contents(table) == [b"far"]


def test_every_durable_write_passes_the_seam(tmp_path: Path) -> None:
    with failpoints.record_writes() as steps:
        table = table_of(tmp_path, ann=3)
        staged = upsert(table, people(bob=4))
        assert staged is not None
        audit_version(table, staged)
        commit(table, staged, "op")
    names = [step.name for step in steps]
    assert names == ["table.create", "table.stage", "table.commit", "table.stage", "table.audit", "table.commit"]


def test_a_fault_before_the_commit_leaves_head_alone(tmp_path: Path) -> None:
    table = table_of(tmp_path, ann=3)
    staged = append(table, people(bob=4))
    with failpoints.fail_at(1, "before"), pytest.raises(failpoints.InjectedFault):
        put(table, staged)
    assert table.head_version() == 2
    with failpoints.fail_at(1, "after"), pytest.raises(failpoints.InjectedFault):
        put(table, staged)
    assert table.head_version() == 3

"""Indexes and compactions that were computed on one version and committed on a newer one: rows are never wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from omnigraph.storage import tables
from omnigraph.storage.tables import (
    Access,
    IndexKind,
    StagedChange,
    Table,
    build_index,
    can_grow,
    carry_over_indexes,
    carry_over_rewrites,
    choose_segment,
    compact,
    find_addresses,
    plan_compaction,
    run_compaction,
    stage_rewrites,
)
from tests.storage.tables.sample_tables import put

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)
WORDS = ("red", "green", "blue", "black")
Change = Callable[[Table], Table]
B, T, V = IndexKind.BTREE, IndexKind.INVERTED, IndexKind.IVF_FLAT
COLUMNS = {B: "text", T: "text", V: "vec"}


def rows(*numbers: int, word: str | None = None) -> pa.Table:
    return pa.table(
        {
            "id": [f"r{number:02}" for number in numbers],
            "text": [word or WORDS[number % 3] for number in numbers],
            "vec": [[float(number), 0.0] for number in numbers],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three fragments of four rows: 0 to 3, 4 to 7, 8 to 11."""
    made = tables.create_table(str(tmp_path / "rows"), rows().slice(0, 0), "op", Access())
    for first in (0, 4, 8):
        made = add(*range(first, first + 4))(made)
    return made


def add(*numbers: int) -> Change:
    return lambda table: put(table, tables.append(table, rows(*numbers)))


def delete(*numbers: int) -> Change:
    return lambda table: put(table, tables.delete_at(table, find_addresses(table, rows(*numbers).select(["id"]))))


def update(*numbers: int, word: str = "black") -> Change:
    return lambda table: put(
        table,
        tables.replace_rows(table, find_addresses(table, rows(*numbers).select(["id"])), rows(*numbers, word=word)),
    )


def compaction(table: Table) -> Table:
    return put(table, compact(table))


def indexing(column: str, kind: IndexKind) -> Change:
    return lambda table: put(table, build_index(table, column, kind))


def overwrite(*numbers: int) -> Change:
    return lambda table: put(table, tables.overwrite(table, rows(*numbers, word="white")))


def drop_column(table: Table) -> Table:
    return put(table, tables.reshape(table, SCHEMA.remove(SCHEMA.get_field_index("vec")), {}))


def restore_drift(table: Table) -> Table:
    """Undo a commit that was never published, as recovery does."""
    moved = add(20)(table)
    return put(moved, tables.restore(moved, table.version))


def chain(*changes: Change) -> Change:
    def run(table: Table) -> Table:
        for change in changes:
            table = change(table)
        return table

    return run


HARMLESS: dict[str, Change] = {
    "an append": add(12, 13),
    "a delete": delete(1, 2, 9),
    "the delete of a whole fragment": delete(4, 5, 6, 7),
    "an update": update(0, 5, 11),
    "an update of all rows of a fragment": update(0, 1, 2, 3),
    "a restore to where it was built": restore_drift,
    "an index on another column": indexing("id", B),
    "many of them": chain(
        add(12), update(1, 12), delete(2), indexing("id", B), update(1, word="red"), add(2), delete(4)
    ),
}
FATAL: dict[str, Change] = {
    "an overwrite": overwrite(0, 1, 2),
    "an overwrite with as many fragments": chain(overwrite(0, 1, 2, 3), add(4, 5), add(8, 9)),
    "a compaction of all of it": compaction,
    "a dropped column": drop_column,
    "a restore to before": lambda table: put(table, tables.restore(table, table.version - 1)),
}


def find(table: Table, kind: IndexKind) -> dict[object, list[str]]:
    """Return what an index of that kind is asked for."""
    dataset = table.dataset
    if kind is V:
        near = {at: {"column": "vec", "q": [float(at), 0.0], "k": 3} for at in (0, 5, 11)}
        return {at: ids(dataset.to_table(columns=["id", "vec"], nearest=query)) for at, query in near.items()}
    if kind is T:
        return {word: ids(dataset.to_table(columns=["id"], full_text_query=word)) for word in WORDS}
    return {word: ids(dataset.to_table(filter=f"text = '{word}'")) for word in WORDS}


def find_in_all_rows(table: Table, kind: IndexKind) -> dict[object, list[str]]:
    """Return the same without an index."""
    found = [(str(row["id"]), row["text"], row["vec"][0]) for row in table.dataset.to_table().to_pylist()]
    if kind is V:
        ranked = {at: sorted(found, key=lambda row, at=at: (abs(row[2] - at), row[0]))[:3] for at in (0, 5, 11)}
        return {at: sorted(row[0] for row in rows) for at, rows in ranked.items()}
    return {word: sorted(row[0] for row in found if row[1] == word) for word in WORDS}


def ids(found: pa.Table) -> list[str]:
    return sorted(cast("list[str]", found["id"].to_pylist()))


def build(table: Table, kind: IndexKind) -> StagedChange:
    staged = build_index(table, COLUMNS[kind], kind)
    assert staged is not None
    return staged


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("meanwhile", HARMLESS)
def test_an_index_is_committed_on_what_others_wrote(table: Table, meanwhile: str, kind: IndexKind) -> None:
    staged, now = build(table, kind), HARMLESS[meanwhile](table)
    after = put(now, carry_over_indexes(staged, table, now))
    assert after.list_indexes()[f"{COLUMNS[kind]}_idx"].rows > 0
    assert find(after, kind) == find_in_all_rows(now, kind)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("meanwhile", FATAL)
def test_an_index_over_other_rows_is_given_up(table: Table, meanwhile: str, kind: IndexKind) -> None:
    staged, now = build(table, kind), FATAL[meanwhile](table)
    assert carry_over_indexes(staged, table, now) is None


@pytest.mark.parametrize("kind", COLUMNS)
def test_an_index_over_some_compacted_rows_covers_the_others(table: Table, kind: IndexKind) -> None:
    table = add(12, 13, 14, 15)(table)
    staged, tasks = build(table, kind), plan_compaction(table, 8)
    now = put(table, stage_rewrites(table, [run_compaction(table, tasks[0])]))
    after = put(now, carry_over_indexes(staged, table, now))
    assert after.list_indexes()[f"{COLUMNS[kind]}_idx"].rows == 8
    assert find(after, kind) == find_in_all_rows(now, kind)


@pytest.mark.parametrize("kind", COLUMNS)
def test_an_index_that_covers_as_much_and_was_built_meanwhile_is_kept(table: Table, kind: IndexKind) -> None:
    staged, now = build(table, kind), put(table, build(table, kind))
    assert carry_over_indexes(staged, table, now) is None


@pytest.mark.parametrize("kind", COLUMNS)
def test_an_older_index_is_replaced(table: Table, kind: IndexKind) -> None:
    table = add(12, 13)(put(table, build(table, kind)))
    staged, now = build(table, kind), add(14)(table)
    after = put(now, carry_over_indexes(staged, table, now))
    assert after.list_indexes()[f"{COLUMNS[kind]}_idx"].rows == 14
    assert find(after, kind) == find_in_all_rows(now, kind)


def compacted_on(table: Table, now: Table) -> Table:
    staged = compact(table)
    assert staged is not None
    return put(now, carry_over_rewrites(staged, table, now))


@pytest.mark.parametrize("meanwhile", ["an append", "a restore to where it was built", "an index on another column"])
def test_a_compaction_is_committed_on_what_others_wrote(table: Table, meanwhile: str) -> None:
    now = HARMLESS[meanwhile](table)
    after = compacted_on(table, now)
    assert ids(after.dataset.to_table()) == ids(now.dataset.to_table())
    assert len(after.fragment_rows()) == len(now.fragment_rows()) - 2
    # No id comes again, or an index would claim rows that it never saw.
    assert not set(after.fragment_rows()) - set(now.fragment_rows()) & set(now.fragment_rows())
    row_ids = [table.dataset.to_table(columns=["id"], with_row_id=True).sort_by("id") for table in (now, after)]
    assert row_ids[0] == row_ids[1]


@pytest.mark.parametrize("touched", [delete(1), update(5), delete(8, 9, 10, 11)], ids=["delete", "update", "emptied"])
def test_a_compaction_of_changed_fragments_is_given_up(table: Table, touched: Change) -> None:
    staged, now = compact(table), touched(table)
    assert staged is not None
    assert carry_over_rewrites(staged, table, now) is None


@pytest.mark.parametrize("meanwhile", FATAL)
def test_a_compaction_of_other_rows_is_given_up(table: Table, meanwhile: str) -> None:
    staged, now = compact(table), FATAL[meanwhile](table)
    assert staged is not None
    assert carry_over_rewrites(staged, table, now) is None


def test_only_the_untouched_part_of_a_compaction_is_committed(table: Table) -> None:
    table = add(*range(12, 16))(table)
    staged = stage_rewrites(table, [run_compaction(table, task) for task in plan_compaction(table, 8)])
    assert staged is not None
    now = delete(1)(table)
    after = put(now, carry_over_rewrites(staged, table, now))
    assert ids(after.dataset.to_table()) == ids(now.dataset.to_table())
    assert len(after.fragment_rows()) == 3


def test_after_a_cleanup_nobody_knows_what_happened(table: Table) -> None:
    staged, now = build(table, B), chain(add(12), add(13))(table)
    tables.drop_versions(now, [table.version + 1])
    assert carry_over_indexes(staged, table, now) is None


@pytest.mark.parametrize("kind", [B, T, V])
def test_an_index_grows_unless_rows_have_kept_their_row_ids(table: Table, kind: IndexKind) -> None:
    """Lance would find the older text of such a row in the older segment."""
    column = COLUMNS[kind]
    added = add(12)(indexing(column, kind)(table))
    lacking = choose_segment(added, column)
    assert lacking == (3,)
    assert can_grow(added, column, kind, lacking)
    moved = tables.merge_rows(added, rows(1, word="black"), on="id")
    lacking = choose_segment(moved, column)
    assert lacking == (3, 4)
    assert can_grow(moved, column, kind, lacking) is (kind is B)

"""Rows by their ids: listed at once, listed in parts where an index serves them, or met in one pass over all rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.storage.columns import to_list
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    IndexKind,
    Table,
    append,
    build_index,
    can_list_values,
    combine_batches,
    find_addresses,
    row_search,
    split_for_filters,
)
from tests.deleting import delete_where
from tests.storage.tables.sample_tables import people, put, table_of

NAMES = [f"p{number}'" for number in range(40)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Forty rows with an index on their ids."""
    table = table_of(tmp_path, **{name: at for at, name in enumerate(NAMES)})
    return put(table, build_index(table, "id", IndexKind.BTREE))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than three are many, and a look into an index costs as much as reading four rows."""
    monkeypatch.setattr(row_search, "MAX_LISTED_VALUES", 3)
    monkeypatch.setattr(row_search, "_ROWS_PER_LOOKUP", 4)


def found(table: Table, ids: list[str]) -> list[str]:
    """The ids at the addresses that were found, each of them once."""
    addresses = find_addresses(table, pa.table({"id": ids}, pa.schema({"id": pa.string()}))).tolist()
    rows = table.scan(["id"], with_row_address=True).read_all().to_pylist()
    assert len(addresses) == len(set(addresses))
    return sorted(row["id"] for row in rows if row[ROW_ADDRESS] in addresses)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("count", [0, 2, 3, 4, 9, 10, 11, 40])
def test_every_way_finds_the_same(table: Table, count: int) -> None:
    table = put(table, delete_where(table, "age = 1"))
    ids = [*NAMES[:count][::-1], "nobody"]
    assert found(table, ids) == sorted({*NAMES[:count]} - {NAMES[1]})
    # The same one twice is in two listings, perhaps.
    assert found(table, [*ids, *NAMES[:1]]) == sorted({*NAMES[: max(count, 1)]} - {NAMES[1]})


@pytest.mark.usefixtures("few")
def test_many_ids_are_looked_up_in_a_table_without_rows(table: Table) -> None:
    assert found(put(table, delete_where(table, "age >= 0")), NAMES) == []


@pytest.mark.usefixtures("few")
def test_an_index_is_used_for_a_share_of_the_rows(table: Table) -> None:
    assert [can_list_values(table, "id", count) for count in (3, 4, 10, 11, 1_000)] == [True, True, True, False, False]
    assert [can_list_values(table, "age", count) for count in (3, 4)] == [True, False]
    # Each of the four filters looks at all rows that the index does not know.
    younger = put(table, append(table, people(**{f"q{number}": number for number in range(13)})))
    assert [can_list_values(younger, "id", count) for count in (9, 12, 13)] == [True, True, False]
    younger = put(younger, append(younger, people(one_more=1)))
    assert [can_list_values(younger, "id", count) for count in (9, 12, 13)] == [True, False, False]


@pytest.mark.usefixtures("few")
def test_texts_are_listed_in_their_order() -> None:
    texts = pa.array(["d", "b", "a", "c"])
    assert [to_list(each) for each in split_for_filters(texts)] == [["a", "b", "c"], ["d"]]
    assert list(split_for_filters(texts.slice(0, 0))) == []


def test_pieces_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": range(10)})
    monkeypatch.setattr(row_search, "_ROWS_AT_ONCE", 4)
    pieces = list(combine_batches(rows.schema, rows.to_batches(max_chunksize=3)))
    assert [piece.num_rows for piece in pieces] == [6, 4]
    assert pa.concat_tables(pieces) == rows
    assert list(combine_batches(rows.schema, [])) == []

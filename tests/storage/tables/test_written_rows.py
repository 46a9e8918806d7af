"""Rows that this process has just written are not fetched again, unless a table shows them otherwise by now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from lance.fragment import LanceFragment

from omnigraph.storage import tables
from omnigraph.storage.tables import Table, list_fragments, open_table, take_fragment

ROWS = pa.table({"id": ["a", "b"], "age": pa.array([1, None], pa.int32())})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table whose newest fragment was appended here."""
    first = tables.create_table(str(tmp_path / "t.lance"), ROWS, "create")
    staged = tables.append(first, pa.table({"id": ["c", "d"], "age": pa.array([3, None], pa.int32())}))
    assert staged is not None
    return tables.commit(first, staged, "append")


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The fragments that were fetched from Lance."""
    fetched: list[int] = []
    take = cast("Callable[[LanceFragment, list[int], list[str]], pa.Table]", LanceFragment.take)

    def counting(self: LanceFragment, indices: list[int], columns: list[str]) -> pa.Table:
        fetched.append(self.fragment_id)
        return take(self, indices, columns)

    monkeypatch.setattr(LanceFragment, "take", counting)
    return fetched


def test_appended_rows_are_known_and_those_of_others_are_fetched(table: Table, fetches: list[int]) -> None:
    old, new = list_fragments(table)
    assert take_fragment(table, new, ["age", "id"]).to_pydict() == {"age": [3, None], "id": ["c", "d"]}
    assert fetches == []
    assert take_fragment(table, old, ["id"]).to_pydict() == {"id": ["a", "b"]}
    there = open_table(table.uri)
    assert take_fragment(there, new, ["age", "id"]).to_pydict() == {"age": [3, None], "id": ["c", "d"]}
    assert fetches == [old.id, new.id]


def test_many_rows_are_not_kept(table: Table, fetches: list[int]) -> None:
    staged = tables.append(table, pa.table({"id": [f"n{number}" for number in range(100)]}))
    assert staged is not None
    newest = tables.commit(table, staged, "append")
    fragment = list_fragments(newest)[-1]
    assert take_fragment(newest, fragment, ["id"]).num_rows == 100
    assert fetches == [fragment.id]


def test_a_column_that_was_dropped_and_added_again_does_not_show_what_was_written_before(
    table: Table, fetches: list[int]
) -> None:
    """Both columns have the same name and type, but other numbers."""
    dataset = table.dataset.checkout_version(table.version)
    dataset.drop_columns(["age"])
    dataset.add_columns(pa.field("age", pa.int32()))
    newest = table.open_at(None)
    fragment = list_fragments(newest)[-1]
    assert take_fragment(newest, fragment, ["id", "age"]).to_pydict() == {"id": ["c", "d"], "age": [None, None]}
    assert fetches == [fragment.id]

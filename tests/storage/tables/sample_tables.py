"""Small tables for the storage tests: people by id, and how to read them back."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa

from omnigraph.storage.tables import (
    Access,
    StagedChange,
    Table,
    append,
    commit,
    create_table,
    find_addresses,
    replace_rows,
)

PEOPLE = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("age", pa.int64())])


def people(**ages: int) -> pa.Table:
    return pa.table({"id": list(ages), "age": list(ages.values())}, schema=PEOPLE)


def table_of(folder: Path, **ages: int) -> Table:
    """A table at version 1 without rows, or at version 2 with these."""
    table = create_table(str(folder / "people"), people(), "op-create", Access())
    return put(table, append(table, people(**ages))) if ages else table


def put(table: Table, staged: StagedChange | None, operation_id: str = "op") -> Table:
    assert staged is not None
    return commit(table, staged, operation_id)


def upsert(table: Table, rows: pa.Table) -> StagedChange:
    """Rows in place of those with their ids, as loads, mutations and merges stage them."""
    return replace_rows(table, find_addresses(table, rows.select(["id"])), rows)


def operation_of(staged: StagedChange) -> str:
    """The Lance operation that a change will be."""
    return type(staged.transaction.operation).__name__


def ages(table: Table, where: str | None = None) -> dict[str, int]:
    found = table.scan(["id", "age"], filter=where).read_all()
    keys, values = cast("list[str]", found["id"].to_pylist()), cast("list[int]", found["age"].to_pylist())
    assert len(set(keys)) == len(keys), "an id is there twice"
    return dict(zip(keys, values, strict=True))

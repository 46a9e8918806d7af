"""Rows that go by a condition, as in a Lance program; the graph itself knows the places of what it removes."""

from __future__ import annotations

from omnigraph.storage.tables import ROW_ADDRESS, StagedChange, Table, delete_at


def delete_where(table: Table, predicate: str) -> StagedChange | None:
    """Stage the removal of the rows that match. None when no row does."""
    addresses = table.scan([], filter=predicate, with_row_address=True).read_all()[ROW_ADDRESS].to_numpy()
    return delete_at(table, addresses) if len(addresses) else None

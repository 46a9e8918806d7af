"""The staging area of one table: pending rows, searches, and the resulting change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pyarrow as pa
import pytest

from omnigraph.graph import Graph
from omnigraph.language.query.ast import ComparisonOperator
from omnigraph.language.types import Scalar, ValueType
from omnigraph.storage import tables
from omnigraph.storage.filters import Condition, ValueIn, compare_column
from omnigraph.storage.tables import ROW_ADDRESS
from omnigraph.write.mutation.staging import PendingTable, StagingArea
from omnigraph.write.rules.changed_table import RowLocations
from tests.deleting import delete_where
from tests.storage.tables.sample_tables import operation_of


@pytest.fixture
def staging(fleet: Graph) -> StagingArea:
    return StagingArea(fleet.snapshot())


@pytest.fixture
def ports(fleet: Graph, staging: StagingArea) -> PendingTable:
    """Two ports: p1 Oslo, 12.5 deep, and p2 Kiel."""
    return staging.table(fleet.schema.catalog.nodes["Port"])


def rows(ports: PendingTable, **names: str) -> pa.Table:
    values = [{"id": code, "code": code, "name": name} for code, name in names.items()]
    return pa.Table.from_pylist(values, schema=ports.schema)


def ids(*values: str) -> pa.StringArray:
    return pa.array(values, pa.string())


def named(name: str, word: ComparisonOperator = ComparisonOperator.EQUAL) -> Condition:
    condition = compare_column("name", ValueType(Scalar.STRING), word, name)
    assert condition is not None
    return condition


def names(table: pa.Table) -> dict[str, str]:
    codes, found = cast("list[str]", table["id"].to_pylist()), cast("list[str]", table["name"].to_pylist())
    assert len(set(codes)) == len(codes), "an id is there twice"
    return dict(zip(codes, found, strict=True))


def committed(ports: PendingTable) -> dict[str, str]:
    """Commit the change and return the rows of the table."""
    staged = ports.to_change().stage(ports.pinned)
    table = ports.pinned if staged is None else tables.commit(ports.pinned, staged, "test")
    return names(table.scan().read_all())


def test_the_last_row_of_an_id_counts(ports: PendingTable) -> None:
    ports.upsert(rows(ports, p1="one", p8="eight"))
    ports.upsert(rows(ports, p1="two"))
    assert names(ports.rows) == {"p8": "eight", "p1": "two"}
    assert committed(ports) == {"p1": "two", "p2": "Kiel", "p8": "eight"}


def test_pending_rows_hide_committed_ones(ports: PendingTable) -> None:
    ports.upsert(rows(ports, p1="Bergen"))
    assert ports.find_ids(named("Oslo")).to_pylist() == []
    assert ports.find_ids(named("Bergen")).to_pylist() == ["p1"]
    assert names(ports.read_matching(named("A", ComparisonOperator.GREATER))) == {"p1": "Bergen", "p2": "Kiel"}


def test_removed_rows_are_not_found(ports: PendingTable) -> None:
    ports.upsert(rows(ports, p8="eight"))
    ports.delete(ids("p1", "p8"))
    assert ports.find_ids(named("A", ComparisonOperator.GREATER)).to_pylist() == ["p2"]
    assert ports.find_ids(ValueIn(("id",), ids("p1", "p2", "p8"))).to_pylist() == ["p2"]
    assert committed(ports) == {"p2": "Kiel"}


def test_what_is_put_back_is_not_removed(ports: PendingTable) -> None:
    ports.delete(ids("p1"))
    ports.upsert(rows(ports, p1="again"))
    assert ports.deleted_ids.to_pylist() == []
    assert committed(ports) == {"p1": "again", "p2": "Kiel"}


def test_a_row_that_is_read_whole_is_written_as_it_was(ports: PendingTable) -> None:
    before = ports.pinned.scan().read_all().sort_by("id")
    ports.upsert(ports.read_matching(named("A", ComparisonOperator.GREATER)))
    staged = ports.to_change().stage(ports.pinned)
    assert staged is not None
    after = tables.commit(ports.pinned, staged, "test").scan().read_all().sort_by("id")
    assert after.to_pylist() == before.to_pylist()


@pytest.mark.parametrize(
    ("removed", "added", "put", "operation", "rows_after"),
    [
        ([], {"p8": "eight"}, {}, "Append", 3),
        ([], {}, {"p8": "eight"}, "Append", 3),
        ([], {}, {"p1": "one"}, "Update", 2),
        (["p1"], {}, {}, "Delete", 1),
        (["p1"], {"p8": "eight"}, {}, "Update", 2),
        (["p9"], {}, {}, None, 2),
    ],
)
def test_one_change_is_one_lance_operation(
    ports: PendingTable,
    removed: list[str],
    added: Mapping[str, str],
    put: Mapping[str, str],
    operation: str | None,
    rows_after: int,
) -> None:
    if removed:
        ports.delete(ids(*removed))
    if added:
        ports.insert(rows(ports, **added))
    if put:
        ports.upsert(rows(ports, **put))
    staged = ports.to_change().stage(ports.pinned)
    assert (operation_of(staged) if staged else None) == operation
    table = ports.pinned if staged is None else tables.commit(ports.pinned, staged, "test")
    assert table.count_rows() == rows_after
    assert table.version == ports.pinned.version + (0 if staged is None else 1)


def test_a_change_fits_a_newer_version_too(ports: PendingTable) -> None:
    ports.upsert(rows(ports, p8="mine"))
    change = ports.to_change()
    assert change.stage(ports.pinned) is not None
    other = tables.append(ports.pinned, rows(ports, p8="theirs"))
    assert other is not None
    newer = tables.commit(ports.pinned, other, "other")
    staged = change.stage(newer)
    assert staged is not None
    assert names(tables.commit(newer, staged, "test").scan().read_all())["p8"] == "mine"


def test_where_rows_were_seen_counts_for_that_version_only(ports: PendingTable) -> None:
    ports.upsert(rows(ports, p1="Bergen"))
    lying = ports.pinned.scan(["id"], filter="id = 'p1'", with_row_address=True).read_all()[ROW_ADDRESS].to_numpy()
    change = ports.to_change(RowLocations(ports.pinned, lying))
    staged = change.stage(ports.pinned)
    assert staged is not None
    assert operation_of(staged) == "Update"
    gone = delete_where(ports.pinned, "id = 'p1'")
    assert gone is not None
    newer = tables.commit(ports.pinned, gone, "test")
    staged = change.stage(newer)
    assert staged is not None
    assert operation_of(staged) == "Append"
    assert names(tables.commit(newer, staged, "test").scan().read_all()) == {"p1": "Bergen", "p2": "Kiel"}


def test_a_copy_goes_its_own_way(fleet: Graph, staging: StagingArea, ports: PendingTable) -> None:
    ports.upsert(rows(ports, p8="eight"))
    copy = staging.copy().table(fleet.schema.catalog.nodes["Port"])
    copy.upsert(rows(ports, p9="nine"))
    copy.delete(ids("p1"))
    assert names(ports.rows) == {"p8": "eight"}
    assert ports.deleted_ids.to_pylist() == []
    assert names(copy.rows) == {"p8": "eight", "p9": "nine"}


def test_tables_whose_rows_decided_are_known(fleet: Graph, staging: StagingArea) -> None:
    catalog = fleet.schema.catalog
    staging.find_ids(catalog.nodes["Port"], named("Oslo"))
    staging.table(catalog.nodes["Vessel"])
    assert staging.reads == {"node:Port"}
    assert list(staging.list_changed()) == []

"""Read every row and every blob of a snapshot, and check all rows against the rules of the schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from operator import itemgetter
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import OmniGraphError, Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Pin, Snapshot
from omnigraph.progress import follow_steps
from omnigraph.read.rows import EXTERNAL_BLOB, blob_properties_of, descriptors_of, measure_blob, value_columns_of
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, find_true, to_list
from omnigraph.storage.keys import make_ids
from omnigraph.storage.lagging_columns import read_declared_column
from omnigraph.storage.tables import ROW_ADDRESS, Table
from omnigraph.write.rules import IncomingMode, RowChanges, check_changes, check_rows, list_rule_columns, type_of_table
from omnigraph.write.spill import spill_rows

MAX_VIOLATIONS: Final = 1_000
"""The number of violations that are listed for one branch."""


@dataclass(slots=True)
class RowVerification:
    """The result of reading the tables of a snapshot."""

    rows: dict[str, int] = field(default_factory=dict[str, int])
    """The number of rows by table key."""
    violations: list[Violation] = field(default_factory=list[Violation])
    unreadable: dict[str, OmniGraphError] = field(default_factory=dict[str, OmniGraphError])


def verify_rows(catalog: Catalog, snapshot: Snapshot) -> RowVerification:
    """Read every row of every table once, check the row rules, then the set rules as if all rows were incoming."""
    found, changes = RowVerification(), list[RowChanges]()
    for key, pin in follow_steps("checking rows", snapshot.pins.items(), itemgetter(0)):
        try:
            changes += _read_table(catalog, snapshot, pin, found)
        except OmniGraphError as error:
            found.unreadable[key] = error
    if not found.unreadable:
        room = MAX_VIOLATIONS - len(found.violations)
        found.violations += check_changes(catalog, snapshot, changes, max(0, room)).violations
    return found


def _read_table(catalog: Catalog, snapshot: Snapshot, pin: Pin, found: RowVerification) -> Iterator[RowChanges]:
    known = {type_.table_key for type_ in catalog.types()}
    table = snapshot.table(pin.table_key)
    if pin.table_key not in known:
        # A type that is no longer in the schema has rows but no rules.
        found.rows[pin.table_key] = sum(batch.num_rows for batch in table.scan(one_by_one=True))
        return
    type_ = type_of_table(catalog, pin.table_key)
    declared = arrow_schema(type_)
    # All columns are nullable here: a null in a required column is what this check must find.
    schema = pa.schema([(name, _type_in(declared, name)) for name in list_rule_columns(catalog, pin.table_key)])
    incoming = spill_rows(schema, _check_batches(type_, table, schema, found))
    yield RowChanges(pin.table_key, incoming, mode=IncomingMode.OVERWRITE)


def _check_batches(
    type_: NodeType | EdgeType, table: Table, schema: pa.Schema, found: RowVerification
) -> Iterator[pa.Table]:
    """Yield the rows in the columns that set rules need; counts them and checks the row rules on the way."""
    declared = {name: _type_in(arrow_schema(type_), name) for name in value_columns_of(type_)}
    stored = [name for name in declared if name in table.schema.names]
    found.rows[type_.table_key] = 0
    for batch in table.scan(stored, one_by_one=True):
        found.rows[type_.table_key] += batch.num_rows
        room = MAX_VIOLATIONS - len(found.violations)
        columns = {name: read_declared_column(type_, table.lag, batch, name, each) for name, each in declared.items()}
        rows = pa.RecordBatch.from_pydict(columns)
        # A column that a lagging table lacks reads as null or as its default, and cannot be violated.
        broken = [each for each in check_rows(type_, rows, room) if _is_stored(each, stored)]
        found.violations += [*broken, *_find_wrong_ids(type_, rows, stored)][:room]
        yield pa.table([column_of(rows, name) for name in schema.names], schema=schema)


def _is_stored(violation: Violation, stored: list[str]) -> bool:
    return all(name in stored for name in (violation.property or "id").split(", "))


def _find_wrong_ids(type_: NodeType | EdgeType, batch: pa.RecordBatch, stored: list[str]) -> Iterator[Violation]:
    """Yield the nodes whose id is not the text of their key."""
    key = type_.key if isinstance(type_, NodeType) else None
    if not isinstance(type_, NodeType) or not key or not all(name in stored for name in key):
        return
    ids = column_of(batch, "id")
    expected = cast("Values", make_ids(type_, batch))
    wrong = find_true(compute("coalesce", compute("not_equal", ids, expected), pa.scalar(value=True)))
    for id_, given in zip(to_list(ids.take(wrong)), to_list(expected.take(wrong)), strict=True):
        message = f"@key on {type_.name}: '{id_}' has the key of '{given}'"
        yield Violation(
            type_.name,
            "@key",
            message,
            id=cast("str | None", id_),
            property=", ".join(key),
            table_key=type_.table_key,
        )


def _type_in(schema: pa.Schema, name: str) -> pa.DataType:
    return cast("pa.DataType", schema.field(name).type)


# --------------------------------------------------------------------------------------------- blobs

_MAX_BROKEN: Final = 1_000
"""The number of broken blobs that are listed for one branch."""


@dataclass(slots=True)
class BlobVerification:
    """The number of blobs, their bytes, and the broken ones: the row and property of each, and what is wrong."""

    count: int = 0
    bytes: int = 0
    broken: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def verify_blobs(catalog: Catalog, snapshot: Snapshot) -> BlobVerification:
    """Read every blob to its last byte, external ones too: a scan of rows reads only descriptors."""
    found = BlobVerification()
    for type_ in catalog.types():
        if type_.table_key in snapshot.pins:
            table = snapshot.table(type_.table_key)
            for name in blob_properties_of(type_):
                if name in table.schema.names:
                    _check_blob_column(type_, table, name, found)
    return found


def _check_blob_column(type_: NodeType | EdgeType, table: Table, name: str, found: BlobVerification) -> None:
    for id_, address, expected in _list_blobs(table, name):
        if len(found.broken) >= _MAX_BROKEN:
            return
        where = f"{type_.name} {id_}, {name}"
        try:
            size = measure_blob(table, name, address)
        except OmniGraphError as error:
            found.broken.append((where, error.message))
            continue
        found.count += 1
        found.bytes += size
        if expected is not None and size != expected:
            found.broken.append((where, f"it has {size:,} bytes; its row says {expected:,}"))


def _list_blobs(table: Table, name: str) -> Iterator[tuple[str, int, int | None]]:
    """Yield the id and address of every row that has a blob, and its size; None for an external object."""
    for batch in table.scan(["id", name], with_row_address=True, one_by_one=True):
        ids = cast("list[str]", to_list(column_of(batch, "id")))
        addresses = cast("list[int]", to_list(column_of(batch, ROW_ADDRESS)))
        for id_, address, descriptor in zip(ids, addresses, descriptors_of(batch, name), strict=True):
            if descriptor is not None:
                size = cast(int, descriptor["size"])
                yield id_, address, None if descriptor["kind"] == EXTERNAL_BLOB and not size else size

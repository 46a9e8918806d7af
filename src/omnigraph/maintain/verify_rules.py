"""Reading every row of a snapshot, once, and holding all of them against every rule of the schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import OmniGraphError, Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.types import Scalar
from omnigraph.manifest.snapshot import Pin, Snapshot
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, places, to_list
from omnigraph.storage.keys import ids_of
from omnigraph.storage.lagging_columns import read_declared_column
from omnigraph.storage.table import Table
from omnigraph.write.rules import IncomingMode, RowChanges, check_changes, check_rows, list_rule_columns, type_of_table
from omnigraph.write.spill import spill_rows

MOST_VIOLATIONS: Final = 1_000
"""So many are listed of one branch; whoever has more has another problem."""


@dataclass(slots=True)
class RuleCheck:
    """What reading the tables of a snapshot gave."""

    rows: dict[str, int] = field(default_factory=dict[str, int])
    violations: list[Violation] = field(default_factory=list[Violation])
    unreadable: dict[str, OmniGraphError] = field(default_factory=dict[str, OmniGraphError])


def check_rules(catalog: Catalog, snapshot: Snapshot) -> RuleCheck:
    """Read every row of every table, then run the set rules over all of them, as if all had just come in."""
    found, images = RuleCheck(), list[RowChanges]()
    for key, pin in snapshot.pins.items():
        try:
            images += _read_table(catalog, snapshot, pin, found)
        except OmniGraphError as error:
            found.unreadable[key] = error
    if not found.unreadable:
        room = MOST_VIOLATIONS - len(found.violations)
        found.violations += check_changes(catalog, snapshot, images, max(0, room)).violations
    return found


def _read_table(catalog: Catalog, snapshot: Snapshot, pin: Pin, found: RuleCheck) -> Iterator[RowChanges]:
    known = {type_.table_key for type_ in catalog.types()}
    table = snapshot.table(pin.table_key)
    if pin.table_key not in known:
        # A type that the current schema does not have any more has rows, and no rules.
        found.rows[pin.table_key] = sum(batch.num_rows for batch in table.scan(one_by_one=True))
        return
    type_ = type_of_table(catalog, pin.table_key)
    wanted = arrow_schema(type_)
    # What must not be null may be all the same, here of all places.
    schema = pa.schema([(name, _type_in(wanted, name)) for name in list_rule_columns(catalog, pin.table_key)])
    incoming = spill_rows(schema, _checked(type_, table, schema, found))
    yield RowChanges(pin.table_key, incoming, mode=IncomingMode.OVERWRITE)


def _checked(type_: NodeType | EdgeType, table: Table, schema: pa.Schema, found: RuleCheck) -> Iterator[pa.Table]:
    """The rows in the columns that set rules need; on their way each is counted and held against the row rules."""
    stored = [name for name in table.schema.names if not _is_blob(type_, name)]
    found.rows[type_.table_key] = 0
    for batch in table.scan(stored, one_by_one=True):
        found.rows[type_.table_key] += batch.num_rows
        room = MOST_VIOLATIONS - len(found.violations)
        # A table of a branch may lag behind the schema: what it lacks reads as null or as its default.
        broken = [each for each in check_rows(type_, batch, room) if _is_stored(each, stored)]
        found.violations += [*broken, *_wrong_ids(type_, batch, stored)][:room]
        yield _shaped(type_, batch, schema)


def _is_blob(type_: NodeType | EdgeType, name: str) -> bool:
    known = type_.properties.get(name)
    return known is not None and known.type.scalar is Scalar.BLOB


def _is_stored(violation: Violation, stored: list[str]) -> bool:
    return all(name in stored for name in (violation.property or "id").split(", "))


def _wrong_ids(type_: NodeType | EdgeType, batch: pa.RecordBatch, stored: list[str]) -> Iterator[Violation]:
    """A node with a key has the text of its key as its id."""
    key = type_.key if isinstance(type_, NodeType) else None
    if not isinstance(type_, NodeType) or not key or not all(name in stored for name in key):
        return
    ids = column_of(batch, "id")
    expected = cast("Values", ids_of(type_, batch))
    wrong = places(compute("coalesce", compute("not_equal", ids, expected), pa.scalar(value=True)))
    for id_, given in zip(to_list(ids.take(wrong)), to_list(expected.take(wrong)), strict=True):
        message = f"@key on {type_.name}: '{id_}' has the key of '{given}'"
        yield Violation(type_.name, "@key", message, id=cast("str | None", id_), property=", ".join(key))


def _shaped(type_: NodeType | EdgeType, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    columns = [read_declared_column(type_, batch, name, _type_in(schema, name)) for name in schema.names]
    return pa.table(columns, schema=schema)


def _type_in(schema: pa.Schema, name: str) -> pa.DataType:
    return cast("pa.DataType", schema.field(name).type)

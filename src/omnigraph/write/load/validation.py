"""Rows that come in: given their ids, held against the row rules, and let through or turned away.

Whatever rows come from, they arrive here as a :class:`RawBatch`: columns of one type, and where each row stood. What is
let through has the columns of the type's table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import Json, Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, absent, column_of, compute, places, to_list
from omnigraph.storage.keys import ids_of
from omnigraph.write.ids import generate_ids
from omnigraph.write.load.conversion import Converted
from omnigraph.write.rules import REQUIRED, find_row_violations, format_key, shorten


@dataclass(frozen=True, slots=True)
class RowError:
    """One thing that is wrong with one row of a batch; rows count from 0."""

    row: int
    property: str | None
    rule: str
    message: str
    value: Json = None


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Rows of one type as they were read. A column that is not there is null; ``id`` is what the rows say themselves.

    ``record`` gives the text of a row, for who has to correct it.
    """

    type: NodeType | EdgeType
    columns: Mapping[str, Values]
    errors: Sequence[RowError]
    file: str | None
    lines: Values
    record: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that was turned away, and every reason for it."""

    record: str
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class ValidatedBatch:
    """What became of a draft. ``fresh``: all ids were made here, so no other row can have one of them."""

    type: NodeType | EdgeType
    rows: pa.RecordBatch
    file: str | None
    lines: Values
    fresh: bool
    rejected: tuple[RejectedRecord, ...]


def to_row_errors(name: str, rule: str, converted: Converted) -> list[RowError]:
    """What did not fit a property."""
    return [
        RowError(each.row, name, rule, f"'{name}': {each.message}", format_value(each.value))
        for each in converted.mismatches
    ]


def resolve_end_ids(node: NodeType, name: str, parts: Mapping[str, Converted]) -> tuple[Values, list[RowError]]:
    """The nodes at one end of edges, by the values of their key; what is wrong with those is wrong with the end."""
    faults = [
        replace(fault, property=name, message=f"'{name}': {fault.message}")
        for part, converted in parts.items()
        for fault in to_row_errors(part, str(node.properties[part].type), converted)
    ]
    columns = {part: converted.values for part, converted in parts.items()}
    return cast("Values", ids_of(node, pa.record_batch(columns))) if columns else absent(0, pa.string()), faults


def format_value(value: object) -> str | None:
    """A value as a violation shows it."""
    return None if value is None else shorten(str(value))


def validate_batch(draft: RawBatch) -> ValidatedBatch:
    """Give ids to the rows of a draft, check each row by itself, and part the good from the bad."""
    rows, fresh, faults = _identified(draft)
    faults = [*draft.errors, *faults]
    faults += _broken_rules(draft.type, rows, faults)
    kept, lines = rows, draft.lines
    if faults:
        good = np.setdiff1d(np.arange(rows.num_rows), [fault.row for fault in faults])
        kept, lines = rows.take(good), draft.lines.take(good)
    schema = arrow_schema(draft.type)
    # Only now, because a vector of a wrong length has no place in its column.
    columns = [column_of(kept, name).cast(type_) for name, type_ in zip(schema.names, schema.types, strict=True)]
    admitted = pa.RecordBatch.from_arrays(columns, schema=schema)
    return ValidatedBatch(draft.type, admitted, draft.file, lines, fresh, _rejected(draft, rows, faults))


def _identified(draft: RawBatch) -> tuple[pa.RecordBatch, bool, list[RowError]]:
    """The rows with their ids, and whether all of those are new."""
    type_, count, schema = draft.type, len(draft.lines), arrow_schema(draft.type)
    columns = {
        name: draft.columns[name] if name in draft.columns else absent(count, column_type)
        for name, column_type in zip(schema.names, schema.types, strict=True)
    }
    given = columns["id"]
    if isinstance(type_, NodeType) and type_.key is not None:
        columns["id"] = cast("Values", ids_of(type_, pa.record_batch(columns)))
        fresh, faults = False, _disagreeing(type_, given, columns["id"])
    else:
        made = cast("Values", generate_ids(count))
        fresh, faults = given.null_count == count, list[RowError]()
        columns["id"] = made if fresh else compute("coalesce", given, made)
    return pa.record_batch(columns), fresh, faults


def _disagreeing(type_: NodeType, given: Values, ids: Values) -> list[RowError]:
    rule = format_key(type_)
    found: list[RowError] = []
    for row in places(compute("not_equal", given, ids)).tolist():
        stated, right = to_list(given.slice(row, 1))[0], to_list(ids.slice(row, 1))[0]
        message = f"{rule} on {type_.name}: the id is '{stated}', but the key gives '{right}'"
        found.append(RowError(row, "id", rule, message, format_value(stated)))
    return found


def _broken_rules(type_: NodeType | EdgeType, rows: pa.RecordBatch, known: Iterable[RowError]) -> list[RowError]:
    """What the row rules find, without what follows from a fault that is known already."""
    broken = find_row_violations(type_, rows)
    if not broken.num_rows:
        return []
    explained = {(fault.row, fault.property) for fault in known}
    faulty = {fault.row for fault in known}
    found: list[RowError] = []
    for each in cast("list[dict[str, object]]", broken.to_pylist()):
        row, name = cast(int, each["row"]), cast(str, each["property"])
        if (row, PUBLIC_NAMES.get(name, name)) in explained or (name == "id" and row in faulty):
            continue
        rule, message, value = cast(str, each["rule"]), cast(str, each["message"]), cast("str | None", each["value"])
        if name in PUBLIC_NAMES and rule == REQUIRED:
            name, message = PUBLIC_NAMES[name], message.replace(f"'{name}'", f"'{PUBLIC_NAMES[name]}'")
        found.append(RowError(row, name, rule, message, value))
    return found


def _rejected(draft: RawBatch, rows: pa.RecordBatch, faults: Iterable[RowError]) -> tuple[RejectedRecord, ...]:
    by_row: dict[int, list[RowError]] = {}
    for fault in faults:
        by_row.setdefault(fault.row, []).append(fault)
    ids = column_of(rows, "id")
    return tuple(
        RejectedRecord(
            draft.record(row),
            tuple(
                Violation(
                    draft.type.name,
                    fault.rule,
                    fault.message,
                    draft.file,
                    cast(int, to_list(draft.lines.slice(row, 1))[0]),
                    _named_id(draft, ids, row),
                    fault.property,
                    fault.value,
                )
                for fault in by_row[row]
            ),
        )
        for row in sorted(by_row)
    )


def _named_id(draft: RawBatch, ids: Values, row: int) -> str | None:
    """The id of a row as whoever wrote it knows it; one that was just made up tells nobody anything."""
    keyed = isinstance(draft.type, NodeType) and draft.type.key is not None
    given = ids if keyed else draft.columns.get("id")
    return None if given is None else cast("str | None", to_list(given.slice(row, 1))[0])

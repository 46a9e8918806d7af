"""Validate incoming rows: assign ids, check the row rules, and accept or reject each row.

Rows from any input arrive as a :class:`RawBatch`: columns of one type, and the position of each row. Accepted rows have
the columns of the type's table. Nothing here reads the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Json, Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import PUBLIC_NAMES, blob_properties_of
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, find_true, make_nulls, to_bool_array, to_list
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.keys import make_ids
from omnigraph.write.load.rows.conversion import ConvertedColumn, IntegerTimes
from omnigraph.write.load.rows.partial_rows import Mask, pack_given, partial_schema
from omnigraph.write.load.rows.rounded_columns import ColumnConversion, RoundingPolicy, find_accepted
from omnigraph.write.rounding import EXACT, RoundedColumn, describe_rounding
from omnigraph.write.row_values import generate_ids
from omnigraph.write.rules import REQUIRED, AbsentValues, find_row_violations, format_key, shorten

BLOB_FILE: Final = "blob file"
"""The rule that a blob breaks if it refers to an object which is not there."""
_MISSING_HINT: Final = "put it there, or give allow_missing_blobs (--allow-missing-blobs)"

MissingObjectSearch: TypeAlias = Callable[[Collection[str]], Mapping[str, str]]
"""Returns what is wrong with each of some URIs whose object is not there."""


@dataclass(frozen=True, slots=True)
class RowError:
    """One problem of one row of a batch. Rows count from 0."""

    row: int
    property: str | None
    rule: str
    message: str
    value: Json = None


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Rows of one type as they were read. A missing column is null; ``id`` holds the ids given in the input.

    ``record`` returns the text of a row, for the person who has to correct it. ``absent`` says which values the records
    of an update do not mention; it is None if the rows are whole. ``conversions`` has what was changed in values.
    """

    type: NodeType | EdgeType
    columns: Mapping[str, Values]
    errors: Sequence[RowError]
    file: str | None
    lines: Values
    record: Callable[[int], str]
    absent: AbsentValues | None = None
    conversions: Mapping[str, ColumnConversion] = field(default_factory=dict[str, ColumnConversion])


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A rejected record and its violations."""

    record: str
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class ValidatedBatch:
    """The accepted rows of a batch, whole or partial, and the rejected records.

    The ids of the last ``generated`` rows were generated.
    """

    type: NodeType | EdgeType
    rows: pa.RecordBatch
    file: str | None
    lines: Values
    generated: int
    rejected: tuple[RejectedRecord, ...]
    rounded: tuple[RoundedColumn, ...] = ()
    times: Mapping[str, IntegerTimes] = field(default_factory=dict[str, IntegerTimes])


def to_row_errors(name: str, rule: str, converted: ConvertedColumn) -> list[RowError]:
    """Return the mismatches of a converted column as errors of its property."""
    return [
        RowError(each.row, name, rule, f"'{name}': {each.message}", format_value(each.value))
        for each in converted.mismatches
    ]


def resolve_end_ids(node: NodeType, name: str, parts: Mapping[str, ConvertedColumn]) -> tuple[Values, list[RowError]]:
    """Return the ids of the nodes at one end of edges, from their key values, and the errors of these values."""
    errors = [
        replace(error, property=name, message=f"'{name}': {error.message}")
        for part, converted in parts.items()
        for error in to_row_errors(part, str(node.properties[part].type), converted)
    ]
    # An id that was made from a rounded value is that of another node.
    errors += [
        RowError(row, name, EXACT, f"{EXACT}: '{name}': the value of '{part}' is not that of any {node.name}")
        for part, converted in parts.items()
        for row in converted.rounded.tolist()
    ]
    columns = {part: converted.values for part, converted in parts.items()}
    return cast("Values", make_ids(node, pa.record_batch(columns))) if columns else make_nulls(0, pa.string()), errors


def format_value(value: object) -> str | None:
    """Format a value for a violation."""
    return None if value is None else shorten(str(value))


_LENIENT: Final = RoundingPolicy()


def validate_batch(
    batch: RawBatch, find_missing: MissingObjectSearch | None = None, policy: RoundingPolicy = _LENIENT
) -> ValidatedBatch:
    """Assign ids to the rows of a batch, check each row by itself, and separate accepted from rejected rows.

    ``find_missing`` looks for the objects that blobs refer to; without it they may be missing.
    """
    rows, is_generated, errors = _assign_ids(batch)
    errors = [*batch.errors, *errors, *_find_refused_roundings(batch, policy)]
    errors += _check_row_rules(batch, rows, errors)
    if find_missing is not None:
        errors += _find_missing_blobs(batch.type, rows, find_missing)
    kept, lines = rows, batch.lines
    if errors or is_generated.any() != is_generated.all():
        valid = np.setdiff1d(np.arange(rows.num_rows), [error.row for error in errors])
        # Rows with generated ids come last.
        order = valid[np.argsort(is_generated[valid], kind="stable")]
        kept, lines, is_generated = rows.take(order), batch.lines.take(order), is_generated[order]
    schema = arrow_schema(batch.type) if batch.absent is None else partial_schema(batch.type)
    # Cast after rejecting rows: a vector of a wrong length does not fit its column.
    columns = [column_of(kept, name).cast(type_) for name, type_ in zip(schema.names, schema.types, strict=True)]
    accepted = pa.RecordBatch.from_arrays(columns, schema=schema)
    generated = int(is_generated.sum())
    rejected = _build_rejected(batch, rows, errors)
    rounded = tuple(_count_rounded(batch, [error.row for error in errors]))
    times = {name: each.times for name, each in batch.conversions.items() if each.times is not None}
    return ValidatedBatch(batch.type, accepted, batch.file, lines, generated, rejected, rounded, times)


def _find_refused_roundings(batch: RawBatch, policy: RoundingPolicy) -> Iterator[RowError]:
    """Yield an error for each rounded value that the load may not round."""
    for name, conversion in batch.conversions.items():
        if policy.refuses(batch.type, name):
            for row in conversion.rounded.tolist():
                shown = shorten(conversion.show(row))
                yield RowError(row, name, EXACT, describe_rounding(batch.type, name, shown), shown)


def _count_rounded(batch: RawBatch, rejected_rows: Sequence[int]) -> Iterator[RoundedColumn]:
    """Yield the number of rounded values of each column in accepted rows, with the first row."""
    for name, conversion in batch.conversions.items():
        rows = find_accepted(conversion, rejected_rows)
        if len(rows):
            line = cast("int | None", to_list(batch.lines.slice(int(rows[0]), 1))[0])
            yield RoundedColumn(batch.type.name, name, len(rows), batch.file, line, batch.type.table_key)


def _assign_ids(batch: RawBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_], list[RowError]]:
    """Return the rows with their ids, for each row whether its id was generated, and the errors of given ids."""
    type_, count, schema = batch.type, len(batch.lines), arrow_schema(batch.type)
    columns = {
        name: batch.columns[name] if name in batch.columns else make_nulls(count, column_type)
        for name, column_type in zip(schema.names, schema.types, strict=True)
    }
    if batch.absent is not None:
        columns[InternalColumn.GIVEN] = pack_given(type_, batch.absent, count)
    given = columns["id"]
    if isinstance(type_, NodeType) and type_.key is not None:
        columns["id"] = _make_keyed_ids(type_, batch, columns)
        return pa.record_batch(columns), np.zeros(count, np.bool_), _find_wrong_ids(type_, given, columns["id"])
    generated = cast("Values", generate_ids(count))
    columns["id"] = generated if given.null_count == count else compute("coalesce", given, generated)
    return pa.record_batch(columns), to_bool_array(compute("is_null", given)), []


def _make_keyed_ids(type_: NodeType, batch: RawBatch, columns: Mapping[str, Values]) -> Values:
    """Return the ids of the keys; in an update, a record may have the id instead of the key."""
    ids = cast("Values", make_ids(type_, pa.record_batch(dict(columns))))
    has_id_only = _mark_keyless(type_, batch)
    return ids if has_id_only is None else compute("if_else", pa.array(has_id_only), columns["id"], ids)


def _mark_keyless(type_: NodeType, batch: RawBatch) -> Mask | None:
    """Return which records of an update mention an id, and no part of the key; None if none does."""
    absent, given = batch.absent, batch.columns.get("id")
    if absent is None or given is None or any(part not in absent for part in type_.key or ()):
        return None
    found = np.logical_and.reduce([absent[part] for part in type_.key or ()])
    return found & to_bool_array(compute("is_valid", given))


def _find_wrong_ids(type_: NodeType, given: Values, ids: Values) -> list[RowError]:
    rule = format_key(type_)
    found: list[RowError] = []
    for row in find_true(compute("not_equal", given, ids)).tolist():
        stated, right = to_list(given.slice(row, 1))[0], to_list(ids.slice(row, 1))[0]
        message = f"{rule} on {type_.name}: the id is '{stated}', but the key gives '{right}'"
        found.append(RowError(row, "id", rule, message, format_value(stated)))
    return found


def _check_row_rules(batch: RawBatch, rows: pa.RecordBatch, known: Iterable[RowError]) -> list[RowError]:
    """Return the errors that the row rules find, except those that follow from a known error."""
    broken = find_row_violations(batch.type, rows, _list_optional(batch))
    if not broken.num_rows:
        return []
    explained = {(error.row, error.property) for error in known}
    invalid_rows = {error.row for error in known}
    found: list[RowError] = []
    for each in cast("list[dict[str, object]]", broken.to_pylist()):
        row, name = cast(int, each["row"]), cast(str, each["property"])
        if (row, PUBLIC_NAMES.get(name, name)) in explained or (name == "id" and row in invalid_rows):
            continue
        rule, message, value = cast(str, each["rule"]), cast(str, each["message"]), cast("str | None", each["value"])
        if name in PUBLIC_NAMES and rule == REQUIRED:
            name, message = PUBLIC_NAMES[name], message.replace(f"'{name}'", f"'{PUBLIC_NAMES[name]}'")
        found.append(RowError(row, name, rule, message, value))
    return found


def _find_missing_blobs(
    type_: NodeType | EdgeType, rows: pa.RecordBatch, find_missing: MissingObjectSearch
) -> list[RowError]:
    """Return an error for each blob that refers to an object which is not there."""
    found: list[RowError] = []
    for name in blob_properties_of(type_):
        uris = to_list(compute("struct_field", column_of(rows, name), options=pc.StructFieldOptions(["uri"])))
        places = {row: uri for row, uri in enumerate(cast("list[str | None]", uris)) if uri is not None}
        missing: Mapping[str, str] = find_missing(set(places.values())) if places else {}
        found += [
            RowError(row, name, BLOB_FILE, f"'{name}': {missing[uri]}; {_MISSING_HINT}", format_value(uri))
            for row, uri in places.items()
            if uri in missing
        ]
    return found


def _list_optional(batch: RawBatch) -> AbsentValues | None:
    """Return the values that the records need not have. A record of a keyed type needs its key, or its id instead."""
    if batch.absent is None or not isinstance(batch.type, NodeType) or batch.type.key is None:
        return batch.absent
    keyless = _mark_keyless(batch.type, batch)
    key = {} if keyless is None else dict.fromkeys(batch.type.key, keyless)
    return {**{name: mask for name, mask in batch.absent.items() if name not in batch.type.key}, **key}


def _build_rejected(batch: RawBatch, rows: pa.RecordBatch, errors: Iterable[RowError]) -> tuple[RejectedRecord, ...]:
    by_row: dict[int, list[RowError]] = {}
    for error in errors:
        by_row.setdefault(error.row, []).append(error)
    ids = column_of(rows, "id")
    return tuple(
        RejectedRecord(
            batch.record(row),
            tuple(
                Violation(
                    batch.type.name,
                    error.rule,
                    error.message,
                    batch.file,
                    cast(int, to_list(batch.lines.slice(row, 1))[0]),
                    _find_known_id(batch, ids, row),
                    error.property,
                    error.value,
                    table_key=batch.type.table_key,
                )
                for error in by_row[row]
            ),
        )
        for row in sorted(by_row)
    )


def _find_known_id(batch: RawBatch, ids: Values, row: int) -> str | None:
    """Return the id of a row as the author of the record knows it; None if the id was generated."""
    keyed = isinstance(batch.type, NodeType) and batch.type.key is not None
    given = ids if keyed else batch.columns.get("id")
    return None if given is None else cast("str | None", to_list(given.slice(row, 1))[0])

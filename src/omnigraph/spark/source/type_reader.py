"""Read one type of a graph at one moment on Spark: parse the options, pin the table, divide the fragments into tasks.

The driver pins the table version once. A job only knows that version, so it reads the same rows however often Spark
runs it and whatever is written meanwhile; executors never read the manifest.

Filters come from an option, never from Spark: PySpark 4.3 stores the filters that it pushes into a source with the
source itself, and so applies them to every other scan of it, such as the other side of a join.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from datetime import date
from functools import partial
from typing import Final, SupportsFloat, SupportsIndex, cast

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph.errors import Json, ParameterError
from omnigraph.language.schema import EdgeType, NodeType, TableKey
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import parse_instant
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest import contract, opening, references
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lagging import follow_schema_hashes
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Pin, Snapshot, open_pin
from omnigraph.read.rows import Filter, TypeRows, open_type_rows, parse_filter, require_type
from omnigraph.spark.sized_frames import PARTITION_BYTES
from omnigraph.spark.source.spark_types import arrow_schema_of, stored_names_of, to_spark, to_spark_schema
from omnigraph.storage.condition_text import decode_conditions
from omnigraph.storage.filters import Condition
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockSettings
from omnigraph.storage.tables import Access, estimate_stored_row_bytes
from omnigraph.write.executor import group_evenly

STORAGE_PREFIX: Final = "storage."
"""The prefix of options that go to the object store."""

_MOMENTS: Final = ("at", "version", "timestamp")
"""Options that name a moment: any reference, a manifest version, or a time."""
_OPTIONS: Final = (
    "path",
    "type",
    "branch",
    *_MOMENTS,
    "columns",
    "filter",
    "conditions",
    "pin",
    "rows_per_partition",
    "changes",
)

MAX_ROWS_OF_A_TASK: Final = 5_000_000
"""A task that reads a few numbers of each row would read for long until it has its bytes."""
_BATCH_ROWS: Final = 131_072
"""A batch costs Spark and Python the same, however few rows it has. Batches of wide rows have fewer."""


# --------------------------------------------------------------------------------------------- one type, pinned


@dataclass(frozen=True, slots=True)
class TypePin:
    """One type at one moment, which an option can carry as a text. ``pin`` is None if the branch has no table of it.

    ``schemas`` are the hashes from the schema of the table to the one that it is read with, if the two differ.
    """

    table_key: str
    schema_hash: str | None
    pin: Pin | None
    schemas: tuple[str, ...] = ()

    def encode(self) -> str:
        """Encode as the text that :func:`decode_pin` reads."""
        return orjson.dumps(asdict(self)).decode()


def pin_type(snapshot: Snapshot, type_: NodeType | EdgeType) -> TypePin:
    """Return the pin of a type in a snapshot."""
    key = type_.table_key
    return TypePin(key, snapshot.schema_ir_hash, snapshot.pins.get(key), snapshot.list_schemas())


def decode_pin(text: str) -> TypePin:
    """Decode the text of a pin."""
    try:
        found = cast("dict[str, object]", orjson.loads(text))
        pin = cast("dict[str, object] | None", found.pop("pin"))
        schemas = cast("list[str]", found.pop("schemas"))
        return TypePin(pin=None if pin is None else _pin(pin), schemas=tuple(schemas), **found)  # pyright: ignore[reportArgumentType]  written by encode
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ParameterError("option 'pin' is not a valid pin", hint="use graph.spark().nodes(...)") from error


def _pin(found: Mapping[str, object]) -> Pin:
    return Pin(**{**found, "table_key": TableKey.parse(str(found["table_key"]))})  # pyright: ignore[reportArgumentType]  written by encode


@dataclass(frozen=True, slots=True)
class TypeReadOptions:
    """The parsed options of a read."""

    path: str
    type: str | None
    branch: str = MAIN
    at: str | None = None
    columns: tuple[str, ...] | None = None
    filter: Filter | None = None
    conditions: str | None = None
    pin: TypePin | None = None
    rows_per_partition: int | None = None
    # Credentials may be in here: never printed.
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def pin_rows(self) -> TypeRows:
        """Pin the rows to read: at the moment that the options name, else now."""
        location = locate(self.path, self.storage_options)
        manifest = Manifest(location, Access(location.options()), LockSettings())
        opening.check_graph(manifest)
        if self.pin is not None:
            type_ = require_type(contract.load_schema_of(manifest, self.pin.schema_hash).catalog, self.pin.table_key)
            if self.pin.pin is None:
                return TypeRows(type_, None)
            lag = follow_schema_hashes(manifest, self.pin.schemas)
            table = open_pin(manifest, self.pin.pin)
            return TypeRows(type_, table if lag is None else table.with_lag(lag.column_lag(self.pin.table_key)))
        snapshot = references.take_snapshot(manifest, self.branch, self.at)
        catalog = contract.load_schema_of(manifest, snapshot.schema_ir_hash).catalog
        return open_type_rows(snapshot, require_type(catalog, cast("str", self.type)))

    def parse_conditions(self, type_: NodeType | EdgeType) -> list[Condition]:
        """Return what rows have to satisfy: the filter of a user, and the conditions of a query."""
        found = parse_filter(type_, self.filter)
        if self.conditions is None:
            return found
        try:
            return [*found, *decode_conditions(self.conditions, partial(_type_of_column, type_))]
        except ValueError as error:
            raise ParameterError("option 'conditions' is not valid", hint="use the option filter") from error

    def spark_schema(self, type_: NodeType | EdgeType) -> StructType:
        """Return the columns that the options name, or all; refuse a filter that does not fit the type."""
        self.parse_conditions(type_)
        return to_spark_schema(type_, resolve_spark_columns(type_, self.columns))


def _type_of_column(type_: NodeType | EdgeType, column: str) -> ValueType:
    return type_.properties[column].type if column in type_.properties else ValueType(Scalar.STRING)


def parse_read_options(options: Mapping[str, str]) -> TypeReadOptions:
    """Parse the options of a source; report all problems together."""
    given = {name: value for name, value in options.items() if not name.startswith(STORAGE_PREFIX)}
    problems = [_unknown_option(name) for name in given if name not in _OPTIONS]
    if not given.get("path"):
        problems.append('the path of the graph is missing: give it as in load("s3://bucket/graph")')
    if "pin" in given:
        problems += [
            f"option '{name}' cannot be combined with a pin" for name in ("type", "branch", *_MOMENTS) if name in given
        ]
    elif "type" not in given:
        problems.append('the type is missing: give it as in option("type", "Person")')
    at, wrong = _parse_moment(given)
    problems += wrong
    rows = given.get("rows_per_partition")
    if rows is not None and not (rows.isdecimal() and int(rows) > 0):
        problems.append(f"rows_per_partition is '{rows}', which is not a positive number")
    if problems:
        listed: list[Json] = list(problems)
        raise ParameterError("; ".join(problems), details={"problems": listed})
    columns = given.get("columns")
    return TypeReadOptions(
        path=given["path"],
        type=given.get("type"),
        branch=given.get("branch", MAIN),
        at=at,
        columns=None if columns is None else tuple(name.strip() for name in columns.split(",")),
        filter=decode_filter(given["filter"]) if "filter" in given else None,
        conditions=given.get("conditions"),
        pin=decode_pin(given["pin"]) if "pin" in given else None,
        rows_per_partition=None if rows is None else int(rows),
        storage_options=storage_options_of(options),
    )


def _parse_moment(given: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """Return the reference that one of the options names, and the problems."""
    named = [name for name in _MOMENTS if name in given]
    if len(named) > 1:
        return None, [f"options {' and '.join(named)} cannot be combined: each names a moment"]
    version, timestamp = given.get("version"), given.get("timestamp")
    if version is not None:
        number = version.removeprefix("v")
        return f"v{number}", [] if number.isdecimal() else [f"version is '{version}', which is not a number"]
    if timestamp is not None:
        try:
            return parse_instant(timestamp).isoformat(), []
        except ParameterError as error:
            return None, [f"timestamp: {error.message}"]
    return given.get("at"), []


def storage_options_of(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options of the object store, without their prefix."""
    return {
        name.removeprefix(STORAGE_PREFIX): value for name, value in options.items() if name.startswith(STORAGE_PREFIX)
    }


def encode_filter(type_: NodeType | EdgeType, given: Filter) -> str:
    """Encode a filter as the text of an option; refuse one that does not fit the type."""
    kept = cast("Filter", given if isinstance(given, Mapping | str) else list(given))
    parse_filter(type_, kept)
    # Not with orjson: a number may exceed 64 bits.
    return json.dumps(kept, default=_to_json_value)


def _to_json_value(value: object) -> object:
    match value:
        case date():
            return value.isoformat()
        case SupportsIndex():
            return value.__index__()
        case SupportsFloat():
            return float(value)
        case _:
            return list(cast("Iterable[object]", value))


def decode_filter(text: str) -> Filter:
    """Decode the text of a filter, which a user may have written."""
    try:
        return cast("Filter", json.loads(text))
    except json.JSONDecodeError as error:
        raise ParameterError(
            f"option 'filter' is not JSON: {error}", hint='write {"age": 30}, or [["age", ">", 30]]'
        ) from error


def _unknown_option(name: str) -> str:
    hint = suggest_similar(name, _OPTIONS) or f"the options are {', '.join(_OPTIONS)} and {STORAGE_PREFIX}*"
    return f"no option '{name}', {hint}"


def resolve_spark_columns(type_: NodeType | EdgeType, names: Iterable[str] | None) -> list[str]:
    """Return the names of columns, checked against the type; all columns if no names are given."""
    known = stored_names_of(type_)
    if names is None:
        return list(known)
    requested = list(names)
    problems = [_unknown_column(type_, name, known) for name in requested if name not in known]
    problems += [f"column '{name}' is given twice" for name in known if requested.count(name) > 1]
    if problems or not requested:
        listed: list[Json] = list(problems)
        message, hint = "; ".join(problems) or "columns is empty", "name each column that you need once"
        raise ParameterError(message, hint=hint, details={"problems": listed})
    return requested


def _unknown_column(type_: NodeType | EdgeType, name: str, known: Iterable[str]) -> str:
    hint = suggest_similar(name, known)
    return f"{type_.name} has no column '{name}'" + (f", {hint}" if hint else "")


# --------------------------------------------------------------------------------------------- reading it


@dataclass(frozen=True)
class FragmentGroup(InputPartition):
    """The fragments that one task reads."""

    fragments: tuple[int, ...]


class TypeReader(DataSourceReader):
    """Reads the rows of one type. It is pickled and sent to the executors."""

    def __init__(
        self, rows: TypeRows, schema: StructType, conditions: Sequence[Condition], rows_per_partition: int | None
    ) -> None:
        stored = stored_names_of(rows.type)
        self._rows = rows
        self._columns = [stored[name] for name in resolve_spark_columns(rows.type, schema.names)]
        self._schema = schema
        self._rows_per_partition = rows_per_partition
        self._conditions = conditions
        _check_types(rows.type, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the fragments into groups of about equal size; at least one group, which may be empty."""
        table = self._rows.table
        if table is None:
            return [FragmentGroup(())]
        most = self._rows_per_partition or _fit_rows(estimate_stored_row_bytes(table, self._columns))
        return [FragmentGroup(group) for group in group_evenly(table.fragment_rows(), most)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of some fragments."""
        target = arrow_schema_of(self._schema)
        fragments = cast("FragmentGroup", partition).fragments
        for batch in self._rows.read(
            self._columns, self._conditions, in_fragments=fragments, one_by_one=True, batch_rows=_BATCH_ROWS
        ):
            yield to_spark(batch, target)


def _fit_rows(row_bytes: int) -> int:
    """Return how many rows a task reads: about :data:`PARTITION_BYTES` of them."""
    return max(1, min(MAX_ROWS_OF_A_TASK, PARTITION_BYTES // row_bytes))


def _check_types(type_: NodeType | EdgeType, schema: StructType) -> None:
    """Refuse a schema of the user with other types: it selects columns and does not cast them."""
    actual = to_spark_schema(type_, schema.names)
    problems = [
        f"column '{given.name}' is {own.dataType.simpleString()}, not {given.dataType.simpleString()}"
        for given, own in zip(schema.fields, actual.fields, strict=True)
        if given.dataType.simpleString() != own.dataType.simpleString()
    ]
    if problems:
        listed: list[Json] = list(problems)
        raise ParameterError("; ".join(problems), hint="cast after reading", details={"problems": listed})

"""Read data frames: Arrow tables, and pandas, polars or any other object with Arrow's C stream interface.

A column is a property; an edge frame also has ``from`` and ``to``. A column whose Arrow type cannot hold the property
is refused before any row is read. A value that does not fit is an error of its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.errors import Json, ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType, Property, parse_default
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.storage.columns import Values, column_of
from omnigraph.write.load.conversion import can_convert, convert_arrow, convert_values
from omnigraph.write.load.validation import RawBatch, RowError, resolve_end_ids, to_row_errors

BATCH_ROWS: Final = 65_536
_TEXT: Final = ValueType(Scalar.STRING)


@runtime_checkable
class ArrowStream(Protocol):
    """Any object that exports its rows through Arrow's C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a capsule."""
        ...


TypedFrame: TypeAlias = "tuple[NodeType | EdgeType, str, ArrowStream]"
"""The type of the rows, the name of the frame in messages, and the frame."""


def resolve_frame_types(
    catalog: Catalog, nodes: Mapping[str, ArrowStream], edges: Mapping[str, ArrowStream]
) -> list[TypedFrame]:
    """Find the type of each frame. All unknown names are reported together."""
    found: list[TypedFrame] = []
    problems: list[str] = []
    for name, frame in nodes.items():
        type_ = catalog.nodes.get(name)
        found += [] if type_ is None else [(type_, f"nodes['{name}']", frame)]
        problems += [] if type_ else [_describe_unknown("node type", name, catalog.nodes)]
    for name, frame in edges.items():
        edge = catalog.find_edge(name)
        found += [] if edge is None else [(edge, f"edges['{name}']", frame)]
        problems += [] if edge else [_describe_unknown("edge type", name, catalog.edges)]
    _refuse_problems(problems)
    return found


def read_frame(catalog: Catalog, type_: NodeType | EdgeType, name: str, frame: ArrowStream) -> Iterator[RawBatch]:
    """Yield the rows of a frame in batches. Its columns are checked before the first batch."""
    reader = open_frame(name, frame)
    mapping = map_columns(catalog, type_, name, reader.schema)
    first = 1
    for batch in _split_batches(reader):
        yield mapping.to_raw_batch(name, first, batch)
        first += batch.num_rows


def map_columns(catalog: Catalog, type_: NodeType | EdgeType, name: str, schema: pa.Schema) -> ColumnMapping:
    """Map the columns of a frame to those of a type. All problems are reported together."""
    mapping = ColumnMapping(catalog, type_, schema)
    _refuse_problems([f"{name}: {problem}" for problem in mapping.find_problems()])
    return mapping


def open_frame(name: str, frame: object) -> pa.RecordBatchReader:
    """Return the rows of a frame as a reader."""
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if type(frame).__module__.partition(".")[0] == "pandas":
        # The index of a pandas frame is not a property.
        return pa.Table.from_pandas(frame, preserve_index=False).to_reader()  # pyright: ignore[reportArgumentType]  pandas is not imported for its type
    if isinstance(frame, ArrowStream):
        return pa.RecordBatchReader.from_stream(frame)
    raise ParameterError(f"{name} is {type(frame).__name__}", hint="give an Arrow table, or a pandas or polars frame")


def _split_batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _refuse_problems(problems: Iterable[str]) -> None:
    found: list[Json] = list(problems)
    if found:
        raise ParameterError("; ".join(map(str, found)), details={"problems": found})


def _describe_unknown(kind: str, name: str, known: Mapping[str, object]) -> str:
    hint = suggest_similar(name, known)
    return f"no {kind} '{name}'" + (f", {hint}" if hint else "")


class ColumnMapping:
    """Maps the columns of a frame to the columns of a type."""

    def __init__(self, catalog: Catalog, type_: NodeType | EdgeType, schema: pa.Schema) -> None:
        self.type = type_
        self.schema = schema
        self.ends: dict[str, NodeType] = {}
        if isinstance(type_, EdgeType):
            self.ends = {"src": catalog.nodes[type_.from_type], "dst": catalog.nodes[type_.to_type]}

    def find_problems(self) -> Iterator[str]:
        """Yield every problem of the columns. A frame without columns has no rows, so nothing is missing."""
        names = self.schema.names
        if not names:
            return
        if len(set(names)) < len(names):
            yield "a column occurs twice"
        known = {"id": _TEXT, **{name: each.type for name, each in self.type.properties.items()}}
        ends = {
            part
            for column, node in self.ends.items()
            for part in [PUBLIC_NAMES[column], *_list_key_columns(column, node)]
        }
        for name, found in zip(names, self.schema.types, strict=True):
            if name in known and not can_convert(found, known[name]):
                yield f"column '{name}' is {found}, which is no {known[name]}"
            elif name not in known and name not in ends:
                yield _describe_unknown("property", name, {**known, **dict.fromkeys(ends)})
        for each in self.type.properties.values():
            if each.name not in names and not each.type.nullable and each.default is None:
                yield f"column '{each.name}' is missing"
        for column, node in self.ends.items():
            yield from self._find_end_problems(column, node)

    def _find_end_problems(self, column: str, node: NodeType) -> Iterator[str]:
        name = PUBLIC_NAMES[column]
        if name in self.schema.names:
            found = self._type_of(name)
            if not can_be_end(found, node):
                yield f"column '{name}' is {found}, which is neither an id nor a key of {node.name}"
            return
        parts = _list_key_columns(column, node)
        if not parts or not set(parts) <= set(self.schema.names):
            yield f"column '{name}' is missing" + (f"; give it, or {', '.join(parts)}" if parts else "")
            return
        for part, property_ in parts.items():
            found = self._type_of(part)
            if not can_convert(found, property_.type):
                yield f"column '{part}' is {found}, which is no {property_.type}"

    def _type_of(self, column: str) -> pa.DataType:
        return self.schema.types[self.schema.get_field_index(column)]

    def to_raw_batch(self, name: str, first: int, batch: pa.RecordBatch) -> RawBatch:
        """Convert a batch. ``first`` is the number of its first row, from 1."""
        columns: dict[str, Values] = {}
        errors: list[RowError] = []
        for column, type_ in {"id": _TEXT, **{key: each.type for key, each in self.type.properties.items()}}.items():
            if column in batch.schema.names:
                converted = convert_arrow(column_of(batch, column), type_)
                columns[column] = converted.values
                errors += to_row_errors(column, str(type_), converted)
            elif column in self.type.properties and self.type.properties[column].default is not None:
                columns[column] = _repeat_default(self.type.properties[column], batch.num_rows)
        for column, node in self.ends.items():
            columns[column] = _read_end_ids(batch, column, node, errors)
        lines = cast("Values", pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64)))
        return RawBatch(
            self.type, columns, errors, name, lines, lambda row: _format_row(self.type, batch.slice(row, 1))
        )


def _repeat_default(each: Property, count: int) -> Values:
    value = parse_default(each.default or "", each.type)
    return convert_values([value], each.type).values.take(pa.array([0] * count, pa.int64()))


# --------------------------------------------------------------------------------------------- ends of edges


def _list_key_columns(column: str, node: NodeType) -> dict[str, Property]:
    """Return the columns that can replace an end: ``to.line`` and ``to.seq`` for a key of line and seq."""
    return {f"{PUBLIC_NAMES[column]}.{part}": node.properties[part] for part in node.key or ()}


def can_be_end(found: pa.DataType, node: NodeType) -> bool:
    """Whether a column of an Arrow type can identify the nodes at an end: by id, or by their key values."""
    if can_convert(found, _TEXT):
        return True
    key = node.key or ()
    if isinstance(found, pa.StructType):
        parts = {part.name: part.type for part in cast("Iterable[pa.Field[pa.DataType]]", found)}
        return parts.keys() == set(key) and all(can_convert(parts[name], node.properties[name].type) for name in key)
    return len(key) == 1 and can_convert(found, node.properties[key[0]].type)


def _read_end_ids(batch: pa.RecordBatch, column: str, node: NodeType, errors: list[RowError]) -> Values:
    """Return the node ids at one end, as given or computed from the key values."""
    name = PUBLIC_NAMES[column]
    if name not in batch.schema.names:
        parts = {each.name: column_of(batch, part) for part, each in _list_key_columns(column, node).items()}
    else:
        given = column_of(batch, name)
        if can_convert(given.type, _TEXT):
            return convert_arrow(given, _TEXT).values
        if isinstance(given, pa.StructArray):
            flat = cast("list[Values]", given.flatten())
            parts = dict(zip(given.type.names, flat, strict=True))
        else:
            parts = dict.fromkeys(node.key or (), given)
    converted = {part: convert_arrow(values, node.properties[part].type) for part, values in parts.items()}
    ids, key_errors = resolve_end_ids(node, name, converted)
    errors += key_errors
    return ids


def _format_row(type_: NodeType | EdgeType, row: pa.RecordBatch) -> str:
    """Format a row of a frame as the record that would load it."""
    values = cast("list[dict[str, object]]", row.to_pylist())[0]
    ends = {name: values.pop(name) for name in PUBLIC_NAMES.values() if name in values}
    kind = {"edge": type_.name, **ends} if isinstance(type_, EdgeType) else {"type": type_.name}
    return orjson.dumps({**kind, "data": values}, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()

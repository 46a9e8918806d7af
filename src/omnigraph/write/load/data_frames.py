"""Tables per type as rows: Arrow, pandas, polars, and whatever else speaks Arrow.

A column is a property; an edge has ``from`` and ``to`` besides. A column of an Arrow type that the property cannot be
read from is refused before any row is looked at; a value that does not fit is a problem of its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.errors import Json, ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType, Property, default_value
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.storage.columns import Values, column_of
from omnigraph.write.load.conversion import can_convert, from_arrow, from_values
from omnigraph.write.load.validation import RawBatch, RowError, resolve_end_ids, to_row_errors

BATCH_ROWS: Final = 65_536
_TEXT: Final = ValueType(Scalar.STRING)


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that gives its rows through Arrow's C interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, as a capsule."""
        ...


TypedFrame: TypeAlias = "tuple[NodeType | EdgeType, str, ArrowStream]"
"""A frame, the type of its rows, and its name in messages."""


def resolve_frame_types(
    catalog: Catalog, nodes: Mapping[str, ArrowStream], edges: Mapping[str, ArrowStream]
) -> list[TypedFrame]:
    """The type of each frame; all names that are wrong are reported together."""
    found: list[TypedFrame] = []
    problems: list[str] = []
    for name, frame in nodes.items():
        type_ = catalog.nodes.get(name)
        found += [] if type_ is None else [(type_, f"nodes['{name}']", frame)]
        problems += [] if type_ else [_unknown("node type", name, catalog.nodes)]
    for name, frame in edges.items():
        edge = catalog.edge(name)
        found += [] if edge is None else [(edge, f"edges['{name}']", frame)]
        problems += [] if edge else [_unknown("edge type", name, catalog.edges)]
    _refuse(problems)
    return found


def read_frame(catalog: Catalog, type_: NodeType | EdgeType, name: str, frame: ArrowStream) -> Iterator[RawBatch]:
    """The rows of one frame in batches; its columns are checked before the first."""
    reader = open_frame(name, frame)
    shape = map_columns(catalog, type_, name, reader.schema)
    first = 1
    for batch in _batches(reader):
        yield shape.to_raw_batch(name, first, batch)
        first += batch.num_rows


def map_columns(catalog: Catalog, type_: NodeType | EdgeType, name: str, schema: pa.Schema) -> ColumnMapping:
    """How columns become those of a type; all that is wrong with them is reported together."""
    shape = ColumnMapping(catalog, type_, schema)
    _refuse([f"{name}: {problem}" for problem in shape.find_problems()])
    return shape


def open_frame(name: str, frame: object) -> pa.RecordBatchReader:
    """The rows of a frame as Arrow streams them."""
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if type(frame).__module__.partition(".")[0] == "pandas":
        # The index of a pandas frame is no property.
        return pa.Table.from_pandas(frame, preserve_index=False).to_reader()  # pyright: ignore[reportArgumentType]  pandas is not imported for its type
    if isinstance(frame, ArrowStream):
        return pa.RecordBatchReader.from_stream(frame)
    raise ParameterError(f"{name} is {type(frame).__name__}", hint="give an Arrow table, or a pandas or polars frame")


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _refuse(problems: Iterable[str]) -> None:
    found: list[Json] = list(problems)
    if found:
        raise ParameterError("; ".join(map(str, found)), details={"problems": found})


def _unknown(kind: str, name: str, known: Mapping[str, object]) -> str:
    hint = suggest_similar(name, known)
    return f"no {kind} '{name}'" + (f", {hint}" if hint else "")


class ColumnMapping:
    """How the columns of a frame become those of a type."""

    def __init__(self, catalog: Catalog, type_: NodeType | EdgeType, schema: pa.Schema) -> None:
        self.type = type_
        self.schema = schema
        self.ends: dict[str, NodeType] = {}
        if isinstance(type_, EdgeType):
            self.ends = {"src": catalog.nodes[type_.from_type], "dst": catalog.nodes[type_.to_type]}

    def find_problems(self) -> Iterator[str]:
        """Everything that is wrong with the columns. A frame without any has no rows and nothing to say."""
        names = self.schema.names
        if not names:
            return
        if len(set(names)) < len(names):
            yield "a column stands twice"
        known = {"id": _TEXT, **{name: each.type for name, each in self.type.properties.items()}}
        ends = {
            part for column, node in self.ends.items() for part in [PUBLIC_NAMES[column], *_key_columns(column, node)]
        }
        for name, found in zip(names, self.schema.types, strict=True):
            if name in known and not can_convert(found, known[name]):
                yield f"column '{name}' is {found}, which is no {known[name]}"
            elif name not in known and name not in ends:
                yield _unknown("property", name, {**known, **dict.fromkeys(ends)})
        for each in self.type.properties.values():
            if each.name not in names and not each.type.nullable and each.default is None:
                yield f"column '{each.name}' is missing"
        for column, node in self.ends.items():
            yield from self._end_problems(column, node)

    def _end_problems(self, column: str, node: NodeType) -> Iterator[str]:
        name = PUBLIC_NAMES[column]
        if name in self.schema.names:
            found = self._type_of(name)
            if not can_be_end(found, node):
                yield f"column '{name}' is {found}, which is neither an id nor a key of {node.name}"
            return
        parts = _key_columns(column, node)
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
        """The rows of a batch; ``first`` is the number of its first row, from 1."""
        columns: dict[str, Values] = {}
        faults: list[RowError] = []
        for column, type_ in {"id": _TEXT, **{key: each.type for key, each in self.type.properties.items()}}.items():
            if column in batch.schema.names:
                converted = from_arrow(column_of(batch, column), type_)
                columns[column] = converted.values
                faults += to_row_errors(column, str(type_), converted)
            elif column in self.type.properties and self.type.properties[column].default is not None:
                columns[column] = _defaults(self.type.properties[column], batch.num_rows)
        for column, node in self.ends.items():
            columns[column] = _end(batch, column, node, faults)
        lines = cast("Values", pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64)))
        return RawBatch(
            self.type, columns, faults, name, lines, lambda row: _record_text(self.type, batch.slice(row, 1))
        )


def _defaults(each: Property, count: int) -> Values:
    value = default_value(each.default or "", each.type)
    return from_values([value], each.type).values.take(pa.array([0] * count, pa.int64()))


# --------------------------------------------------------------------------------------------- ends of edges


def _key_columns(column: str, node: NodeType) -> dict[str, Property]:
    """The columns that may stand for an end: ``to.line`` and ``to.seq`` for a key of line and seq."""
    return {f"{PUBLIC_NAMES[column]}.{part}": node.properties[part] for part in node.key or ()}


def can_be_end(found: pa.DataType, node: NodeType) -> bool:
    """Whether a column of an Arrow type may say which nodes stand at an end: by ids, or by the values of their key."""
    if can_convert(found, _TEXT):
        return True
    key = node.key or ()
    if isinstance(found, pa.StructType):
        parts = {part.name: part.type for part in cast("Iterable[pa.Field[pa.DataType]]", found)}
        return parts.keys() == set(key) and all(can_convert(parts[name], node.properties[name].type) for name in key)
    return len(key) == 1 and can_convert(found, node.properties[key[0]].type)


def _end(batch: pa.RecordBatch, column: str, node: NodeType, faults: list[RowError]) -> Values:
    """The ids at one end: as given, or from the values of the key."""
    name = PUBLIC_NAMES[column]
    if name not in batch.schema.names:
        parts = {each.name: column_of(batch, part) for part, each in _key_columns(column, node).items()}
    else:
        given = column_of(batch, name)
        if can_convert(given.type, _TEXT):
            return from_arrow(given, _TEXT).values
        if isinstance(given, pa.StructArray):
            flat = cast("list[Values]", given.flatten())
            parts = dict(zip(given.type.names, flat, strict=True))
        else:
            parts = dict.fromkeys(node.key or (), given)
    converted = {part: from_arrow(values, node.properties[part].type) for part, values in parts.items()}
    ids, wrong = resolve_end_ids(node, name, converted)
    faults += wrong
    return ids


def _record_text(type_: NodeType | EdgeType, row: pa.RecordBatch) -> str:
    """A row of a frame as the record that it would be."""
    values = cast("list[dict[str, object]]", row.to_pylist())[0]
    ends = {name: values.pop(name) for name in PUBLIC_NAMES.values() if name in values}
    kind = {"edge": type_.name, **ends} if isinstance(type_, EdgeType) else {"type": type_.name}
    return orjson.dumps({**kind, "data": values}, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()

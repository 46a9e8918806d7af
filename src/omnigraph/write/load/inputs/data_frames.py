"""Read data frames: Arrow tables, and pandas, polars or any other object with Arrow's C stream interface.

A column is a property; an edge frame also has ``from`` and ``to``. A column whose Arrow type cannot hold the property
is refused before any row is read. A value that does not fit is an error of its row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol, cast, runtime_checkable

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.errors import OmniGraphError, ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType, Property, parse_default
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.storage.columns import Values, column_of, compute, to_list
from omnigraph.write.load.inputs.pandas_frames import PandasFrame, convert_pandas
from omnigraph.write.load.rows import (
    UTC,
    ColumnConversion,
    ConvertedColumn,
    RawBatch,
    RowError,
    RowForm,
    can_convert,
    convert_arrow,
    convert_texts,
    convert_values,
    list_value_columns,
    name_infinite_times,
    note_conversion,
    resolve_end_ids,
    to_row_errors,
)
from omnigraph.write.rules import AbsentValues

BATCH_ROWS: Final = 65_536
_TEXT: Final = ValueType(Scalar.STRING)


@runtime_checkable
class ArrowStream(Protocol):
    """Any object that exports its rows through Arrow's C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a capsule."""
        ...


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """Rows that nothing has read before. A ``RecordBatchReader`` without rows may be one that was."""

    reader: pa.RecordBatchReader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a capsule."""
        return cast("object", self.reader.__arrow_c_stream__(requested_schema))


def is_schema_known(frame: object) -> bool:
    """Whether the columns of a frame are known before its rows are computed: it is in memory, or a reader."""
    module = type(frame).__module__.partition(".")[0]
    known = (pa.Table, pa.RecordBatch, pa.RecordBatchReader, UnreadRows)
    return isinstance(frame, known) or module in ("pandas", "polars")


def open_frame(name: str, frame: object) -> pa.RecordBatchReader:
    """Return the rows of a frame as a reader.

    Open a frame that computes its rows directly before they are read: a connection of DuckDB, for example, ends the
    reader of a frame when the next one is opened.
    """
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if type(frame).__module__.partition(".")[0] == "pandas":
        return convert_pandas(name, cast("PandasFrame", frame)).to_reader()
    if isinstance(frame, ArrowStream):
        with translate_frame_errors(name):
            return pa.RecordBatchReader.from_stream(frame)
    raise ParameterError(f"{name} is {type(frame).__name__}", hint="give an Arrow table, or a pandas or polars frame")


def read_frame(name: str, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a frame, which may be computed only now."""
    with translate_frame_errors(name):
        yield from reader


@contextmanager
def translate_frame_errors(name: str) -> Generator[None]:
    """Raise what fails while a frame computes its rows as an error that names the frame."""
    try:
        yield
    except OmniGraphError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ParameterError(f"{name} cannot be read: {reason}", hint="compute it by itself to see why") from error


def split_batches(reader: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches that are not too large."""
    for batch in reader:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def number_rows(first: int, count: int) -> Values:
    """Return the numbers of consecutive rows."""
    return cast("Values", pa.array(np.arange(first, first + count, dtype=np.int64)))


class ColumnValues(Protocol):
    """Converts the columns of a table to those of a type."""

    def accepts(self, found: pa.DataType, type_: ValueType) -> bool:
        """Whether a column can be converted to a type at all. Single values may still not fit."""
        ...

    def convert(self, column: Values, type_: ValueType) -> ConvertedColumn:
        """Convert a column that is accepted."""
        ...

    def read_ids(self, column: Values, node: NodeType) -> ConvertedColumn | None:
        """Return the node ids that a column holds; None if it holds values of the key."""
        ...


@dataclass(frozen=True, slots=True)
class ArrowValues:
    """Columns of any Arrow type. ``zone`` is the time zone of times without one."""

    zone: str = UTC

    def accepts(self, found: pa.DataType, type_: ValueType) -> bool:
        """Whether an Arrow type can be converted to a type."""
        return can_convert(found, type_)

    def convert(self, column: Values, type_: ValueType) -> ConvertedColumn:
        """Convert a column."""
        return convert_arrow(column, type_, self.zone)

    def read_ids(self, column: Values, node: NodeType) -> ConvertedColumn | None:  # noqa: ARG002  ids are texts, whatever the type
        """Return texts as ids."""
        return convert_arrow(column, _TEXT) if can_convert(column.type, _TEXT) else None


class TextValues:
    """Columns of texts, as in a CSV file."""

    def accepts(self, found: pa.DataType, type_: ValueType) -> bool:  # noqa: ARG002  as in ArrowValues
        """Whether it is a text: each type has a text form."""
        return pa.types.is_string(found)

    def convert(self, column: Values, type_: ValueType) -> ConvertedColumn:
        """Convert texts."""
        return convert_texts(column, type_)

    def read_ids(self, column: Values, node: NodeType) -> ConvertedColumn:
        """Return the ids of texts, which are values of a single key; a text that is no such value is an id."""
        texts = convert_texts(column, _TEXT)
        if node.key is None or len(node.key) != 1:
            return texts
        (part,) = node.key
        ids, _ = resolve_end_ids(node, part, {part: convert_texts(texts.values, node.properties[part].type)})
        return ConvertedColumn(compute("coalesce", ids, texts.values), texts.mismatches)


ARROW_VALUES: Final = ArrowValues()
TEXT_VALUES: Final = TextValues()


class ColumnMapping:
    """Maps the columns of a frame to the columns of a type. The columns have the names of what they are read as."""

    def __init__(
        self,
        catalog: Catalog,
        type_: NodeType | EdgeType,
        schema: pa.Schema,
        values: ColumnValues = ARROW_VALUES,
        form: RowForm = RowForm.WHOLE,
    ) -> None:
        self.type = type_
        self.form = form
        self.schema = schema
        self.values = values
        self.ends: dict[str, NodeType] = {}
        if isinstance(type_, EdgeType):
            self.ends = {"src": catalog.nodes[type_.from_type], "dst": catalog.nodes[type_.to_type]}

    def find_problems(self, given: Mapping[str, str], chosen: Mapping[str, str]) -> Iterator[str]:
        """Yield every problem of the columns.

        ``given`` are the columns that the user names for some targets, ``chosen`` those that are read.
        """
        names = self.schema.names
        known = {"id": _TEXT, **{name: each.type for name, each in self.type.properties.items()}}
        for name, found in zip(names, self.schema.types, strict=True):
            if name in known and not self.values.accepts(found, known[name]):
                yield f"column '{chosen[name]}' is {found}, which is no {known[name]}"
        yield from self._find_missing_columns({*names, *given}, given)
        for column, node in self.ends.items():
            yield from self._find_end_problems(column, node, given, chosen)

    def _find_missing_columns(self, names: Collection[str], given: Mapping[str, str]) -> Iterator[str]:
        if self.form is RowForm.WHOLE:
            required = [each for each in self.type.properties.values() if not each.type.nullable]
            missing = [each.name for each in required if each.default is None and each.name not in names]
            yield from (f"column '{name}' is missing{_describe_other_use(name, given)}" for name in missing)
        elif isinstance(self.type, NodeType) and "id" not in names:
            missing = [name for name in self.type.key or () if name not in names]
            yield from (f"column '{name}' is missing; give it, or id" for name in missing)

    def _find_end_problems(
        self, column: str, node: NodeType, given: Mapping[str, str], chosen: Mapping[str, str]
    ) -> Iterator[str]:
        name = PUBLIC_NAMES[column]
        if name in self.schema.names:
            found = self._type_of(name)
            if not can_be_end(found, node):
                yield f"column '{chosen[name]}' is {found}, which is neither an id nor a key of {node.name}"
            return
        parts = _list_key_columns(column, node)
        if name in given or not given.keys().isdisjoint(parts):
            # A column that is named and is not there is a problem already.
            parts = {part: each for part, each in parts.items() if part in self.schema.names}
        elif self._is_absent(column):
            return
        elif not parts or not set(parts) <= set(self.schema.names):
            hint = _describe_other_use(name, given) or (f"; give it, or {', '.join(parts)}" if parts else "")
            yield f"column '{name}' is missing{hint}"
            return
        for part, property_ in parts.items():
            found = self._type_of(part)
            if not self.values.accepts(found, property_.type):
                yield f"column '{chosen[part]}' is {found}, which is no {property_.type}"

    def _is_absent(self, column: str) -> bool:
        """Return whether the rows of an update do not mention a column of the type."""
        if self.form is RowForm.WHOLE:
            return False
        names = {column}
        if column in self.ends:
            names = {PUBLIC_NAMES[column], *_list_key_columns(column, self.ends[column])}
        return names.isdisjoint(self.schema.names)

    def _type_of(self, column: str) -> pa.DataType:
        return self.schema.types[self.schema.get_field_index(column)]

    def to_raw_batch(self, name: str | None, lines: Values, batch: pa.RecordBatch) -> RawBatch:
        """Convert a batch. ``lines`` are the lines or numbers of its rows, or nulls."""
        columns: dict[str, Values] = {}
        errors: list[RowError] = []
        conversions: dict[str, ColumnConversion] = {}
        for column, type_ in {"id": _TEXT, **{key: each.type for key, each in self.type.properties.items()}}.items():
            if column in batch.schema.names:
                given = column_of(batch, column)
                converted = self.values.convert(given, type_)
                columns[column] = converted.values
                note_conversion(conversions, column, converted, partial(_show_value, given))
                errors += to_row_errors(column, str(type_), converted)
            elif column in self.type.properties and self._has_default(column):
                columns[column] = _repeat_default(self.type.properties[column], batch.num_rows)
        for column, node in self.ends.items():
            if not self._is_absent(column):
                columns[column] = self._read_end_ids(batch, column, node, errors)
        return RawBatch(
            self.type,
            columns,
            errors,
            name,
            lines,
            lambda row: _format_row(self.type, batch.slice(row, 1)),
            self._find_absent(batch.num_rows),
            conversions,
        )

    def _has_default(self, name: str) -> bool:
        return self.form is RowForm.WHOLE and self.type.properties[name].default is not None

    def _find_absent(self, count: int) -> AbsentValues | None:
        if self.form is RowForm.WHOLE:
            return None
        return {name: np.ones(count, np.bool_) for name in list_value_columns(self.type) if self._is_absent(name)}

    def _read_end_ids(self, batch: pa.RecordBatch, column: str, node: NodeType, errors: list[RowError]) -> Values:
        """Return the node ids at one end, as given or computed from the key values."""
        name = PUBLIC_NAMES[column]
        if name not in batch.schema.names:
            parts = {each.name: column_of(batch, part) for part, each in _list_key_columns(column, node).items()}
        else:
            given = column_of(batch, name)
            ids = self.values.read_ids(given, node)
            if ids is not None:
                errors += to_row_errors(name, str(_TEXT), ids)
                return ids.values
            if isinstance(given, pa.StructArray):
                flat = cast("list[Values]", given.flatten())
                parts = dict(zip(given.type.names, flat, strict=True))
            else:
                parts = dict.fromkeys(node.key or (), given)
        converted = {part: self.values.convert(values, node.properties[part].type) for part, values in parts.items()}
        found, key_errors = resolve_end_ids(node, name, converted)
        errors += key_errors
        return found


def _show_value(column: Values, row: int) -> str:
    value = column.slice(row, 1)
    # As a Python object a time has no nanoseconds.
    return str(to_list(value.cast(pa.string()) if pa.types.is_timestamp(value.type) else value)[0])


def _describe_other_use(name: str, given: Mapping[str, str]) -> str:
    """Describe what a column is read as, if the user names it for something else."""
    others = [target for target, column in given.items() if column == name]
    return f": it is read as {', '.join(others)}; name it for '{name}' too" if others else ""


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


def _format_row(type_: NodeType | EdgeType, row: pa.RecordBatch) -> str:
    """Format a row of a frame as the record that would load it."""
    values = {name: _to_python(column_of(row, name)) for name in row.schema.names}
    ends = {name: values.pop(name) for name in PUBLIC_NAMES.values() if name in values}
    kind = {"edge": type_.name, **ends} if isinstance(type_, EdgeType) else {"type": type_.name}
    return orjson.dumps({**kind, "data": values}, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _to_python(column: Values) -> object:
    """Return the only value of a column. What Python or JSON cannot hold is shown as a text."""
    try:
        return _to_json_value(to_list(column)[0])
    except UnicodeDecodeError:
        return cast(bytes, to_list(column.view(pa.binary()))[0]).decode("utf-8", "replace")
    except (OverflowError, ValueError):
        # A date or time outside the years of Python.
        items = compute("list_flatten", column) if pa.types.is_nested(column.type) else column
        words = name_infinite_times(items)
        texts = [words.get(row, text) for row, text in enumerate(to_list(items.cast(pa.string())))]
        return texts if items is not column else texts[0]


def _to_json_value(value: object) -> object:
    """Return a value in which numbers that are not finite are texts: as JSON they would be null."""
    if isinstance(value, list):
        return [_to_json_value(item) for item in cast("list[object]", value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

"""Change the columns of a table without writing files: drop, add or rename fields, or change their nullability.

Lance numbers the fields of a table, and its files refer to the numbers. Python cannot create single fields, but a
schema is pickled as protobuf messages. If a field occurs twice in a message the last one counts, so appending to a
message changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, cast

import pyarrow as pa
from lance.dataset import LanceDataset
from lance.schema import LanceSchema

from omnigraph.storage.lance_internals.protobuf import encode_bytes, encode_number, parse_fields

_NAME: Final = 2
_ID: Final = 3
_PARENT: Final = 4
_NULLABLE: Final = 6

TOMBSTONE: Final = -2
"""What a data file has in place of the number of a field that is read from another file."""


def can_reshape(schema: pa.Schema, columns: pa.Schema, old_names: Mapping[str, str | None]) -> bool:
    """Return whether the files can serve these columns: each exists with its type, or is new and nullable."""
    there: dict[str | None, pa.Field[pa.DataType]] = {column.name: column for column in _columns(schema)}
    for column in _columns(columns):
        stored = there.get(old_names.get(column.name, column.name))
        if stored is None and not column.nullable:
            return False
        if stored is not None and not is_blob(stored) and stored.type != column.type:
            return False
    return True


def is_blob(column: pa.Field[pa.DataType]) -> bool:
    """Return whether a column holds blobs. Scans show their positions, so the stored type differs."""
    type_ = cast("object", column.type)
    return pa.types.is_struct(column.type) or isinstance(type_, pa.BaseExtensionType)


def _columns(schema: pa.Schema) -> list[pa.Field[pa.DataType]]:
    return cast("list[pa.Field[pa.DataType]]", list(schema))


def reshape_schema(dataset: LanceDataset, columns: pa.Schema, old_names: Mapping[str, str | None]) -> LanceSchema:
    """Return the Lance schema for these columns over the files of a table.

    ``old_names`` gives the stored name of a renamed column, or None for a new one whose name a stored column has.
    """
    make, (metadata, *_) = _pickle_parts(dataset.lance_schema)
    stored = _by_column(dataset.lance_schema)
    next_id = cast("_DatasetWithFieldIds", dataset).max_field_id + 1
    found: list[bytes] = []
    for column in _columns(columns):
        known = stored.get(old_names.get(column.name, column.name))
        if known is not None:
            root, *children = known
            nullable = encode_number(_NULLABLE, int(column.nullable))
            found += [root + encode_bytes(_NAME, column.name.encode()) + nullable, *children]
            continue
        (new,) = _by_column(LanceSchema.from_pyarrow(pa.schema([column]))).values()
        found += _renumber_fields(new, next_id)
        next_id += len(new)
    return make(metadata, *found)


def read_field_ids(dataset: LanceDataset) -> dict[str, int]:
    """Return Lance's number of each column. A column that was dropped and added again has another one."""
    return {field.name(): field.id() for field in _fields(dataset.lance_schema)}


def list_field_ids(dataset: LanceDataset, columns: Iterable[str]) -> list[int]:
    """Return Lance's numbers of some columns and of what they contain, parents first."""
    fields = {field.name(): field for field in _fields(dataset.lance_schema)}
    return [number for name in columns for number in _list_numbers(fields[name])]


def number_new_fields(columns: pa.Schema) -> list[int]:
    """Return the numbers that a new table gives these columns and what they contain, parents first."""
    return [number for field in _fields(LanceSchema.from_pyarrow(columns)) for number in _list_numbers(field)]


def has_first_field_ids(dataset: LanceDataset, columns: pa.Schema) -> bool:
    """Return whether a table has exactly these columns, with the numbers that a new table would give them."""
    stored = {field.name: field.type for field in _columns(dataset.schema)}
    if stored != {field.name: field.type for field in _columns(columns)}:
        return False
    own, new = dataset.lance_schema, LanceSchema.from_pyarrow(columns)
    return [*map(_number, _fields(own))] == [*map(_number, _fields(new))]


def _number(field: _SchemaField) -> tuple[object, ...]:
    return field.name(), field.id(), *map(_number, field.children())


class _DatasetWithFieldIds(Protocol):
    """A dataset with the attribute that Lance's type stubs lack."""

    max_field_id: int


def _pickle_parts(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], tuple[str | bytes, ...]]:
    """Return the function that unpickles a schema, and its arguments: metadata, then fields, parents first."""
    return cast("tuple[Callable[..., LanceSchema], tuple[str | bytes, ...]]", schema.__reduce__())


def _by_column(schema: LanceSchema) -> dict[str | None, list[bytes]]:
    """Return the messages of each column: its own and those of its children."""
    messages = iter(cast("tuple[bytes, ...]", _pickle_parts(schema)[1][1:]))
    return {field.name(): [next(messages) for _ in range(_size(field))] for field in _fields(schema)}


class _SchemaField(Protocol):
    """The methods of a field that are used here."""

    def id(self) -> int: ...
    def name(self) -> str: ...
    def children(self) -> list[_SchemaField]: ...


def _fields(schema: LanceSchema) -> list[_SchemaField]:
    return cast("list[_SchemaField]", schema.fields())


def _size(field: _SchemaField) -> int:
    return len(_list_numbers(field))


def _list_numbers(field: _SchemaField) -> list[int]:
    return [field.id(), *(number for child in field.children() for number in _list_numbers(child))]


def _renumber_fields(messages: list[bytes], first: int) -> Iterator[bytes]:
    """Yield the fields of one new column with new numbers. In their own schema they start at 0, parents first."""
    for at, message in enumerate(messages):
        parent = _number_in(message, _PARENT)
        is_child = parent is None or parent < len(messages)
        yield (
            message
            + encode_number(_ID, first + at)
            + (encode_number(_PARENT, first + (parent or 0)) if is_child else b"")
        )


def _number_in(message: bytes, tag: int) -> int | None:
    """Return a number from a message; None if it is absent, as zero is."""
    found = [field.number for field in parse_fields(message) if field.tag == tag]
    return found[-1] if found else None

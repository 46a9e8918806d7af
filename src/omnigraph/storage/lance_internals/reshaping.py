"""Other columns over the same files: fields that go, come, or get another name or nullability, told to Lance.

Lance keeps the columns of a table as numbered fields, and its files by those numbers. Python cannot make such fields
one by one, but it pickles them as protocol-buffer messages, and of a value that comes twice in a message the later one
counts: so a field is changed by what is put behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, cast

import pyarrow as pa
from lance.dataset import LanceDataset
from lance.schema import LanceSchema

from omnigraph.storage.lance_internals.protobuf import encode_bytes, encode_number, parse_fields

_NAME: Final = 2
_ID: Final = 3
_PARENT: Final = 4
_NULLABLE: Final = 6


def can_reshape(schema: pa.Schema, wanted: pa.Schema, old_names: Mapping[str, str | None]) -> bool:
    """Whether the files of a table serve these columns as they are: each is there in its type, or may be null."""
    there: dict[str | None, pa.Field[pa.DataType]] = {column.name: column for column in _columns(schema)}
    for column in _columns(wanted):
        stored = there.get(old_names.get(column.name, column.name))
        if stored is None and not column.nullable:
            return False
        if stored is not None and not is_blob(stored) and stored.type != column.type:
            return False
    return True


def is_blob(column: pa.Field[pa.DataType]) -> bool:
    """Whether a column holds blobs: stored, it shows where they lie, so that its type is another."""
    type_ = cast("object", column.type)
    return pa.types.is_struct(column.type) or isinstance(type_, pa.BaseExtensionType)


def _columns(schema: pa.Schema) -> list[pa.Field[pa.DataType]]:
    return cast("list[pa.Field[pa.DataType]]", list(schema))


def reshape_schema(dataset: LanceDataset, wanted: pa.Schema, old_names: Mapping[str, str | None]) -> LanceSchema:
    """The columns that are wanted over the files of a table; ``old_names`` says what renamed ones were called.

    None stands for a column that is new, whatever the table has under its name.
    """
    make, (metadata, *_) = _pickle_parts(dataset.lance_schema)
    stored = _by_column(dataset.lance_schema)
    next_id = cast("_DatasetWithFieldIds", dataset).max_field_id + 1
    found: list[bytes] = []
    for column in _columns(wanted):
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


class _DatasetWithFieldIds(Protocol):
    """What Lance's type stubs leave out of a dataset."""

    max_field_id: int


def _pickle_parts(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], tuple[str | bytes, ...]]:
    """What makes a schema of its metadata and its fields, each before its children; and these."""
    return cast("tuple[Callable[..., LanceSchema], tuple[str | bytes, ...]]", schema.__reduce__())


def _by_column(schema: LanceSchema) -> dict[str | None, list[bytes]]:
    """The messages of each column: its own, and those of its children."""
    messages = iter(cast("tuple[bytes, ...]", _pickle_parts(schema)[1][1:]))
    return {field.name(): [next(messages) for _ in range(_size(field))] for field in _fields(schema)}


class _SchemaField(Protocol):
    """A field, as far as it is looked at here."""

    def name(self) -> str: ...
    def children(self) -> list[_SchemaField]: ...


def _fields(schema: LanceSchema) -> list[_SchemaField]:
    return cast("list[_SchemaField]", schema.fields())


def _size(field: _SchemaField) -> int:
    return 1 + sum(_size(child) for child in field.children())


def _renumber_fields(messages: list[bytes], first: int) -> Iterator[bytes]:
    """The fields of one new column; in a schema of its own they are numbered from 0, each before its children."""
    for at, message in enumerate(messages):
        parent = _number_in(message, _PARENT)
        is_child = parent is None or parent < len(messages)
        yield (
            message
            + encode_number(_ID, first + at)
            + (encode_number(_PARENT, first + (parent or 0)) if is_child else b"")
        )


def _number_in(message: bytes, wanted: int) -> int | None:
    """The value of a number in a message; None where it was left out, as zero is."""
    found = [field.number for field in parse_fields(message) if field.tag == wanted]
    return found[-1] if found else None

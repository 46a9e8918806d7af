"""Updates that write columns: many rows of a type get other values in a few columns, and all else stays in its files.

Rows are replaced one by one if they are few, or if an index covers one of the columns: Lance would find what a row said
before in the index, because the row keeps its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import ChunkedValues
from omnigraph.read.rows import PUBLIC_NAMES, blob_properties_of
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.tables import (
    TAIL_SIZES,
    FragmentColumns,
    Numbers,
    StagedChange,
    Table,
    TableFragment,
    list_fragments,
    replace_column_values,
)
from omnigraph.write.load.matching.match_candidates import addresses_of
from omnigraph.write.load.matching.row_updates import UpdatedRows
from omnigraph.write.load.rows import NO_IDS, Mask, RowNumbers, unpack_given
from omnigraph.write.rules import RowLocations

LEAST_ROWS: Final = TAIL_SIZES[0]
"""Fewer rows are replaced: their fragments are small, and small ones are merged."""
_LEAST_SHARE: Final = 4
"""Columns are written if at least one row in so many changes, of all rows in the fragments that have such rows."""
_ROWS_AT_ONCE: Final = 16_384


def stage_column_update(table: Table, updated: UpdatedRows) -> StagedChange | None:
    """Stage new values in the columns that an update changes; None if its rows have to be replaced instead."""
    numbers = np.flatnonzero(updated.addresses >= 0)
    if len(numbers) < LEAST_ROWS or not _can_replace_columns(table, updated):
        return None
    order = numbers[np.argsort(updated.addresses[numbers], kind="stable")]
    addresses = updated.addresses[order].astype(np.uint64)
    if not RowLocations(updated.table, addresses).is_valid_in(table):
        return None
    owners, starts = np.unique(addresses >> np.uint64(32), return_index=True)
    fragments = {each.id: each for each in list_fragments(table)}
    touched = [fragments[owner] for owner in cast("list[int]", owners.tolist())]
    if len(numbers) * _LEAST_SHARE < sum(each.num_rows for each in touched):
        return None
    columns = sorted(updated.columns)
    values = _NewValues.read(updated, columns)
    offsets = np.split(addresses & np.uint64(0xFFFFFFFF), starts[1:])
    parts = (
        _make_part(table, fragment, within, own, values)
        for fragment, within, own in zip(touched, offsets, np.split(order, starts[1:]), strict=True)
    )
    return replace_column_values(table, columns, parts)


def _can_replace_columns(table: Table, updated: UpdatedRows) -> bool:
    """Whether the table has all of the columns, and they are nothing but values: no ends, blobs or indexed columns."""
    declared, stored = arrow_schema(updated.type), table.schema
    indexed = {name for index in table.list_indexes().values() for name in index.columns}
    others = {*indexed, *PUBLIC_NAMES, *blob_properties_of(updated.type)}
    return table.has_stable_row_ids and all(
        name in stored.names and name not in others and _field_of(stored, name).type == _field_of(declared, name).type
        for name in updated.columns
    )


def _field_of(schema: pa.Schema, name: str) -> pa.Field[pa.DataType]:
    return cast("pa.Field[pa.DataType]", schema.field(name))


@dataclass(frozen=True, slots=True)
class _NewValues:
    """What the records of an update give in some columns, by row number; and which of them mention a column."""

    columns: Mapping[str, ChunkedValues]
    given: Mapping[str, Mask]

    @classmethod
    def read(cls, updated: UpdatedRows, columns: Sequence[str]) -> _NewValues:
        rows = updated.partial.read_columns([*columns, InternalColumn.GIVEN], NO_IDS)
        given = unpack_given(updated.type, rows.select([InternalColumn.GIVEN]))
        return cls({name: cast("ChunkedValues", rows.column(name)) for name in columns}, given)

    def are_given_to(self, numbers: RowNumbers) -> bool:
        """Whether some records mention all of the columns."""
        return all(self.given[name][numbers].all() for name in self.columns)

    def take(self, name: str, numbers: RowNumbers, type_: pa.DataType) -> Values:
        """Return the values of a column in some records."""
        column = self.columns[name]
        found = (
            column.slice(int(numbers[0]), len(numbers))
            if numbers[-1] - numbers[0] == len(numbers) - 1 and (np.diff(numbers) == 1).all()
            else column.take(numbers)
        )
        return found.combine_chunks().cast(type_)


def _make_part(
    table: Table, fragment: TableFragment, offsets: Numbers, numbers: RowNumbers, values: _NewValues
) -> FragmentColumns:
    schema = pa.schema([_field_of(table.schema, name).remove_metadata() for name in values.columns])
    owners = np.full(fragment.physical_rows, -1, np.int64)
    owners[offsets] = numbers
    if len(offsets) == fragment.num_rows and values.are_given_to(numbers):
        batches = _read_given(schema, owners, int(numbers[0]), values)
    else:
        batches = _read_mixed(table, schema, fragment, owners, values)
    return FragmentColumns(fragment.id, offsets, pa.RecordBatchReader.from_batches(schema, batches))


def _read_given(schema: pa.Schema, owners: RowNumbers, anyone: int, values: _NewValues) -> Iterator[pa.RecordBatch]:
    """Yield the new values of all rows of a fragment. A deleted row gets those of any other."""
    filled = np.where(owners < 0, anyone, owners)
    for start in range(0, len(filled), _ROWS_AT_ONCE):
        check_deadline()
        own = filled[start : start + _ROWS_AT_ONCE]
        found = [values.take(name, own, type_) for name, type_ in zip(schema.names, schema.types, strict=True)]
        yield pa.RecordBatch.from_arrays(found, schema=schema)


def _read_mixed(
    table: Table, schema: pa.Schema, fragment: TableFragment, owners: RowNumbers, values: _NewValues
) -> Iterator[pa.RecordBatch]:
    """Yield the values of all rows of a fragment, stored ones where no record mentions the column."""
    begin, batch = 0, None
    for batch in table.scan(schema.names, with_row_address=True, in_fragments=[fragment.id]):
        offsets = addresses_of(pa.Table.from_batches([batch])) & np.uint64(0xFFFFFFFF)
        end = int(offsets[-1]) + 1
        # A deleted row gets the values of another one.
        places = np.zeros(end - begin, np.int64)
        places[offsets.astype(np.int64) - begin] = np.arange(batch.num_rows)
        yield _mix(schema, batch, places, owners[begin:end], values)
        begin = end
    deleted = len(owners) - begin
    if batch is not None and deleted:
        yield _mix(schema, batch, np.zeros(deleted, np.int64), owners[begin:], values)


def _mix(
    schema: pa.Schema, stored: pa.RecordBatch, places: RowNumbers, owners: RowNumbers, values: _NewValues
) -> pa.RecordBatch:
    found: list[Values] = []
    for name, type_ in zip(schema.names, schema.types, strict=True):
        is_given = owners >= 0
        is_given[is_given] = values.given[name][owners[is_given]]
        own = column_of(stored, name)
        if is_given.any():
            new = values.take(name, owners[is_given], type_)
            mixed = places.copy()
            mixed[is_given] = len(own) + np.arange(len(new))
            found.append(pa.concat_arrays([own, new]).take(mixed))
        else:
            found.append(own.take(places))
    return pa.RecordBatch.from_arrays(found, schema=schema)

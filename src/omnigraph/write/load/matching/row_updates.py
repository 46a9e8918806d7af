"""Updates: find the stored row of each partial row, and complete the partial row with what it does not mention.

A record names its row by key, by id, or by an identity that exactly one stored row has. A record whose row is not found
is unmatched: it is a violation. A row that would not change is left out. Rows are completed when they are read, so that
memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.changes import compare_values
from omnigraph.read.frames import find_positions
from omnigraph.read.rows import PUBLIC_NAMES, BlobValue, blob_properties_of, read_blobs_at, read_writable_blobs
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, find_true, is_among, to_bool_array, to_list
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.tables import ROW_ADDRESS, FragmentText, Table, WriteMode, can_list_values
from omnigraph.write.load.matching.identity import RowIdentity
from omnigraph.write.load.matching.identity_matching import BlobReader
from omnigraph.write.load.matching.match_candidates import (
    INCOMING_KEYS,
    CandidateSearch,
    MatchBasis,
    StoredRows,
    addresses_of,
    encode_pairs,
)
from omnigraph.write.load.rows import (
    BLOB_ROWS_AT_ONCE,
    NO_IDS,
    IncomingRows,
    InMemoryRows,
    Mask,
    NumberedRows,
    RejectedRecord,
    RowNumbers,
    RowStorage,
    completed_schema,
    exclude_ids,
    format_records,
    mark_without,
    to_reader,
    unpack_given,
)
from omnigraph.write.row_digests import encode_column
from omnigraph.write.rules import shorten

EXISTS: Final = "update"
"""The rule that a record breaks if its row cannot be found."""

_IDS_AT_ONCE: Final = 2_000_000
"""Up to so many ids are hashed in memory: far cheaper than dividing them into files."""

RowAddresses: TypeAlias = npt.NDArray[np.int64]
"""The address of the stored row of each incoming row, or why there is none, see :class:`NotFoundCause`."""


class NotFoundCause(IntEnum):
    """Why the stored row of a record was not found."""

    MISSING = -1
    """No stored row has its key, id or identity."""
    AMBIGUOUS = -2
    """Several stored rows have its identity."""
    UNNAMED = -3
    """The record does not say which row it is about."""


UNMATCHED: Final = pa.schema([pa.field("id", pa.string()), pa.field("cause", pa.int8())])
"""An incoming row without a stored row: its staged id, and the cause."""


@dataclass(frozen=True, slots=True)
class UnmatchedRows:
    """Incoming rows without a stored row, as :data:`UNMATCHED`; ``identity`` is what they were looked for by."""

    rows: pa.Table
    identity: RowIdentity | None

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.rows.num_rows

    def to_records(self, incoming: IncomingRows, limit: int | None) -> Iterator[RejectedRecord]:
        """Yield each row as a rejected record; at most so many."""
        rows = self.rows.slice(0, limit)
        if not rows.num_rows:
            return
        listed = (to_list(column_of(rows, name)) for name in UNMATCHED.names)
        causes = cast("dict[str, int]", dict(zip(*listed, strict=True)))
        for numbers, found in incoming.storage.find_rows(column_of(rows, "id"), None):
            positions = incoming.positions.find(numbers)
            is_generated = incoming.generated.mark(numbers)
            key = incoming.type.key if isinstance(incoming.type, NodeType) else None
            with_id = mark_without(incoming.type, key, found) if key is not None else ~is_generated
            texts = format_records(incoming.type, found, with_id=with_id)
            for row, (text, (file, line)) in enumerate(zip(texts, positions, strict=True)):
                one = found.slice(row, 1)
                staged_id = cast(str, to_list(column_of(one, "id"))[0])
                id_ = None if is_generated[row] else staged_id
                message, value = self._describe(incoming.type, id_, one, NotFoundCause(causes[staged_id]))
                table_key = incoming.type.table_key
                violation = Violation(
                    incoming.type.name, EXISTS, message, file, line, id_, value=value, table_key=table_key
                )
                yield RejectedRecord(text, (violation,))

    def _describe(
        self, type_: NodeType | EdgeType, id_: str | None, row: pa.Table, cause: NotFoundCause
    ) -> tuple[str, str | None]:
        """Return the message of one row, and what names it."""
        if id_ is not None:
            name = "key" if isinstance(type_, NodeType) and type_.key is not None else "id"
            return f"there is no {type_.name} to update with the {name} '{shorten(id_)}'", shorten(id_)
        columns = () if self.identity is None else self.identity.columns
        names = ", ".join(PUBLIC_NAMES.get(name, name) for name in columns)
        if cause is NotFoundCause.UNNAMED:
            needed = (
                f"give {names}, or its id" if names else f"give its id, or name the columns that identify {type_.name}"
            )
            return f"the record does not say which {type_.name} it updates; {needed}", None
        (values,) = zip(*(to_list(column_of(row, name)) for name in columns), strict=True)
        value = shorten(", ".join(map(str, values)))
        if cause is NotFoundCause.AMBIGUOUS:
            return f"there are several {type_.name} with {names} = {value}; give the id of one", value
        return f"there is no {type_.name} to update with {names} = {value}", value


# --------------------------------------------------------------------------------------------- finding rows


def mark_named(type_: NodeType | EdgeType, identity: RowIdentity | None, rows: pa.Table) -> Mask:
    """Return which partial rows without an id have what an identity needs."""
    if identity is None:
        return np.zeros(rows.num_rows, np.bool_)
    given = unpack_given(type_, rows)
    return np.logical_and.reduce([given[name] for name in identity.columns]) & ~identity.mark_incomplete(rows)


def locate_stored(incoming: pa.Table, stored: pa.Table) -> RowAddresses:
    """Return the addresses of the stored rows that have the match keys of incoming rows."""
    codes = encode_pairs(incoming, stored, ["key"])
    size = 1 + max(codes.incoming.max(initial=0), codes.stored.max(initial=0))
    counts = np.bincount(codes.stored, minlength=size)[codes.incoming]
    places = np.zeros(size, np.int64)
    places[codes.stored] = addresses_of(stored).astype(np.int64)
    missing = np.where(counts, NotFoundCause.AMBIGUOUS, NotFoundCause.MISSING)
    return np.where(counts == 1, places[codes.incoming], missing)


def _locate_rows(table: Table | None, rows: IncomingRows, identity: RowIdentity | None) -> RowAddresses:
    if table is not None and not rows.generated.count and not can_list_values(table, "id", rows.positions.count):
        by_id = _locate_in_order(table, rows)
        by_id = _locate_at_once(table, rows) if by_id is None else by_id
        if by_id is not None:
            return by_id
    found = np.full(rows.positions.count, NotFoundCause.MISSING, np.int64)
    names = [*arrow_schema(rows.type).names, InternalColumn.GIVEN]
    bases = [MatchBasis(rows.type, None)] if rows.generated.count < rows.positions.count else []
    bases += [MatchBasis(rows.type, identity)] if identity is not None else []
    if rows.generated.count:
        for numbers, piece in rows.storage.scan(names):
            is_unnamed = rows.generated.mark(numbers) & ~mark_named(rows.type, identity, piece)
            found[numbers[is_unnamed]] = NotFoundCause.UNNAMED
    for basis in bases if table is not None else ():
        pieces = (basis.choose_rows(*piece, rows.generated) for piece in rows.storage.scan(names))
        named = (_take_rows(piece, np.flatnonzero(found[piece[0]] != NotFoundCause.UNNAMED)) for piece in pieces)
        search = CandidateSearch(cast("Table", table), basis, rows.positions.count, np.zeros(0, np.uint64))
        for incoming, stored in search.run(named, basis.make_incoming_keys, INCOMING_KEYS):
            numbers = column_of(incoming, "number").to_numpy(zero_copy_only=False)
            found[numbers] = locate_stored(incoming, stored)
    return found


def _locate_in_order(table: Table, rows: IncomingRows) -> RowAddresses | None:
    """Return the addresses of rows whose ids are those of the table, in its order; None if they are not."""
    if rows.positions.count != table.count_rows():
        return None
    ids = rows.storage.read_columns(["id"], NO_IDS).column("id")
    found: list[RowAddresses] = []
    begin = 0
    for batch in table.scan(["id"], with_row_address=True, one_by_one=True):
        own = pa.chunked_array([column_of(batch, "id")])
        if not ids.slice(begin, batch.num_rows).equals(own):
            return None
        found.append(column_of(batch, ROW_ADDRESS).to_numpy().astype(np.int64))
        begin += batch.num_rows
    return np.concatenate(found)


def _locate_at_once(table: Table, rows: IncomingRows) -> RowAddresses | None:
    """Return the addresses of rows by their ids, with all ids of the table in memory; None if these are too many."""
    if max(table.count_rows(), rows.positions.count) > _IDS_AT_ONCE:
        return None
    stored = table.scan(["id"], with_row_address=True).read_all()
    ids = column_of(rows.storage.read_columns(["id"], NO_IDS), "id")
    places = find_positions(ids, column_of(stored, "id"))
    return np.where(places < 0, NotFoundCause.MISSING, addresses_of(stored).astype(np.int64)[places])


def _take_rows(piece: NumberedRows, at: npt.NDArray[np.int64]) -> NumberedRows:
    numbers, rows = piece
    return numbers[at], rows if len(at) == len(numbers) else rows.take(at)


# --------------------------------------------------------------------------------------------- completing rows


@dataclass(frozen=True, slots=True)
class RowCompletion:
    """Completes partial rows with the values of their stored rows."""

    type: NodeType | EdgeType
    table: Table

    def complete(self, rows: pa.Table, addresses: RowAddresses, names: Sequence[str]) -> pa.Table:
        """Return some columns of rows as they are after the update; the partial rows come with their bitmaps.

        Blobs are in the form that a write takes on both sides.
        """
        given = unpack_given(self.type, rows)
        absent = [name for name in names if name in given and not given[name].all()]
        stored = self.read_stored(["id", *absent], addresses)
        columns: dict[str, Values] = {}
        for name in names:
            if name == "id":
                columns[name] = column_of(stored, "id")
            elif name in absent:
                values = self._read_blobs(stored, name) if _is_blob(self.type, name) else column_of(stored, name)
                columns[name] = _choose(given[name], column_of(rows, name), values)
            else:
                columns[name] = column_of(rows, name)
        schema = completed_schema(self.type).empty_table().select(list(names)).schema
        return pa.table(list(columns.values()), schema=schema)

    def read_stored(self, columns: Sequence[str], addresses: RowAddresses) -> pa.Table:
        """Return some columns of the stored rows at addresses, one for each, with their addresses."""
        distinct, places = np.unique(addresses, return_inverse=True)
        reader = StoredRows(self.type, self.table)
        pieces = list(reader.read_at(columns, distinct.astype(np.uint64)))
        found = pa.concat_tables(pieces)
        order = np.argsort(addresses_of(found))
        return found.take(order[places])

    def _read_blobs(self, stored: pa.Table, name: str) -> Values:
        """Return blobs as a write takes them. A table that lags behind the schema has no such column."""
        return (
            read_writable_blobs(self.table, name, stored)
            if name in self.table.schema.names
            else column_of(stored, name)
        )

    def mark_changed(
        self, rows: pa.Table, addresses: RowAddresses, read_blobs: BlobReader
    ) -> tuple[Mask, frozenset[str]]:
        """Return which partial rows change their stored rows, and the columns in which some do.

        Blobs are read only if all else is the same.
        """
        given = unpack_given(self.type, rows)
        names = [name for name, mask in given.items() if mask.any()]
        stored = self.read_stored(names, addresses)
        changed = np.zeros(rows.num_rows, np.bool_)
        columns = {name for name in names if _is_blob(self.type, name)}
        for name in names:
            differs = given[name] & ~_compare_columns(column_of(rows, name), column_of(stored, name))
            columns |= {name} if differs.any() else set()
            changed |= differs
        for name in names:
            if _is_blob(self.type, name) and name in self.table.schema.names:
                self._compare_blobs(name, given[name], addresses, changed, read_blobs)
        return changed, frozenset(columns)

    def _compare_blobs(
        self, name: str, given: Mask, addresses: RowAddresses, changed: Mask, read_blobs: BlobReader
    ) -> None:
        """Mark the rows in which the bytes of a blob change."""
        at = np.flatnonzero(given & ~changed)
        for start in range(0, len(at), BLOB_ROWS_AT_ONCE):
            part = at[start : start + BLOB_ROWS_AT_ONCE]
            mine = read_blobs(name, part)
            theirs = read_blobs_at(self.table, name, addresses[part].astype(np.uint64))
            changed[part] = [one != other for one, other in zip(mine, theirs, strict=True)]


def _is_blob(type_: NodeType | EdgeType, name: str) -> bool:
    return name in blob_properties_of(type_)


def _compare_columns(mine: Values, theirs: Values) -> Mask:
    """Return where two columns are equal. Blobs are compared by what is known without their bytes."""
    if not pa.types.is_struct(mine.type):
        return compare_values(mine, theirs)
    texts = (cast("Values", encode_column(each)) for each in (mine, theirs))
    return to_bool_array(compute("equal", *texts))


def _choose(mask: Mask, values: Values, others: Values) -> Values:
    """Return a value for each row: from ``values`` where the mask is set, else from ``others``."""
    count = len(values)
    both = pa.concat_arrays([values.cast(others.type), others])
    return both.take(np.where(mask, np.arange(count), np.arange(count, 2 * count)))


@dataclass(frozen=True, slots=True, eq=False)
class UpdatedRows:
    """Partial rows that change their stored rows, as they are after the update."""

    type: NodeType | EdgeType
    partial: RowStorage
    table: Table
    addresses: RowAddresses
    """The address of the stored row of each row; negative if the row is left out."""
    columns: frozenset[str]
    """The columns in which a row differs from its stored row."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the partial rows are in memory."""
        return self.partial.is_in_memory

    def read_columns(self, names: Sequence[str], excluded_ids: Values) -> pa.Table:
        """Return some columns of the rows except the excluded ids."""
        schema = arrow_schema(self.type).empty_table().select(list(names)).schema
        pieces = (rows for _, rows in self.scan([*names, "id"]))
        kept = (exclude_ids(rows, excluded_ids).select(list(names)) for rows in pieces)
        return self.partial.collect(schema, kept)

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield the rows of some ids with their row numbers."""
        found = [
            numbers[find_true(cast("Values", is_among(column_of(rows, "id"), ids)))]
            for numbers, rows in self.scan(["id"])
        ]
        return self._restrict(np.concatenate([np.zeros(0, np.int64), *found])).scan(names)

    def _restrict(self, numbers: RowNumbers) -> UpdatedRows:
        """Return some of the rows."""
        addresses = np.full(len(self.addresses), NotFoundCause.MISSING, np.int64)
        addresses[numbers] = self.addresses[numbers]
        return replace(self, addresses=addresses)

    def scan(self, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield some columns of all rows with their row numbers, in pieces, in order."""
        own = list(completed_schema(self.type).names if names is None else dict.fromkeys(names))
        partial = self.partial.scan(None if names is None else list(dict.fromkeys([*own, InternalColumn.GIVEN])))
        return self._read(partial, own)

    def read_blobs(self, column: str, numbers: RowNumbers) -> list[bytes | None]:
        """Return the bytes of a blob column in some rows."""
        found: dict[int, bytes | None] = {}
        for own, rows in self._restrict(numbers).scan(None):
            values = cast("list[BlobValue | None]", to_list(column_of(rows, column)))
            data = (None if each is None else each["data"] for each in values)
            found.update(zip(cast("list[int]", own.tolist()), data, strict=True))
        return [found[number] for number in cast("list[int]", numbers.tolist())]

    def collect(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> pa.Table:
        """Return pieces of these rows as one table."""
        return self.partial.collect(schema, pieces)

    def write_to(self, table: Table, mode: WriteMode, excluded_ids: Values) -> tuple[FragmentText, ...]:
        """Write the rows except the excluded ids into the folder of a table."""
        pieces = (rows for _, rows in self.scan(None))
        return tables.write_rows(table, to_reader(arrow_schema(self.type), pieces, excluded_ids), mode)

    def _read(self, pieces: Iterable[NumberedRows], names: Sequence[str]) -> Iterator[NumberedRows]:
        completion = RowCompletion(self.type, self.table)
        at_once = BLOB_ROWS_AT_ONCE if any(_is_blob(self.type, name) for name in names) else None
        for piece in pieces:
            numbers, rows = _take_rows(piece, np.flatnonzero(self.addresses[piece[0]] >= 0))
            for start in range(0, len(numbers), at_once or max(1, len(numbers))):
                part = slice(start, start + (at_once or len(numbers)))
                own = rows.slice(start, at_once)
                yield numbers[part], completion.complete(own, self.addresses[numbers[part]], names)


# --------------------------------------------------------------------------------------------- an update


def complete_rows(table: Table | None, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
    """Return the partial rows that change their stored rows, completed; the others are unchanged or unmatched.

    ``identity`` is for rows with generated ids. ``table`` is None if the type has no rows.
    """
    found = _locate_rows(table, rows, identity)
    unmatched = _collect_unmatched(rows, found, identity)
    changes = _find_changes(table, rows, found)
    unchanged = int(((found >= 0) & ~changes.rows).sum())
    if table is None or not changes.rows.any():
        storage: RowStorage = InMemoryRows(completed_schema(rows.type).empty_table())
    else:
        addresses = np.where(changes.rows, found, NotFoundCause.MISSING)
        storage = UpdatedRows(rows.type, rows.storage, table, addresses, changes.columns)
    return replace(
        rows,
        storage=storage,
        unchanged=unchanged + unmatched.count,
        has_taken_ids=True,
        unmatched=unmatched,
        changed_columns=None if changes.has_repeated_rows else changes.columns,
    )


def _collect_unmatched(rows: IncomingRows, found: RowAddresses, identity: RowIdentity | None) -> UnmatchedRows:
    pieces: list[pa.Table] = []
    if (found < 0).any():
        for numbers, piece in rows.storage.scan(["id"]):
            at = np.flatnonzero(found[numbers] < 0)
            columns = [column_of(piece, "id").take(at), pa.array(found[numbers[at]], pa.int8())]
            pieces.append(pa.table(columns, schema=UNMATCHED))
    return UnmatchedRows(pa.concat_tables([UNMATCHED.empty_table(), *pieces]), identity)


@dataclass(frozen=True, slots=True)
class _FoundChanges:
    """What an update changes: which of its rows, and in which columns some of them do."""

    rows: Mask
    columns: frozenset[str]
    has_repeated_rows: bool
    """Whether several records name one stored row."""


def _find_changes(table: Table | None, rows: IncomingRows, found: RowAddresses) -> _FoundChanges:
    is_changed = np.zeros(len(found), np.bool_)
    if table is None:
        return _FoundChanges(is_changed, frozenset(), has_repeated_rows=False)
    completion, columns = RowCompletion(rows.type, table), frozenset[str]()
    for piece in rows.storage.scan([*arrow_schema(rows.type).names, InternalColumn.GIVEN]):
        numbers, own = _take_rows(piece, np.flatnonzero(found[piece[0]] >= 0))
        if len(numbers):
            is_changed[numbers], changed = completion.mark_changed(
                own, found[numbers], lambda name, at, own=numbers: rows.storage.read_blobs(name, own[at])
            )
            columns |= changed
    # Rows that several records name are left to the rules, which report them.
    addresses, counts = np.unique(found[found >= 0], return_counts=True)
    repeated = addresses[counts > 1]
    return _FoundChanges(is_changed | np.isin(found, repeated), columns, has_repeated_rows=bool(len(repeated)))

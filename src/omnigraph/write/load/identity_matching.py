"""Find the stored rows of incoming ones: by id or key, and else by identity.

Afterwards the graph has what the input has. Rows with equal identities are a bag: incoming rows that equal a stored row
change nothing, others replace the remaining stored rows, and what is left is inserted. A bag ends with as many rows as
its larger side had. The result does not depend on the order of the rows.

Stored rows that can match are found by the values of one column first, the source of an edge if it is part of the
identity, so that a small merge does not read the type. More rows than fit into memory are divided by their match keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.rows import PUBLIC_NAMES, blob_properties_of, read_blobs_at
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import (
    Rows,
    Values,
    column_of,
    compute,
    encode_values,
    is_among,
    take_where,
    to_bool_array,
)
from omnigraph.storage.fragments import list_fragments, read_rows
from omnigraph.storage.lagging_columns import read_declared_column
from omnigraph.storage.row_search import build_value_filters, can_list_values, can_look_up, combine_batches
from omnigraph.storage.staging import Addresses
from omnigraph.storage.table import ROW_ADDRESS, Table
from omnigraph.write.load.identified_rows import TAKEN_IDS, IdentifiedRows, IdentityMatch
from omnigraph.write.load.identity import RowIdentity, list_value_columns, make_id_keys, mark_single
from omnigraph.write.load.incoming_rows import IncomingRows
from omnigraph.write.load.positions import GeneratedIds, RowNumbers
from omnigraph.write.load.row_digests import digest_bytes, digest_rows
from omnigraph.write.spill import spill_array, spill_partitions, spill_rows

ROWS_IN_A_PART: Final = 250_000
_MAX_PARTS: Final = 256
"""Each part is a file, and all are open while they are written."""
_MAX_PRUNING_COLUMNS: Final = 3
_BLOB_ROWS_AT_ONCE: Final = 64

INCOMING_DIGESTS: Final = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("id", pa.string()),
        pa.field("key", pa.string()),
        pa.field("rest", pa.string()),
    ]
)
"""An incoming row: its match key, and the digest of what the key does not cover."""
_CANDIDATES: Final = pa.schema(
    [pa.field("address", pa.uint64()), pa.field("id", pa.string()), pa.field("key", pa.string())]
)
"""A stored row that may have an incoming one."""


@dataclass(frozen=True, slots=True)
class Counterparts:
    """For each incoming row the place of the stored row that it replaces, or -1; and whether it is the same."""

    places: npt.NDArray[np.int64]
    is_same: npt.NDArray[np.bool_]


def assign_counterparts(incoming: pa.Table, stored: pa.Table) -> Counterparts:
    """Pair incoming rows with stored rows of the same match key, equal ones first. Both have id, key and rest.

    Of the others, the first by their digests replace the first stored rows by their ids. A key that only one row may
    have is left to the rules if several incoming rows have it: none of them counts as the same.
    """
    keys = _encode_pairs(incoming, stored, ["key"])
    wholes = _encode_pairs(incoming, stored, ["key", "rest"])
    places = _pair_by_rank(wholes.incoming, wholes.stored)
    is_same = places >= 0
    left, free = np.flatnonzero(~is_same), np.setdiff1d(np.arange(stored.num_rows), places[is_same])
    left = left[_sort_order(incoming, "rest", left)]
    free = free[_sort_order(stored, "id", free)]
    found = _pair_by_rank(keys.incoming[left], keys.stored[free])
    places[left[found >= 0]] = free[found[found >= 0]]
    counts = np.bincount(keys.incoming, minlength=1)
    is_single = mark_single(cast("pa.StringArray", column_of(incoming, "key")))
    return Counterparts(places, is_same & ~(is_single & (counts[keys.incoming] > 1)))


@dataclass(frozen=True, slots=True)
class _Codes:
    """One number for each distinct value, the same on both sides."""

    incoming: npt.NDArray[np.int64]
    stored: npt.NDArray[np.int64]


def _encode_pairs(incoming: pa.Table, stored: pa.Table, columns: Sequence[str]) -> _Codes:
    sides = [incoming.select(list(columns)), stored.select(list(columns))]
    both = pa.concat_tables([side.cast(sides[0].schema) for side in sides])
    codes = encode_values(column_of(both, columns[0]))
    for name in columns[1:]:
        more = encode_values(column_of(both, name))
        codes = codes * (more.max(initial=0) + 1) + more
    _, codes = np.unique(codes, return_inverse=True)
    return _Codes(codes[: incoming.num_rows], codes[incoming.num_rows :])


def _pair_by_rank(incoming: npt.NDArray[np.int64], stored: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Pair the first row of each code with the first, the second with the second; -1 where the other side has fewer."""
    width = max(len(incoming), len(stored), 1)
    wanted, known = incoming * width + _rank(incoming), stored * width + _rank(stored)
    order = np.argsort(known)
    at = np.searchsorted(known, wanted, sorter=order)
    found = np.full(len(incoming), -1, np.int64)
    inside = np.flatnonzero(at < len(known))
    hits = inside[known[order[at[inside]]] == wanted[inside]]
    found[hits] = order[at[hits]]
    return found


def _rank(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many earlier rows have the same code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1)) if len(codes) else np.zeros(0, np.int64)
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return ranks


def _sort_order(rows: pa.Table, column: str, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return compute("array_sort_indices", column_of(rows, column).take(at)).to_numpy().astype(np.int64)


# --------------------------------------------------------------------------------------------- stored rows


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a pinned table in the columns of the schema, which the table may lag behind."""

    type: NodeType | EdgeType
    table: Table

    def read(
        self, columns: Sequence[str], filter_: str | None = None, fragments: Collection[int] | None = None
    ) -> Iterator[pa.Table]:
        """Yield some columns of all rows that match, with their addresses, in pieces; of all fragments or of some."""
        reader = self.table.scan(
            self._list_stored(columns),
            filter=filter_,
            with_row_address=True,
            in_fragments=fragments,
            one_by_one=True,
        )
        for piece in combine_batches(reader.schema, reader):
            yield self._to_schema(piece, columns)

    def read_at(self, columns: Sequence[str], addresses: Addresses) -> Iterator[pa.Table]:
        """Yield some columns of the rows at sorted addresses, with their addresses, in pieces."""
        owners, starts = np.unique(addresses >> np.uint64(32), return_index=True)
        offsets = np.split(addresses & np.uint64(0xFFFFFFFF), starts[1:])
        fragments = {each.id: each for each in list_fragments(self.table)}
        parts = [(fragments[int(owner)], within) for owner, within in zip(owners, offsets, strict=True)]
        for batch in read_rows(self.table, parts, self._list_stored(columns)):
            yield self._to_schema(pa.Table.from_batches([batch]), columns)

    def _list_stored(self, columns: Sequence[str]) -> list[str]:
        names = set(self.table.schema.names)
        # The id gives the number of rows if the table has none of the columns.
        return [name for name in dict.fromkeys(("id", *columns)) if name in names]

    def _to_schema(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        schema = arrow_schema(self.type)
        found = {
            name: read_declared_column(
                self.type, self.table.lag, rows, name, cast("pa.DataType", schema.field(name).type)
            )
            for name in dict.fromkeys(("id", *columns))
        }
        return pa.table({**found, ROW_ADDRESS: column_of(rows, ROW_ADDRESS)})


# --------------------------------------------------------------------------------------------- matching


@dataclass(frozen=True, slots=True)
class MatchBasis:
    """How some of the incoming rows are matched: those with generated ids by an identity, the others by their ids."""

    type: NodeType | EdgeType
    identity: RowIdentity | None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that a match key is made of, unless a row lacks a value of its unique columns."""
        return ("id",) if self.identity is None else self.identity.columns

    @property
    def rest_columns(self) -> tuple[str, ...]:
        """The columns that a match key does not cover."""
        return list_value_columns(self.type) if self.identity is None else self.identity.other_columns

    def make_keys(self, rows: Rows) -> pa.StringArray:
        """Return the match key of each row."""
        return make_id_keys(rows) if self.identity is None else self.identity.make_keys(rows)

    def digest_rest(self, rows: Rows) -> pa.StringArray:
        """Return the digest of what the match key does not cover."""
        return digest_rows(rows, self.rest_columns)

    def digest_incoming(self, numbers: RowNumbers, rows: pa.Table, generated: GeneratedIds) -> pa.Table:
        """Return the digests of the incoming rows that are matched on this basis, as :data:`INCOMING_DIGESTS`."""
        is_generated = generated.mark(numbers)
        chosen = np.flatnonzero(is_generated if self.identity is not None else ~is_generated)
        found = rows.take(chosen)
        columns = [pa.array(numbers[chosen]), column_of(found, "id"), self.make_keys(found), self.digest_rest(found)]
        return pa.table(columns, schema=INCOMING_DIGESTS)


def match_stored_rows(table: Table, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
    """Return the incoming rows without those that a table has already, and with the ids of those that they replace.

    ``identity`` is for rows with generated ids; None if there are none.
    """
    outcome = _MatchOutcome(rows)
    claimed = np.zeros(0, np.uint64)
    if rows.generated.count < rows.positions.count:
        claimed = _TableMatcher(table, rows, MatchBasis(rows.type, None), claimed).run(outcome)
    if identity is not None:
        # A row that another record names by its id is not free.
        _TableMatcher(table, rows, MatchBasis(rows.type, identity), claimed).run(outcome)
    return outcome.to_incoming_rows()


class _MatchOutcome:
    """Collects what became of each incoming row."""

    def __init__(self, rows: IncomingRows) -> None:
        self._rows = rows
        self._unchanged = np.zeros(rows.positions.count, np.bool_)
        self._places = np.full(rows.positions.count, -1, np.int64)
        self._taken: list[pa.Table] = []
        self._count = 0

    def add(self, incoming: pa.Table, stored: pa.Table, found: Counterparts) -> None:
        """Add the pairs of some rows."""
        numbers = column_of(incoming, "number").to_numpy(zero_copy_only=False)
        self._unchanged[numbers[found.is_same]] = True
        replacing = np.flatnonzero((found.places >= 0) & ~found.is_same)
        staged = column_of(incoming, "id").take(replacing)
        taken = column_of(stored, "id").take(found.places[replacing])
        renamed = np.flatnonzero(to_bool_array(compute("not_equal", staged, taken)))
        if len(renamed):
            self._places[numbers[replacing[renamed]]] = np.arange(self._count, self._count + len(renamed))
            self._count += len(renamed)
            piece = pa.table([staged.take(renamed), taken.take(renamed)], schema=TAKEN_IDS)
            # Each part goes to a file of its own, so that only one is in memory.
            self._taken.append(piece if len(renamed) < ROWS_IN_A_PART else spill_rows(TAKEN_IDS, [piece]))

    def to_incoming_rows(self) -> IncomingRows:
        """Return the rows as they are to be written."""
        unchanged = int(self._unchanged.sum())
        if not unchanged and not self._count:
            return self._rows
        match = IdentityMatch(self._unchanged, self._places, pa.concat_tables([TAKEN_IDS.empty_table(), *self._taken]))
        storage = IdentifiedRows(self._rows.type, self._rows.storage, match)
        return replace(self._rows, storage=storage, unchanged=unchanged, has_taken_ids=bool(self._count))


class _TableMatcher:
    """Matches the rows of one table on one basis. ``claimed`` are sorted addresses of rows that are not free."""

    def __init__(self, table: Table, rows: IncomingRows, basis: MatchBasis, claimed: Addresses) -> None:
        self._rows = rows
        self._basis = basis
        self._stored = StoredRows(rows.type, table)
        self._claimed = claimed
        self._part_count = min(_MAX_PARTS, 1 + rows.positions.count // ROWS_IN_A_PART)
        self._pruning = _PruningValues(rows.type, table, basis)
        self._has_incomplete = False

    def run(self, outcome: _MatchOutcome) -> Addresses:
        """Match all rows; return the sorted addresses of the stored rows that have an incoming one."""
        incoming = self._divide(INCOMING_DIGESTS, self._digest_incoming())
        candidates = self._divide(_CANDIDATES, self._find_candidates(incoming))
        common = [keep_common(*parts) for parts in zip(incoming, candidates, strict=True)]
        addresses = np.sort(np.concatenate([addresses_of(stored) for _, stored in common]))
        rest = self._digest_rest(addresses)
        for rows, stored in common:
            if rows.num_rows:
                digests = rest[np.searchsorted(addresses, addresses_of(stored))]
                self._match_part(rows, stored.append_column("rest", pa.array(digests).cast(pa.string())), outcome)
        return addresses

    def _match_part(self, incoming: pa.Table, stored: pa.Table, outcome: _MatchOutcome) -> None:
        numbers = column_of(incoming, "number").to_numpy(zero_copy_only=False)
        addresses = addresses_of(stored)
        incoming, stored = add_blob_digests(
            self._basis,
            incoming,
            stored,
            lambda column, at: self._rows.storage.read_blobs(column, numbers[at]),
            lambda column, at: read_blobs_at(self._stored.table, column, addresses[at]),
        )
        outcome.add(incoming, stored, assign_counterparts(incoming, stored))

    # ----------------------------------------------------------------------------------------- both sides

    def _digest_incoming(self) -> Iterator[pa.Table]:
        names = arrow_schema(self._rows.type).names
        for numbers, rows in self._rows.storage.scan(names):
            is_generated = self._rows.generated.mark(numbers)
            chosen = rows.take(np.flatnonzero(is_generated if self._basis.identity is not None else ~is_generated))
            self._pruning.add(chosen)
            if self._basis.identity is not None:
                self._has_incomplete |= bool(self._basis.identity.mark_incomplete(chosen).any())
            yield self._basis.digest_incoming(numbers, rows, self._rows.generated)

    def _find_candidates(self, incoming: Sequence[pa.Table]) -> Iterator[pa.Table]:
        columns = list_value_columns(self._rows.type) if self._has_incomplete else self._basis.key_columns
        # With several parts the keys are compared part by part.
        keys = column_of(incoming[0], "key") if len(incoming) == 1 else None
        for filter_ in self._pruning.list_filters():
            for piece in self._stored.read(columns, filter_):
                addresses = column_of(piece, ROW_ADDRESS)
                found = pa.table([addresses, column_of(piece, "id"), self._make_stored_keys(piece)], schema=_CANDIDATES)
                free = np.flatnonzero(~np.isin(addresses.to_numpy(), self._claimed, assume_unique=True))
                found = found.take(free) if len(free) < found.num_rows else found
                key = column_of(found, "key")
                yield found.filter(key.is_valid() if keys is None else is_among(key, keys))

    def _make_stored_keys(self, rows: pa.Table) -> pa.StringArray:
        identity = self._basis.identity
        if identity is None or self._has_incomplete:
            return self._basis.make_keys(rows)
        incomplete = identity.mark_incomplete(rows)
        if not incomplete.any():
            return identity.make_keys(rows)
        # No incoming row is identified by all of its columns, so these rows match none.
        keys = identity.make_keys(rows.take(np.flatnonzero(~incomplete)))
        places = np.where(incomplete, -1, np.cumsum(~incomplete) - 1)
        return cast("pa.StringArray", take_where(cast("Values", keys), places))

    def _digest_rest(self, addresses: Addresses) -> npt.NDArray[np.bytes_]:
        """Return the digest of the other columns of the rows at sorted addresses."""
        digests = spill_array(len(addresses), np.dtype("S32"))
        if self._basis.rest_columns and len(addresses):
            for piece in self._stored.read_at(self._basis.rest_columns, addresses):
                at = np.searchsorted(addresses, addresses_of(piece))
                digests[at] = self._basis.digest_rest(piece).to_numpy(zero_copy_only=False)
        return digests

    def _divide(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> list[pa.Table]:
        if self._part_count == 1:
            return [pa.concat_tables([schema.empty_table(), *pieces])]
        return spill_partitions(schema, (piece.cast(schema) for piece in pieces), "key", self._part_count)


# --------------------------------------------------------------------------------------------- blobs

BlobReader: TypeAlias = "Callable[[str, npt.NDArray[np.int64]], list[bytes | None]]"
"""Reads the bytes of a blob column in the rows at some places."""


def add_blob_digests(
    basis: MatchBasis, incoming: pa.Table, stored: pa.Table, read_incoming: BlobReader, read_stored: BlobReader
) -> tuple[pa.Table, pa.Table]:
    """Add the bytes of blobs to the digests of rows that are equal without them; no others are read."""
    if not blob_properties_of(basis.type):
        return incoming, stored
    wholes = _encode_pairs(incoming, stored, ["key", "rest"])
    mine = np.flatnonzero(np.isin(wholes.incoming, wholes.stored))
    theirs = np.flatnonzero(np.isin(wholes.stored, wholes.incoming))
    return (
        _append_digests(basis, incoming, mine, read_incoming),
        _append_digests(basis, stored, theirs, read_stored),
    )


def _append_digests(basis: MatchBasis, rows: pa.Table, at: npt.NDArray[np.int64], read: BlobReader) -> pa.Table:
    added = np.full(rows.num_rows, "", object)
    for column in blob_properties_of(basis.type):
        for start in range(0, len(at), _BLOB_ROWS_AT_ONCE):
            part = at[start : start + _BLOB_ROWS_AT_ONCE]
            added[part] += [" " if each is None else f" {digest_bytes(each)}" for each in read(column, part)]
    # An identity of all columns has the blobs in its key.
    for name in ("rest",) if basis.rest_columns else ("key", "rest"):
        texts = column_of(rows, name).to_numpy(zero_copy_only=False) + added
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    return rows


def keep_common(incoming: pa.Table, stored: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of both sides whose match keys the other side has too."""
    mine, theirs = column_of(incoming, "key"), column_of(stored, "key")
    common = incoming.filter(is_among(mine, theirs.drop_null()))
    return common, stored.filter(is_among(theirs, mine)) if common.num_rows else stored.slice(0, 0)


def addresses_of(rows: pa.Table) -> Addresses:
    """Return the addresses of stored rows."""
    name = "address" if "address" in rows.column_names else ROW_ADDRESS
    return column_of(rows, name).to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)


class _PruningValues:
    """Collects the values of one column of the incoming rows, by which the stored ones can be looked up."""

    def __init__(self, type_: NodeType | EdgeType, table: Table, basis: MatchBasis) -> None:
        self._type = type_
        self._table = table
        self._values: dict[str, Values | None] = dict.fromkeys(_list_pruning_columns(type_, basis))

    def add(self, rows: pa.Table) -> None:
        """Add the values of some rows. A column with a null is of no use, nor one with more values than pay."""
        for name, known in list(self._values.items()):
            values = column_of(rows, name)
            found = (values if known is None else pa.concat_arrays([known, values])).unique()
            if found.null_count or not can_look_up(self._table, self._type, name, found):
                del self._values[name]
            else:
                self._values[name] = found

    def list_filters(self) -> Iterable[str | None]:
        """Return the filters that find all stored rows that can match; ``None`` stands for all rows."""
        for name, values in self._values.items():
            if values is not None:
                return build_value_filters(self._type, name, values)
        return [None]


def can_match_by_lookup(table: Table, rows: IncomingRows, identity: RowIdentity | None) -> bool:
    """Return whether the stored rows of incoming ones can surely be looked up by the values of one column."""
    if rows.generated.count < rows.positions.count and not can_list_values(table, "id", rows.positions.count):
        return False
    if identity is None:
        return True
    columns = _list_pruning_columns(rows.type, MatchBasis(rows.type, identity))
    schema = arrow_schema(rows.type)
    texts = [name for name in columns if schema.field(name).type == pa.string() and not schema.field(name).nullable]
    return bool(texts) and can_list_values(table, texts[0], rows.generated.count)


def _list_pruning_columns(type_: NodeType | EdgeType, basis: MatchBasis) -> list[str]:
    """Return the columns by which stored rows can be looked up, the most selective ones first."""
    if basis.identity is None:
        return ["id"]
    indexed = {columns[0] for columns in (*type_.indexes, *type_.unique)}
    schema = arrow_schema(type_)
    known = dict(zip(schema.names, schema.types, strict=True))
    found = [name for name in basis.identity.columns if _is_selective(known[name])]
    return sorted(found, key=lambda name: (name not in PUBLIC_NAMES, name not in indexed))[:_MAX_PRUNING_COLUMNS]


def _is_selective(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_integer(type_) or pa.types.is_date(type_)

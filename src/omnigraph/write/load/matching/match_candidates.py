"""Candidates: the stored rows that may be those of incoming rows, found by their match keys.

They are looked up by the values of one column first, the source of an edge if it is part of the identity, so that a
small load does not read the type. More rows than fit into memory are divided by their match keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Rows, Values, column_of, encode_values, is_among, take_where
from omnigraph.storage.lagging_columns import read_declared_column
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    Addresses,
    Table,
    build_value_filters,
    can_list_values,
    can_look_up,
    combine_batches,
    list_fragments,
    read_rows,
)
from omnigraph.write.load.matching.identity import RowIdentity, make_id_keys
from omnigraph.write.load.rows import GeneratedIds, IncomingRows, NumberedRows, RowNumbers, list_value_columns
from omnigraph.write.row_digests import digest_rows
from omnigraph.write.spill import spill_partitions

ROWS_IN_A_PART: Final = 250_000
_MAX_PARTS: Final = 256
"""Each part is a file, and all are open while they are written."""
_MAX_PRUNING_COLUMNS: Final = 3

INCOMING_KEYS: Final = pa.schema(
    [pa.field("number", pa.int64()), pa.field("id", pa.string()), pa.field("key", pa.string())]
)
"""An incoming row and its match key."""
INCOMING_DIGESTS: Final = INCOMING_KEYS.append(pa.field("rest", pa.string()))
"""An incoming row: its match key, and the digest of what the key does not cover."""
_CANDIDATES: Final = pa.schema(
    [pa.field(ROW_ADDRESS, pa.uint64()), pa.field("id", pa.string()), pa.field("key", pa.string())]
)
"""A stored row that may have an incoming one."""


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
        pairs = ((fragments[int(owner)], within) for owner, within in zip(owners, offsets, strict=True))
        parts = [(each, None if len(within) == each.num_rows else within) for each, within in pairs]
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


# --------------------------------------------------------------------------------------------- keys


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

    def choose_rows(self, numbers: RowNumbers, rows: pa.Table, generated: GeneratedIds) -> NumberedRows:
        """Return the incoming rows that are matched on this basis."""
        is_generated = generated.mark(numbers)
        chosen = np.flatnonzero(is_generated if self.identity is not None else ~is_generated)
        return numbers[chosen], rows if len(chosen) == len(numbers) else rows.take(chosen)

    def digest_incoming(self, numbers: RowNumbers, rows: pa.Table) -> pa.Table:
        """Return the digests of incoming rows, as :data:`INCOMING_DIGESTS`."""
        columns = [pa.array(numbers), column_of(rows, "id"), self.make_keys(rows), self.digest_rest(rows)]
        return pa.table(columns, schema=INCOMING_DIGESTS)

    def make_incoming_keys(self, numbers: RowNumbers, rows: pa.Table) -> pa.Table:
        """Return the match keys of incoming rows, as :data:`INCOMING_KEYS`."""
        return pa.table([pa.array(numbers), column_of(rows, "id"), self.make_keys(rows)], schema=INCOMING_KEYS)


# --------------------------------------------------------------------------------------------- the search

KeyMaker: TypeAlias = "Callable[[RowNumbers, pa.Table], pa.Table]"
"""Makes the match keys of incoming rows, and perhaps their digests."""


class CandidateSearch:
    """Finds the candidates of incoming rows on one basis. ``claimed`` are sorted addresses that are not free."""

    def __init__(self, table: Table, basis: MatchBasis, row_count: int, claimed: Addresses) -> None:
        self._basis = basis
        self._stored = StoredRows(basis.type, table)
        self._claimed = claimed
        self._part_count = min(_MAX_PARTS, 1 + row_count // ROWS_IN_A_PART)
        self._pruning = _PruningValues(basis.type, table, basis)
        self._has_incomplete = False

    def run(
        self, pieces: Iterable[NumberedRows], make_keys: KeyMaker, schema: pa.Schema
    ) -> list[tuple[pa.Table, pa.Table]]:
        """Return the incoming rows, in the columns of ``schema``, and their candidates, in parts by match key."""
        incoming = self._divide(schema, self._make_incoming(pieces, make_keys))
        candidates = self._divide(_CANDIDATES, self._find_candidates(incoming))
        return [keep_common(*parts) for parts in zip(incoming, candidates, strict=True)]

    def _make_incoming(self, pieces: Iterable[NumberedRows], make_keys: KeyMaker) -> Iterator[pa.Table]:
        for numbers, rows in pieces:
            self._pruning.add(rows)
            if self._basis.identity is not None:
                self._has_incomplete |= bool(self._basis.identity.mark_incomplete(rows).any())
            yield make_keys(numbers, rows)

    def _find_candidates(self, incoming: Sequence[pa.Table]) -> Iterator[pa.Table]:
        columns = list_value_columns(self._basis.type) if self._has_incomplete else self._basis.key_columns
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

    def _divide(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> list[pa.Table]:
        if self._part_count == 1:
            return [pa.concat_tables([schema.empty_table(), *pieces])]
        return spill_partitions(schema, (piece.cast(schema) for piece in pieces), "key", self._part_count)


def keep_common(incoming: pa.Table, stored: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of both sides whose match keys the other side has too."""
    mine, theirs = column_of(incoming, "key"), column_of(stored, "key")
    common = incoming.filter(is_among(mine, theirs.drop_null()))
    return common, stored.filter(is_among(theirs, mine)) if common.num_rows else stored.slice(0, 0)


def addresses_of(rows: pa.Table) -> Addresses:
    """Return the addresses of stored rows."""
    return column_of(rows, ROW_ADDRESS).to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)


@dataclass(frozen=True, slots=True)
class MatchCodes:
    """One number for each distinct value, the same on both sides."""

    incoming: npt.NDArray[np.int64]
    stored: npt.NDArray[np.int64]


def encode_pairs(incoming: pa.Table, stored: pa.Table, columns: Sequence[str]) -> MatchCodes:
    """Return the codes of the values that rows of both sides have together in some columns."""
    sides = [incoming.select(list(columns)), stored.select(list(columns))]
    both = pa.concat_tables([side.cast(sides[0].schema) for side in sides])
    codes = encode_values(column_of(both, columns[0]))
    for name in columns[1:]:
        more = encode_values(column_of(both, name))
        codes = codes * (more.max(initial=0) + 1) + more
    _, codes = np.unique(codes, return_inverse=True)
    return MatchCodes(codes[: incoming.num_rows], codes[incoming.num_rows :])


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

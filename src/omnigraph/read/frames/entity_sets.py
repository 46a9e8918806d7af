"""The entities that the variables of a match stand for: whole tables in memory, or the rows that a query came across.

Both number their entities from 0 and fetch properties late. A whole table keeps its columns in the cache, where the
next query finds them; the rows that a query came across are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.contents import TableContents, read_contents
from omnigraph.read.frames.frame import Positions
from omnigraph.read.frames.lookup import ChunkedValues, SortedTexts, find_positions, sort_texts
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, absent, column_of, is_among
from omnigraph.storage.filters import MOST_LISTED, AnyOf
from omnigraph.storage.lagging_columns import fill_missing_column
from omnigraph.storage.lance_internals import translated
from omnigraph.storage.table import Table

_TAKE: Final = (0.5e-3, 10e-6)
"""Seconds to fetch rows by position: for each call, and for each row."""
_READ: Final = (1e-3, 40e-9, 0.5e-9)
"""Seconds to read a column: for each call, for each row, and for each byte of it. Only the rows were timed."""
_SORT: Final = 0.6e-6
_LOOK: Final = 6e-9
"""Seconds per id to sort ids, and to look through them without an order: timed with 100,000 and 1 million ids."""
_FEW: Final = 16
"""Ids are few in a table that has so many times more."""
_MOST_IN_A_TEXT_COLUMN: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ColumnCacheKey:
    """A whole column in the cache."""

    contents: TableContents
    column: str
    type: str


@dataclass(slots=True)
class SkiRental:
    """Ski rental: pay per use until the total exceeds the price of owning, then buy."""

    spent: float = 0.0

    def pay(self, seconds: float) -> None:
        """Add the cost of one use."""
        self.spent += seconds

    def covers(self, price: float) -> bool:
        """Whether the total has reached the price."""
        return self.spent >= price


# --------------------------------------------------------------------------------------------- whole tables


class FullTable:
    """All rows of a table version, in the order of a scan. Equal for versions that hold the same rows."""

    def __init__(
        self, contents: TableContents, type_: NodeType | EdgeType, cache: Cache, open_table: Callable[[], Table]
    ) -> None:
        self.contents = contents
        self._num_rows = contents.num_rows
        self._type = type_
        self._key_column = _single_key_column(type_)
        self._cache = cache
        self._open_table = open_table

    @property
    def table_key(self) -> str:
        """The table whose rows they are."""
        return self.contents.table_key

    def __len__(self) -> int:
        return self._num_rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FullTable) and self.contents == other.contents

    def __hash__(self) -> int:
        return hash(self.contents)

    def is_key(self, column: str) -> bool:
        """Whether a column is the key."""
        return column == self._key_column

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """The ids at some positions, in their order."""
        return cast("pa.StringArray", self.take_values("id", positions))

    def take_values(self, column: str, positions: Positions) -> Values:
        """A property at some positions. Few of a column that is not in memory are fetched alone."""
        type_ = _type_of(self._schema, column)
        known = cast("Values | None", self._cache.peek(self._cache_key(column)))
        if known is None and len(positions) and self._should_fetch_rows(column, len(positions)):
            return self._fetch_rows(column, positions, type_)
        whole = self.load_column(column)
        return _cast(whole.take(positions), type_)

    def load_column(self, column: str) -> Values:
        """A whole column; it stays in memory as long as the budget allows."""
        return self._cache.get_or_make(
            self._cache_key(column), lambda: self._read_column(column), lambda read: read.nbytes
        )

    def locate(self, ids: Values | pa.StringArray | ChunkedValues) -> Positions:
        """Where ids are; -1 for one that is not there."""
        texts = cast("Values | ChunkedValues", ids)
        if not len(texts) or not self._num_rows:
            return np.full(len(texts), -1, np.int64)
        known = self.load_column("id")
        if len(texts) * _FEW > self._num_rows:
            return find_positions(texts, known).astype(np.int64)
        few = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        order = self._find_order(known)
        return _locate_few(few, known) if order is None else order.locate(few)

    def _find_order(self, known: Values) -> SortedTexts | None:
        key = (self.contents, "order")
        order = cast("SortedTexts | None", self._cache.peek(key))
        if order is None:
            rental = self._rental_of("order")
            rental.pay(self._num_rows * _LOOK)
            if not rental.covers(self._num_rows * _SORT):
                return None
        return self._cache.get_or_make(key, lambda: sort_texts(known), lambda made: made.nbytes)

    def _rental_of(self, of: str) -> SkiRental:
        return self._cache.get_or_make((self.contents, "rent", of), SkiRental, lambda _: 100)

    def cached_ids_of(self, older: TableContents) -> Values | None:
        """The ids of another version of this table, if they are in memory still."""
        return cast("Values | None", self._cache.peek(_ids_key(older)))

    @cached_property
    def _schema(self) -> pa.Schema:
        return arrow_schema(self._type)

    def _cache_key(self, column: str) -> ColumnCacheKey:
        if column == "id":
            return _ids_key(self.contents)
        type_ = str(_type_of(self._schema, column))
        # A table that lags has the default instead of a column, and that may change while the table does not.
        known = self._type.properties.get(column)
        filled = known is not None and known.default is not None and not known.type.nullable
        return ColumnCacheKey(self.contents, column, f"{type_} {known.default}" if known and filled else type_)

    def _should_fetch_rows(self, column: str, count: int) -> bool:
        fetch_seconds = _TAKE[0] + count * _TAKE[1]
        width = _estimated_width(_type_of(self._schema, column))
        read_seconds = _READ[0] + self._num_rows * (_READ[1] + width * _READ[2])
        if fetch_seconds >= read_seconds:
            return False
        rental = self._rental_of(column)
        rental.pay(fetch_seconds)
        return not rental.covers(read_seconds)

    def _fetch_rows(self, column: str, positions: Positions, type_: pa.DataType) -> Values:
        table = self._open_table()
        if column not in table.schema.names:
            return fill_missing_column(self._type, column, len(positions))
        distinct, numbers = np.unique(positions, return_inverse=True)
        with translated(table.subject):
            found = table.dataset.take(cast("Values", pa.array(distinct)), columns=[column])
        return _cast(column_of(found, column), type_).take(numbers)

    def _read_column(self, column: str) -> Values:
        type_ = _type_of(self._schema, column)
        older, known = self._find_older_column(self._cache_key(column))
        added = self._scan_column(column, older)
        chunks = [] if known is None else [known]
        return _combine_chunks([*chunks, *added.chunks], type_)

    def _scan_column(self, column: str, since: TableContents | None) -> ChunkedValues:
        """A column of all rows, or of those after the rows of older contents."""
        count = self.contents.num_rows - (0 if since is None else since.num_rows)
        if not count:
            return pa.chunked_array([_empty_column(_type_of(self._schema, column))])
        table = self._open_table()
        if column not in table.schema.names:
            return pa.chunked_array([fill_missing_column(self._type, column, count)])
        after = None if since is None else since.newest_fragment
        return cast("ChunkedValues", table.scan([column], after_fragment=after).read_all()[column])

    def _find_older_column(self, wanted: ColumnCacheKey) -> tuple[TableContents | None, Values | None]:
        """The most rows of a column that an older version has in memory."""
        keys = [
            key
            for key in self._cache.all_keys()
            if isinstance(key, ColumnCacheKey)
            and (key.column, key.type) == (wanted.column, wanted.type)
            and self.contents.extends(key.contents)
        ]
        for key in sorted(keys, key=lambda key: key.contents.num_rows, reverse=True):
            known = cast("Values | None", self._cache.peek(key))
            if known is not None:
                return key.contents, known
        return None, None


def _locate_few(few: Values, among: Values) -> Positions:
    """Where a few texts are among many: looking for the many among the few hashes only the few."""
    distinct = few.unique()
    hits = find_positions(among, distinct)
    rows = np.flatnonzero(hits >= 0)
    at = np.full(len(distinct), -1, np.int64)
    at[hits[rows]] = rows
    return at[find_positions(few, distinct)]


def open_full_table(snapshot: Snapshot, table_key: str, type_: NodeType | EdgeType, cache: Cache) -> FullTable:
    """A table of a snapshot as a population. Nothing is read before something is asked of it."""
    return FullTable(read_contents(snapshot, table_key, cache), type_, cache, lambda: snapshot.table(table_key))


def is_loaded(snapshot: Snapshot, table_key: str, cache: Cache) -> bool:
    """Whether the ids of a table are in memory, so that it can be filtered and walked without reading it."""
    contents = read_contents(snapshot, table_key, cache)
    return not contents.fragments or cache.peek(_ids_key(contents)) is not None


def _ids_key(contents: TableContents) -> ColumnCacheKey:
    return ColumnCacheKey(contents, "id", "string")


def _combine_chunks(chunks: Sequence[Values], type_: pa.DataType) -> Values:
    """A column in one array, with 64-bit offsets where its texts are too long for 32."""
    if pa.types.is_string(type_) and sum(chunk.nbytes for chunk in chunks) > _MOST_IN_A_TEXT_COLUMN:
        type_ = pa.large_string()
    return pa.concat_arrays([_empty_column(type_), *(_cast(chunk, type_) for chunk in chunks)])


def _single_key_column(type_: NodeType | EdgeType) -> str | None:
    """The column that alone is the key of a type."""
    return type_.key[0] if isinstance(type_, NodeType) and type_.key and len(type_.key) == 1 else None


def _empty_column(type_: pa.DataType) -> Values:
    return absent(0, type_)


def _cast(values: Values, type_: pa.DataType) -> Values:
    return values if values.type == type_ else values.cast(type_)


def _type_of(schema: pa.Schema, column: str) -> pa.DataType:
    return cast("pa.DataType", schema.field(column).type)


def _estimated_width(type_: pa.DataType) -> int:
    """About how many bytes a value has."""
    if isinstance(type_, pa.FixedSizeListType):
        return 4 * cast(int, type_.list_size)
    return 32 if pa.types.is_string(type_) or pa.types.is_list(type_) else 8


# --------------------------------------------------------------------------------------------- rows seen by a query


@dataclass(slots=True)
class _FetchedColumn:
    """The values of one column that are known: ``slots`` says for each position where it is in them, or -1."""

    slots: Positions
    values: Values


class PartialTable:
    """Entities of one table that a query came across by an index; they are numbered in the order of their arrival."""

    def __init__(self, table: Table | None, type_: NodeType | EdgeType) -> None:
        self.table_key = type_.table_key
        self._table = table
        self._type = type_
        self._schema = arrow_schema(type_)
        self._key_column = _single_key_column(type_)
        self._ids = _empty_column(pa.string())
        self._columns: dict[str, _FetchedColumn] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def intern(self, rows: pa.Table) -> Positions:
        """The positions of rows with an ``id``, new ones for those never seen. What else they bring is remembered."""
        given = column_of(rows, "id")
        at = find_positions(given, self._ids).astype(np.int64)
        unseen = np.flatnonzero(at < 0)
        if len(unseen):
            arriving = given.take(unseen)
            new = arriving.unique()
            at[unseen] = len(self._ids) + find_positions(arriving, new)
            self._ids = pa.concat_arrays([self._ids, new])
        for column in rows.column_names:
            if column != "id":
                self._remember(column, at, _cast(column_of(rows, column), _type_of(self._schema, column)))
        return at

    def is_key(self, column: str) -> bool:
        """Whether a column is the key."""
        return column == self._key_column

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """The ids at some positions, in their order."""
        return cast("pa.StringArray", self._ids.take(positions))

    def take_values(self, column: str, positions: Positions) -> Values:
        """A property at some positions; what is not known yet is fetched for all of them at once."""
        if column == "id":
            return cast("Values", self.take_ids(positions))
        known = self._fetched_column(column)
        lacking = np.unique(positions[known.slots[positions] < 0])
        if len(lacking):
            self._fetch(column, lacking)
        return known.values.take(known.slots[positions])

    def _fetched_column(self, column: str) -> _FetchedColumn:
        if column not in self._columns:
            self._columns[column] = _FetchedColumn(np.zeros(0, np.int64), _empty_column(_type_of(self._schema, column)))
        known = self._columns[column]
        grown = len(self._ids) - len(known.slots)
        if grown:
            known.slots = np.concatenate([known.slots, np.full(grown, -1, np.int64)])
        return known

    def _remember(self, column: str, positions: Positions, values: Values) -> None:
        known = self._fetched_column(column)
        known.slots[positions] = len(known.values) + np.arange(len(positions))
        known.values = pa.concat_arrays([known.values, values])

    def _fetch(self, column: str, positions: Positions) -> None:
        type_ = _type_of(self._schema, column)
        if self._table is None or column not in self._table.schema.names:
            self._remember(column, positions, fill_missing_column(self._type, column, len(positions)))
            return
        rows = lookup_rows(self._table, ("id",), cast("Values", self.take_ids(positions)), ("id", column))
        at = find_positions(column_of(rows, "id"), self._ids).astype(np.int64)
        self._remember(column, at, _cast(column_of(rows, column), type_))
        lacking = positions[self._fetched_column(column).slots[positions] < 0]
        if len(lacking):
            example = self.take_ids(lacking[:1])[0].as_py()
            raise StorageError(
                f"{self.table_key} has no row '{example}', which an edge ends at",
                hint="the table was changed from outside",
            )


def lookup_rows(table: Table, among: Sequence[str], values: Values, columns: Sequence[str]) -> pa.Table:
    """The rows that have one of some distinct texts in one of the columns ``among``.

    Each list of texts is a filter of its own, so a row that has texts of two lists comes twice.
    """
    if len(values) > 10 * MOST_LISTED:
        whole = table.scan(list(dict.fromkeys((*columns, *among)))).read_all()
        masks = [is_among(column_of(whole, column), values) for column in among]
        return whole.filter(_or_masks(masks)).select(list(columns))
    lists = [values.slice(begin, MOST_LISTED) for begin in range(0, len(values), MOST_LISTED)]
    filters = [AnyOf(tuple(among), cast("pa.StringArray", each)).sql() for each in lists]
    found = [table.scan(list(columns), filter=each).read_all() for each in filters]
    return pa.concat_tables(found) if found else table.schema.empty_table().select(list(columns))


def _or_masks(masks: Sequence[pa.BooleanArray]) -> pa.BooleanArray:
    either = masks[0].to_numpy(zero_copy_only=False)
    for mask in masks[1:]:
        either = either | mask.to_numpy(zero_copy_only=False)
    return pa.array(either)


# --------------------------------------------------------------------------------------------- the tables of a query


class Strategy(StrEnum):
    """How edges are found."""

    ARRAYS = "arrays"
    INDEX = "index"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class QueryTables:
    """What a step along edges needs to know. ``seen`` are the entities that this query came across by an index."""

    snapshot: Snapshot
    catalog: Catalog
    cache: Cache
    strategy: Strategy = Strategy.AUTO
    partial_tables: dict[str, PartialTable] = field(default_factory=dict[str, PartialTable], repr=False)

    def full_table_of(self, type_: NodeType | EdgeType) -> FullTable:
        """All entities of a type."""
        return open_full_table(self.snapshot, type_.table_key, type_, self.cache)

    def partial_table_of(self, type_: NodeType | EdgeType) -> PartialTable:
        """The entities of a type that this query came across."""
        key = type_.table_key
        if key not in self.partial_tables:
            self.partial_tables[key] = PartialTable(
                self.snapshot.table(key) if key in self.snapshot.pins else None, type_
            )
        return self.partial_tables[key]

"""The sets of entities that variables are bound to: full tables, and partial tables of what one query has found.

Both number their entities from 0 and fetch properties late. A full table keeps its columns in the cache for later
queries; a partial table belongs to one query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.deadlines import wait_for
from omnigraph.errors import StorageError
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames.bases import lineage_of, note_base
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.contents import TableContents, read_contents, read_table_contents
from omnigraph.read.frames.frame import Positions
from omnigraph.read.frames.lookup import (
    ChunkedValues,
    SortedTexts,
    find_distinct_texts,
    find_positions,
    mostly_ascend,
    sort_texts,
)
from omnigraph.read.frames.parts import sort_distinct
from omnigraph.storage.arrow_schema import column_types
from omnigraph.storage.columns import Values, column_of, is_among, make_nulls, take_values
from omnigraph.storage.filters import MAX_LISTED_VALUES, ValueIn
from omnigraph.storage.lagging_columns import fill_missing_column
from omnigraph.storage.tables import Table

_FETCH_SECONDS: Final = (0.5e-3, 10e-6)
"""To fetch rows by position: per call and per row."""
_READ_SECONDS: Final = (1e-3, 40e-9, 0.5e-9)
"""To read a whole column: per call, per row and per byte. Only the rows were timed."""
_SORT_SECONDS: Final = 0.35e-6
_ORDERED_SORT_SECONDS: Final = 0.05e-6
_SCAN_SECONDS: Final = 10e-9
"""Per id: to sort ids in any order, to sort ids that mostly ascend, and to search them unsorted. Timed with 100,000 and
1 million ids."""
_FEW: Final = 16
"""Ids are few if the table has this many times more rows."""
_MOST_HASHED: Final = 4_000_000
"""More ids than that are sorted once for whoever looks for fewer texts than there are ids: to hash them all takes 80
bytes for each, and is done anew each time. Timed with 8 and 20 million ids, for a million of them."""
FEW_ROWS: Final = 1024
"""For so few rows, another scan costs more than the columns that turn out not to be needed."""
_NO_IDS: Final = make_nulls(0, pa.string())
_LARGEST_TEXT_COLUMN: Final = 2**31 - 1
"""In bytes: beyond it, Arrow needs 64-bit offsets."""


@dataclass(frozen=True, slots=True)
class ColumnCacheKey:
    """The cache key of a whole column."""

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


# --------------------------------------------------------------------------------------------- full tables


class FullTable:
    """All rows of a table version, in scan order. Nothing is read before it is needed. Equal if the contents are."""

    def __init__(
        self, contents: TableContents, type_: NodeType | EdgeType, cache: Cache, open_table: Callable[[], Table]
    ) -> None:
        self.contents = contents
        self._num_rows = contents.num_rows
        self.type = type_
        self.open_table = open_table
        self._types = column_types(type_)
        self._key_column = _single_key_column(type_)
        self._cache = cache

    @property
    def table_key(self) -> str:
        """The table of the entities."""
        return self.contents.table_key

    def __len__(self) -> int:
        return self._num_rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FullTable) and self.contents == other.contents

    def __hash__(self) -> int:
        return hash(self.contents)

    def is_key(self, column: str) -> bool:
        """Whether a column alone is the key."""
        return column == self._key_column

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """Return the ids at some positions."""
        return cast("pa.StringArray", self.take_values("id", positions))

    def take_values(self, column: str, positions: Positions) -> Values:
        """Return the values of a property at some positions. Few rows of a column that is not loaded are fetched."""
        type_ = self.type_of(column)
        values = cast("Values | None", self._cache.find(self._cache_key(column)))
        if values is None:
            if 0 < len(positions) < self._num_rows and self._should_fetch_rows(column, len(positions)):
                return self._fetch_rows(column, positions, type_)
            values = self.load_column(column)
        return cast_values(values if _are_all(positions, self._num_rows) else take_values(values, positions), type_)

    def all_positions(self) -> Positions:
        """Return the positions of all rows."""
        return np.arange(self._num_rows)

    def is_loaded(self) -> bool:
        """Whether the ids are in the cache."""
        return not self.contents.fragments or self._cache.peek(_ids_key(self.contents)) is not None

    def loaded_columns(self) -> list[str]:
        """Return the columns that are in the cache."""
        return [name for name in self._types if self._cache.peek(self._cache_key(name)) is not None]

    def load_column(self, column: str) -> Values:
        """Load a whole column into the cache, and return it."""
        return self._cache.get_or_make(
            self._cache_key(column), lambda: self._read_column(column), lambda read: read.nbytes
        )

    def rank_ids(self) -> Positions:
        """Return the rank of each id among all, by their bytes; it is kept in the cache."""
        key = (self.contents, "ranks of ids")
        return self._cache.get_or_make(key, lambda: self._load_order().rank_texts(), lambda made: made.nbytes)

    def count_ids_below(self, texts: Values) -> Positions:
        """Return for each text how many ids are smaller."""
        return self._load_order().count_below(texts)

    def locate(self, ids: Values | pa.StringArray | ChunkedValues) -> Positions:
        """Return the position of each id, -1 if the table does not have it."""
        texts = cast("Values | ChunkedValues", ids)
        if not len(texts) or not self._num_rows:
            return np.full(len(texts), -1, np.int64)
        all_ids = self.load_column("id")
        are_few = len(texts) * _FEW <= self._num_rows
        if not are_few and self._num_rows <= max(_MOST_HASHED, len(texts)):
            return find_positions(texts, all_ids).astype(np.int64)
        part = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        order = self._find_order() if are_few else self._load_order()
        return _locate_few(part, all_ids) if order is None else order.locate(part)

    def locate_one(self, id_: str) -> int:
        """Return the position of an id, -1 if the table does not have it."""
        order = self._find_order() if self._num_rows >= _FEW else None
        return int(self.locate(pa.array([id_], pa.string()))[0]) if order is None else order.locate_one(id_)

    def _find_order(self) -> SortedTexts | None:
        """Return the sorted ids, once searching them unsorted has cost as much as sorting."""
        order = cast("SortedTexts | None", self._cache.find((self.contents, "order")))
        if order is not None:
            return order
        rental = self._rental_of("order")
        rental.pay(self._num_rows * _SCAN_SECONDS)
        per_id = _ORDERED_SORT_SECONDS if mostly_ascend(self.load_column("id")) else _SORT_SECONDS
        return self._load_order() if rental.covers(self._num_rows * per_id) else None

    def _load_order(self) -> SortedTexts:
        key = (self.contents, "order")
        return self._cache.get_or_make(key, lambda: sort_texts(self.load_column("id")), lambda made: made.nbytes)

    def _rental_of(self, purpose: str) -> SkiRental:
        return self._cache.get_or_make((self.contents, "rental", purpose), SkiRental, lambda _: 100)

    def load_like(self, older: FullTable) -> None:
        """Load what is in memory of an older version: columns, the order of the ids, and their ranks."""
        for column in ("id", *older.loaded_columns()):
            self.load_column(column)
        if self._cache.peek((older.contents, "order")) is not None:
            self._load_order()
        if self._cache.peek((older.contents, "ranks of ids")) is not None:
            self.rank_ids()

    def cached_ids_of(self, older: TableContents) -> Values | None:
        """Return the ids of another version of this table, if they are in the cache."""
        return cast("Values | None", self._cache.peek(_ids_key(older)))

    def type_of(self, column: str) -> pa.DataType:
        """Return the type of a column as the schema of the graph declares it."""
        return self._types[column][0]

    def _cache_key(self, column: str) -> ColumnCacheKey:
        return ColumnCacheKey(self.contents, column, self._types[column][1])

    def _should_fetch_rows(self, column: str, count: int) -> bool:
        fetch_seconds = _FETCH_SECONDS[0] + count * _FETCH_SECONDS[1]
        read_seconds = self._estimate_reading(column)
        if fetch_seconds >= read_seconds:
            return False
        rental = self._rental_of(column)
        rental.pay(fetch_seconds)
        return not rental.covers(read_seconds)

    def _estimate_reading(self, column: str) -> float:
        """Estimate the seconds to read a whole column."""
        per_call, per_row, per_byte = _READ_SECONDS
        return per_call + self._num_rows * (per_row + _estimate_width(self.type_of(column)) * per_byte)

    def pay_scan(self, columns: Collection[str]) -> None:
        """Note that the storage has scanned some columns to find rows, in this version or one that it follows."""
        self._scan_rental(columns).pay(sum(map(self._estimate_reading, columns)))

    def should_load(self, columns: Collection[str]) -> bool:
        """Whether scans of some columns have cost as much as it takes to load them, and there is room for them."""
        if not self.contents.fragments:
            return False
        needed = {"id", *columns}
        width = sum(_estimate_width(self.type_of(column)) for column in needed)
        price = sum(map(self._estimate_reading, needed))
        return self._num_rows * width <= self._cache.budget // 2 and self._scan_rental(columns).covers(price)

    def _scan_rental(self, columns: Collection[str]) -> SkiRental:
        key = (lineage_of(self.contents), "scans", frozenset(columns))
        return self._cache.get_or_make(key, SkiRental, lambda _: 100)

    def _fetch_rows(self, column: str, positions: Positions, type_: pa.DataType) -> Values:
        table = self.open_table()
        if column not in table.column_types:
            return fill_missing_column(self.type, table.lag, column, len(positions))
        distinct, numbers = np.unique(positions, return_inverse=True)
        with table.reading():
            rows = cast("Values", pa.array(distinct))
            found = wait_for(lambda: table.dataset.take(rows, columns=[column]))
        return cast_values(column_of(found, column), type_).take(numbers)

    def _read_column(self, column: str) -> Values:
        type_ = self.type_of(column)
        older, values = self._find_older_column(self._cache_key(column))
        added = self._scan_column(column, older)
        chunks = [] if values is None else [values]
        if column == "id" and self.contents.fragments:
            opened = self.open_table()
            note_base(FullTable(self.contents, self.type, self._cache, lambda: opened), self._cache)
        return _combine_chunks([*chunks, *added.chunks], type_)

    def _scan_column(self, column: str, since: TableContents | None) -> ChunkedValues:
        """Read a column of all rows, or of the rows that were added to older contents."""
        count = self.contents.num_rows - (0 if since is None else since.num_rows)
        if not count:
            return pa.chunked_array([_empty_column(self.type_of(column))])
        table = self.open_table()
        if column not in table.column_types:
            return pa.chunked_array([fill_missing_column(self.type, table.lag, column, count)])
        after = None if since is None else since.newest_fragment
        return cast("ChunkedValues", table.scan([column], after_fragment=after).read_all()[column])

    def _find_older_column(self, newer: ColumnCacheKey) -> tuple[TableContents | None, Values | None]:
        """Find the largest older version of a column in the cache that this version extends."""
        keys = [
            key
            for key in self._cache.all_keys()
            if isinstance(key, ColumnCacheKey)
            and (key.column, key.type) == (newer.column, newer.type)
            and self.contents.extends(key.contents)
        ]
        for key in sorted(keys, key=lambda key: key.contents.num_rows, reverse=True):
            values = cast("Values | None", self._cache.peek(key))
            if values is not None:
                return key.contents, values
        return None, None


def _are_all(positions: Positions, count: int) -> bool:
    """Whether positions are those of all rows, in their order: then nothing has to be copied."""
    return (
        len(positions) == count > 0
        and (positions[0], positions[-1]) == (0, count - 1)
        # A comparison of no pairs takes longer than all that is above.
        and (count <= 2 or bool((positions[1:] > positions[:-1]).all()))
    )


def _locate_few(few: Values, among: Values) -> Positions:
    """Return the positions of a few texts among many, or -1. This hashes the few, not the many."""
    distinct = few.unique()
    hits = find_positions(among, distinct)
    rows = np.flatnonzero(hits >= 0)
    at = np.full(len(distinct), -1, np.int64)
    at[hits[rows]] = rows
    return at[find_positions(few, distinct)]


def open_full_table(snapshot: Snapshot, table_key: str, type_: NodeType | EdgeType, cache: Cache) -> FullTable:
    """Return a table of a snapshot as a set of entities, without reading rows."""
    return FullTable(read_contents(snapshot, table_key, cache), type_, cache, lambda: snapshot.table(table_key))


def make_full_table(table: Table, table_key: str, type_: NodeType | EdgeType, cache: Cache) -> FullTable:
    """Return an open table as a set of entities: what a task has that knows no snapshot."""
    return FullTable(read_table_contents(table_key, table), type_, cache, lambda: table)


def _ids_key(contents: TableContents) -> ColumnCacheKey:
    return ColumnCacheKey(contents, "id", "string")


def _combine_chunks(chunks: Sequence[Values], type_: pa.DataType) -> Values:
    """Combine chunks into one array, with 64-bit offsets if its texts are too large for 32 bits."""
    if pa.types.is_string(type_) and sum(chunk.nbytes for chunk in chunks) > _LARGEST_TEXT_COLUMN:
        type_ = pa.large_string()
    return pa.concat_arrays([_empty_column(type_), *(cast_values(chunk, type_) for chunk in chunks)])


def _single_key_column(type_: NodeType | EdgeType) -> str | None:
    """The key of a type, if it is a single column."""
    return type_.key[0] if isinstance(type_, NodeType) and type_.key and len(type_.key) == 1 else None


def _empty_column(type_: pa.DataType) -> Values:
    return make_nulls(0, type_)


def cast_values(values: Values, type_: pa.DataType) -> Values:
    """Return values in another type, unless they have it."""
    return values if values.type == type_ else values.cast(type_)


def _estimate_width(type_: pa.DataType) -> int:
    """Estimate the bytes of one value."""
    if isinstance(type_, pa.FixedSizeListType):
        return 4 * cast(int, type_.list_size)
    return 32 if pa.types.is_string(type_) or pa.types.is_list(type_) else 8


# --------------------------------------------------------------------------------------------- partial tables


@dataclass(slots=True)
class _FetchedColumn:
    """The fetched values of one column."""

    values: Values
    slots: Positions | None = None
    """The index of each position's value, or -1; None if there is one for each position, in their order."""


class PartialTable:
    """The rows of a table that a query has found by an index, numbered in the order in which it found them."""

    def __init__(self, table: Table | None, type_: NodeType | EdgeType, read_columns: Collection[str] = ()) -> None:
        self.table_key = type_.table_key
        self._table = table
        self._type = type_
        self._types = column_types(type_)
        stored = () if table is None else table.column_types
        self.columns_to_read = tuple(sorted(name for name in read_columns if name in self._types and name in stored))
        """The stored columns that the query reads anywhere: a scan for few rows reads them all at once."""
        self._key_column = _single_key_column(type_)
        self._ids = _NO_IDS
        self._columns: dict[str, _FetchedColumn] = {}
        self.has_unread = False
        """Whether it has ids of rows that nobody has looked for yet, so that there may be none."""

    def __len__(self) -> int:
        return len(self._ids)

    def intern(self, rows: pa.Table) -> Positions:
        """Return the positions of rows by their ``id``, and add new rows. Values of other columns are kept."""
        at = self.intern_ids(column_of(rows, "id"))
        for column in rows.column_names:
            if column != "id":
                self._store(column, at, cast_values(column_of(rows, column), self._types[column][0]))
        return at

    def intern_unread(self, ids: Values) -> Positions:
        """Return the positions of ids, and add new ones, whether or not the table has such rows."""
        self.has_unread = True
        return self.intern_ids(ids)

    def intern_ids(self, ids: Values) -> Positions:
        """Return the positions of ids, and add new ones."""
        if not len(self._ids) and len(find_distinct_texts(ids)) == len(ids):
            self._ids = cast_values(ids, self._ids.type)
            return np.arange(len(ids))
        at = find_positions(ids, self._ids).astype(np.int64)
        new = np.flatnonzero(at < 0)
        if len(new):
            new_ids = ids if len(new) == len(ids) else ids.take(new)
            distinct = find_distinct_texts(new_ids)
            at[new] = len(self._ids) + find_positions(new_ids, distinct)
            self._ids = pa.concat_arrays([self._ids, distinct])
        return at

    def locate(self, ids: Values) -> Positions:
        """Return the position of each id, -1 if it was not found yet."""
        return find_positions(ids, self._ids).astype(np.int64)

    def is_key(self, column: str) -> bool:
        """Whether a column alone is the key."""
        return column == self._key_column

    def rank_ids(self) -> Positions:
        """Return the rank of each id among all that were found so far, by their bytes."""
        return sort_texts(cast("Values", self.take_ids(np.arange(len(self))))).rank_texts()

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """Return the ids at some positions."""
        are_all = _are_all(positions, len(self._ids))
        return cast("pa.StringArray", self._ids if are_all else take_values(self._ids, positions))

    def take_values(self, column: str, positions: Positions) -> Values:
        """Return the values of a property at some positions, and fetch the missing ones at once."""
        if column == "id":
            return cast("Values", self.take_ids(positions))
        fetched = self._columns.get(column)
        if fetched is None or fetched.slots is not None or len(fetched.values) < len(self._ids):
            slots = self._load_slots(column)[positions]
            if slots.min(initial=0) < 0:
                self._fetch(column, sort_distinct(positions[slots < 0]))
                slots = self._load_slots(column)[positions]
        else:
            slots = positions
        values = self._columns[column].values
        return values if _are_all(slots, len(values)) else take_values(values, slots)

    def _load_slots(self, column: str) -> Positions:
        """Return the index of each position's value in the fetched values of a column, or -1."""
        fetched = self._columns.get(column)
        if fetched is None:
            fetched = self._columns[column] = _FetchedColumn(_empty_column(self._types[column][0]))
        slots = np.arange(len(fetched.values)) if fetched.slots is None else fetched.slots
        added = len(self._ids) - len(slots)
        fetched.slots = np.concatenate([slots, np.full(added, -1, np.int64)]) if added else slots
        return fetched.slots

    def _store(self, column: str, positions: Positions, values: Values) -> None:
        if column not in self._columns and _are_all(positions, len(self._ids)):
            self._columns[column] = _FetchedColumn(values)
            return
        slots, fetched = self._load_slots(column), self._columns[column]
        slots[positions] = len(fetched.values) + np.arange(len(positions))
        fetched.values = pa.concat_arrays([fetched.values, values]) if len(fetched.values) else values

    def _fetch(self, column: str, positions: Positions) -> None:
        if self._table is None:
            return
        if column not in self._table.column_types:
            self._store(column, positions, fill_missing_column(self._type, self._table.lag, column, len(positions)))
            return
        columns = (column, *self._other_columns_to_read(column, positions))
        rows = lookup_rows(self._table, ("id",), cast("Values", self.take_ids(positions)), ("id", *columns))
        at = find_positions(column_of(rows, "id"), self._ids).astype(np.int64)
        for each in columns:
            self._store(each, at, cast_values(column_of(rows, each), self._types[each][0]))
        missing = positions[self._load_slots(column)[positions] < 0]
        if len(missing):
            example = self.take_ids(missing[:1])[0].as_py()
            raise StorageError(
                f"{self.table_key} has no row '{example}', but an edge ends there",
                hint="the table was changed from outside",
            )

    def _other_columns_to_read(self, column: str, positions: Positions) -> list[str]:
        """Return the columns to fetch together with one: none of many rows, as a predicate may discard most of them."""
        if len(positions) > FEW_ROWS:
            return []
        others = (other for other in self.columns_to_read if other != column)
        return [other for other in others if (self._load_slots(other)[positions] < 0).any()]


def lookup_rows(table: Table, among: Sequence[str], values: Values, columns: Sequence[str]) -> pa.Table:
    """Read the rows that have one of some distinct texts in one of the columns ``among``.

    Texts are looked up in lists. A row that has texts of two lists is returned twice.
    """
    if len(values) > 10 * MAX_LISTED_VALUES:
        whole = table.scan(list(dict.fromkeys((*columns, *among)))).read_all()
        masks = [is_among(column_of(whole, column), values) for column in among]
        return whole.filter(_or_masks(masks)).select(list(columns))
    lists = [values.slice(begin, MAX_LISTED_VALUES) for begin in range(0, len(values), MAX_LISTED_VALUES)]
    filters = [ValueIn(tuple(among), cast("pa.StringArray", each)).to_sql() for each in lists]
    found = [table.read(columns, each) for each in filters if each is not None]
    return (
        pa.concat_tables(found)
        if len(found) > 1
        else found[0]
        if found
        else table.schema.empty_table().select(list(columns))
    )


def _or_masks(masks: Sequence[pa.BooleanArray]) -> pa.BooleanArray:
    either = masks[0].to_numpy(zero_copy_only=False)
    for mask in masks[1:]:
        either = either | mask.to_numpy(zero_copy_only=False)
    return pa.array(either)

"""The entities that the variables of a match stand for: whole tables in memory, or the rows that a query came across.

Both number their entities from 0 and fetch properties late. A whole table keeps its columns in the cache, where the
next query finds them; the rows that a query came across are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.contents import Contents, contents_of
from omnigraph.read.frames.frame import Positions
from omnigraph.read.frames.lookup import Chunks, Sorted, places_of, sorted_texts
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, absent, column_of, is_among
from omnigraph.storage.filters import MOST_LISTED, AnyOf
from omnigraph.storage.lance_errors import translated
from omnigraph.storage.missing import missing_column
from omnigraph.storage.pinned import Table

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
class ColumnKey:
    """A whole column in the cache."""

    contents: Contents
    column: str
    type: str


@dataclass(slots=True)
class SkiRental:
    """What was spent on doing without something. When it would have paid for the thing itself, that is made."""

    seconds: float = 0.0

    def pays(self, seconds: float, price: float) -> bool:
        """Whether so much more is spent better on the thing itself."""
        self.seconds += seconds
        return self.seconds >= price


# --------------------------------------------------------------------------------------------- whole tables


class WholeTable:
    """All rows of a table version, in the order of a scan. Equal for versions that hold the same rows."""

    def __init__(
        self, contents: Contents, type_: NodeType | EdgeType, cache: Cache, opened: Callable[[], Table]
    ) -> None:
        self.contents = contents
        self._num_rows = contents.num_rows
        self._type = type_
        self._identity = _key_of(type_)
        self._cache = cache
        self._opened = opened

    @property
    def table_key(self) -> str:
        """The table whose rows they are."""
        return self.contents.table_key

    def __len__(self) -> int:
        return self._num_rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WholeTable) and self.contents == other.contents

    def __hash__(self) -> int:
        return hash(self.contents)

    def identifies(self, column: str) -> bool:
        """Whether a column is the key."""
        return column == self._identity

    def ids(self, positions: Positions) -> pa.StringArray:
        """The ids at some positions, in their order."""
        return cast("pa.StringArray", self.values("id", positions))

    def values(self, column: str, positions: Positions) -> Values:
        """A property at some positions. Few of a column that is not in memory are fetched alone."""
        type_ = _type_of(self._schema, column)
        known = cast("Values | None", self._cache.peek(self._key(column)))
        if known is None and len(positions) and self._is_worth_fetching(column, len(positions)):
            return self._fetched(column, positions, type_)
        whole = self.column(column)
        return _narrow(whole.take(positions), type_)

    def column(self, column: str) -> Values:
        """A whole column; it stays in memory as long as the budget allows."""
        return self._cache.get(self._key(column), lambda: self._read(column), lambda read: read.nbytes)

    def locate(self, ids: Values | pa.StringArray | Chunks) -> Positions:
        """Where ids are; -1 for one that is not there."""
        texts = cast("Values | Chunks", ids)
        if not len(texts) or not self._num_rows:
            return np.full(len(texts), -1, np.int64)
        known = self.column("id")
        if len(texts) * _FEW > self._num_rows:
            return places_of(texts, known).astype(np.int64)
        few = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        order = self._order(known)
        return _found(few, known) if order is None else order.locate(few)

    def _order(self, known: Values) -> Sorted | None:
        key = (self.contents, "order")
        order = cast("Sorted | None", self._cache.peek(key))
        if order is None and not self._rent("order").pays(self._num_rows * _LOOK, self._num_rows * _SORT):
            return None
        return self._cache.get(key, lambda: sorted_texts(known), lambda made: made.nbytes)

    def _rent(self, of: str) -> SkiRental:
        return self._cache.get((self.contents, "rent", of), SkiRental, lambda _: 100)

    def known_ids(self, older: Contents) -> Values | None:
        """The ids of another version of this table, if they are in memory still."""
        return cast("Values | None", self._cache.peek(_ids_key(older)))

    @cached_property
    def _schema(self) -> pa.Schema:
        return arrow_schema(self._type)

    def _key(self, column: str) -> ColumnKey:
        if column == "id":
            return _ids_key(self.contents)
        type_ = str(_type_of(self._schema, column))
        # A table that lags has the default instead of a column, and that may change while the table does not.
        known = self._type.properties.get(column)
        filled = known is not None and known.default is not None and not known.type.nullable
        return ColumnKey(self.contents, column, f"{type_} {known.default}" if known and filled else type_)

    def _is_worth_fetching(self, column: str, count: int) -> bool:
        spent = _TAKE[0] + count * _TAKE[1]
        width = _width(_type_of(self._schema, column))
        price = _READ[0] + self._num_rows * (_READ[1] + width * _READ[2])
        return spent < price and not self._rent(column).pays(spent, price)

    def _fetched(self, column: str, positions: Positions, type_: pa.DataType) -> Values:
        table = self._opened()
        if column not in table.schema.names:
            return missing_column(self._type, column, len(positions))
        distinct, numbers = np.unique(positions, return_inverse=True)
        with translated(table.subject):
            found = table.dataset.take(cast("Values", pa.array(distinct)), columns=[column])
        return _narrow(column_of(found, column), type_).take(numbers)

    def _read(self, column: str) -> Values:
        type_ = _type_of(self._schema, column)
        older, known = self._known(self._key(column))
        added = self._scanned(column, older)
        chunks = [] if known is None else [known]
        return _in_one_piece([*chunks, *added.chunks], type_)

    def _scanned(self, column: str, since: Contents | None) -> Chunks:
        """A column of all rows, or of those after the rows of older contents."""
        count = self.contents.num_rows - (0 if since is None else since.num_rows)
        if not count:
            return pa.chunked_array([_none(_type_of(self._schema, column))])
        table = self._opened()
        if column not in table.schema.names:
            return pa.chunked_array([missing_column(self._type, column, count)])
        after = None if since is None else since.newest_fragment
        return cast("Chunks", table.scan([column], after_fragment=after).read_all()[column])

    def _known(self, wanted: ColumnKey) -> tuple[Contents | None, Values | None]:
        """The most rows of a column that an older version has in memory."""
        keys = [
            key
            for key in self._cache.known()
            if isinstance(key, ColumnKey)
            and (key.column, key.type) == (wanted.column, wanted.type)
            and self.contents.extends(key.contents)
        ]
        for key in sorted(keys, key=lambda key: key.contents.num_rows, reverse=True):
            known = cast("Values | None", self._cache.peek(key))
            if known is not None:
                return key.contents, known
        return None, None


def _found(few: Values, among: Values) -> Positions:
    """Where a few texts are among many: looking for the many among the few hashes only the few."""
    distinct = few.unique()
    hits = places_of(among, distinct)
    rows = np.flatnonzero(hits >= 0)
    at = np.full(len(distinct), -1, np.int64)
    at[hits[rows]] = rows
    return at[places_of(few, distinct)]


def whole_table(snapshot: Snapshot, table_key: str, type_: NodeType | EdgeType, cache: Cache) -> WholeTable:
    """A table of a snapshot as a population. Nothing is read before something is asked of it."""
    return WholeTable(contents_of(snapshot, table_key, cache), type_, cache, lambda: snapshot.table(table_key))


def is_loaded(snapshot: Snapshot, table_key: str, cache: Cache) -> bool:
    """Whether the ids of a table are in memory, so that it can be filtered and walked without reading it."""
    contents = contents_of(snapshot, table_key, cache)
    return not contents.parts or cache.peek(_ids_key(contents)) is not None


def _ids_key(contents: Contents) -> ColumnKey:
    return ColumnKey(contents, "id", "string")


def _in_one_piece(chunks: Sequence[Values], type_: pa.DataType) -> Values:
    """A column in one array, with 64-bit offsets where its texts are too long for 32."""
    if pa.types.is_string(type_) and sum(chunk.nbytes for chunk in chunks) > _MOST_IN_A_TEXT_COLUMN:
        type_ = pa.large_string()
    return pa.concat_arrays([_none(type_), *(_narrow(chunk, type_) for chunk in chunks)])


def _key_of(type_: NodeType | EdgeType) -> str | None:
    """The column that alone is the key of a type."""
    return type_.key[0] if isinstance(type_, NodeType) and type_.key and len(type_.key) == 1 else None


def _none(type_: pa.DataType) -> Values:
    return absent(0, type_)


def _narrow(values: Values, type_: pa.DataType) -> Values:
    return values if values.type == type_ else values.cast(type_)


def _type_of(schema: pa.Schema, column: str) -> pa.DataType:
    return cast("pa.DataType", schema.field(column).type)


def _width(type_: pa.DataType) -> int:
    """About how many bytes a value has."""
    if isinstance(type_, pa.FixedSizeListType):
        return 4 * cast(int, type_.list_size)
    return 32 if pa.types.is_string(type_) or pa.types.is_list(type_) else 8


# --------------------------------------------------------------------------------------------- rows seen by a query


@dataclass(slots=True)
class _Known:
    """The values of one column that are known: ``slots`` says for each position where it is in them, or -1."""

    slots: Positions
    values: Values


class SeenRows:
    """Entities of one table that a query came across by an index; they are numbered in the order of their arrival."""

    def __init__(self, table: Table | None, type_: NodeType | EdgeType) -> None:
        self.table_key = type_.table_key
        self._table = table
        self._type = type_
        self._schema = arrow_schema(type_)
        self._identity = _key_of(type_)
        self._ids = _none(pa.string())
        self._columns: dict[str, _Known] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def intern(self, rows: pa.Table) -> Positions:
        """The positions of rows with an ``id``, new ones for those never seen. What else they bring is remembered."""
        given = column_of(rows, "id")
        at = places_of(given, self._ids).astype(np.int64)
        unseen = np.flatnonzero(at < 0)
        if len(unseen):
            arriving = given.take(unseen)
            new = arriving.unique()
            at[unseen] = len(self._ids) + places_of(arriving, new)
            self._ids = pa.concat_arrays([self._ids, new])
        for column in rows.column_names:
            if column != "id":
                self._remember(column, at, _narrow(column_of(rows, column), _type_of(self._schema, column)))
        return at

    def identifies(self, column: str) -> bool:
        """Whether a column is the key."""
        return column == self._identity

    def ids(self, positions: Positions) -> pa.StringArray:
        """The ids at some positions, in their order."""
        return cast("pa.StringArray", self._ids.take(positions))

    def values(self, column: str, positions: Positions) -> Values:
        """A property at some positions; what is not known yet is fetched for all of them at once."""
        if column == "id":
            return cast("Values", self.ids(positions))
        known = self._known(column)
        lacking = np.unique(positions[known.slots[positions] < 0])
        if len(lacking):
            self._fetch(column, lacking)
        return known.values.take(known.slots[positions])

    def _known(self, column: str) -> _Known:
        if column not in self._columns:
            self._columns[column] = _Known(np.zeros(0, np.int64), _none(_type_of(self._schema, column)))
        known = self._columns[column]
        grown = len(self._ids) - len(known.slots)
        if grown:
            known.slots = np.concatenate([known.slots, np.full(grown, -1, np.int64)])
        return known

    def _remember(self, column: str, positions: Positions, values: Values) -> None:
        known = self._known(column)
        known.slots[positions] = len(known.values) + np.arange(len(positions))
        known.values = pa.concat_arrays([known.values, values])

    def _fetch(self, column: str, positions: Positions) -> None:
        type_ = _type_of(self._schema, column)
        if self._table is None or column not in self._table.schema.names:
            self._remember(column, positions, missing_column(self._type, column, len(positions)))
            return
        rows = rows_with(self._table, ("id",), cast("Values", self.ids(positions)), ("id", column))
        at = places_of(column_of(rows, "id"), self._ids).astype(np.int64)
        self._remember(column, at, _narrow(column_of(rows, column), type_))
        lacking = positions[self._known(column).slots[positions] < 0]
        if len(lacking):
            example = self.ids(lacking[:1])[0].as_py()
            raise StorageError(
                f"{self.table_key} has no row '{example}', which an edge ends at",
                hint="the table was changed from outside",
            )


def rows_with(table: Table, among: Sequence[str], values: Values, columns: Sequence[str]) -> pa.Table:
    """The rows that have one of some distinct texts in one of the columns ``among``.

    Each list of texts is a filter of its own, so a row that has texts of two lists comes twice.
    """
    if len(values) > 10 * MOST_LISTED:
        whole = table.scan(list(dict.fromkeys((*columns, *among)))).read_all()
        masks = [is_among(column_of(whole, column), values) for column in among]
        return whole.filter(_either(masks)).select(list(columns))
    lists = [values.slice(begin, MOST_LISTED) for begin in range(0, len(values), MOST_LISTED)]
    filters = [AnyOf(tuple(among), cast("pa.StringArray", each)).sql() for each in lists]
    found = [table.scan(list(columns), filter=each).read_all() for each in filters]
    return pa.concat_tables(found) if found else table.schema.empty_table().select(list(columns))


def _either(masks: Sequence[pa.BooleanArray]) -> pa.BooleanArray:
    either = masks[0].to_numpy(zero_copy_only=False)
    for mask in masks[1:]:
        either = either | mask.to_numpy(zero_copy_only=False)
    return pa.array(either)

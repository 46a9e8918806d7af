"""Match the types of two snapshots, and the properties of each type: a rename does not make another one.

Names do not tell what is the same, since a name can be reused. The schemas between the two snapshots do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from omnigraph.derived_values import keep_derived
from omnigraph.errors import NotFound
from omnigraph.language.schema import EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.lagging import TableOrigin
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.arrow_schema import arrow_schema

Type: TypeAlias = NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column that is compared, by its name on each side; None on a side that does not have the property."""

    before: str | None
    after: str | None

    @property
    def name(self) -> str:
        """The name that changes are reported under: the one after, if it has one."""
        name = self.before if self.after is None else self.after
        assert name is not None
        return name


@dataclass(frozen=True, slots=True)
class TypePair:
    """One type as two snapshots declare it. A side whose schema lacks the type is None and has no rows.

    ``columns`` are the columns that are compared. A property that the older schema lacks counts as null there. One that
    the newer schema lacks makes no row differ, unless another property has its name there: to drop a property changes
    the schema, and no row. Such properties are ``dropped``; of a row that differs otherwise they are reported too.
    """

    before: Type | None
    after: Type | None
    columns: tuple[ColumnPair, ...]
    dropped: tuple[ColumnPair, ...] = ()
    is_after_newer: bool = True

    @property
    def types(self) -> tuple[Type, Type]:
        """The type on each side. A side that lacks it is given the type of the other."""
        type_ = self.before or self.after
        assert type_ is not None
        return self.before or type_, self.after or type_

    @property
    def key(self) -> TableKey:
        """The table key that changes are reported under: the one after, if there is one."""
        return self.types[1].table_key

    @property
    def keys(self) -> frozenset[TableKey]:
        """The table keys on both sides."""
        return frozenset(type_.table_key for type_ in self.types)

    def list_names(self, names: Sequence[str] | None, side: int) -> list[str] | None:
        """Return the names on one side of columns that are named as changes report them; None means all columns."""
        if names is None:
            return None
        pairs = {column.name: (column.before, column.after)[side] for column in self.columns}
        own = (pairs.get(name, name) for name in names)
        return [name for name in own if name is not None]

    def list_one_sided(self) -> Iterator[ColumnPair]:
        """Yield the columns that only one side has."""
        return (column for column in self.columns if None in (column.before, column.after))


@keep_derived(1024)
def pair_same_type(type_: Type) -> TypePair:
    """Pair a type with itself."""
    return _make_pair(type_, type_, {name: name for name in type_.properties}, is_after_newer=True)


def pair_types(before: Snapshot, after: Snapshot) -> tuple[TypePair, ...]:
    """Pair the types of two snapshots, node types first, by name."""
    if _has_same_schema(before, after):
        return tuple(pair_same_type(type_) for type_ in after.catalog().types())
    is_after_newer = before.schema_number <= after.schema_number
    older, newer = (before, after) if is_after_newer else (after, before)
    olds = {type_.table_key: type_ for type_ in older.catalog().types()}
    lag = newer.follow_schemas(older)
    origins: Mapping[str, TableOrigin] = {} if lag is None else lag.origins
    matched = {origin.table_key for origin in origins.values()}
    pairs: list[TypePair] = []
    for type_ in newer.catalog().types():
        key, origin = type_.table_key, origins.get(type_.table_key)
        old_key = key if origin is None else origin.table_key
        # A type that was dropped and added again is compared with the other one of its name.
        old = olds.pop(old_key, None) if old_key is not None else None if key in matched else olds.pop(key, None)
        names = {name: name for name in type_.properties} if origin is None else origin.columns
        pairs.append(_orient(old, type_, names, is_after_newer=is_after_newer))
    pairs += (_orient(old, None, {}, is_after_newer=is_after_newer) for old in olds.values())
    return tuple(sorted(pairs, key=lambda pair: pair.key.nodes_first))


def find_pair(before: Snapshot, after: Snapshot, table_key: str) -> TypePair:
    """Return the pair of a table key, which may be the one of either side."""
    type_ = after.catalog().find_type(table_key)
    if type_ is not None and _has_same_schema(before, after):
        return pair_same_type(type_)
    pairs = pair_types(before, after)
    for side in (1, 0):
        for pair in pairs:
            if pair.types[side].table_key == table_key:
                return pair
    raise NotFound(f"neither schema has the type of '{table_key}'", details={"table_key": table_key})


def _has_same_schema(before: Snapshot, after: Snapshot) -> bool:
    return before.schema_ir_hash == after.schema_ir_hash and before.schema_number == after.schema_number


def _orient(
    older: Type | None, newer: Type | None, names: Mapping[str, str | None], *, is_after_newer: bool
) -> TypePair:
    """Pair two types; ``names`` has the name in the older type of each property of the newer one."""
    if is_after_newer:
        return _make_pair(older, newer, names, is_after_newer=True)
    return _make_pair(newer, older, {old: name for name, old in names.items() if old is not None}, is_after_newer=False)


def _make_pair(
    before: Type | None, after: Type | None, names: Mapping[str, str | None], *, is_after_newer: bool
) -> TypePair:
    """Pair two types; ``names`` has the name before of each property after that was there."""
    olds, news = (() if type_ is None else tuple(arrow_schema(type_).names[1:]) for type_ in (before, after))
    ends = [name for name in olds if before is not None and name not in before.properties]
    names = {**names, **{name: name for name in ends}}
    columns = [ColumnPair(old if (old := names.get(name)) in olds else None, name) for name in news]
    kept = {column.before for column in columns}
    columns += (ColumnPair(name, None) for name in olds if name not in kept)

    def is_dropped(column: ColumnPair) -> bool:
        if before is None or after is None:
            return False
        newer, newer_names = (column.after, news) if is_after_newer else (column.before, olds)
        return newer is None and column.name not in newer_names

    dropped = tuple(filter(is_dropped, columns))
    return TypePair(before, after, tuple(each for each in columns if each not in dropped), dropped, is_after_newer)

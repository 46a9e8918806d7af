"""Lagging tables: where the types and properties of the current schema are in tables that an older schema made.

Tables name their columns, and a name can be reused: a property that was dropped and added again is another one. So the
whole chain of schemas between the two counts, step by step, not only its ends. It also tells with which default a
property was added, which may have been changed since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import pairwise
from typing import TypeVar

from omnigraph.language.schema import (
    Catalog,
    EdgeType,
    NodeType,
    Property,
    Schema,
    TableKey,
)
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import SchemaHead
from omnigraph.storage.lagging_columns import NO_LAG, ColumnLag

Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """Where the rows of a type are: the key of their table, and the column of each property there.

    None stands for a type or property that is newer than the table.
    """

    table_key: TableKey | None
    columns: Mapping[str, str | None]
    added: Mapping[str, Property] = field(default_factory=dict[str, Property])
    """The properties that are newer than the table, as they were when they were added."""
    names: frozenset[TableKey] = frozenset()
    """The table keys that the type has had from the older schema to the current one."""


@dataclass(frozen=True, slots=True)
class TypeNames:
    """The table key of a type in the current schema, None if it was dropped, and all that it has ever had."""

    current: TableKey | None
    all: frozenset[TableKey]


@dataclass(frozen=True, slots=True)
class SchemaLag:
    """The origins of all types of the current schema in the tables of an older one, by current table key."""

    origins: Mapping[str, TableOrigin]

    def filter_tables(self, tables: Mapping[str, Shown]) -> dict[str, Shown]:
        """Return the tables that still belong to the type of that name, or to none."""
        return {
            key: each for key, each in tables.items() if key not in self.origins or self.origins[key].table_key == key
        }

    def column_lag(self, table_key: str) -> ColumnLag:
        """Return how the columns of a table differ from the properties of its type."""
        origin = self.origins.get(table_key)
        return NO_LAG if origin is None else ColumnLag(self.unrelated_columns(table_key), origin.added)

    def unrelated_columns(self, table_key: str) -> frozenset[str]:
        """Return the properties whose names, if the older schema has them, belong to other properties there."""
        origin = self.origins.get(table_key)
        if origin is None:
            return frozenset()
        return frozenset(name for name, column in origin.columns.items() if column != name)

    def list_renames(self) -> Iterator[tuple[str, str, str]]:
        """Yield the renames since then: the table key at that time, the old name, the new name."""
        for key, origin in self.origins.items():
            if origin.table_key is None:
                continue
            if origin.table_key != key:
                yield origin.table_key, origin.table_key.type_name, TableKey(key).type_name
            for name, column in origin.columns.items():
                if column not in (None, name):
                    yield origin.table_key, f"{column}", name


def follow_schemas(manifest: Manifest, older: SchemaHead | None, newer: SchemaHead | None) -> SchemaLag | None:
    """Return what the schema changes between two schemas did; None if there are none.

    The schemas of a graph are one sequence, which ``newer`` has up to itself. None as the older one is its beginning.
    """
    return follow_schema_hashes(manifest, list_schemas_between(older, newer))


def list_schemas_between(older: SchemaHead | None, newer: SchemaHead | None) -> tuple[str, ...]:
    """Return the hashes from one schema to another, both included; empty if there is no change between them."""
    hashes = () if newer is None else newer.all[0 if older is None else len(older.earlier) :]
    return hashes if len(hashes) > 1 else ()


def follow_schema_hashes(manifest: Manifest, hashes: tuple[str, ...]) -> SchemaLag | None:
    """Return what a sequence of schemas changed; None if it is empty."""
    if not hashes:
        return None
    found = manifest.schema_lags.get(hashes)
    if found is None:
        found = _follow_schemas([load_schema_of(manifest, each) for each in hashes])
        manifest.keep_schema_lag(hashes, found)
    return found


def find_type_names(manifest: Manifest, schema: SchemaHead | None, table_key: TableKey) -> TypeNames:
    """Return the names before and after a schema of a type that has a table key in it."""
    past = follow_schemas(manifest, None, schema)
    names = past.origins[table_key].names if past is not None and table_key in past.origins else frozenset({table_key})
    since = follow_schemas(manifest, schema, manifest.current_schema())
    if since is None:
        return TypeNames(table_key, names)
    for current, origin in since.origins.items():
        if origin.table_key == table_key:
            return TypeNames(TableKey(current), names | origin.names)
    return TypeNames(None, names)


def _follow_schemas(schemas: list[Schema]) -> SchemaLag:
    first = schemas[0].catalog
    origins: dict[str, TableOrigin] = {
        type_.table_key: TableOrigin(
            type_.table_key, {name: name for name in type_.properties}, names=frozenset({type_.table_key})
        )
        for type_ in _types(first)
    }
    for old, new in pairwise(schemas):
        origins = dict(_apply_migration(origins, old, new))
    return SchemaLag(origins)


def _apply_migration(origins: Mapping[str, TableOrigin], old: Schema, new: Schema) -> Iterator[tuple[str, TableOrigin]]:
    """Yield the origins one schema later."""
    # Late imports: most tables do not lag.
    from omnigraph.language.schema import RenameProperty, RenameType, plan_migration

    steps = plan_migration(old.ir, new.ir).steps
    types = {s.new_key: s.old_key for s in steps if isinstance(s, RenameType)}
    names = {(s.table_key, s.to): s.from_ for s in steps if isinstance(s, RenameProperty)}
    before = {type_.table_key: type_ for type_ in _types(old.catalog)}
    for type_ in _types(new.catalog):
        key = type_.table_key
        old_key = types.get(key, key)
        if old_key not in before:
            yield key, TableOrigin(None, dict.fromkeys(type_.properties), type_.properties, frozenset({key}))
            continue
        origin = origins[old_key]
        old_names = {name: names.get((key, name), name) for name in type_.properties}
        columns = {name: origin.columns.get(old) for name, old in old_names.items()}
        added = {
            name: origin.added.get(old, type_.properties[name])
            for name, old in old_names.items()
            if columns[name] is None
        }
        yield key, TableOrigin(origin.table_key, columns, added, origin.names | {key})


def _types(catalog: Catalog) -> Iterator[NodeType | EdgeType]:
    yield from catalog.types()

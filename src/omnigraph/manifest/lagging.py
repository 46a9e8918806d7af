"""Lagging tables: where the types and properties of the current schema are in tables that an older schema made.

Tables name their columns, and a name can be reused: a property that was dropped and added again is another one. So the
whole chain of schemas between the two counts, step by step, not only its ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from omnigraph.language.schema import (
    Catalog,
    EdgeType,
    NodeType,
    RenameProperty,
    RenameType,
    Schema,
    TableKey,
    plan_migration,
)
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN, SchemaHead

Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """Where the rows of a type are: the key of their table, and the column of each property there.

    None stands for a type or property that is newer than the table.
    """

    table_key: TableKey | None
    columns: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class SchemaLag:
    """The origins of all types of the current schema in the tables of an older one, by current table key."""

    origins: Mapping[str, TableOrigin]

    def filter_tables(self, tables: Mapping[str, Shown]) -> dict[str, Shown]:
        """Return the tables that still belong to the type of that name, or to none."""
        return {
            key: each for key, each in tables.items() if key not in self.origins or self.origins[key].table_key == key
        }

    def hidden_columns(self, table_key: str) -> frozenset[str]:
        """Return the columns of a table that belong to dropped properties whose names others have now."""
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


def find_lag(manifest: Manifest, written_under: SchemaHead | None) -> SchemaLag | None:
    """Return how far a branch's tables lag behind the current schema, by its ``schema_head``; None if they do not."""
    current = manifest.view(MAIN).tables.schema_head
    if current is None or written_under == current:
        return None
    position = 0 if written_under is None else len(written_under.earlier)
    hashes = current.all[position:]
    if len(hashes) < 2:
        return None
    return _follow_schemas([load_schema_of(manifest, each) for each in hashes])


def _follow_schemas(schemas: list[Schema]) -> SchemaLag:
    first = schemas[0].catalog
    origins: dict[str, TableOrigin] = {
        type_.table_key: TableOrigin(type_.table_key, {name: name for name in type_.properties})
        for type_ in _types(first)
    }
    for old, new in pairwise(schemas):
        origins = dict(_apply_migration(origins, old, new))
    return SchemaLag(origins)


def _apply_migration(origins: Mapping[str, TableOrigin], old: Schema, new: Schema) -> Iterator[tuple[str, TableOrigin]]:
    """Yield the origins one schema later."""
    steps = plan_migration(old.ir, new.ir).steps
    types = {s.new_key: s.old_key for s in steps if isinstance(s, RenameType)}
    names = {(s.table_key, s.to): s.from_ for s in steps if isinstance(s, RenameProperty)}
    before = {type_.table_key: type_ for type_ in _types(old.catalog)}
    for type_ in _types(new.catalog):
        key = type_.table_key
        old_key = types.get(key, key)
        if old_key not in before:
            yield key, TableOrigin(None, dict.fromkeys(type_.properties))
            continue
        known = origins[old_key].columns
        columns = {name: known.get(names.get((key, name), name)) for name in type_.properties}
        yield key, TableOrigin(origins[old_key].table_key, columns)


def _types(catalog: Catalog) -> Iterator[NodeType | EdgeType]:
    yield from catalog.types()

"""Tables that an older schema made, and where the current one finds its types and properties in them.

A table says its columns by name, and a name may come again: what was dropped and added anew is another thing. So the
way from one schema to the other counts, step by step, and not only where it began and where it ends.
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
    """Where the rows of a type are: the key of their table, and for each property the name of its column there.

    None stands for what came since.
    """

    table_key: TableKey | None
    columns: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class SchemaLag:
    """The origins of all types of the current schema in the tables of an older one, by their table keys now."""

    origins: Mapping[str, TableOrigin]

    def filter_tables(self, tables: Mapping[str, Shown]) -> dict[str, Shown]:
        """The tables that are still those of the type that has their name, or of none."""
        return {
            key: each for key, each in tables.items() if key not in self.origins or self.origins[key].table_key == key
        }

    def hidden_columns(self, table_key: str) -> frozenset[str]:
        """The columns of a table that are those of properties which are gone, though others have their names."""
        origin = self.origins.get(table_key)
        if origin is None:
            return frozenset()
        return frozenset(name for name, column in origin.columns.items() if column != name)

    def list_renames(self) -> Iterator[tuple[str, str, str]]:
        """What has another name than it had: the key of its table then, the old name, the new one."""
        for key, origin in self.origins.items():
            if origin.table_key is None:
                continue
            if origin.table_key != key:
                yield origin.table_key, origin.table_key.type_name, TableKey(key).type_name
            for name, column in origin.columns.items():
                if column not in (None, name):
                    yield origin.table_key, f"{column}", name


def find_lag(manifest: Manifest, written_under: SchemaHead | None) -> SchemaLag | None:
    """How far tables are behind the current schema, by the row of their branch; None if they are not."""
    current = manifest.view(MAIN).tables.schema_head
    if current is None or written_under == current:
        return None
    came = 0 if written_under is None else len(written_under.earlier)
    way = current.all[came:]
    if len(way) < 2:
        return None
    return _follow_schemas([load_schema_of(manifest, each) for each in way])


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
    """The origins one schema later."""
    steps = plan_migration(old.ir, new.ir).steps
    types = {s.new_key: s.old_key for s in steps if isinstance(s, RenameType)}
    names = {(s.table_key, s.to): s.from_ for s in steps if isinstance(s, RenameProperty)}
    before = {type_.table_key: type_ for type_ in _types(old.catalog)}
    for type_ in _types(new.catalog):
        key = type_.table_key
        was = types.get(key, key)
        if was not in before:
            yield key, TableOrigin(None, dict.fromkeys(type_.properties))
            continue
        known = origins[was].columns
        columns = {name: known.get(names.get((key, name), name)) for name in type_.properties}
        yield key, TableOrigin(origins[was].table_key, columns)


def _types(catalog: Catalog) -> Iterator[NodeType | EdgeType]:
    yield from catalog.types()

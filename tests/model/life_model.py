"""A graph of plain dicts whose schema changes: tables as they are stored, and what a schema shows of them.

Tables lag behind the schema until they are written: a column that is missing reads as its default, one that is too many
is not shown, and a type without a table has no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tests.model.merge_model import Entity, State

Shown: TypeAlias = dict[tuple[str, str], Entity]
NAMES = ("p0", "p1", "p2", "p3")
EDGE_COLUMNS: Mapping[str, object] = {"from": None, "to": None, "since": None}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schema says: how people are called, their columns with what fills them, and whether there are boats."""

    person: str = "Person"
    types: Mapping[str, str] = field(default_factory=lambda: {"age": "I32?", "nick": "String?"})
    boats: bool = False

    def text(self, before: Shape | None = None) -> str:
        """The schema, with hints of what had other names before."""
        renamed = [name for name in self.types if before is not None and name not in before.types]
        old = [] if before is None else [name for name in before.types if name not in self.types]
        # A column that comes while another one goes is that one.
        hint = f'@rename_from("{old[0]}")' if renamed and old else ""
        columns = "".join(f"  {name}: {type_} {hint * (name in renamed)}\n" for name, type_ in self.types.items())
        was = f' @rename_from("{before.person}")' if before is not None and before.person != self.person else ""
        boats = "node Boat { name: String @key }\n" if self.boats else ""
        return (
            f"node {self.person}{was} {{\n  name: String @key\n{columns}}}\n"
            f"edge Knows: {self.person} -> {self.person} {{ since: I32? }}\n{boats}"
        )

    @property
    def columns(self) -> Mapping[str, Mapping[str, object]]:
        """Of each type the columns, with what they hold if nothing is said."""
        people = {name: 7 if "@default" in type_ else None for name, type_ in self.types.items()}
        found: dict[str, Mapping[str, object]] = {self.person: {"name": None, **people}, "Knows": EDGE_COLUMNS}
        return {**found, "Boat": {"name": None}} if self.boats else found

    def changed(self, number: int) -> Shape:
        """Another schema that can follow."""
        ways = self._ways()
        return ways[number % len(ways)]

    def _ways(self) -> Sequence[Shape]:
        types, other = dict(self.types), "alias" if "nick" in self.types else "nick"
        note, rank = {"note": "String?"}, {"rank": 'I32 @default("7")'}
        found = [
            replace(self, person="Human" if self.person == "Person" else "Person"),
            replace(self, types={other if name in ("nick", "alias") else name: each for name, each in types.items()}),
            replace(self, boats=not self.boats),
            *(
                replace(self, types=_without(types, new) if {*new} <= {*types} else {**types, **new})
                for new in (note, rank)
            ),
        ]
        return [*found, replace(self, types={**types, "age": "I64?"})] if types["age"] == "I32?" else found

    def keeps_names(self, before: Shape) -> bool:
        """Whether nothing was renamed."""
        return self.person == before.person and ("nick" in self.types) == ("nick" in before.types)

    def adds(self, before: Shape) -> set[str]:
        """The columns and types that it has and the other one has not."""
        return {*self.types, *self.columns} - {*before.types, *before.columns}


def _without(types: Mapping[str, str], gone: Mapping[str, str]) -> dict[str, str]:
    return {name: type_ for name, type_ in types.items() if name not in gone}


@dataclass(frozen=True, slots=True)
class Stored:
    """A table: the columns that it has, and its rows by id."""

    columns: frozenset[str]
    rows: Mapping[str, Entity]


Tables: TypeAlias = Mapping[str, Stored]
"""By the name of the type."""


def shown(tables: Tables, shape: Shape) -> Shown:
    """What a schema shows of some tables."""
    found: Shown = {}
    for type_, columns in shape.columns.items():
        table = tables.get(type_, Stored(frozenset(), {}))
        for id_, row in table.rows.items():
            found[type_, id_] = {name: row[name] if name in table.columns else empty for name, empty in columns.items()}
    return found


def stored(tables: Tables, shape: Shape, entities: State) -> Tables:
    """The tables after everything that a schema shows was written again; what it does not show stays where it is."""
    written = {
        type_: Stored(frozenset(columns), {id_: row for (name, id_), row in entities.items() if name == type_})
        for type_, columns in shape.columns.items()
    }
    return {**tables, **written}


def evolved(tables: Tables, old: Shape, new: Shape) -> Tables:
    """The tables of main after another schema was applied: types that went have no table, renamed ones keep rows."""
    people = (("alias", "nick") if "nick" in new.types else ("nick", "alias")) if not new.keeps_names(old) else ()
    found: Shown = {}
    for (type_, id_), row in shown(tables, old).items():
        name = new.person if type_ == old.person else type_
        if name not in new.columns:
            continue
        values = dict(row)
        if people and type_ == old.person and people[0] in values and people[1] in new.types:
            values[people[1]] = values.pop(people[0])
        found[name, id_] = {column: values.get(column, empty) for column, empty in new.columns[name].items()}
    kept = {type_: table for type_, table in tables.items() if type_ in new.columns}
    return stored(kept, new, found)


def brought(row: Entity, type_: str, old: Shape, new: Shape) -> Entity:
    """A row of a type that both schemas have, as the newer one has it; what is null may be left out."""
    columns, was = new.columns[type_], old.columns[type_]
    other = {"alias": "nick", "nick": "alias"}
    values = {name: row.get(name if name in was else other.get(name, name), columns[name]) for name in columns}
    return {name: value for name, value in values.items() if value is not None}


def orphans(state: State, shape: Shape) -> set[tuple[str, str]]:
    """The edges that lack one of their ends."""
    people = {id_ for type_, id_ in state if type_ == shape.person}
    return {key for key, row in state.items() if key[0] == "Knows" and not {row["from"], row["to"]} <= people}


def following(name: str) -> str:
    """Whom somebody may know."""
    return NAMES[(NAMES.index(name) + 1) % len(NAMES)]

"""A graph of plain dicts whose schema changes: tables as they are stored, and what a schema shows of them.

A column has an identity: it keeps it when it is renamed, and one that is added under an old name is another one. Tables
lag behind the schema until they are written: a column that is missing reads as the default that it came with, one that
is too many is not shown, and a type without a table has no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tests.model.merge_model import Entity, State

Shown: TypeAlias = dict[tuple[str, str], Entity]
Row: TypeAlias = Mapping[int, object]
NAMES = ("p0", "p1", "p2", "p3")


@dataclass(frozen=True, slots=True)
class Column:
    """A property: its identity, its type, the default of now, and what it holds in rows that are older than it."""

    id: int
    type: str
    default: int | None = None
    first: int | None = None

    @property
    def text(self) -> str:
        return self.type if self.default is None else f'{self.type} @default("{self.default}")'

    @property
    def is_text(self) -> bool:
        return self.type.startswith("String")


_KEY = Column(0, "String")
_EDGE: Mapping[str, Column] = {"from": Column(-1, "String"), "to": Column(-2, "String"), "since": Column(-3, "I32?")}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schema says: how people are called, their columns, and which boats there are, if any."""

    person: str = "Person"
    people: Mapping[str, Column] = field(
        default_factory=lambda: {"age": Column(1, "I32?"), "nick": Column(2, "String?")}
    )
    boats: int | None = None
    """The identity of the type: boats that are added again are others."""
    last_id: int = 2

    def text(self, before: Shape | None = None) -> str:
        """The schema, with hints of what had other names before."""
        old = {} if before is None else {column.id: name for name, column in before.people.items()}
        columns = ""
        for name, column in self.people.items():
            was = old.get(column.id, name)
            hint = f' @rename_from("{was}")' if was != name else ""
            columns += f"  {name}: {column.text}{hint}\n"
        was_person = f' @rename_from("{before.person}")' if before is not None and before.person != self.person else ""
        boats = "node Boat { name: String @key }\n" if self.boats else ""
        return (
            f"node {self.person}{was_person} {{\n  name: String @key\n{columns}}}\n"
            f"edge Knows: {self.person} -> {self.person} {{ since: I32? }}\n{boats}"
        )

    def tables(self) -> Iterator[tuple[str, str, Mapping[str, Column]]]:
        """Of each type the name, the identity of its table, and its columns."""
        yield self.person, "people", {"name": _KEY, **self.people}
        yield "Knows", "knows", _EDGE
        if self.boats:
            yield "Boat", f"boats {self.boats}", {"name": _KEY}

    def columns(self, type_: str) -> Mapping[str, Column]:
        """The columns of a type."""
        return {name: columns for name, _, columns in self.tables()}.get(type_, {})

    def changed(self, number: int) -> Shape:
        """Another schema that can follow."""
        ways = self._ways()
        return ways[number % len(ways)]

    def without(self, name: str) -> Shape:
        """The same without a property."""
        return replace(self, people={each: column for each, column in self.people.items() if each != name})

    def _ways(self) -> Sequence[Shape]:
        new, people = self.last_id + 1, self.people
        grown = replace(self, last_id=new)
        # What comes again under an old name has another type then.
        note = Column(new, "String?" if new % 2 else "I32?")
        rank = Column(new, "I32", new, new)
        found = [
            self.without("note") if "note" in people else replace(grown, people={**people, "note": note}),
            self.without("rank") if "rank" in people else replace(grown, people={**people, "rank": rank}),
            replace(grown, boats=None if self.boats else new),
            replace(self, person="Human" if self.person == "Person" else "Person"),
            self._with_other_name(),
        ]
        if "rank" in people:
            found.append(replace(grown, people={**people, "rank": replace(people["rank"], default=new)}))
        if people["age"].type == "I32?":
            found.append(replace(self, people={**people, "age": replace(people["age"], type="I64?")}))
        return found

    def _with_other_name(self) -> Shape:
        names = {"nick": "alias", "alias": "nick"}
        return replace(self, people={names.get(name, name): column for name, column in self.people.items()})

    def keeps_names(self, before: Shape) -> bool:
        """Whether nothing was renamed."""
        old = {column.id: name for name, column in before.people.items()}
        same = all(old.get(column.id, name) == name for name, column in self.people.items())
        return self.person == before.person and same


@dataclass(frozen=True, slots=True)
class Stored:
    """A table: the columns that it has, and its rows by id."""

    columns: frozenset[int]
    rows: Mapping[str, Row]


Tables: TypeAlias = Mapping[str, Stored]
"""By the identity of the type."""


def shown(tables: Tables, shape: Shape) -> Shown:
    """What a schema shows of some tables."""
    found: Shown = {}
    for type_, key, columns in shape.tables():
        table = tables.get(key, Stored(frozenset(), {}))
        for id_, row in table.rows.items():
            found[type_, id_] = {
                name: row[column.id] if column.id in table.columns else column.first for name, column in columns.items()
            }
    return found


def stored(tables: Tables, shape: Shape, entities: State) -> Tables:
    """The tables after everything that a schema shows was written again; what it does not show stays where it is."""
    written = {
        key: Stored(
            frozenset(column.id for column in columns.values()),
            {
                id_: {column.id: row[name] for name, column in columns.items()}
                for (of, id_), row in entities.items()
                if of == type_
            },
        )
        for type_, key, columns in shape.tables()
    }
    return {**tables, **written}


def evolved(tables: Tables, new: Shape) -> Tables:
    """The tables of main after another schema was applied: types that went have no table, renamed ones keep rows."""
    return stored({}, new, shown(tables, new))


def brought(key: tuple[str, str], row: Entity, old: Shape, new: Shape) -> tuple[tuple[str, str], Entity]:
    """A row of a type that both schemas have, as the newer one has it; what is null may be left out."""
    type_ = new.person if key[0] == old.person else key[0]
    was = {column.id: name for name, column in old.columns(key[0]).items()}
    values = {
        name: row.get(was[column.id]) if column.id in was else column.first
        for name, column in new.columns(type_).items()
    }
    return (type_, key[1]), {name: value for name, value in values.items() if value is not None}


def orphans(state: State, shape: Shape) -> set[tuple[str, str]]:
    """The edges that lack one of their ends."""
    people = {id_ for type_, id_ in state if type_ == shape.person}
    return {key for key, row in state.items() if key[0] == "Knows" and not {row["from"], row["to"]} <= people}


def following(name: str) -> str:
    """Whom somebody may know."""
    return NAMES[(NAMES.index(name) + 1) % len(NAMES)]

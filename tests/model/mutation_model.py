"""Mutations on plain dictionaries: what the language says that statements do, and which end states are allowed.

One node type with a key, a unique and a bounded property; one edge type with a cardinality. Statements are facts that
the model applies and that print themselves as ``.gq``.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

Value: TypeAlias = str | int | float | None

SCHEMA = """
node Item {
  key: String @key
  size: I64?
  label: String? @unique
  @range(size, -5..5)
}
edge Link: Item -> Item @card(1..2) { weight: F64? }
"""
LARGEST, SMALLEST = 5, -5
FEWEST, MOST = 1, 2

_OPERATORS: Mapping[str, Callable[[Value, Value], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": cast("Callable[[Value, Value], bool]", operator.lt),
    "<=": cast("Callable[[Value, Value], bool]", operator.le),
    ">": cast("Callable[[Value, Value], bool]", operator.gt),
    ">=": cast("Callable[[Value, Value], bool]", operator.ge),
}
OPERATORS = tuple(_OPERATORS)
_TYPES = {"key": "String", "size": "I64?", "label": "String?", "weight": "F64?", "from": "String", "to": "String"}


@dataclass(frozen=True, slots=True)
class Where:
    """``name operator value``; a null on either side is no match."""

    name: str
    operator: str
    value: Value

    def holds(self, row: Mapping[str, Value]) -> bool:
        held = row[self.name]
        return held is not None and self.value is not None and _OPERATORS[self.operator](held, self.value)


@dataclass(frozen=True, slots=True)
class Insert:
    """``insert``: a node replaces the one of the same key, an edge is always new."""

    type: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Update:
    """``update Item``."""

    values: Mapping[str, Value]
    where: Where


@dataclass(frozen=True, slots=True)
class Delete:
    """``delete``: a node takes its edges along."""

    type: str
    where: Where


Statement: TypeAlias = Insert | Update | Delete


@dataclass(slots=True)
class Model:
    """The nodes by key, and the edges by a number of their own."""

    items: dict[str, dict[str, Value]] = field(default_factory=dict[str, dict[str, Value]])
    links: dict[int, dict[str, Value]] = field(default_factory=dict[int, dict[str, Value]])
    last_link: int = 0

    def copy(self) -> Model:
        return Model(dict(self.items), dict(self.links), self.last_link)

    def apply(self, statement: Statement) -> tuple[int, int]:
        """Do what a statement says; how many nodes and edges it affected."""
        match statement:
            case Insert("Item", values):
                self.items[cast(str, values["key"])] = {"size": None, "label": None, **values}
                return 1, 0
            case Insert(_, values):
                self.last_link += 1
                self.links[self.last_link] = {"weight": None, **values}
                return 0, 1
            case Update(values, where):
                found = [key for key, row in self.items.items() if where.holds(row)]
                self.items |= {key: {**self.items[key], **values} for key in found}
                return len(found), 0
            case Delete("Item", where):
                gone = {key for key, row in self.items.items() if where.holds(row)}
                self.items = {key: row for key, row in self.items.items() if key not in gone}
                return len(gone), self._unlink(lambda row: row["from"] in gone or row["to"] in gone)
            case Delete(_, where):
                return 0, self._unlink(where.holds)

    def _unlink(self, matches: Callable[[dict[str, Value]], bool]) -> int:
        left = {number: row for number, row in self.links.items() if not matches(row)}
        gone, self.links = len(self.links) - len(left), left
        return gone

    def allowed_after(self, before: Model) -> bool:
        """Whether every rule holds for what a change made of the graph."""
        labels = Counter(row["label"] for row in self.items.values() if row["label"] is not None)
        sizes = [cast(int, row["size"]) for row in self.items.values() if row["size"] is not None]
        ends = [row[end] for row in self.links.values() for end in ("from", "to")]
        counts = Counter(row["from"] for row in self.links.values())
        changed = self.links.keys() ^ before.links.keys()
        touched = {{**before.links, **self.links}[number]["from"] for number in changed}
        return (
            all(count == 1 for count in labels.values())
            and all(SMALLEST <= size <= LARGEST for size in sizes)
            and all(end in self.items for end in ends)
            and all(FEWEST <= counts[source] <= MOST for source in touched if source in self.items)
        )


def as_query(statements: list[Statement]) -> tuple[str, dict[str, Value]]:
    """Statements as one mutation, every value a parameter."""
    declared: list[str] = []
    values: dict[str, Value] = {}

    def parameter(name: str, value: Value) -> str:
        word = f"p{len(values)}"
        values[word] = value
        declared.append(f"${word}: {_TYPES[name]}")
        return f"${word}"

    def assigned(given: Mapping[str, Value]) -> str:
        return ", ".join(f"{name}: {parameter(name, value)}" for name, value in given.items())

    def condition(where: Where) -> str:
        return f"where {where.name} {where.operator} {parameter(where.name, where.value)}"

    lines: list[str] = []
    for statement in statements:
        match statement:
            case Insert(type_name, given):
                lines.append(f"  insert {type_name} {{ {assigned(given)} }}")
            case Update(given, where):
                lines.append(" ".join(["  update Item set {", assigned(given), "}", condition(where)]))
            case Delete(type_name, where):
                lines.append(f"  delete {type_name} {condition(where)}")
    return "\n".join([f"query change({', '.join(declared)}) {{", *lines, "}"]), values

"""Graphs whose properties have the names that the code itself uses, with a plain model of their rows.

Every word in the source that could be the name of a property is one, in some schema. Types alternate, so that a column
that is taken for another one has another type, too.
"""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias, cast

import omnigraph
from omnigraph.errors import Json
from omnigraph.graph import Graph
from omnigraph.language.query.keywords import list_keywords
from omnigraph.manifest.rows import MAIN

Row: TypeAlias = dict[str, Json]
Model: TypeAlias = dict[str, dict[str, Row]]
"""The rows of each type by id, as the JSON of an export shows them; an edge has ``from`` and ``to``."""

PACKAGES: Final = ("analytics", "read", "spark", "storage", "write")
NAMES_PER_SCHEMA: Final = 120
KINDS: Final = ("String", "I64", "F64", "Bool", "[String]", "Date", "Blob")
KEYED, LOOSE, LINK = "Keyed", "Loose", "Link"

KNOWN: Final = (
    # Columns that were once added to rows of users under these names, or are added by Lance.
    *("address", "__given", "run", "__omnigraph_file", "__omnigraph_line", "__omnigraph_block", "_file", "_row"),
    *("_found", "_score", "_distance", "_rowId", "_ROWADDR", "_rowOffset", "_Row_created_at_version"),
    # Columns of intermediate tables, fields of records and columns of results.
    *("number", "key", "rest", "position", "offset", "fragment", "target", "place", "partition", "kind", "body", "op"),
    *("line", "file", "block", "record", "rule", "message", "type", "data", "edge", "before", "after", "changed"),
    *("value", "text", "vector", "mark", "path", "weight", "relationship", "other_type", "score", "node", "given"),
)
SQL_WORDS: Final = (
    *("select", "where", "group", "having", "join", "left", "using", "all", "table", "view", "case", "when", "then"),
    *("end", "between", "like", "interval", "array", "map", "struct", "row", "rows", "range", "over", "partition"),
    *("window", "lateral", "current_date", "unique", "primary", "default", "check", "constraint", "rowid", "oid"),
)
_RESERVED: Final = frozenset({"id", "src", "dst", "from", "to"})
_LANCE: Final = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
_PROPERTY: Final = re.compile("[a-z_][A-Za-z0-9_]*")


# --------------------------------------------------------------------------------------------- names


def list_literals() -> Iterator[str]:
    """Yield every string literal of the packages that is the name of a property in the schema language."""
    for package in PACKAGES:
        for file in sorted((Path(omnigraph.__file__).parent / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_property(node.value):
                    yield node.value


def _is_property(text: str) -> bool:
    # `$_` stands for any node, so `_` is tested as a property only where it is not a variable.
    is_name = _PROPERTY.fullmatch(text) is not None and text != "_"
    return is_name and text.lower() not in _RESERVED and text not in _LANCE


@cache
def list_schemas() -> Mapping[str, NamedWorld]:
    """Return schemas that together have all names: those that are known to matter, words of languages, all others."""
    words = sorted({*filter(_is_property, list_keywords()), *SQL_WORDS, "node", "edge", "interface", "enum", "card"})
    by_case = {name.lower(): name for name in sorted(list_literals())}
    others = [name for folded, name in by_case.items() if folded not in {known.lower() for known in KNOWN}]
    parts = [others[begin : begin + NAMES_PER_SCHEMA] for begin in range(0, len(others), NAMES_PER_SCHEMA)]
    # The last part borrows names, so that it has enough of each type.
    parts[-1] = others[-max(len(parts[-1]), len(KNOWN)) :]
    return {
        "known": NamedWorld(KNOWN),
        "words of languages": NamedWorld(tuple(words)),
        **{f"{part[0]} to {part[-1]}": NamedWorld(tuple(part)) for part in parts},
    }


# --------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True)
class NamedWorld:
    """A schema of three types that have properties of all these names."""

    names: tuple[str, ...]

    @property
    def kinds(self) -> dict[str, str]:
        """The type of each property."""
        return {name: KINDS[number % len(KINDS)] for number, name in enumerate(self.names)}

    def list_of(self, kind: str) -> list[str]:
        """Return the properties of one type that do not identify a row."""
        return [name for name, own in self.kinds.items() if own == kind and name not in self.identifying]

    @property
    def identifying(self) -> tuple[str, str, str]:
        """The key of nodes, the unique property of others, and the property that tells edges apart: three texts."""
        first, second, third, *_ = (name for name, kind in self.kinds.items() if kind == "String")
        return first, second, third

    @property
    def identity(self) -> dict[str, Sequence[str]]:
        """How a load finds rows without ids."""
        _, unique, member = self.identifying
        return {LOOSE: [unique], LINK: ["from", "to", member]}

    @property
    def schema(self) -> str:
        """The text of the schema."""
        key, unique, member = self.identifying
        keyed = "\n".join(f"  {name}: {kind}{' @key' if name == key else '?'}" for name, kind in self.kinds.items())
        loose = "\n".join(f"  {name}: {kind}?" for name, kind in self.kinds.items())
        return (
            f"node {KEYED} {{\n{keyed}\n}}\nnode {LOOSE} {{\n{loose}\n  @unique({unique})\n  @index({member})\n}}\n"
            f"edge {LINK}: {KEYED} -> {LOOSE} {{\n{loose}\n}}\n"
        )

    def key_of(self, number: int) -> str:
        """Return the key of a node."""
        return cast(str, self.make_row(number, 0)[self.identifying[0]])

    def make_row(self, number: int, turn: int, names: Collection[str] | None = None) -> Row:
        """Return the values of a row after a change; identifying ones never change."""
        chosen = self.names if names is None else names
        kinds, fixed = self.kinds, self.identifying
        return {name: _make_value(kinds[name], name, number, 0 if name in fixed else turn) for name in chosen}

    def halves(self) -> tuple[list[str], list[str]]:
        """Return the other properties in two parts, each with every type."""
        others = [name for name in self.names if name not in self.identifying]
        return others[::2], others[1::2]

    def make_records(self, type_: str, row: Row, id_: str | None = None) -> Row:
        """Return one record of graph JSONL; with an id if the row is to be named by it."""
        data = {name: value for name, value in row.items() if name not in ("from", "to")}
        named: Row = data if id_ is None else {"id": id_, **data}
        if type_ == LINK:
            return {"edge": LINK, "from": row["from"], "to": row["to"], "data": named}
        return {"type": type_, "data": named}


def _make_value(kind: str, name: str, number: int, turn: int) -> Json:
    """Return a value that no other property, row or turn has, if its type has so many."""
    code = sum(map(ord, name)) * 7 + number * 101 + turn * 13
    match kind:
        case "String":
            return f"{name}/{number}/{turn}"
        case "I64":
            return code
        case "F64":
            return code / 4
        case "Bool":
            return code % 2 == 0
        case "[String]":
            return [name, f"{number}/{turn}"]
        case "Date":
            return f"20{code % 90 + 10}-0{code % 9 + 1}-1{number % 9}"
        case _:
            return "base64:" + base64.b64encode(f"{name}/{number}/{turn}".encode()).decode()


# --------------------------------------------------------------------------------------------- a graph and its model


@dataclass(frozen=True)
class NamedGraph:
    """A graph of a world, and the rows that it must have."""

    world: NamedWorld
    graph: Graph
    model: Model

    def check(self, branch: str = MAIN, model: Model | None = None) -> None:
        """Compare all rows with the model."""
        differences = list(find_differences(read_rows(self.graph, branch), model or self.model))
        assert not differences, differences[:5]


def read_rows(graph: Graph, branch: str = MAIN) -> Model:
    """Return all rows of a graph, from its export."""
    model: Model = {KEYED: {}, LOOSE: {}, LINK: {}}
    for line in graph.export(branch=branch):
        record = cast("dict[str, Json]", json.loads(line))
        data = cast("Row", record["data"])
        row_id = cast(str, data.pop("id"))
        if "edge" in record:
            data |= {"from": record["from"], "to": record["to"]}
        model[cast(str, record.get("edge") or record["type"])][row_id] = data
    return model


def find_differences(rows: Mapping[str, Mapping[str, Row]], model: Mapping[str, Mapping[str, Row]]) -> Iterator[str]:
    """Yield how rows differ from those of a model."""
    for type_, expected_rows in model.items():
        if rows[type_].keys() != expected_rows.keys():
            yield f"{type_} has the ids {sorted(rows[type_])}, expected {sorted(expected_rows)}"
            continue
        for row_id, expected in expected_rows.items():
            row = rows[type_][row_id]
            for name in row.keys() | expected.keys():
                if row.get(name, "missing") != expected.get(name, "missing"):
                    yield f"{type_} {row_id}.{name}: {row.get(name)!r}, expected {expected.get(name)!r}"


def make_first_rows(world: NamedWorld) -> Model:
    """Return four nodes of each type, and an edge between each pair of them."""
    keys = [world.key_of(number) for number in range(4)]
    return {
        KEYED: {key: world.make_row(number, 0) for number, key in enumerate(keys)},
        LOOSE: {f"l{number}": world.make_row(number, 0) for number in range(4)},
        LINK: {
            f"e{number}": {**world.make_row(number, 0), "from": key, "to": f"l{number}"}
            for number, key in enumerate(keys)
        },
    }


def list_records(world: NamedWorld, model: Model) -> list[Row]:
    """Return the records of all rows, with ids where there is no key."""
    return [
        world.make_records(type_, row, None if type_ == KEYED else row_id)
        for type_, rows in model.items()
        for row_id, row in rows.items()
    ]

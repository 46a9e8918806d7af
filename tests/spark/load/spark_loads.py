"""What the tests of loads on Spark share: a schema of every type, records of it, and graphs to compare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import omnigraph
from omnigraph.errors import Json, ValidationError
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from tests.graphs import rows_of

SCHEMA = """
node Ship {
  code: String @key
  name: String
  kind: enum(ferry, tug)?
  hull: U64?
  crew: I32?
  built: Date?
  seen: DateTime?
  tags: [String]?
  shape: Vector(2)?
  photo: Blob?
  @unique(name)
  @range(crew, 0..99)
}
node Note { text: String }
edge Tows: Ship -> Ship @card(0..2)
edge About: Note -> Ship
"""


def ship(code: str, name: str | None = None, **more: object) -> Mapping[str, object]:
    return {"type": "Ship", "data": {"code": code, "name": name or f"name of {code}", **more}}


def tow(from_: str, to: str) -> Mapping[str, object]:
    return {"edge": "Tows", "from": from_, "to": to}


WHOLE = ship(
    "a",
    kind="tug",
    hull=2**64 - 1,
    crew=7,
    built="2020-02-29",
    seen="2024-05-01T10:00:00.123Z",
    tags=["x", "it's"],
    shape=[0.5, -1.0],
    photo="base64:aGVsbG8=",
)
FIRST: tuple[Mapping[str, object], ...] = (
    tow("b", "a"),
    WHOLE,
    ship("b"),
    ship("c"),
    {"type": "Note", "data": {"text": "one"}},
    {"type": "Note", "data": {"id": "n2", "text": "two"}},
    {"edge": "About", "from": "n2", "to": "a"},
)


def new_graph(folder: Path, records: Iterable[Mapping[str, object]] = ()) -> Graph:
    """A graph that holds these records, loaded by this process."""
    graph = omnigraph.init(folder, SCHEMA)
    held = list(records)
    if held:
        graph.load(held)
    return graph


def file_of(path: Path, records: Iterable[Mapping[str, object] | str]) -> Path:
    """A file of records; what is a text already is a line as it is."""
    lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def content(graph: Graph, branch: str = MAIN) -> dict[str, list[dict[str, Json]]]:
    """All rows by type, in an order that does not depend on ids that were made up."""
    found: dict[str, list[dict[str, Json]]] = {}
    for type_ in graph.schema.catalog.types():
        rows = rows_of(graph, type_.table_key, branch)
        made = [{name: value for name, value in row.items() if not _is_made_up(name, value)} for row in rows]
        # Where in a file the bytes of a blob lie differs.
        for row in made:
            if isinstance(row.get("photo"), dict):
                row["photo"] = cast("dict[str, Json]", row["photo"])["size"]
        found[type_.name] = sorted(made, key=lambda row: json.dumps(row, sort_keys=True))
    return found


def _is_made_up(name: str, value: Json) -> bool:
    return name == "id" and isinstance(value, str) and len(value) == 26


def codes(graph: Graph, branch: str = MAIN) -> dict[str, str]:
    """The names of ships by their codes."""
    rows = cast("list[dict[str, str]]", rows_of(graph, "Ship", branch))
    assert len({row["id"] for row in rows}) == len(rows), "an id is there twice"
    return {row["code"]: row["name"] for row in rows}


def problems(error: ValidationError) -> list[tuple[str | None, int | None, str, str]]:
    """What an error says, without the ids that were made up."""
    return [
        (each.file, each.line, each.rule, each.message if each.id is None else each.message.replace(each.id, "*"))
        for each in error.violations
    ]

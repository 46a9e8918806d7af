"""A small graph of people whose schema the tests change."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

import omnigraph
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN

BEFORE = """
node Person {
  name: String @key
  age: I32?
  nick: String?
  mood: enum(calm, glad, wild)?
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""

RECORDS: tuple[dict[str, object], ...] = (
    {"type": "Person", "data": {"name": "ann", "age": 30, "nick": "a", "mood": "calm"}},
    {"type": "Person", "data": {"name": "bob", "age": 40, "nick": "a", "mood": "wild"}},
    {"type": "Person", "data": {"name": "cid"}},
    {"type": "City", "data": {"name": "oslo"}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1", "since": "2024-01-02"}},
    {"edge": "Knows", "from": "ann", "to": "cid", "data": {"id": "k2"}},
    {"edge": "LivesIn", "from": "bob", "to": "oslo", "data": {"id": "l1"}},
)


def make(folder: Path, schema: str = BEFORE, records: Sequence[Mapping[str, object]] = RECORDS) -> Graph:
    """Create a graph with some rows."""
    graph = omnigraph.init(folder / "graph.og", schema)
    load(graph, *records)
    return graph


def load(graph: Graph, *records: Mapping[str, object], branch: str = MAIN) -> None:
    """Load some records, replacing those with the same ids."""
    graph.load(io.BytesIO(b"\n".join(map(orjson.dumps, records))), mode="merge", branch=branch)


def people(graph: Graph, branch: str = MAIN, at: str | None = None) -> dict[str, dict[str, object]]:
    """Return the people by id, in the schema of that moment."""
    rows = graph.nodes("Person", branch=branch, at=at).to_arrow().to_pylist()
    return {row.pop("id"): row for row in rows}


def head(graph: Graph, branch: str = MAIN) -> str:
    """Return the newest commit."""
    return graph.commits(branch)[0].id


def with_change(old: str, new: str, schema: str = BEFORE) -> str:
    """Return the schema with one part of its text replaced."""
    assert schema.count(old) == 1, old
    return schema.replace(old, new)

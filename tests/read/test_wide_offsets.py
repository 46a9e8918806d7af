"""Texts and pairs that need offsets of 64 bits: the same rows as with 32, without the 2 GB that would need them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.read.frames import entity_sets, lookup
from omnigraph.read.match import expand

SCHEMA: Final = "node Person { name: String @key  city: String?  age: I32 }\nedge Knows: Person -> Person"
SHAPES: Final = {
    "join": "match { $a: Person  $b: Person  $a.city = $b.city } return { $a.name as x, $b.name as y }",
    "join counted": "match { $a: Person  $b: Person  $a.city = $b.city } return { $a.city, count($b) as n }",
    "join by order": "match { $a: Person  $b: Person  $a.city < $b.city } return { $a.name as x, $b.name as y }",
    "order": "match { $a: Person  $a knows $b } return { $b.city, $b.name } order { $b.city desc, $b.name }",
    "groups": "match { $a: Person  $a knows $b } return { $b.city, collect($a.name) as who, min($a.city) as m }",
    "distinct": "match { $a: Person  $a knows $b } return distinct { $a.city as x, $b.city as y }",
    "condition": 'match { $a: Person  $a.city contains "o"  $a.name in ["p1", "p3", "p5"] } return { $a.city }',
    "walk": "match { $a: Person  $a knows{1,3} $b  $b.city = $a.city } return { $a.name as x, $b.name as y }",
}


def make_graph(folder: Path) -> Graph:
    cities = ["Rome", "Oslo", None, "Zürich", "Rome", ""]
    people = [
        {"type": "Person", "data": {"name": f"p{number}", "city": cities[number % 6], "age": number}}
        for number in range(20)
    ]
    knows = [
        {"edge": "Knows", "from": f"p{number}", "to": f"p{number * step % 20}"}
        for number in range(20)
        for step in (3, 7)
    ]
    graph = og.init(folder / "g.og", SCHEMA)
    graph.load([*people, *knows])
    return graph


def ask(graph: Graph) -> dict[str, list[str]]:
    return {name: sorted(map(str, graph.query(f"query q() {{ {text} }}").rows)) for name, text in SHAPES.items()}


def test_wide_offsets_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Few texts are looked up one by one.
    monkeypatch.setattr(lookup, "_FEW_TEXTS", 0)
    expected = ask(make_graph(tmp_path / "narrow"))
    assert all(expected.values())
    monkeypatch.setattr(entity_sets, "_LARGEST_TEXT_COLUMN", 0)
    monkeypatch.setattr(expand, "_LARGEST_COMPACT", 0)
    assert ask(make_graph(tmp_path / "wide")) == expected

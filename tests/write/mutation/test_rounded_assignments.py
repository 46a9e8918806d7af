"""A mutation reports the values that it rounded, and refuses to round a key or a unique value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import ValidationError

SCHEMA = """
node Event { n: I64?  at: DateTime?  times: [DateTime]?  f: F64?  g: F32?  fs: [F64]? }
node Moment { at: DateTime @key }
node Sensor { name: String @key  seen: DateTime? @unique }
"""
EXACT = datetime(2024, 5, 1, 10, 0, 0, 123_000, tzinfo=UTC)
LATE = EXACT.replace(microsecond=123_456)
LARGE = 2**53 + 1
ROUNDED: Mapping[str, tuple[str, Mapping[str, object], str]] = {
    "time of a parameter": ("query q($p: DateTime) { insert Event { at: $p } }", {"p": LATE}, "at"),
    "text of a parameter": ("query q($p: DateTime) { insert Event { at: $p } }", {"p": LATE.isoformat()}, "at"),
    "list of a parameter": ("query q($p: [DateTime]) { insert Event { times: $p } }", {"p": [EXACT, LATE]}, "times"),
    "time of a literal": ('query q() { insert Event { at: datetime("2024-05-01T10:00:00.1234Z") } }', {}, "at"),
    "integer of a literal": (f"query q() {{ insert Event {{ f: {LARGE} }} }}", {}, "f"),
    "integer of an F64": ("query q($p: F64) { insert Event { f: $p } }", {"p": LARGE}, "f"),
    "integer of an I64": ("query q($p: I64) { insert Event { f: $p } }", {"p": LARGE}, "f"),
    "integer for an F32": ("query q($p: I64) { insert Event { g: $p } }", {"p": 2**24 + 1}, "g"),
    "underflow of F32": ("query q($p: F32) { insert Event { g: $p } }", {"p": 1e-60}, "g"),
    "underflow of F64": ("query q($p: F64) { insert Event { g: $p } }", {"p": 1e-60}, "g"),
    "list of a literal": (f"query q() {{ insert Event {{ fs: [1, {LARGE}] }} }}", {}, "fs"),
    "update": ('query q($p: DateTime) { update Event set { at: $p } where n = 1 }', {"p": LATE}, "at"),
    "match": ("query q() { match { $e: Event  $e.n > 1 } update $e set { f: $e.n } }", {}, "f"),
    "computed": ("query q($p: DateTime) { insert Event { at: coalesce($p, now()) } }", {"p": LATE}, "at"),
}  # fmt: skip


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.load([{"type": "Event", "data": {"n": number}} for number in (1, LARGE)])
    return graph


@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounded_value_is_reported(graph: Graph, name: str) -> None:
    source, params, column = ROUNDED[name]
    result = graph.mutate(source, params=params)
    assert [(each.type, each.property, each.count, each.line) for each in result.rounded] == [("Event", column, 1, 1)]


def test_exact_values_are_not_reported(graph: Graph) -> None:
    source = "query q($at: DateTime, $f: F64, $g: F32) { insert Event { at: $at, f: $f, g: $g } }"
    assert graph.mutate(source, params={"at": EXACT, "f": 2**53, "g": 0.1}).rounded == ()


def test_a_transaction_adds_what_its_mutations_rounded(graph: Graph) -> None:
    source, params, _ = ROUNDED["time of a parameter"]
    with graph.transaction() as work:
        counts = [len(work.mutate(source, params=each).rounded) for each in (params, {"p": EXACT}, params)]
    assert counts == [1, 0, 1]
    assert work.result is not None
    assert [each.count for each in work.result.rounded] == [2]


@pytest.mark.parametrize("values", ["Moment { at: $p }", 'Sensor { name: "a", seen: $p }'])
def test_a_rounded_key_or_unique_value_is_rejected(graph: Graph, values: str) -> None:
    before = graph.commits()
    with pytest.raises(ValidationError, match="would be rounded"):
        graph.mutate(f"query q($p: DateTime) {{ insert {values} }}", params={"p": LATE})
    assert graph.commits() == before

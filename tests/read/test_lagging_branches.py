"""What a lagging branch shows: every way to read it gives the same, with empty and with full caches."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.match import scan_nodes
from tests.selection import daily
from tests.write.evolve.people_graph import load

NAMES = ("ann", "bob", "cid")
OPEN, SHUT = 'v: String @default("open door")', 'v: String @default("shut gate")'


@dataclass(frozen=True)
class History:
    """Declarations of a property: at the time of the branch, and the schemas after it. What does the branch show?"""

    first: str
    then: tuple[str, ...]
    shown: str | None


HISTORIES = {
    "added": History("", (OPEN,), "open door"),
    "another default": History("", (OPEN, SHUT), "open door"),
    "the first default again": History("", (OPEN, SHUT, OPEN), "open door"),
    "no default any more": History("", (OPEN, "v: String"), "open door"),
    "nullable now": History("", (OPEN, "v: String?"), "open door"),
    "nullable now with another default": History("", (OPEN, 'v: String? @default("shut gate")'), "open door"),
    "nullable with a default": History("", ('v: String? @default("open door")',), None),
    "dropped and added": History("v: String?", ("", "v: String?"), None),
    "dropped and added with a default": History("v: String?", ("", OPEN), "open door"),
    "dropped and added with another type": History("v: I32?", ("", OPEN), "open door"),
    "added, dropped and added": History("", (OPEN, "", SHUT), "shut gate"),
}
DAILY = ("another default", "dropped and added", "dropped and added with another type")


def _schema(property_: str) -> str:
    return f"node P {{ name: String @key\n age: I32?\n {property_} }}"


def make(folder: Path, history: History) -> Graph:
    """Create a graph with a lagging branch 'dev'."""
    graph = omnigraph.init(folder / "graph.og", _schema(history.first))
    value: int | str = 7 if "I32" in history.first else "open house"
    rows = ({"name": name, "age": age, "v": value} for age, name in enumerate(NAMES, 1))
    load(graph, *({"type": "P", "data": {k: v for k, v in row.items() if k != "v" or history.first}} for row in rows))
    graph.create_branch("dev")
    for each in history.then:
        graph.apply_schema(_schema(each))
    return graph


Reader = Callable[[Graph, "str | None"], Mapping[str, object]]


def _scan(graph: Graph, _: str | None) -> Mapping[str, object]:
    rows = graph.nodes("P", branch="dev").to_arrow()
    return {row["id"]: row["v"] for row in rows.to_pylist()}


def _filtered(graph: Graph, shown: str | None) -> Mapping[str, object]:
    filter_ = [("v", "=", shown), ("age", ">", 0)] if shown else [("v", "=", None)]
    rows = graph.nodes("P", filter=filter_, branch="dev").to_arrow()
    return {row["id"]: row["v"] for row in rows.to_pylist()}


def _get(graph: Graph, _: str | None) -> Mapping[str, object]:
    found = {name: graph.get("P", name, branch="dev") for name in NAMES}
    return {name: row["v"] for name, row in found.items() if row}


def _exported(graph: Graph, _: str | None) -> Mapping[str, object]:
    rows = [orjson.loads(line)["data"] for line in graph.export(branch="dev")]
    return {row["name"]: row.get("v") for row in rows}


def _query(graph: Graph, rest: str) -> Mapping[str, object]:
    found = graph.query(f"query q() {{ match {{ $p: P {rest} }} return {{ $p.name, $p.v }} }}", branch="dev")
    return {str(row["p.name"]): row["p.v"] for row in found.rows}


def _queried(graph: Graph, _: str | None) -> Mapping[str, object]:
    return _query(graph, "")


def _matched(graph: Graph, shown: str | None) -> Mapping[str, object]:
    return _query(graph, f'$p.v = "{shown}" $p.age > 0' if shown else "$p.v is null")


def _not_matched(graph: Graph, shown: str | None) -> Mapping[str, object]:
    return _query(graph, f'not {{ $p.v != "{shown}" }}' if shown else "not { $p.v is not null }")


def _begun(graph: Graph, shown: str | None) -> Mapping[str, object]:
    return _query(graph, f'$p.v starts_with "{shown[:3]}"' if shown else "not { $p.v = $p.v }")


def _searched(graph: Graph, shown: str | None) -> Mapping[str, object]:
    return _query(graph, f'search($p.v, "{shown}")' if shown else 'not { search($p.v, "open shut house") }')


def _nearly(graph: Graph, shown: str | None) -> Mapping[str, object]:
    return _query(graph, f'fuzzy($p.v, "{shown[:-1]}")' if shown else 'not { fuzzy($p.v, "open") }')


def _scored(graph: Graph, shown: str | None) -> Mapping[str, object]:
    returned = "return { $p.name, $p.v, bm25($p.v, $w) as s } order { bm25($p.v, $w) desc } limit 9"
    text = f"query q($w: String) {{ match {{ $p: P }} {returned} }}"
    rows = graph.query(text, params={"w": shown or "open"}, branch="dev").rows
    assert all((row["s"] is not None) == (shown is not None) for row in rows)
    return _scan(graph, shown) if not rows and not shown else {str(row["p.name"]): row["p.v"] for row in rows}


def _compared(graph: Graph, shown: str | None) -> Mapping[str, object]:
    before = graph.diff("main", "dev", types=["P"])
    assert [change.changed for change in before.entities()] == []
    return _scan(graph, shown)


READERS: Mapping[str, Reader] = {
    "scan": _scan,
    "filter": _filtered,
    "get": _get,
    "export": _exported,
    "query": _queried,
    "match": _matched,
    "not": _not_matched,
    "begin": _begun,
    "search": _searched,
    "fuzzy": _nearly,
    "bm25": _scored,
    "diff": _compared,
}


@pytest.fixture(params=["as they are", "few rows are many"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the lowest threshold the storage filters whatever it can."""
    if request.param == "few rows are many":
        monkeypatch.setattr(scan_nodes, "_SMALL", 0)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("history", daily(HISTORIES, DAILY))
def test_every_reader_shows_the_same_with_cold_and_warm_caches(tmp_path: Path, history: str) -> None:
    shown = HISTORIES[history].shown
    warm = make(tmp_path, HISTORIES[history])
    expected = dict.fromkeys(NAMES, shown)
    for name, read in READERS.items():
        assert read(omnigraph.open(warm.uri), shown) == expected, name
    for _ in range(2):
        assert {name: read(warm, shown) for name, read in READERS.items()} == dict.fromkeys(READERS, expected)
    assert warm.verify().findings == ()


@pytest.mark.parametrize("history", daily(HISTORIES, DAILY))
def test_catching_up_and_merging_change_no_value(tmp_path: Path, history: str) -> None:
    shown = HISTORIES[history].shown
    graph = make(tmp_path, HISTORIES[history])
    graph.mutate('query q() { update P set { age: 9 } where name = "ann" }', branch="dev")
    for opened in (graph, omnigraph.open(graph.uri)):
        assert {name: read(opened, shown) for name, read in READERS.items() if name != "diff"} == {
            name: dict.fromkeys(NAMES, shown) for name in READERS if name != "diff"
        }
    assert [change.changed for change in graph.diff("main", "dev").entities()] == [("age",)]
    graph.merge("dev")
    rows = graph.nodes("P").to_arrow()
    assert set(rows["v"].to_pylist()) == {shown}
    assert set(rows["age"].to_pylist()) == {2, 3, 9}
    assert graph.verify().findings == ()


def test_a_wider_type_keeps_the_value_of_the_narrower_default(tmp_path: Path) -> None:
    history = History("", ('v: F32 @default("0.1")', 'v: F64 @default("0.2")'), None)
    graph = make(tmp_path, history)
    assert _scan(graph, None) == dict(zip(NAMES, graph.nodes("P").to_arrow()["v"].to_pylist(), strict=True))
    assert list(graph.diff("main", "dev").entities()) == []


def test_a_property_that_became_required_later_is_null_in_the_rows_of_a_branch(tmp_path: Path) -> None:
    graph = make(tmp_path, History("", ("v: String?",), None))
    graph.mutate('query q() { update P set { v: "set" } where name != "" }')
    for required in ("v: String", OPEN):
        graph.apply_schema(_schema(required))
        assert set(_scan(graph, None).values()) == {None}
        assert set(_queried(graph, None).values()) == {None}
    graph.mutate('query q() { insert P { name: "dan", v: "own" } }', branch="dev")
    assert _scan(graph, None) == {**dict.fromkeys(NAMES), "dan": "own"}
    graph.merge("dev")
    assert set(graph.nodes("P").to_arrow()["v"].to_pylist()) == {"set", "own"}


def test_a_blob_that_was_dropped_and_added_is_another_blob(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph.og", _schema("v: Blob?"))
    blob = "base64:" + base64.b64encode(b"old").decode()
    load(graph, {"type": "P", "data": {"name": "ann", "v": blob}})
    graph.create_branch("dev")
    past = graph.commits()[0].id
    for each in ("", "v: Blob?"):
        graph.apply_schema(_schema(each))
    for opened in (graph, omnigraph.open(graph.uri)):
        assert opened.blob("P", "ann", "v", branch="dev") is None
        assert opened.blob("P", "ann", "v", at=past) == b"old"
        assert [orjson.loads(line)["data"].get("v") for line in opened.export(branch="dev")] == [None]
        assert opened.verify().findings == ()

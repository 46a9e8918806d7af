"""A node type and an edge type of one name, and records that break rules of the one with an id that both have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from omnigraph.write.load.run import Engine
from tests.graphs import rows_of

SCHEMA = """
node Call { code: String @key  line: String? @unique }
node Person { code: String @key }
edge Call: Person -> Person { line: String? @unique }
"""


def call(code: str, line: str) -> dict[str, object]:
    return {"type": "Call", "data": {"code": code, "line": line}}


def calls(id_: str, line: str, to: str = "ann") -> dict[str, object]:
    return {"edge": "Call", "from": "ann", "to": to, "data": {"id": id_, "line": line}}


PEOPLE = ({"type": "Person", "data": {"code": "ann"}},)


def new_graph(folder: Path) -> Graph:
    graph = omnigraph.init(folder / "g.og", SCHEMA)
    graph.load(PEOPLE)
    return graph


def file_of(folder: Path, *records: dict[str, object]) -> Path:
    file = folder / "calls.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return file


def expect_only_the_edges_rejected(folder: Path, engine: Engine) -> None:
    """Two edges share a value: they are rejected, and the nodes with their ids are not."""
    graph = new_graph(folder)
    file = file_of(folder, call("x", "1"), call("y", "2"), calls("x", "9"), calls("y", "9"), calls("z", "8"))
    result = graph.load(file, on_error="quarantine", rejects=folder / "rejects.jsonl", engine=engine)
    assert (result.nodes, result.edges, result.rejected) == ({"Call": 2}, {"Call": 1}, 2)
    assert [row["code"] for row in rows_of(graph, "node:Call")] == ["x", "y"]
    assert [row["id"] for row in rows_of(graph, "edge:Call")] == ["z"]
    lines = [json.loads(line) for line in (folder / "rejects.jsonl").read_text().splitlines()]
    assert {(line["table_key"], line["id"]) for line in lines} == {("edge:Call", "x"), ("edge:Call", "y")}


def expect_all_problems(folder: Path, engine: Engine) -> None:
    """A rejected edge does not hide that another edge leads to no node of its id, and each violation names its own."""
    graph = new_graph(folder)
    file = file_of(
        folder,
        calls("bob", "1") | {"data": {"id": "bob", "line": "1", "extra": 1}},
        calls("c", "2", to="bob"),
        call("c", "2"),
        call("c", "3"),
    )
    with pytest.raises(ValidationError) as caught:
        graph.load(file, engine=engine)
    assert [(each.line, each.table_key, each.rule) for each in caught.value.violations] == [
        (1, "edge:Call", "known properties"),
        (2, "edge:Call", "edge Call: Person -> Person"),
        (4, "node:Call", "@key(code)"),
    ]

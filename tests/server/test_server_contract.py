"""The answers to the twenty operations of release 0.8 have every field that its clients read, with its type."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from omnigraph.server import ServedGraph, ServerSettings, read_query_folder
from tests.server.client import Client, open_client
from tests.server.conftest import LIMITS, SCHEMA
from tests.server.contract import OPERATIONS, OldOperation, find_misfits

QUERIES = "query cities() { match { $c: City } return { $c.name as name } }"


@pytest.fixture(scope="module")
def old_client(graph_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Client]:
    folder = tmp_path_factory.mktemp("contract")
    shutil.copytree(graph_template, folder / "brain.og")
    (folder / "queries").mkdir()
    (folder / "queries" / "cities.gq").write_text(QUERIES)
    graph = ServedGraph("brain", str(folder / "brain.og"), queries=read_query_folder(folder / "queries"))
    with asyncio.Runner() as runner:
        client = open_client(ServerSettings((graph,), actor="act-old", limits=LIMITS), runner)
        yield client
        client.close()


def test_there_are_twenty() -> None:
    assert len(OPERATIONS) == 20


# In the order of the table: some need what those before them made.
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_answer_has_what_release_0_8_gives(old_client: Client, name: str) -> None:
    operation = OPERATIONS[name]
    body = operation.body
    if body is not None and "schema_source" in body:
        body = {**body, "schema_source": f"{SCHEMA}\nnode Added {{ name: String @key }}\n"}
    path = operation.path.replace("<head>", str(old_client.ok("GET", "snapshot")["commit"]))
    answer = old_client.send(operation.method, path, body)
    assert answer.status_code == 200, answer.text
    if operation.answer is str:
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert {"type": "City", "data": {"name": "ulm"}} in [
            {**line, "data": {"name": line["data"]["name"]}} for line in lines
        ]
        return
    assert find_misfits(answer.json(), operation.answer) == []


def test_a_field_that_is_missing_or_of_another_type_is_found() -> None:
    shape = OldOperation("GET", "x", {"a": int, "b": [{"c": str}]}).answer
    assert find_misfits({"a": 1, "b": [{"c": "x", "more": 1}]}, shape) == []
    assert find_misfits({"a": True, "b": [{"c": 1}, {}]}, shape) == [
        ".a is True",
        ".b[].c is 1",
        ".b[].c is missing",
    ]
    assert find_misfits({"b": []}, shape) == [".a is missing", ".b is no list, or has nothing to look at"]

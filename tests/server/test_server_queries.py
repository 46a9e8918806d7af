"""Stored queries: a folder of ``.gq`` files as a catalog, checked against every schema that is met."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from omnigraph.errors import ConfigError
from omnigraph.language.query import find_query
from omnigraph.server import Role, ServedGraph, ServerSettings, read_config
from omnigraph.server.config.queries import make_input_schema, read_query_folder
from tests.server.client import Client, open_client
from tests.server.conftest import LIMITS, SCHEMA

PEOPLE = """
query older_than($age: I32) @description("People above an age") @instruction("Use it for ages") {
  match { $p: Person  $p.age > $age } return { $p.name as name } order { $p.name }
}
query city_of($name: String) {
  match { $p: Person { name: $name }  $p livesIn $c } return { $c.name as city }
}
"""
WRITES = "query add_person($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"
WITH_NICK = SCHEMA.replace("age: I32?", "age: I32?  nick: String?")
WITHOUT_AGE = SCHEMA.replace("age: I32?  ", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "queries"
    path.mkdir()
    (path / "people.gq").write_text(PEOPLE)
    (path / "writes.gq").write_text(WRITES)
    (path / "notes.txt").write_text("no query")
    return path


@pytest.fixture
def following(
    folder: Path, graph_template: Path, tmp_path: Path, runner: asyncio.Runner
) -> Generator[Callable[[], Client]]:
    """Serve a graph of one test by a configuration that is followed."""
    assert folder == tmp_path / "queries"
    shutil.copytree(graph_template, tmp_path / "brain.og")
    config = tmp_path / "server.yaml"
    config.write_text(
        "version: 1\ngraphs: {brain: {uri: brain.og, queries: queries}}\nlimits: {read_wait_ms: 600000}\n"
    )
    clients: list[Client] = []

    def start() -> Client:
        clients.append(open_client(read_config(config, {}), runner, lambda: read_config(config, {})))
        return clients[-1]

    yield start
    for each in clients:
        each.close()


@pytest.fixture
def client(folder: Path, graph_template: Path, tmp_path: Path, runner: asyncio.Runner) -> Generator[Client]:
    shutil.copytree(graph_template, tmp_path / "brain.og")
    graph = ServedGraph("brain", str(tmp_path / "brain.og"), queries=read_query_folder(folder))
    found = open_client(ServerSettings((graph,), actor="act-test", limits=LIMITS), runner)
    yield found
    found.close()


def test_the_catalog_has_what_a_caller_needs(client: Client) -> None:
    add, city, older = client.ok("GET", "queries")["queries"]
    assert [each["name"] for each in (add, city, older)] == ["add_person", "city_of", "older_than"]
    assert (older["tool_name"], older["mutation"], older["file"]) == ("older_than", False, "people.gq")
    assert (older["description"], older["instruction"]) == ("People above an age", "Use it for ages")
    assert older["params"] == [{"name": "age", "kind": "int", "nullable": False}]
    assert older["columns"] == [{"name": "name", "kind": "string", "nullable": False}]
    assert older["reads"] == [{"kind": "node", "type_name": "Person"}]
    assert older["problems"] == []
    assert (add["mutation"], add["writes"]) == (True, [{"kind": "node", "type_name": "Person"}])
    one = client.ok("GET", "queries/city_of")
    assert one["source"].startswith("query city_of(")
    assert one["source"].endswith("}")
    assert {name: one[name] for name in city} == city


def test_queries_are_run_by_name_as_reads_or_writes(client: Client) -> None:
    found = client.ok("POST", "queries/older_than", {"params": {"age": 3}, "limit": 1})
    assert (found["query_name"], found["rows"]) == ("older_than", [{"name": "ann"}])
    assert found["next"] == {"at": found["commit"], "offset": 1}
    client.ok("POST", "branches", {"name": "review"})
    made = client.ok("POST", "queries/add_person", {"params": {"name": "zoe"}, "branch": "review", "message": "new"})
    assert (made["affected_nodes"], made["branch"], made["actor_id"]) == (1, "review", "act-test")
    assert client.ok("GET", f"commits/{made['commit']}")["message"] == "new"
    at_old = {"params": {"age": 3}, "snapshot": found["commit"]}
    assert client.ok("POST", "queries/older_than", at_old)["row_count"] == 2
    lines = client.post("queries/older_than", {"params": {"age": 3}}, Accept="text/csv")
    assert lines.text == "name\nann\nbob\n"


def test_what_is_wrong_with_a_call_is_said(client: Client) -> None:
    missing = client.fails(404, "POST", "queries/nothing")
    assert missing["error"] == "no stored query of this name"
    assert client.fails(400, "POST", "queries/older_than")["type"] == "parameter_error"
    wrong = client.fails(400, "POST", "queries/older_than", {"params": {"age": 1}, "expect_mutation": True})
    assert "reads" in wrong["error"]
    assert client.fails(400, "POST", "queries/add_person", {"params": {"name": "x"}, "at": "v1"})["hint"]


def test_who_may_not_write_does_not_see_queries_that_do(client: Client) -> None:
    reader = client.with_role(Role.READ)
    assert [each["name"] for each in reader.ok("GET", "queries")["queries"]] == ["city_of", "older_than"]
    hidden = reader.fails(404, "POST", "queries/add_person", {"params": {"name": "x"}})
    unknown = reader.fails(404, "POST", "queries/nothing", {"params": {"name": "x"}})
    assert {**hidden, "request_id": ""} == {**unknown, "request_id": ""}


def test_a_schema_that_breaks_a_query_is_refused_and_planned(client: Client) -> None:
    planned = client.ok("POST", "schema/plan", {"schema_source": WITHOUT_AGE, "allow_data_loss": True})
    assert planned["breaks"] == ["older_than", "add_person"]
    refused = client.fails(422, "POST", "schema/apply", {"schema_source": WITHOUT_AGE, "allow_data_loss": True})
    assert (refused["type"], refused["details"]["queries"]) == ("breaks_queries", ["older_than", "add_person"])
    assert refused["problems"][0]["position"]["file"] == "people.gq"
    assert client.ok("POST", "schema/apply", {"schema_source": WITH_NICK})["applied"]


def test_a_broken_query_is_listed_and_the_others_run(following: Callable[[], Client], folder: Path) -> None:
    client = following()
    before = client.ok("GET", "")["head"]["id"]
    (folder / "nick.gq").write_text("query nicks() { match { $p: Person } return { $p.nick as nick } }")
    client.hosting.reload()
    listed = {each["name"]: each["problems"] for each in client.ok("GET", "queries")["queries"]}
    assert [name for name, problems in listed.items() if problems] == ["nicks"]
    broken = client.fails(409, "POST", "queries/nicks")
    assert (broken["type"], broken["problems"][0]["code"]) == ("query_broken", "T6")
    assert client.ok("POST", "queries/older_than", {"params": {"age": 5}})["row_count"] == 1
    # It fits the next schema, and still not the state before it.
    assert client.ok("POST", "schema/apply", {"schema_source": WITH_NICK})["applied"]
    assert client.ok("POST", "queries/nicks")["row_count"] == 3
    assert client.fails(409, "POST", "queries/nicks", {"at": before})["type"] == "query_broken"


def test_edits_are_followed_and_bad_ones_kept_out(following: Callable[[], Client], folder: Path) -> None:
    client = following()
    graph = client.hosting.state.graphs["brain"].graph
    (folder / "people.gq").write_text(PEOPLE.replace("older_than", "above"))
    client.hosting.reload()
    assert [each["name"] for each in client.ok("GET", "queries")["queries"]] == ["above", "add_person", "city_of"]
    assert client.hosting.state.graphs["brain"].graph is graph
    (folder / "people.gq").write_text("query half( {")
    client.hosting.reload()
    assert client.ok("GET", "/readyz")["config_stale"] is True
    assert client.ok("POST", "queries/above", {"params": {"age": 5}})["row_count"] == 1


@pytest.mark.parametrize(
    ("files", "messages"),
    [
        ({"a.gq": WRITES, "b.gq": WRITES}, ["'add_person' is a query of a.gq too"]),
        ({"a.gq": WRITES.replace("add_person", "graph_add")}, ["'graph_add' begins with 'graph_'"]),
        ({"a.gq": "query", "b.gq": WRITES + WRITES}, ["expected", "'add_person' is a query of b.gq too"]),
    ],
)
def test_a_folder_that_is_no_catalog_is_refused_whole(
    tmp_path: Path, files: dict[str, str], messages: list[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_query_folder(tmp_path)
    for problem, message in zip(caught.value.problems, messages, strict=True):
        assert message in problem.message


VALUES: list[tuple[str, list[Any], list[Any]]] = [
    ("String", ["x"], [1, None]),
    ("String?", ["x", None], [1]),
    ("Bool", [True], ["true", 0]),
    ("I32", [-(2**31), 7], [2**31, "7", 1.5]),
    ("U32", [2**32 - 1], [-1, 2**32]),
    ("I64", [2**60, "-9223372036854775808"], ["x", 1.5]),
    ("U64", ["18446744073709551615"], ["-1"]),
    ("F64", [1, 1.5], ["1.5"]),
    ("Date", ["2024-05-01"], [20240501]),
    ("DateTime", ["2024-05-01T10:00:00Z"], [0]),
    ("Vector(2)", [[1, 2.5]], [[1], [1, 2, 3], ["a", "b"]]),
    ("[String]", [[], ["a"]], ["a", [1]]),
]


@pytest.mark.parametrize(("type_", "good", "bad"), VALUES, ids=[each[0] for each in VALUES])
def test_the_json_schema_of_a_parameter_takes_what_the_query_takes(type_: str, good: list[Any], bad: list[Any]) -> None:
    query = find_query(f"query q($x: {type_}) {{ match {{ $p: Person }} return {{ $p.name }} }}")
    schema = make_input_schema(query)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert all(validator.is_valid({"x": value}) for value in good)
    assert not any(validator.is_valid({"x": value}) for value in bad)
    assert not validator.is_valid({"x": good[0], "y": 1})
    assert validator.is_valid({}) == type_.endswith("?")

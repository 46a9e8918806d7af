"""MCP: the tools of an agent are requests of its token, over HTTP without a session."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

import omnigraph as og
from omnigraph.server import AgentSettings, Role, ServedGraph, ServerSettings
from omnigraph.server.config.queries import read_query_folder
from omnigraph.server.mcp.tools import TOOLS
from tests.server.client import Client, error_of, open_client
from tests.server.conftest import LIMITS, Serve

QUERIES = """
query older_than($age: I32) @description("People above an age") {
  match { $p: Person  $p.age > $age } return { $p.name as name, $p.big as big } order { $p.name }
}
query add_city($name: String) { insert City { name: $name } }
"""
ACCEPT = "application/json, text/event-stream"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { $p.name } }"
ADD = "query add($n: String) { insert City { name: $n } }"


def send(client: Client, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    answer = client.post("mcp", message, Accept=ACCEPT)
    assert answer.status_code == 200, answer.text
    return cast("dict[str, Any]", answer.json())


def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; its content fits the schema that it declares."""
    result = send(client, "tools/call", {"name": tool, "arguments": arguments})["result"]
    assert not result.get("isError"), result
    declared = {each["name"]: each for each in send(client, "tools/list")["result"]["tools"]}[tool]
    jsonschema.validate(arguments, declared["inputSchema"])
    jsonschema.validate(result["structuredContent"], declared["outputSchema"])
    return cast("dict[str, Any]", result)


def refuse(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = send(client, "tools/call", {"name": tool, "arguments": arguments})["result"]
    assert result["isError"] is True
    assert {"error", "type"} <= set(result["structuredContent"])
    assert result["structuredContent"]["error"] in result["content"][0]["text"]
    return cast("dict[str, Any]", result["structuredContent"])


def names(client: Client) -> set[str]:
    return {each["name"] for each in send(client, "tools/list")["result"]["tools"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries")
    (path / "all.gq").write_text(QUERIES)
    return path


@pytest.fixture(scope="module")
def serve(
    folder: Path, graph_template: Path, tmp_path_factory: pytest.TempPathFactory, runner: asyncio.Runner
) -> Generator[Serve]:
    place = tmp_path_factory.mktemp("agents") / "brain.og"
    shutil.copytree(graph_template, place)
    clients: list[Client] = []

    def start(agents: AgentSettings | None = None) -> Client:
        graph = ServedGraph("brain", str(place), queries=read_query_folder(folder))
        settings = ServerSettings((graph,), actor="act-agent", limits=LIMITS, agents=agents or AgentSettings())
        clients.append(open_client(settings, runner))
        return clients[-1]

    yield start
    for each in clients:
        each.close()


def test_an_agent_explores_proposes_on_a_branch_and_shows_the_difference(client: Client) -> None:
    opened = send(
        client,
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    )["result"]
    assert "Read the schema first" in opened["instructions"]
    assert "node Person" in call(client, "graph_schema")["content"][0]["text"]
    page = call(client, "graph_query", query=ALL, limit=2)
    assert page["content"][0]["text"].startswith("name\nann\nbob\n2 rows and there are more: next offset 2")
    assert call(client, "graph_query", query=ALL, offset=2)["structuredContent"]["rows"] == [{"name": "cid"}]
    stored = call(client, "older_than", params={"age": 3})["structuredContent"]
    assert stored["rows"][0] == {"name": "ann", "big": str(2**60)}
    entity = call(client, "graph_entity", type="Person", id="ann")["structuredContent"]
    assert {"edge": "Knows", "direction": "out", "count": 2} in entity["degrees"]
    assert len(call(client, "graph_neighbors", type="Person", id="ann")["structuredContent"]["edges"]) == 3
    past = call(client, "graph_history", type="Person", id="ann")["structuredContent"]["entries"]
    assert [each["op"] for each in past] == ["inserted"]
    call(client, "graph_branch_create", name="review/1")
    change = {"query": ADD, "params": {"n": "bonn"}, "branch": "review/1", "message": "asked for", "key": "k-1"}
    made = call(client, "graph_mutate", **change)
    again = call(client, "graph_mutate", **change)["structuredContent"]
    assert (again["commit"], again["replayed"]) == (made["structuredContent"]["commit"], True)
    assert made["structuredContent"]["actor_id"] == "act-agent"
    call(client, "add_city", params={"name": "trier"}, branch="review/1")
    call(client, "graph_load", data='{"type": "City", "data": {"name": "mainz"}}', branch="review/1")
    diff = call(client, "graph_diff", a="main", b="review/1")["structuredContent"]
    assert {each["id"] for each in diff["entities"]} == {"bonn", "trier", "mainz"}
    assert call(client, "graph_diff", a="review/1")["structuredContent"]["entities"] == diff["entities"]
    assert call(client, "graph_diff", a="review/1", tips=True)["structuredContent"]["entities"] == diff["entities"]
    assert call(client, "graph_merge_preview", source="review/1")["structuredContent"]["conflicts"] == []
    commits = call(client, "graph_commits", branch="review/1")["structuredContent"]["commits"]
    assert commits[2]["message"] == "asked for"
    call(client, "graph_revert", commit=made["structuredContent"]["commit"], branch="review/1")
    call(client, "graph_branch_create", name="review/2")
    call(client, "graph_merge", source="review/1", target="review/2")
    assert call(client, "graph_branches")["structuredContent"]["branches"] == ["main", "review/1", "review/2"]
    call(client, "graph_explain", query=ALL)
    assert call(client, "graph_lint", query="query q() { match { $p: Persn } return { $p.name } }")


def test_errors_are_answers_with_their_hints(client: Client) -> None:
    assert refuse(client, "graph_query", qury="x")["problems"][1]["hint"] == "did you mean 'query'?"
    assert refuse(client, "older_than", params={"age": "x"})["type"] == "parameter_error"
    assert refuse(client, "graph_query", query=ALL.replace("Person", "Persn"))["type"] == "query_error"
    unknown = send(client, "tools/call", {"name": "graph_nothing", "arguments": {}})
    assert unknown["error"] == {"code": -32602, "message": "unknown tool 'graph_nothing'"}


def test_agents_do_not_write_to_main_unless_they_may(client: Client, serve: Serve) -> None:
    assert refuse(client, "graph_mutate", query=ADD, params={"n": "x"}, branch="main")["type"] == "forbidden"
    assert refuse(client, "add_city", params={"name": "x"}, branch="main")["type"] == "forbidden"
    assert refuse(client, "graph_load", data="", branch="main")["type"] == "forbidden"
    assert refuse(client, "graph_merge", source="main", target="main")["type"] == "forbidden"
    assert refuse(client, "add_city", params={"name": "x"})["type"] == "parameter_error"
    call(serve(AgentSettings(write="any")), "graph_mutate", query=ADD, params={"n": "koeln"}, branch="main")


def test_tools_are_those_that_the_token_and_the_settings_allow(client: Client, serve: Serve) -> None:
    everything = names(client)
    assert {tool.name for tool in TOOLS} | {"older_than", "add_city"} == everything
    writing = {tool.name for tool in TOOLS if tool.writes} | {"add_city"}
    reader = client.with_role(Role.READ)
    assert names(reader) == everything - writing
    denied = send(reader, "tools/call", {"name": "graph_mutate", "arguments": {"query": ADD, "branch": "x"}})
    assert denied["error"]["message"] == "unknown tool 'graph_mutate'"
    assert names(serve(AgentSettings(write="off"))) == everything - writing
    stored_only = names(serve(AgentSettings(is_ad_hoc=False)))
    assert everything - stored_only == {"graph_query", "graph_explain", "graph_mutate", "graph_load"}


def test_annotations_say_what_a_tool_does(client: Client) -> None:
    for tool in send(client, "tools/list")["result"]["tools"]:
        hints = tool["annotations"]
        writes = tool["name"] in {each.name for each in TOOLS if each.writes} | {"add_city"}
        assert hints["readOnlyHint"] is not writes
        assert hints["destructiveHint"] is False or writes
        assert hints["idempotentHint"] is True or writes
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])


def test_resources_and_prompts(client: Client) -> None:
    uris = [each["uri"] for each in send(client, "resources/list")["result"]["resources"]]
    parts = ("schema", "queries", "branches", "guide/query-language")
    assert uris == [f"omnigraph://brain/{part}" for part in parts]
    for uri in uris:
        assert send(client, "resources/read", {"uri": uri})["result"]["contents"][0]["text"]
    assert "error" in send(client, "resources/read", {"uri": "omnigraph://brain/../secret"})
    prompts = send(client, "prompts/list")["result"]["prompts"]
    assert [each["name"] for each in prompts] == ["explore", "propose_change", "review_branch"]
    filled = send(client, "prompts/get", {"name": "explore", "arguments": {"topic": "ann"}})["result"]
    assert "about: ann" in filled["messages"][0]["content"]["text"]
    assert "topic" in send(client, "prompts/get", {"name": "explore"})["error"]["message"]


def test_the_route_is_a_post_of_a_caller_and_nothing_else(client: Client, serve: Serve) -> None:
    assert client.get("mcp", Accept=ACCEPT).status_code == 405
    assert client.send("DELETE", "mcp").status_code == 405
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    stranger = client.send("POST", "mcp", message, headers={"Authorization": "Bearer no", "Accept": ACCEPT})
    assert stranger.status_code == 401
    assert client.post("/graphs/nothing/mcp", message, Accept=ACCEPT).status_code == 404
    off = serve(AgentSettings(is_enabled=False)).post("mcp", message, Accept=ACCEPT)
    assert (off.status_code, error_of(off)["type"]) == (404, "not_found")


def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    text = files("omnigraph.server.mcp").joinpath("guide.md").read_text()
    schema = text.split("```pg\n")[1].partition("```")[0]
    read, write = (block.partition("```")[0] for block in text.split("```gq\n")[1:])
    graph = og.init(tmp_path / "g.og", schema.replace("phase: I32?", 'phase: I32?  note: String? @default("new")'))
    graph.load([{"type": "Compound", "data": {"name": "peltide"}}])
    graph.mutate(write, "add", {"code": "t1", "phase": 1})
    graph.mutate(write, "link", {"trial": "t1", "compound": "peltide"})
    graph.mutate(write, "set_phase", {"code": "t1", "phase": 3})
    assert graph.query(read, params={"name": "peltide"}).rows == [{"trial": "t1", "phase": 3}]

    def trial() -> tuple[object, object]:
        (row,) = graph.query("query q() { match { $t: Trial } return { $t.phase as p, $t.note as n } }").rows
        return row["p"], row["n"]

    inserted = trial()
    graph.mutate('query q() { update Trial set { note: "seen" } where code = "t1" }')
    assert trial() == (3, "seen"), "an update keeps the rest"
    graph.load([{"type": "Trial", "data": {"code": "t1", "phase": 4}}], mode="update")
    assert trial() == (4, "seen"), "so does a load with mode update"
    graph.load([{"type": "Trial", "data": {"code": "t1"}}], mode="merge")
    assert trial() == (None, inserted[1]), "a load with mode merge replaces the row"
    graph.mutate(write, "drop", {"code": "t1"})
    assert graph.query(read, params={"name": "peltide"}).rows == []

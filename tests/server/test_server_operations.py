"""Long work: operations that outlive their request, and requests that others cancel."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from omnigraph.deadlines import check_deadline
from omnigraph.graph import Graph
from omnigraph.server import Role
from omnigraph.server.operations import OperationStore
from tests.server.client import Client

ADD = "query add($n: String) { insert City { name: $n } }"


def wait_for(client: Client, operation_id: str) -> dict[str, Any]:
    """Ask for an operation until it has ended."""
    while True:
        found = client.ok("GET", f"operations/{operation_id}")["operation"]
        if found["state"] != "running":
            return dict(found)


@pytest.mark.parametrize(
    ("kind", "args"),
    [("index", {}), ("optimize", {"branch": "main"}), ("cleanup", {"keep": 5}), ("repair", {}), ("verify", {})],
)
def test_upkeep_is_an_operation(client: Client, kind: str, args: dict[str, Any]) -> None:
    started = client.post("operations", {"kind": kind, "args": args})
    assert started.status_code == 202, started.text
    begun = started.json()["operation"]
    assert (begun["kind"], begun["state"], begun["actor"]) == (kind, "running", "act-test")
    assert started.headers["location"] == f"/graphs/brain/operations/{begun['id']}"
    ended = wait_for(client, begun["id"])
    assert (ended["state"], ended["error"]) == ("succeeded", None)
    assert isinstance(ended["result"], dict)


def test_wrong_operations_are_refused(client: Client, reader: Client) -> None:
    assert client.fails(400, "POST", "operations", {"kind": "optimise"})
    wrong = client.fails(400, "POST", "operations", {"kind": "optimize", "args": {"brnch": "x"}})
    assert "did you mean 'branch'" in wrong["hint"]
    assert reader.fails(403, "POST", "operations", {"kind": "verify"})
    begun = client.post("operations", {"kind": "optimize", "args": {"branch": "nothing"}}).json()["operation"]
    failed = wait_for(client, begun["id"])
    assert (failed["state"], failed["error"]["type"]) == ("failed", "not_found")
    assert reader.fails(404, "GET", f"operations/{begun['id']}")
    assert reader.ok("GET", "operations")["operations"] == []
    assert client.fails(404, "GET", "operations/..%2Fsecret")


def test_a_write_goes_on_after_its_answer(client: Client) -> None:
    body = {"query": ADD, "params": {"n": "later"}}
    accepted = client.post("mutate", body, Prefer="respond-async")
    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "respond-async")
    ended = wait_for(client, accepted.json()["operation"]["id"])
    assert (ended["state"], ended["result"]["affected_nodes"]) == ("succeeded", 1)
    assert ended["commit"] == client.ok("GET", "")["head"]["id"]
    waited = client.post("mutate", {"query": ADD, "params": {"n": "soon"}}, Prefer="wait=600")
    assert (waited.status_code, waited.json()["affected_nodes"]) == (200, 1)
    wrong = client.post("mutate", {"query": ADD, "params": {"m": 1}}, Prefer="respond-async").json()["operation"]
    assert wait_for(client, wrong["id"])["error"]["type"] == "parameter_error"


def test_an_operation_whose_process_died_is_found_in_the_graph(client: Client) -> None:
    key = "k-lost"
    made = client.post("mutate", {"query": ADD, "params": {"n": "lost"}}, Idempotency_Key=key).json()["commit"]
    store = client.hosting.operations
    program = (
        "import os, sys; from pathlib import Path; from omnigraph.server.operations import OperationStore\n"
        "store = OperationStore(Path(sys.argv[1]))\n"
        "for key in (sys.argv[2], None): print(store.begin('brain', 'mutate', 'act-test', 'main', key).operation.id)\n"
        "sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, str(store._folder.parent), key]
    ids = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    landed, gone = (client.ok("GET", f"operations/{each}")["operation"] for each in ids)
    assert (landed["state"], landed["commit"]) == ("succeeded", made)
    assert (gone["state"], gone["commit"]) == ("lost", None)


def test_requests_are_listed_and_cancelled(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    began = asyncio.Event()
    loop = client.runner.get_loop()

    def wait_for_ever(_graph: Graph, *_args: object, **_more: object) -> None:
        loop.call_soon_threadsafe(began.set)
        while True:
            check_deadline()

    monkeypatch.setattr(Graph, "query", wait_for_ever)
    owner = {"Authorization": f"Bearer {client.token}"}
    stranger = {"Authorization": f"Bearer {client.with_role(Role.READ).token}"}

    async def ask_and_cancel() -> tuple[httpx.Response, dict[str, Any], httpx.Response]:
        path = "/graphs/brain/query"
        asked = asyncio.create_task(
            client.http.post(path, json={"query": "query q() {}"}, headers={**owner, "X-Request-Id": "slow-1"})
        )
        await began.wait()
        others = (await client.http.get("/graphs/brain/requests", headers=stranger)).json()["requests"]
        assert [each["request_id"] for each in others if each["request_id"] == "slow-1"] == []
        assert (await client.http.delete("/graphs/brain/requests/slow-1", headers=stranger)).status_code == 404
        listed = (await client.http.get("/graphs/brain/requests", headers=owner)).json()
        cancelled = await client.http.delete("/graphs/brain/requests/slow-1", headers=owner)
        return await asked, listed, cancelled

    asked, listed, cancelled = client.runner.run(ask_and_cancel())
    found = next(each for each in listed["requests"] if each["request_id"] == "slow-1")
    assert (found["actor"], found["route"]) == ("act-test", "/graphs/{graph_id}/query")
    assert cancelled.status_code == 202
    assert asked.json()["type"] == "cancelled"


def test_a_cancel_reaches_another_process_through_the_state(tmp_path: Path) -> None:
    mine, other = OperationStore(tmp_path), OperationStore(tmp_path)
    running = mine.begin("brain", "load", "act-test")
    other.request_cancel(running.operation.id)
    assert mine.take_cancels(["unknown", running.operation.id]) == [running.operation.id]
    assert mine.take_cancels([running.operation.id]) == []
    running.end("cancelled")
    assert [each.state for each in other.list_operations("brain")] == ["cancelled"]
    assert (tmp_path / "operations").stat().st_mode & 0o777 == 0o700


def test_recoveries_are_listed(client: Client, reader: Client) -> None:
    assert client.ok("GET", "recoveries")["recoveries"] == []
    assert reader.fails(403, "GET", "recoveries")

"""A write that is sent again with its key, or its ``txn``, is answered with the commit that it made."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from omnigraph.server import Role
from omnigraph.server.routes import ROUTES
from tests.selection import daily
from tests.server.client import Client, error_of
from tests.server.conftest import SCHEMA

ADD = "query add($name: String) { insert Person { name: $name } }"


@pytest.fixture
def branch(client: Client, request: pytest.FixtureRequest) -> str:
    name = f"t/{request.node.name.partition('[')[0]}-{abs(hash(request.node.name)) % 10_000}"
    client.ok("POST", "branches", {"name": name, "from": "main"})
    return name


def body_of(route: str, branch: str, head: str) -> dict[str, object]:
    """A request to each route that makes a commit."""
    bodies: dict[str, dict[str, object]] = {
        "mutate": {"query": ADD, "params": {"name": "eve"}, "branch": branch},
        "transaction": {"steps": [{"query": ADD, "params": {"name": "eve"}}], "branch": branch},
        "load": {"data": '{"type": "City", "data": {"name": "bonn"}}', "mode": "append", "branch": branch},
        "merges": {"source": branch, "target": "main"},
        "reverts": {"commit": head, "branch": branch},
        "schema/apply": {"schema_source": SCHEMA.replace("age: I32?", "age: I32?  nick: String?")},
    }
    return bodies[route]


def send_with_key(client: Client, route: str, body: dict[str, object], key: str = "k-1") -> httpx.Response:
    return client.send("POST", route, body, headers={"Idempotency-Key": key})


@pytest.mark.parametrize(
    "route",
    daily(
        ("mutate", "transaction", "load", "merges", "reverts", "schema/apply"),
        ("mutate", "transaction", "merges", "schema/apply"),
    ),
)
def test_a_repeated_key_gives_the_one_commit(client: Client, branch: str, route: str) -> None:
    head = client.ok("POST", "mutate", {"query": ADD, "params": {"name": f"x-{route}"}, "branch": branch})["commit"]
    body = body_of(route, branch, head)
    first, again = (send_with_key(client, route, body, f"k-{route}").json() for _ in range(2))
    assert (first["replayed"], again["replayed"]) == (False, True), (first, again)
    assert first["commit"] is not None
    assert again["commit"] == first["commit"]
    for count in ("affected_nodes", "affected_edges"):
        assert again.get(count) == first.get(count)
    target = "main" if route in ("merges", "schema/apply") else branch
    found = client.ok("GET", f"commits?branch={target}&key=k-{route}")
    assert [commit["id"] for commit in found["commits"]] == [first["commit"]]


def test_a_key_of_another_request_is_refused_and_changes_nothing(client: Client, branch: str) -> None:
    body = body_of("mutate", branch, "")
    first = send_with_key(client, "mutate", body).json()
    other = send_with_key(client, "mutate", {**body, "params": {"name": "dan"}})
    error = error_of(other)
    assert (other.status_code, error["code"], error["type"]) == (409, "conflict", "key_reused")
    assert error["details"] == {"commit_id": first["commit"]}
    assert client.ok("GET", f"branches/{branch}")["head"] == first["commit"]


def test_a_key_belongs_to_the_actor_of_the_token(client: Client, branch: str) -> None:
    send_with_key(client, "mutate", body_of("mutate", branch, ""))
    other = client.with_role(Role.WRITE, "act-ines")
    assert other.ok("GET", f"commits?branch={branch}&key=k-1")["commits"] == []
    assert not send_with_key(other, "mutate", {**body_of("mutate", branch, ""), "params": {"name": "f"}}).json()[
        "replayed"
    ]


def test_a_txn_is_applied_once(client: Client, branch: str) -> None:
    body: dict[str, Any] = {**body_of("mutate", branch, ""), "txn": "nightly:7"}
    first, again = (client.ok("POST", "mutate", body) for _ in range(2))
    assert (again["commit"], again["replayed"]) == (first["commit"], True)
    found = client.ok("GET", f"commits?branch={branch}&txn=nightly:7")["commits"]
    assert [(commit["id"], commit["txn"]) for commit in found] == [(first["commit"], "nightly:7")]
    assert client.ok("GET", f"commits?branch={branch}&txn=nightly:8")["commits"] == []


@pytest.mark.parametrize("key", ["", "a b", "x" * 201])
def test_a_wrong_key_is_refused(client: Client, branch: str, key: str) -> None:
    refused = send_with_key(client, "mutate", body_of("mutate", branch, ""), key)
    assert (refused.status_code, error_of(refused)["type"]) == (400, "parameter_error")


WITHOUT_COMMIT = [
    ("POST", "branches", {"name": "t/once", "from": "main"}),
    ("POST", "tags", {"name": "t/mark", "ref": "main"}),
    ("DELETE", "tags/t/mark", None),
    ("DELETE", "branches/t/once", None),
    ("POST", "settings", {"keep": "30d"}),
    ("POST", "operations", {"kind": "verify"}),
]


def test_writes_without_a_commit_answer_a_repeated_key_as_the_first_time(client: Client) -> None:
    for number, (method, path, body) in enumerate(WITHOUT_COMMIT):
        headers = {"Idempotency-Key": f"n-{number}"}
        first, again = (client.send(method, path, body, headers=headers) for _ in range(2))
        assert first.status_code in (200, 202), first.text
        assert again.status_code == first.status_code
        assert first.headers.get("location") == again.headers.get("location")
        told, repeated = first.json(), again.json()
        assert (told.pop("replayed"), repeated.pop("replayed")) == (False, True)
        assert told.pop("request_id") != repeated.pop("request_id")
        assert told == repeated
    while any(each["state"] == "running" for each in client.ok("GET", "operations")["operations"]):
        pass
    # Without the key it is a second attempt.
    client.fails(404, "DELETE", "branches/t/once")
    # Another request with the key is refused; the key of another actor is another key.
    other = client.send("POST", "branches", {"name": "t/twice"}, headers={"Idempotency-Key": "n-0"})
    assert (other.status_code, error_of(other)["type"]) == (409, "key_reused")
    assert "t/twice" not in client.ok("GET", "branches")["branches"]
    stranger = client.with_role(Role.WRITE, "act-ines")
    made = stranger.send("POST", "branches", {"name": "t/once"}, headers={"Idempotency-Key": "n-0"})
    assert (made.status_code, made.json()["replayed"]) == (200, False)


def test_every_route_that_changes_a_graph_takes_a_key() -> None:
    changing = [each for each in ROUTES if each.kind == "write"]
    assert all(each.keeps_key or each.keeps_answer for each in changing)
    assert not any(each.keeps_key and each.keeps_answer for each in ROUTES)


def test_a_failed_write_is_not_remembered(client: Client) -> None:
    headers = {"Idempotency-Key": "n-failed"}
    body = {"name": "t/late", "from": "t/none-yet"}
    assert client.send("POST", "branches", body, headers=headers).status_code == 404
    client.ok("POST", "branches", {"name": "t/none-yet"})
    assert client.send("POST", "branches", body, headers=headers).json()["replayed"] is False


def test_a_route_that_only_reads_takes_no_key(client: Client) -> None:
    refused = send_with_key(client, "explain", {"query": "query q() { match { $c: City } return { $c.name } }"})
    assert refused.status_code == 400


def test_uploads_with_one_key_are_told_apart_by_their_content(client: Client, branch: str) -> None:
    def upload(name: str) -> httpx.Response:
        line = f'{{"type": "City", "data": {{"name": "{name}"}}}}\n'.encode()
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "k-up"}
        return client.send("POST", f"load?branch={branch}&mode=append", headers=headers, content=line)

    first, again, other = upload("bonn"), upload("bonn"), upload("kiel")
    assert (first.json()["replayed"], again.json()["replayed"]) == (False, True)
    assert (other.status_code, error_of(other)["type"]) == (409, "key_reused")

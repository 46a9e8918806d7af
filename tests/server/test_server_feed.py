"""Following changes, and reading blobs: what comes in pieces."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import MutableMapping
from typing import Any

import httpx
import orjson
import pytest

from omnigraph.server import build_app
from tests.server.client import Client, error_of
from tests.server.conftest import Serve

ADD = "query add($n: String) { insert City { name: $n } }"
HTML = b"<script>alert(1)</script>" * 100


def add(client: Client, name: str) -> str:
    return str(client.ok("POST", "mutate", {"query": ADD, "params": {"n": name}})["commit"])


def test_pages_of_commits_from_a_cursor(client: Client) -> None:
    start = client.ok("GET", "changes?start=now")
    assert (start["blocks"], start["at_end"]) == ([], True)
    commits = [add(client, name) for name in ("aachen", "bonn", "celle")]
    first = client.ok("GET", f"changes?cursor={start['cursor']}&limit=2")
    assert [each["commit"]["id"] for each in first["blocks"]] == commits[:2]
    assert first["blocks"][0]["changes"][0]["id"] == "aachen"
    assert first["at_end"] is False
    rest = client.ok("GET", f"changes?cursor={first['cursor']}&wait_ms=30000")
    assert [each["commit"]["id"] for each in rest["blocks"]] == commits[2:]
    assert rest["at_end"] is True
    only = client.ok("GET", "changes?start=beginning&type=Person")
    assert {each["type"] for block in only["blocks"] for each in block["changes"]} == {"Person"}
    assert client.fails(400, "GET", "changes?cursor=wrong")["type"]


def test_a_wait_ends_with_the_first_commit(client: Client) -> None:
    cursor = client.ok("GET", "changes?start=now")["cursor"]

    async def wait_and_write() -> tuple[httpx.Response, httpx.Response]:
        headers = {"Authorization": f"Bearer {client.token}"}
        waiting = asyncio.create_task(
            client.http.get(f"/graphs/brain/changes?cursor={cursor}&wait_ms=30000", headers=headers)
        )
        body = {"query": ADD, "params": {"n": "dueren"}}
        written = await client.http.post("/graphs/brain/mutate", json=body, headers=headers)
        return await waiting, written

    found, written = client.runner.run(wait_and_write())
    assert [each["commit"]["id"] for each in found.json()["blocks"]] == [written.json()["commit"]]


def test_events_go_on_until_the_server_drains(serve: Serve) -> None:
    client = serve()
    before = client.ok("GET", "changes?start=now")["cursor"]
    commit = add(client, "essen")
    headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {client.token}", "Last-Event-ID": before}
    headers["Accept"] = "text/event-stream"
    request = client.http.build_request("GET", "/graphs/brain/changes", headers=headers)
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        # The client stays.
        return await asyncio.Future[MutableMapping[str, Any]]()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)
        if b"event: block" in message.get("body", b""):
            client.hosting.is_draining = True

    scope = {
        "type": "http",
        "method": "GET",
        "path": request.url.path,
        "query_string": b"",
        "headers": [(name.lower(), each) for name, each in request.headers.raw],
        "client": ("127.0.0.1", 1),
    }

    async def follow() -> None:
        await build_app(client.hosting)(scope, receive, send)

    client.runner.run(follow())
    text = b"".join(message.get("body", b"") for message in sent).decode()
    events = [part for part in text.split("\n\n") if part.startswith("event:")]
    assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
    block, bye = events
    name, cursor, data = block.split("\n")
    assert (name, orjson.loads(data[6:])["commit"]["id"]) == ("event: block", commit)
    assert bye.startswith("event: bye\n" + cursor)


def test_a_baseline_ends_with_the_cursor_after_it(client: Client) -> None:
    lines = [orjson.loads(line) for line in client.get("changes/baseline?type=Person").text.splitlines()]
    assert {line["op"] for line in lines[:-1]} == {"inserted"}
    assert len(lines) == 4
    end = lines[-1]["end"]
    assert end["commit"] == client.ok("GET", "")["head"]["id"]
    assert client.ok("GET", f"changes?type=Person&cursor={end['cursor']}")["at_end"] is True


@pytest.fixture(scope="module")
def blob(client: Client) -> str:
    data = {"name": "pic", "photo": "base64:" + base64.b64encode(HTML).decode()}
    client.ok("POST", "load", {"data": orjson.dumps({"type": "Person", "data": data}).decode()})
    return "blob?type=Person&id=pic&property=photo"


def test_a_blob_is_bytes_to_save(client: Client, blob: str) -> None:
    whole = client.get(blob)
    assert (whole.status_code, whole.content) == (200, HTML)
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"] == "attachment"
    assert whole.headers["content-security-policy"] == "sandbox"
    assert whole.headers["x-content-type-options"] == "nosniff"
    etag = whole.headers["etag"]
    assert client.get(blob, If_None_Match=etag).status_code == 304
    assert client.get(blob, If_Match='"other"').status_code == 412
    assert client.get(blob, If_Match=etag).status_code == 200


def test_one_range_of_a_blob(client: Client, blob: str) -> None:
    part = client.get(blob, Range="bytes=5-9")
    assert (part.status_code, part.content) == (206, HTML[5:10])
    assert part.headers["content-range"] == "bytes 5-9/*"
    assert client.get(blob, Range="bytes=2490-").content == HTML[2490:]
    assert client.get(blob, Range="bytes=5-9", If_Range='"other"').status_code == 200
    beyond = client.get(blob, Range="bytes=999999-")
    assert (beyond.status_code, error_of(beyond)["type"]) == (416, "range_not_satisfiable")
    assert client.get(blob, Range="bytes=0-1,4-5").status_code == 200
    assert client.fails(404, "GET", "blob?type=Person&id=ann&property=photo")["error"].endswith("is null")

"""What a server keeps of requests: a line for each, without any secret, and counts for Prometheus."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, cast

import pytest

from omnigraph.server import Role
from tests.server.client import Client
from tests.server.conftest import Serve

ONE = "query one($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", json.loads(line)) for line in path.read_text().splitlines()]


def test_every_request_has_a_line_and_no_line_has_a_secret(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    client = serve(audit=path)
    reader = client.with_role(Role.READ, "act-bob")
    commit = client.ok("POST", "query", {"query": ONE, "params": {"n": "hidden-value"}})["commit"]
    reader.fails(403, "POST", "mutate", {"query": ONE, "branch": "main"})
    client.send("GET", "snapshot", headers={"Authorization": "Bearer og_guess"})
    client.get("/no/such/path")
    client.post("export", {"branch": "main"})
    lines = read_lines(path)
    shown = [(each["actor"], each["route"], each["action"], each["decision"], each["status"]) for each in lines]
    graph = "/graphs/{graph_id}"
    assert shown == [
        ("act-test", f"{graph}/query", "read", "allowed", 200),
        ("act-bob", f"{graph}/mutate", "change", "denied", 403),
        (None, None, None, "unauthorized", 401),
        ("act-test", None, None, None, 404),
        ("act-test", f"{graph}/export", "export", "allowed", 200),
    ]
    assert (lines[0]["graph"], lines[0]["commit"], lines[0]["rows"], lines[0]["method"]) == ("brain", commit, 0, "POST")
    assert lines[4]["branch"] == "main"
    assert all(each["ms"] >= 0 and each["request_id"] and each["time"].endswith("Z") for each in lines)
    text = path.read_text()
    for secret in (str(client.token), str(reader.token), "og_guess", "hidden-value", "match", "secret-place"):
        assert secret not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_rotated_away_is_made_anew(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    client = serve(audit=path)
    client.ok("GET", "/whoami")
    path.rename(tmp_path / "old.jsonl")
    client.ok("GET", "/whoami")
    assert len(read_lines(path)) == 1


def test_without_a_file_the_lines_are_in_the_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "omnigraph.audit"):
        client.ok("GET", "/whoami")
    assert json.loads(caplog.messages[-1])["route"] == "/whoami"


def test_the_counts_are_for_administrators(serve: Serve) -> None:
    client = serve()
    client.ok("GET", "rows?type=City")
    client.ok("GET", "rows?type=City")
    client.get("rows?type=Nothing")
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    route = 'route="/graphs/{graph_id}/rows"'
    assert f'omnigraph_requests_total{{method="GET",{route},status="200"}} 2.0' in answer.text
    assert f'omnigraph_requests_total{{method="GET",{route},status="404"}} 1.0' in answer.text
    assert "omnigraph_requests_under_way 1.0" in answer.text
    assert f'omnigraph_request_seconds_count{{method="GET",{route}}} 3.0' in answer.text
    client.with_role(Role.WRITE).fails(403, "GET", "/metrics")

"""Random requests, made from the description of the routes: no 500, and every error has the body of all errors.

The graph supplies names that exist, so that requests get past the look-up; the rest is what schemathesis makes up.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from omnigraph.server import Role, create_token
from tests.selection import sized
from tests.server.described_routes import describe
from tests.server.live import LiveServer, start_server

schemathesis = pytest.importorskip("schemathesis", reason="it comes with the extra dev")

pytestmark = pytest.mark.costly

KNOWN: dict[str, list[str]] = {
    "graph_id": ["brain", "default"],
    "branch": ["main", "review/june"],
    "type": ["Person", "City", "Knows", "Nobody"],
    "entity": ["node", "edge"],
    "id": ["ann", "bob", "nobody"],
    "property": ["photo", "name"],
    "name": ["main", "review/june"],
    "at": ["main", "v1", "2030-01-01T00:00:00Z"],
    "query": ["query q() { match { $p: Person } return { $p } }", "query q() { insert City { name: 'x' } }"],
    "data": ['{"type": "City", "data": {"name": "aachen"}}', "{"],
}
CONFIG = """
version: 1
bind: 127.0.0.1:0
tokens: tokens.json
limits: {{failed_logins: 1000000, read_seconds: 20, write_seconds: 20, subscribers: 1000}}
graphs: {{brain: {{uri: {graph}}}}}
"""


def seed(value: Any) -> Any:
    """Give the parameters and fields that have known names values that exist, beside those that are made up."""
    if isinstance(value, list):
        return [seed(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found = {name: seed(each) for name, each in cast("dict[str, Any]", value).items()}
    if str(found.get("name")) in KNOWN and "schema" in found:
        found["schema"] = _choose(found["name"], found["schema"])
    properties = found.get("properties")
    if isinstance(properties, dict):
        for name, each in list(cast("dict[str, Any]", properties).items()):
            if name in KNOWN and isinstance(each, dict):
                properties[name] = _choose(name, cast("dict[str, Any]", each))
    # A stream that waits for changes has no end, and a wait takes as long as it says.
    if found.get("name") == "wait_ms":
        found["schema"] = {"enum": [0, 1]}
    return found


def _choose(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    if name == "graph_id":
        return {"enum": KNOWN[name]}
    return {"anyOf": [{"enum": KNOWN[name]}, schema]}


def list_operations() -> list[Any]:
    described = seed(copy.deepcopy(describe()))
    schema = schemathesis.openapi.from_dict(described)
    return [each.ok() for each in schema.get_all_operations()]


@pytest.fixture(scope="module")
def server(graph_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveServer]:
    folder = tmp_path_factory.mktemp("fuzz")
    shutil.copytree(graph_path, folder / "brain.og")
    _, text = create_token(folder / "tokens.json", "act-fuzz", Role.ADMIN, None, None)
    (folder / "server.yaml").write_text(CONFIG.format(graph=folder / "brain.og"))
    with start_server("--config", str(folder / "server.yaml")) as server:
        assert server.url
        server.lines.append(f"export OMNIGRAPH_TOKEN={text}")
        yield server


@pytest.fixture(scope="module")
def http(server: LiveServer) -> Generator[httpx.Client]:
    with server.client() as http:
        http.post("/graphs/brain/branches", json={"name": "review/june"})
        yield http


@pytest.mark.parametrize("operation", list_operations(), ids=lambda each: f"{each.method} {each.path}")
def test_no_request_is_too_much(operation: Any, http: httpx.Client, server: LiveServer) -> None:
    @settings(
        max_examples=sized(5, 200),
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(case=cast("st.SearchStrategy[Any]", operation.as_strategy()))
    def send(case: Any) -> None:
        sent = case.as_transport_kwargs(base_url=server.url)
        headers = {**dict(sent.get("headers") or {}), "Authorization": http.headers["Authorization"]}
        try:
            request = httpx.Request(
                sent["method"],
                sent["url"],
                params=sent.get("params"),
                headers=headers,
                json=sent.get("json"),
                content=sent.get("data"),
                cookies=None,
            )
        except (httpx.InvalidURL, UnicodeEncodeError, TypeError, ValueError):
            return
        try:
            answer = http.send(request)
        except httpx.LocalProtocolError:
            # A header that no client can send.
            return
        check_answer(answer)

    send()


def check_answer(answer: httpx.Response) -> None:
    """No answer is a defect of the server, and every error has the body of all errors."""
    assert answer.status_code < 500 or answer.status_code in (503, 504), f"{answer.request.url}: {answer.text}"
    assert answer.headers["x-content-type-options"] == "nosniff"
    # The errors of MCP are those of JSON-RPC.
    if answer.status_code >= 400 and not answer.request.url.path.endswith("/mcp"):
        assert {"error", "code", "type", "request_id"} <= set(answer.json()), answer.text
    if answer.status_code == 405:
        assert answer.headers["allow"]
    assert "secret-place" not in answer.text

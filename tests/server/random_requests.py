"""Random requests, made by schemathesis from the description of the routes, with names that exist among the others."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import httpx
import orjson
import pytest

from tests.server.described_routes import FILE, describe

schemathesis = pytest.importorskip("schemathesis", reason="it comes with the extra dev")

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


def list_names() -> list[str]:
    """The operations by name. The description that is kept tells them without a server: every worker collects them."""
    paths: dict[str, dict[str, object]] = orjson.loads(FILE.read_bytes())["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


@cache
def find_operations() -> dict[str, Any]:
    """The operations that a server describes, by name."""
    described = seed(copy.deepcopy(describe()))
    schema = schemathesis.openapi.from_dict(described)
    operations = [each.ok() for each in schema.get_all_operations()]
    return {f"{each.method.upper()} {each.path}": each for each in operations}


def make_request(case: Any, url: str, headers: Mapping[str, str]) -> httpx.Request | None:
    """The request of a case; None for one that no client can send."""
    sent = case.as_transport_kwargs(base_url=url)
    try:
        return httpx.Request(
            sent["method"],
            sent["url"],
            params=sent.get("params"),
            headers={**dict(sent.get("headers") or {}), **headers},
            json=sent.get("json"),
            content=sent.get("data"),
            cookies=None,
        )
    except (httpx.InvalidURL, UnicodeEncodeError, TypeError, ValueError):
        return None


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

"""What a one-row commit asks of an object store, request by request: the same however long the history is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.storage.location import Location, locate
from omnigraph.storage.locks import LockSettings
from tests.graphs import rows_of
from tests.manifest.test_s3_costs import copy
from tests.s3 import S3Server
from tests.s3_proxy import Proxy, Request
from tests.selection import daily

SCHEMA: Final = "node Person { name: String @key }\nnode City { name: String @key }"
ADD: Final = "query add($name: String) { insert Person { name: $name } }"

OF_THE_TABLE: Final = ["LIST table", "PUT table transaction", "PUT table version"]
OF_THE_MANIFEST: Final = [
    "PUT manifest rows",
    "PUT manifest deletions",
    "LIST manifest",
    "PUT manifest transaction",
    "PUT manifest version",
]
ONE_ROW: Final = [
    "GET table rows",  # is the key free? The rows that the last commit wrote
    "PUT table rows",
    "PUT lease",
    "LIST table",  # has anybody changed it without us?
    "PUT sidecar",
    *OF_THE_TABLE,
    *OF_THE_MANIFEST,
    "DELETE sidecar",
    "PUT lease",
]
ON_A_BRANCH: Final = [*ONE_ROW[:3], "LIST manifest", *ONE_ROW[3:]]  # has the schema of main changed?
_KINDS: Final = (
    (r"__locks/", "lease"),
    (r"__recovery", "sidecar"),
    (r"/_transactions/", "transaction"),
    (r"/_versions/.+", "version"),
    (r"/_deletions/", "deletions"),
    (r"/_refs/", "ref"),
    (r"/data/", "rows"),
)


def describe(request: Request) -> str:
    """A request in words: the method, and which file of what it is about."""
    if request.method == "POST":
        return "DELETE sidecar"
    path = request.prefix or request.target
    if "__recovery" in request.prefix:
        return "LIST sidecars"
    owner = "" if "__locks" in path or "__recovery" in path else "manifest " if "__manifest" in path else "table "
    kind = next((kind for pattern, kind in _KINDS if re.search(pattern, path) and not request.prefix), "")
    return f"{'LIST' if request.prefix else request.method} {owner}{kind}".strip()


def requests_of(proxy: Proxy, graph: Graph, name: str, branch: str = "main") -> list[str]:
    with proxy.counting() as seen:
        graph.mutate(ADD, params={"name": name}, branch=branch)
    return [describe(each) for each in seen]


@pytest.fixture
def no_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_UPKEEP", "off")


@pytest.fixture
def proxied(s3_location: Location, s3_proxy: Proxy) -> Location:
    return locate(s3_location.uri, S3Server(s3_proxy.endpoint).options)


def open_graph(location: Location) -> Graph:
    """Open a graph whose leases are not renewed during a commit, however busy the machine is."""
    graph = omnigraph.open(location.uri, storage_options=dict(location.storage_options))
    graph._manifest.locks = LockSettings(ttl=3600.0)
    return graph


@pytest.mark.usefixtures("no_upkeep")
@pytest.mark.parametrize("commits", daily([5, 50, 200], [5]))
def test_a_one_row_commit_makes_fifteen_requests_at_any_age(
    tmp_path: Path, proxied: Location, s3_location: Location, s3_proxy: Proxy, commits: int
) -> None:
    local = omnigraph.init(str(tmp_path / "g"), SCHEMA)
    for number in range(commits):
        local.mutate(ADD, params={"name": f"p{number}"})
    copy(locate(local.uri), s3_location)
    graph = open_graph(proxied)
    for number in range(3):
        graph.mutate(ADD, params={"name": f"warm {number}"})
    assert requests_of(s3_proxy, graph, "one more") == ONE_ROW
    assert len(ONE_ROW) == 15


@pytest.mark.usefixtures("no_upkeep")
def test_a_commit_on_a_branch_also_looks_at_the_schema_of_main(proxied: Location, s3_proxy: Proxy) -> None:
    omnigraph.init(proxied.uri, SCHEMA, storage_options=dict(proxied.storage_options)).create_branch("dev")
    graph = open_graph(proxied)
    for name in ("ann", "bob"):
        graph.mutate(ADD, params={"name": name}, branch="dev")
    assert requests_of(s3_proxy, graph, "cleo", "dev") == ON_A_BRANCH
    other = open_graph(proxied)
    other.mutate(ADD, params={"name": "dora"}, branch="dev")
    graph.mutate(ADD, params={"name": "eve"}, branch="dev")
    names = sorted(str(row["name"]) for row in rows_of(graph, "Person", "dev"))
    assert names == ["ann", "bob", "cleo", "dora", "eve"]

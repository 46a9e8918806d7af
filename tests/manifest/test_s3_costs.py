"""What a commit and a read ask of an object store, in requests: the same however long the history is.

A publish reads every fragment of the manifest, and adds one; the manifest compacts itself when there are fifty. So
the number of requests rises and falls in a cycle of 49 commits, and it is compared at the same place in the cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import pytest
from ulid import ULID

import omnigraph
from omnigraph.graph import Graph, Mode
from omnigraph.manifest.handle import COMPACT_AT_FRAGMENTS
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.storage.location import Location, locate
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.objects import Objects
from tests.manifest.publishing import commit_rows, make_graph, manifest_of
from tests.s3 import S3Server
from tests.s3_proxy import Proxy
from tests.selection import sized

CYCLE = COMPACT_AT_FRAGMENTS - 1
YOUNG, OLD = 10, 10 + sized(1, 4) * CYCLE

Costs: TypeAlias = dict[str, Counter[str]]


def grow(graph: Graph, commits: int) -> None:
    """Make the history as long as that."""
    for number in range(len(graph.commits()), commits):
        commit_rows(graph, {"Person": [f"p{number}"]})


def copy(source: Location, target: Location) -> None:
    """Copy a graph, object by object."""
    objects, copies = Objects(source), Objects(target)

    def put(path: str) -> None:
        copies.put(path, objects.get(path) or b"")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, [info.path for info in objects.list() if not info.path.startswith("__locks/")]))


def publish_nothing(graph: Graph) -> None:
    """The cheapest commit there is: no table, one new fragment of the manifest."""
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, "main", manifest.locks) as held:
        publish(manifest, held, "main", PublishRequest(CommitIntent(str(ULID()), None)))


def costs(proxy: Proxy, location: Location) -> Costs:
    """The requests of one commit and of the reads around it."""

    def opened(mode: Mode = "ro") -> Graph:
        return omnigraph.open(location.uri, mode, storage_options=S3Server(proxy.endpoint).options)

    def requests(work: Callable[[], object]) -> Counter[str]:
        with proxy.counting() as seen:
            work()
        return Counter(request.method for request in seen)

    graph, reader = opened("rw"), opened()
    commit_rows(graph, {"Person": ["the first commit of a handle fills its caches"]})
    reader.snapshot()
    return {
        "snapshot, nothing new": requests(reader.snapshot),
        "read a table of it": requests(lambda: reader.snapshot().table("City").count_rows()),
        "commit to one table": requests(lambda: commit_rows(graph, {"Person": ["x"]})),
        "snapshot, one new commit": requests(reader.snapshot),
        "publish alone": requests(lambda: publish_nothing(graph)),
        "open and snapshot": requests(lambda: opened().snapshot()),
    }


@pytest.mark.slow
def test_requests_do_not_grow_with_history(
    local_location: Location,
    s3_location: Location,
    s3_server: S3Server,
    s3_proxy: Proxy,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found: dict[int, Costs] = {}
    history = make_graph(local_location)
    for commits in (YOUNG, OLD):
        grow(history, commits)
        location = locate(f"{s3_location.uri}/{commits}", s3_server.options)
        copy(local_location, location)
        found[commits] = costs(s3_proxy, location)
    with capsys.disabled():
        for work in found[YOUNG]:
            young, old = found[YOUNG][work], found[OLD][work]
            print(f"\n{work:<26} {young.total():>3} requests at {YOUNG} commits,", end="")  # noqa: T201  to be read
            print(f" {old.total():>3} at {OLD}: {dict(young)}", end="")  # noqa: T201
    assert found[OLD] == found[YOUNG]

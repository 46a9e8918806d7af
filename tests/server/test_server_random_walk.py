"""Random requests one after the other, each with names out of the answers to those before it.

A single random request seldom gets past the look-up of what it names. Here branches are made, written, merged and
deleted by requests that know of each other, and the server must answer all of them as it should.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from omnigraph.server import ServedGraph, ServerSettings
from tests.selection import sized
from tests.server.client import BASE, Client, open_client
from tests.server.conftest import LIMITS
from tests.server.random_requests import KNOWN, check_answer, find_operations, make_request

HARVESTED: Final[Mapping[str, str]] = {
    "commit": "commit",
    "id": "commit",
    "graph_commit_id": "commit",
    "head": "commit",
    "branch": "branch",
    "name": "branch",
    "cursor": "cursor",
    "operation": "operation",
    "request_id": "request_id",
}
"""Fields of answers, and what their texts are."""
TAKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "commit": ("commit",),
    "id": ("commit", "operation"),
    "at": ("commit", "branch"),
    "snapshot": ("commit",),
    "if_commit": ("commit",),
    "before": ("commit",),
    "a": ("commit", "branch"),
    "b": ("commit", "branch"),
    "branch": ("branch",),
    "source": ("branch",),
    "target": ("branch",),
    "from": ("branch",),
    "name": ("branch",),
    "ref": ("commit", "branch"),
    "tag": ("branch",),
    "cursor": ("cursor",),
    "request_id": ("request_id",),
}
"""Parameters and fields of requests, and what they may name."""
pytestmark = pytest.mark.costly

ADD: Final = "query add($n: String) { insert City { name: $n } }"


class Walk:
    """The names that are known so far, and where they are used."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.known: defaultdict[str, list[str]] = defaultdict(list)
        self.known["branch"] = list(KNOWN["branch"])

    def harvest(self, value: object) -> None:
        """Keep the names in an answer."""
        if isinstance(value, list):
            for each in cast("list[object]", value)[:5]:
                self.harvest(each)
        if isinstance(value, dict):
            for name, each in cast("dict[str, object]", value).items():
                kind = HARVESTED.get(name)
                if kind is not None and isinstance(each, str) and each:
                    self.known[kind] = [*self.known[kind][-20:], each]
                self.harvest(each)

    def use(self, given: object) -> None:
        """Replace some of the values of a request by names that are known."""
        if isinstance(given, dict):
            fields = cast("dict[str, object]", given)
            for name in fields:
                names = [each for kind in TAKEN.get(name, ()) for each in self.known[kind]]
                if names and self.random.random() < 0.7:
                    fields[name] = self.random.choice(names)


def test_a_walk_through_all_routes(graph_template: Path, tmp_path: Path, runner: asyncio.Runner) -> None:
    operations = [each for each in find_operations().values() if not each.path.endswith("/mcp")]
    path = tmp_path / "brain.og"
    shutil.copytree(graph_template, path)
    server = open_client(ServerSettings((ServedGraph("brain", str(path)),), actor="act-walk", limits=LIMITS), runner)
    statuses: defaultdict[int, int] = defaultdict(int)
    length = sized(40, 150)
    requests = st.one_of([cast("st.SearchStrategy[Any]", each.as_strategy()) for each in operations])

    @settings(
        max_examples=sized(1, 40),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(cases=st.lists(requests, min_size=length, max_size=length), chance=st.randoms(use_true_random=True))
    def go(cases: list[Any], chance: random.Random) -> None:
        walk = Walk(chance)
        for case in cases:
            for answer in take_step(server, walk, case):
                statuses[answer.status_code] += 1

    go()
    # Operations go on by themselves, and must not outlive the process of the tests.
    server.hosting.cancel_work()
    while server.hosting.traffic.requests:
        pass
    # Requests got past the look-up, and the graph is whole.
    assert statuses[200] > 0
    assert server.ok("POST", "query", {"query": "query q() { match { $p: Person } return { count($p) as n } }"})["rows"]
    server.close()


def take_step(server: Client, walk: Walk, case: Any) -> Iterator[httpx.Response]:
    """Send a random request; before every third, a write that succeeds if its branch is there."""
    if walk.random.random() < 0.3:
        body = {"query": ADD, "params": {"n": f"{walk.random.random()}"}}
        yield check(walk, server.send("POST", "mutate", {**body, "branch": walk.random.choice(walk.known["branch"])}))
    for part in (case.path_parameters, case.query, case.body):
        walk.use(part)
    request = make_request(case, BASE, {"Authorization": f"Bearer {server.token}"})
    # Events have no end.
    if request is None or "event-stream" in request.headers.get("accept", ""):
        return
    with suppress(httpx.LocalProtocolError):
        yield check(walk, server.runner.run(server.http.send(request)))


def check(walk: Walk, answer: httpx.Response) -> httpx.Response:
    check_answer(answer)
    if answer.headers.get("content-type", "").startswith("application/json") and answer.content:
        walk.harvest(answer.json())
    return answer

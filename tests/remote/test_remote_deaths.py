"""A server that dies by SIGKILL at a durable write: the same key, sent to another one, gives one commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from tests import crash
from tests.remote.conftest import ADD
from tests.remote.served import start_server
from tests.selection import LARGE, daily

WRITES: dict[str, Callable[[Graph], object]] = {
    "mutate": lambda graph: graph.mutate(ADD, params={"name": "new"}, key="k-1"),
    "load": lambda graph: graph.load([{"type": "Slot", "data": {"line": "n", "seq": 1}}], key="k-1"),
    "merge": lambda graph: graph.merge("dev/a", key="k-1"),
}


def write_over_http(root: str, name: str) -> tuple[str | None, bool]:
    """Start a server here, and send it a write: the durable writes of this process are those of the server."""
    server = start_server(Path(root))
    try:
        with server.open(root) as graph:
            result = WRITES[name](graph)
        commit = getattr(result, "commit")  # noqa: B009  of all kinds
        return commit and commit.id, getattr(result, "replayed")  # noqa: B009
    finally:
        server.stop()


@pytest.mark.parametrize("name", daily(WRITES, ["mutate"]))
def test_a_key_gives_one_commit_whenever_the_server_dies(template: Path, name: str) -> None:
    before = len(omnigraph.open(template, "ro").commits())
    steps = crash.record(write_over_http, str(crash.fresh_copy(template)), name)
    assert steps
    places = list(crash.some_crashes(steps))
    for number, when in places if LARGE else places[1::2]:
        root = crash.fresh_copy(template)
        crash.kill_at(write_over_http, (str(root), name), number, when)
        commit, _ = crash.run(write_over_http, str(root), name)
        made = omnigraph.open(root, "ro").commits()
        assert (len(made), made[0].id) == (before + 1, commit), f"killed {when} write {number}"

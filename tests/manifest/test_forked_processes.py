"""A process that is forked from one that used a graph: it has none of its threads, so it is refused before any lock."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import omnigraph
from omnigraph.errors import ForkedProcess
from omnigraph.graph import Graph
from tests import crash

SCHEMA: Final = "node Port { code: String @key @index }"
ADD: Final = 'query add() { insert Port { code: "bcn" } }'
USES: Final[dict[str, Callable[[Graph], object]]] = {
    "load": lambda graph: graph.load([{"type": "Port", "data": {"code": "bcn"}}]),
    "mutate": lambda graph: graph.mutate(ADD),
    "transaction": lambda graph: graph.transaction().__enter__(),
    "merge": lambda graph: graph.merge("dev"),
    "revert": lambda graph: graph.revert(1),
    "apply_schema": lambda graph: graph.apply_schema(SCHEMA),
    "create_branch": lambda graph: graph.create_branch("new"),
    "delete_branch": lambda graph: graph.delete_branch("dev"),
    "create_tag": lambda graph: graph.create_tag("v1"),
    "ensure_indexes": lambda graph: graph.ensure_indexes(),
    "optimize": lambda graph: graph.optimize(),
    "cleanup": lambda graph: graph.cleanup(),
    "repair": lambda graph: graph.repair(),
    "verify": lambda graph: graph.verify(),
    "query": lambda graph: graph.query("query all() { match { $p: Port } return { $p.code } }"),
    "nodes": lambda graph: graph.nodes("Port").to_arrow(),
    "commits": lambda graph: graph.commits(),
    "branches": lambda graph: graph.branches(),
    "another handle": lambda graph: omnigraph.open(graph.uri).mutate(ADD),
}
REFUSED, HANGS = 7, 20


def use_in_forks(uri: str) -> dict[str, int]:
    """How a forked child ends that uses the graph of its parent, for each use."""
    graph = omnigraph.open(uri)
    graph.load([{"type": "Port", "data": {"code": "ams"}}])
    return {name: wait_for_fork(graph, use) for name, use in USES.items()}


def wait_for_fork(graph: Graph, use: Callable[[Graph], object]) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(HANGS)
        try:
            use(graph)
        except ForkedProcess:
            os._exit(REFUSED)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
def test_a_forked_process_is_refused_before_it_locks_anything(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph.og", SCHEMA)
    graph.create_branch("dev")
    assert crash.run(use_in_forks, graph.uri) == dict.fromkeys(USES, REFUSED)
    graph.mutate(ADD)
    assert graph.info().nodes == {"Port": 2}

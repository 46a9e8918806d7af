"""Mutations of the fleet that write two tables, what a graph shows of them, and the fleet for processes that die."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import omnigraph
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from omnigraph.storage.locks import LockSettings
from tests import crash
from tests.graphs import rows_of
from tests.write.writers import FLOCK, open_manifest

# There is a moment at which one table is committed and the other is not.
MOVE = 'query move() { insert Vessel { code: "v9", name: "Nona", kind: "tug" }  insert Tows { from: "v9", to: "v1" } }'
DROP = 'query drop() { delete Vessel where code = "v1" }'
NEXT = 'query next() { insert Vessel { code: "v8", name: "Octa", kind: "tug" }  insert Tows { from: "v8", to: "v2" } }'

Fleet = tuple[Sequence[str], Sequence[tuple[str, str]]]


def read_fleet(graph: Graph, branch: str = MAIN) -> Fleet:
    """Read the vessels, and who tows whom."""
    vessels = sorted(str(row["id"]) for row in rows_of(graph, "Vessel", branch))
    return vessels, sorted((str(row["src"]), str(row["dst"])) for row in rows_of(graph, "Tows", branch))


def add_next(fleet: Fleet) -> Fleet:
    """Return what the fleet shows after the mutation ``NEXT``."""
    return sorted([*fleet[0], "v8"]), sorted([*fleet[1], ("v8", "v2")])


def read_fleets_around(template: Path, text: str, branch: str = MAIN) -> tuple[Fleet, Fleet]:
    """Return what a branch shows before and after a mutation."""
    graph = omnigraph.open(copy_fleet(template, branch))
    before = read_fleet(graph, branch)
    graph.mutate(text, branch=branch)
    after = read_fleet(graph, branch)
    assert before != after
    return before, after


def copy_fleet(template: Path, branch: str = MAIN) -> str:
    """A fresh graph with a branch. A copy of one that has branches already would share their files with it."""
    folder = crash.fresh_copy(template)
    if branch != MAIN:
        omnigraph.open(folder).create_branch(branch)
    return str(folder)


def mutate(uri: str, text: str, branch: str = MAIN) -> None:
    """One mutation by a process that opens the graph as usual."""
    omnigraph.open(uri).mutate(text, branch=branch)


def open_unhealed(uri: str, locks: LockSettings = FLOCK) -> Graph:
    """Open the graph without healing it, like a process that opened it before something went wrong."""
    return Graph(open_manifest(uri, locks), "rw", "tests")

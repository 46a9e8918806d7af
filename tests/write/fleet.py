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
from tests.write.writers import FLOCK, manifest_at

# There is a moment at which one table is committed and the other is not.
MOVE = 'query move() { insert Vessel { code: "v9", name: "Nona", kind: "tug" }  insert Tows { from: "v9", to: "v1" } }'
DROP = 'query drop() { delete Vessel where code = "v1" }'
NEXT = 'query next() { insert Vessel { code: "v8", name: "Octa", kind: "tug" }  insert Tows { from: "v8", to: "v2" } }'

Fleet = tuple[Sequence[str], Sequence[tuple[str, str]]]


def shown(graph: Graph, branch: str = MAIN) -> Fleet:
    """The vessels, and who tows whom."""
    vessels = sorted(str(row["id"]) for row in rows_of(graph, "Vessel", branch))
    return vessels, sorted((str(row["src"]), str(row["dst"])) for row in rows_of(graph, "Tows", branch))


def with_next(fleet: Fleet) -> Fleet:
    """What it shows after the mutation ``NEXT``."""
    return sorted([*fleet[0], "v8"]), sorted([*fleet[1], ("v8", "v2")])


def states_around(template: Path, text: str, branch: str = MAIN) -> tuple[Fleet, Fleet]:
    """What a branch shows before and after a mutation."""
    graph = omnigraph.open(copied(template, branch))
    before = shown(graph, branch)
    graph.mutate(text, branch=branch)
    after = shown(graph, branch)
    assert before != after
    return before, after


def copied(template: Path, branch: str = MAIN) -> str:
    """A fresh graph with a branch. A copy of one that has branches already would share their files with it."""
    folder = crash.fresh_copy(template)
    if branch != MAIN:
        omnigraph.open(folder).create_branch(branch)
    return str(folder)


def mutate(uri: str, text: str, branch: str = MAIN) -> None:
    """One mutation by a process that opens the graph as usual."""
    omnigraph.open(uri).mutate(text, branch=branch)


def graph_at(uri: str, locks: LockSettings = FLOCK) -> Graph:
    """A graph as a process has it that opened it before something went wrong: nothing is healed."""
    return Graph(manifest_at(uri, locks), "rw", "tests")

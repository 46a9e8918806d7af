"""Random calls of every public verb through a server: what they do and refuse is what a graph on a disk does."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import omnigraph
from omnigraph.errors import OmniGraphError, Unsupported
from omnigraph.graph import Graph
from tests.crash import fresh_copy
from tests.interface.calls import Call, build, draw_call, draw_calls, public_verbs
from tests.interface.test_public_calls import check_branches, check_call, check_error, run_call
from tests.remote.served import ServerProcess
from tests.selection import daily, sized

CALLS_IN_ONE_GRAPH: Final = sized(25, 40)
TOO_LONG: Final = "does not fit into a URL"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that nobody changes."""
    root = tmp_path_factory.mktemp("calls") / "graph.og"
    build(root)
    return root


def open_writable(server: ServerProcess, root: Path) -> Graph:
    return server.open_for_now(root)


def open_read_only(server: ServerProcess, root: Path) -> Graph:
    return omnigraph.open(server.add_for_now(root), "ro", token=server.token, timeout=600)


def open_closed(server: ServerProcess, root: Path) -> Graph:
    with server.open_for_now(root) as graph:
        graph.info()
    return graph


def open_deleted(server: ServerProcess, root: Path) -> Graph:
    """A graph whose folder somebody deletes while it is served."""
    graph = server.open_for_now(root)
    graph.info()
    shutil.rmtree(root)
    return graph


STATES: dict[str, Callable[[ServerProcess, Path], Graph]] = {
    "writable": open_writable,
    "read-only": open_read_only,
    "closed": open_closed,
    "deleted": open_deleted,
}


@pytest.mark.parametrize("state", daily(STATES, ["deleted"]))
@pytest.mark.parametrize("seed", range(sized(1, 10)))
def test_random_calls_over_http(
    drawn: Path, server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(f"{state} {seed}")  # noqa: S311  repeatable
    commits = [commit.id for commit in omnigraph.open(drawn, "ro").commits("child")]
    root = fresh_copy(drawn)
    witness = None if state == "deleted" else omnigraph.open(root, "ro")
    graph = STATES[state](server, root)
    for call in draw_calls(chance, commits, CALLS_IN_ONE_GRAPH):
        try:
            check_call(graph, call, witness)
        except Exception as error:
            error.add_note(f"{state}: {call}")
            raise
    if state == "writable":
        check_branches(graph)


# --------------------------------------------------------------------------------------------- beside a disk


def explain_refusal(here: OmniGraphError | None, there: OmniGraphError | None, call: Call) -> str | None:
    """Why the two ends differ, if they may not. A call with two mistakes may be told either."""
    if there is None or isinstance(there, Unsupported) or TOO_LONG in str(there):
        return None if here is None or there is not None else f"only a server does {call}: {here!r}"
    check_error(there)
    return None if here is not None else f"only a server refuses {call}: {there!r}"


def list_nodes(graph: Graph) -> dict[str, object]:
    """What the calls have left: the nodes of each branch, and how many edges of which type. Ids of edges are drawn."""
    found: dict[str, object] = {}
    for branch in graph.branches():
        snapshot = graph.snapshot(branch.name)
        nodes = list(graph.export(types=list(snapshot.catalog().nodes), branch=branch.name))
        counts = {key: pin.row_count for key, pin in snapshot.pins.items()}
        messages = [commit.message for commit in graph.commits(branch.name)]
        found[branch.name] = sorted(nodes), counts, messages
    return {"branches": found, "tags": [tag.name for tag in graph.tags()], "schema": graph.schema.hash}


@pytest.mark.parametrize("seed", range(sized(1, 40)))
def test_a_server_does_and_refuses_what_a_disk_does(
    drawn: Path, server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    commits = [commit.id for commit in omnigraph.open(drawn, "ro").commits("child")]
    on_disk, served = omnigraph.open(fresh_copy(drawn), actor="act-test"), server.open_for_now(fresh_copy(drawn))
    for number in range(CALLS_IN_ONE_GRAPH):
        ends: list[OmniGraphError | None] = []
        # Streams can be read once: each end draws its own.
        for graph in (served, on_disk):
            chance = random.Random(f"{seed} {number}")  # noqa: S311  repeatable
            call = draw_call(chance.choice(public_verbs()), chance, commits)
            if ends and isinstance(ends[0], Unsupported):
                continue
            ends.append(run_call(graph, call))
            if len(ends) == 2:
                there, here = ends
                assert explain_refusal(here, there, call) is None
    assert list_nodes(served) == list_nodes(on_disk)

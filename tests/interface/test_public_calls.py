"""Whatever a public call is given: it works, or raises an error of ours that says what to do, and changes nothing."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

import omnigraph
from omnigraph.errors import OmniGraphError, OutcomeUnknown, ValidationError
from omnigraph.errors import _SourceProblems as SourceProblems
from omnigraph.graph import Graph
from omnigraph.write.commit.section import CATCH_UP_MESSAGE
from tests.crash import fresh_copy
from tests.interface.calls import Call, build, draw_call, draw_calls, list_parameters, public_verbs
from tests.interface.values import ADD
from tests.selection import sized

CALLS_IN_ONE_GRAPH = 60


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that nobody changes."""
    root = tmp_path_factory.mktemp("calls") / "graph.og"
    build(root)
    return root


def open_writable(root: Path) -> Graph:
    return omnigraph.open(root)


def open_read_only(root: Path) -> Graph:
    return omnigraph.open(root, "ro")


def open_moved(root: Path) -> Graph:
    """A graph that was moved: its branches cannot be read before it is repaired."""
    return omnigraph.open(shutil.move(root, root.with_name("moved.og")))


def open_closed(root: Path) -> Graph:
    with omnigraph.open(root) as graph:
        graph.info()
    return graph


def open_deleted(root: Path) -> Graph:
    """A graph whose folder somebody deletes."""
    graph = omnigraph.open(root)
    graph.info()
    shutil.rmtree(root)
    return graph


STATES: dict[str, Callable[[Path], Graph]] = {
    "writable": open_writable,
    "read-only": open_read_only,
    "moved": open_moved,
    "closed": open_closed,
    "deleted": open_deleted,
}


def list_refs(graph: Graph) -> object:
    """What a refusal must not change: branches and tags, but for tables that caught up, and the schema."""
    heads = {branch.name: _skip_catch_ups(graph, branch.name) for branch in graph.branches()}
    return heads, graph.tags(), graph.schema.hash


def _skip_catch_ups(graph: Graph, branch: str) -> str:
    return next(commit.id for commit in graph.commits(branch) if commit.message != CATCH_UP_MESSAGE)


def run_call(graph: Graph, call: Call) -> OmniGraphError | None:
    """Call it; return the error of ours that it raises."""
    try:
        call.run(graph)
    except OmniGraphError as error:
        return error
    return None


def check_error(error: OmniGraphError) -> None:
    """It has a kind, can be printed, and says what to do; problems of a text and of records have places instead."""
    assert type(error) is not OmniGraphError
    assert orjson.dumps(error.to_json())
    assert str(error).encode()
    assert error.hint or isinstance(error, SourceProblems | ValidationError), f"what to do? {error!r}"


def check_call(graph: Graph, call: Call, witness: Graph | None) -> str:
    """Call it. If it is refused, nothing has changed for a witness. Return how it ended."""
    refs = None if witness is None else list_refs(witness)
    error = run_call(graph, call)
    if error is None:
        return "done"
    check_error(error)
    if witness is not None and not isinstance(error, OutcomeUnknown):
        assert list_refs(witness) == refs
    return error.code


def check_calls(root: Path, state: str, calls: Iterator[Call]) -> list[str]:
    """Call one after the other; return how each ended."""
    graph = STATES[state](root)
    ended: list[str] = []
    for call in calls:
        try:
            ended.append(check_call(graph, call, None if state in ("deleted", "moved") else graph))
        except Exception as error:
            error.add_note(f"{state}: {call}")
            raise
    if state == "writable":
        check_branches(graph)
    if state in ("deleted", "moved"):
        # Whoever takes a lock makes its file; nothing else comes back.
        assert {each.name for each in root.glob("*")} <= {"__locks"}
    return ended


def check_branches(graph: Graph) -> None:
    """Every branch can be read and written, and the graph is sound."""
    for branch in graph.branches():
        list(graph.export(branch=branch.name))
        if "Person" in graph.schema.catalog.nodes:
            graph.mutate(ADD, params={"name": "last"}, branch=branch.name)
    assert graph.verify().findings == ()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("seed", range(sized(1, 40)))
def test_random_calls(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, seed: int) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(f"{state} {seed}")  # noqa: S311  repeatable
    commits = [commit.id for commit in omnigraph.open(template, "ro").commits("child")]
    ended = check_calls(fresh_copy(template), state, draw_calls(chance, commits, CALLS_IN_ONE_GRAPH))
    # Of a graph that is gone, calls can only say that, or that an argument is wrong.
    assert len(set(ended)) > (1 if state in ("deleted", "moved") else 2)


def test_every_parameter_of_every_verb_is_drawn() -> None:
    chance = random.Random(1)  # noqa: S311  repeatable
    for verb in public_verbs():
        drawn = {name for _ in range(60) for name in draw_call(verb, chance, ["x"]).arguments}
        assert drawn == {*list_parameters(verb)}

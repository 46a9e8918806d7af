"""The case files through a server: what a case states is what happens, and every error is the one of a local graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final, cast

import pytest

import omnigraph
from omnigraph.errors import Json, OmniGraphError, SchemaError
from omnigraph.graph import Graph
from omnigraph.manifest.references import Reference
from omnigraph.read.query import QueryRequest
from omnigraph.write.mutation import MutationResult
from tests.case_files import CASES, Case, Row, Section, find_cases, read_case
from tests.executors import LOCAL, Executor
from tests.remote.served import ServerProcess
from tests.selection import daily
from tests.test_cases import assert_so, name_of_case

RUN: Final = ("read", "write", "load", "evolve")
"""Their steps run one after the other, each through the server."""
COMPARED: Final = ("query_check", "query_syntax", "lint", "plan", "migration")
"""Their texts need no rows: each is sent to one graph of their schema."""
DAILY: Final = (
    "read/branches.case",
    "read/dates-and-times.case",
    "write/match/values-of-rows.case",
)
DAILY_COMPARED: Final = ("query_check/T1-unknown-node-type.case",)


def over_http(server: ServerProcess) -> Executor:
    """The executor that a server is. Steps that only the local one answers are answered by it too."""

    @cache
    def reach(uri: str) -> Graph:
        return server.open_for_now(uri)

    def query(graph: Graph, asked: QueryRequest, branch: str, at: Reference | None = None) -> list[Row]:
        found = reach(graph.uri).query(asked.source, asked.name, asked.params, branch=branch, at=at)
        return cast("list[Row]", found.to_json()["rows"])

    def mutate(graph: Graph, asked: QueryRequest, branch: str) -> MutationResult:
        return reach(graph.uri).mutate(asked.source, asked.name, asked.params, branch=branch)

    return Executor(LOCAL.name, {"over HTTP": query}, mutate, lambda graph: reach(graph.uri))


def find_all(folders: tuple[str, ...]) -> list[Path]:
    return [path for folder in folders for path in find_cases(folder)]


def choose(folders: tuple[str, ...], names: tuple[str, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", daily(find_all(folders), [CASES / name for name in names], name_of_case))


@choose(RUN, DAILY)
def test_case_over_http(path: Path, server: ServerProcess) -> None:
    assert_so(path, over_http(server))


# --------------------------------------------------------------------------------------------- texts without rows


class Pairs:
    """Graphs without rows, each on the disk and through the server; one for each schema."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._found: dict[str, tuple[Graph, Graph]] = {}

    def find(self, schema: str) -> tuple[Graph, Graph]:
        if schema not in self._found:
            graph = omnigraph.init(self._folder / f"{len(self._found)}.og", schema)
            self._found[schema] = graph, self._server.open(graph.uri)
        return self._found[schema]


@pytest.fixture(scope="module")
def pairs(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return Pairs(server, tmp_path_factory.mktemp("pairs"))


def text_of(section: Section) -> str:
    file = section.options.get("file")
    return (CASES / file).read_text("utf-8") if file else section.body + "\n"


def outcome_of(act: Callable[[], object]) -> object:
    """What a call gives: its result as JSON, or all that its error says."""
    try:
        return act()
    except OmniGraphError as error:
        return type(error).__name__, error.to_json()


def list_calls(case: Case) -> list[tuple[str, str, Callable[[Graph], object]]]:
    """The schema, the kind and the call of every step that needs no rows."""
    schema = ""
    found: list[tuple[str, str, Callable[[Graph], object]]] = []
    for step in case.steps:
        words = (step.action.word, *step.action.arguments)
        text = text_of(step.action)
        if words == ("schema",):
            schema = text
        elif words == ("schema", "evolve"):
            hard = step.action.options.get("allow_data_loss") == "true"
            found.append((schema, "plan", lambda g, text=text, hard=hard: plan_of(g, text, allow_data_loss=hard)))
            schema = text
        elif words[0] == "query":
            name = step.action.options.get("name")
            found.append((schema, "explain", lambda g, text=text, name=name: g.explain(text, name)))
            found.append((schema, "query", lambda g, text=text, name=name: g.query(text, name).to_json()))
    return found


def plan_of(graph: Graph, text: str, *, allow_data_loss: bool) -> Json:
    plan = graph.plan_schema(text, allow_data_loss=allow_data_loss)
    return [plan.supported, [step.to_json() for step in plan.steps]]


@choose(COMPARED, DAILY_COMPARED)
def test_a_text_gives_the_same_over_http(path: Path, pairs: Pairs) -> None:
    for schema, kind, call in list_calls(read_case(path)):
        try:
            local, remote = pairs.find(schema)
        except SchemaError:
            continue
        assert outcome_of(partial(call, remote)) == outcome_of(partial(call, local)), kind

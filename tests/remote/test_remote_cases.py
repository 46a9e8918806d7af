"""The case files of queries and mutations, asked through a server: what a case states is what happens."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

import pytest

from omnigraph.graph import Graph
from omnigraph.manifest.references import Reference
from omnigraph.read.query import QueryRequest
from omnigraph.write.mutation import MutationResult
from tests.case_files import CASES, Row, find_cases
from tests.executors import LOCAL, Executor
from tests.remote.served import RunningServer
from tests.selection import daily
from tests.test_cases import assert_so, name_of_case

DAILY = ("branches.case", "dates-and-times.case")


def over_http(server: RunningServer) -> Executor:
    """The executor that a server is. Steps that only the local one answers are answered by it too."""

    @cache
    def open_served(uri: str) -> Graph:
        return server.open(uri)

    def query(graph: Graph, asked: QueryRequest, branch: str, at: Reference | None = None) -> list[Row]:
        found = open_served(graph.uri).query(asked.source, asked.name, asked.params, branch=branch, at=at)
        return cast("list[Row]", found.to_json()["rows"])

    def mutate(graph: Graph, asked: QueryRequest, branch: str) -> MutationResult:
        return open_served(graph.uri).mutate(asked.source, asked.name, asked.params, branch=branch)

    return Executor(LOCAL.name, {"over HTTP": query}, mutate)


FOUND = [*find_cases("read"), *find_cases("write")]


@pytest.mark.parametrize("path", daily(FOUND, [path for path in FOUND if path.name in DAILY], name_of_case))
def test_case_over_http(path: Path, server: RunningServer) -> None:
    assert CASES in path.parents
    assert_so(path, over_http(server))

"""A write belongs to the branch that had the name when the write began, not to one that is created under it later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ConflictError
from omnigraph.graph import Graph
from omnigraph.write.load import LoadMode
from tests.selection import daily

SCHEMA = "node P { code: String @key  n: I32? }"
UPDATE = "query u($n: I32) { update P set { n: $n } where code = 'a' }".replace("'", '"')


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A row on main, a branch to write to, and a branch to merge."""
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.load([record("a")])
    graph.create_branch("dev")
    graph.create_branch("work")
    graph.load([record("b")], branch="dev")
    return graph


def record(code: str, n: int = 0) -> dict[str, object]:
    return {"type": "P", "data": {"code": code, "n": n}}


def re_create(graph: Graph) -> None:
    """Another process deletes the branch and creates one of the same name at the same commit."""
    other = omnigraph.open(graph.uri)
    other.delete_branch("work")
    other.create_branch("work")


class ReCreating(dict[str, object]):
    """Values of a call. When it reads them, after their types were checked, the branch becomes another one."""

    def __init__(self, graph: Graph, values: Mapping[str, object]) -> None:
        super().__init__(values)
        self._graph = graph
        self._reads = 0

    def get(self, key: str, default: object = None) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._happen()
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        self._happen()
        return super().__iter__()

    def _happen(self) -> None:
        self._reads += 1
        if self._reads == 2:
            re_create(self._graph)


def load(graph: Graph, mode: LoadMode) -> None:
    """Load from a generator."""

    def read() -> Iterator[Mapping[str, object]]:
        re_create(graph)
        yield record("a", 9)

    graph.load(read(), mode=mode, branch="work")


def run_transaction(graph: Graph) -> None:
    """Re-create the branch inside the block."""
    with graph.transaction("work") as work:
        work.mutate(UPDATE, params={"n": 9})
        re_create(graph)


WRITES: dict[str, Callable[[Graph], object]] = {
    "load merge": lambda graph: load(graph, "merge"),
    "load update": lambda graph: load(graph, "update"),
    "load overwrite": lambda graph: load(graph, "overwrite"),
    "transaction": run_transaction,
    "mutation": lambda graph: graph.mutate(UPDATE, params=ReCreating(graph, {"n": 9}), branch="work"),
    "retried mutation": lambda graph: graph.mutate(
        UPDATE, params=ReCreating(graph, {"n": 9}), branch="work", retries=3
    ),
    "merge": lambda graph: graph.merge("dev", "work", resolve=ReCreating(graph, {"conflicts": []})),
    "revert": lambda graph: graph.revert(
        graph.commits()[0].id, branch="work", resolve=ReCreating(graph, {"conflicts": []})
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_branch_that_was_re_created_since_gets_nothing(graph: Graph, write: str) -> None:
    with pytest.raises(ConflictError, match="branch 'work' was deleted and re-created"):
        WRITES[write](graph)
    assert [row["n"] for row in graph.nodes("P", branch="work").to_arrow().to_pylist()] == [0]
    assert graph.commits("work", limit=1)[0].id == graph.commits(limit=1)[0].id


@pytest.mark.parametrize("write", daily(WRITES, ["mutation", "transaction"]))
def test_a_handle_that_knew_an_earlier_branch_writes_to_the_present_one(graph: Graph, write: str) -> None:
    graph.mutate(UPDATE, params={"n": 1}, branch="work")
    re_create(graph)
    with pytest.raises(ConflictError):
        WRITES[write](graph)
    graph.mutate(UPDATE, params={"n": 7}, branch="work")
    assert [row["n"] for row in graph.nodes("P", branch="work").to_arrow().to_pylist()] == [7]

"""Compacting a table in pieces: fewer fragments, the same rows, and nothing to do the second time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pytest

import omnigraph
from omnigraph.maintain.optimize import plan_worthwhile_tasks, stage_compaction
from omnigraph.storage import tables
from omnigraph.storage.tables import Table
from omnigraph.write.executor import LOCAL, Executor
from tests.graphs import rows_of

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
PLAN = partial(plan_worthwhile_tasks, target_rows=3)


class PicklingExecutor:
    """Runs tasks here, on copies such as another process would get."""

    parallelism = 2

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        there = cast("tuple[Callable[[Item], Outcome], list[Item]]", pickle.loads(pickle.dumps((task, list(items)))))  # noqa: S301  our own
        return [cast("Outcome", pickle.loads(pickle.dumps(there[0](item)))) for item in there[1]]  # noqa: S301  our own


def in_fragments(folder: Path, count: int) -> Table:
    """A table with a fragment for each of its rows."""
    graph = omnigraph.init(folder, "node Port { name: String @key }")
    for number in range(count):
        graph.load([{"type": "Port", "data": {"name": f"p{number}"}}])
    assert len(rows_of(graph, "Port")) == count
    return graph.snapshot().table("Port")


@pytest.mark.parametrize("runner", [LOCAL, PicklingExecutor()])
def test_small_fragments_become_large_ones(tmp_path: Path, runner: Executor) -> None:
    table = in_fragments(tmp_path / "ports.og", 6)
    # Pieces of three: more than one for a runner to run.
    assert len(tables.plan_compaction(table, 3)) == 2
    staged = stage_compaction(table, runner, PLAN)
    assert staged is not None
    after = tables.commit(table, staged, "operation")
    assert (len(table.fragment_rows()), len(after.fragment_rows())) == (6, 2)
    names = [each.scan(["name"]).read_all()["name"].to_pylist() for each in (table, after)]
    assert names[0] == names[1] == [f"p{number}" for number in range(6)]
    assert stage_compaction(after, runner, PLAN) is None

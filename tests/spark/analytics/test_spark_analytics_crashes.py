"""Drivers of algorithms die by SIGKILL, executors too: the next run has the result, and nothing is left in the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.spark.analytics import projections
from omnigraph.storage.failpoints import WriteStep
from tests.crash import every_fault, fresh_copy, kill_at, record
from tests.spark.analytics import lost_executor
from tests.spark.cluster import environment
from tests.spark.drivers import Java

RING = [(f"n{number}", f"n{(number + 1) % 9}") for number in range(9)]


@pytest.fixture
def template(tmp_path: Path) -> Path:
    graph = og.init(tmp_path / "ring.og", "node N { key: String @key }\nedge E: N -> N")
    graph.load(
        [
            *({"type": "N", "data": {"key": name}} for name, _ in RING),
            *({"edge": "E", "from": a, "to": b} for a, b in RING),
        ]
    )
    return tmp_path / "ring.og"


def drive(java: Java, root: Path) -> None:
    projections.SPARK_MIN_EDGES = 0  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]  in a process of its own
    with og.open(root).spark(java.session()) as opened:
        found = opened.analytics.pagerank(iterations=2)
        assert found.provenance.engine == "spark"
        assert [row["rank"] for row in found.rows] == pytest.approx([1 / 9] * 9)


def list_files(root: Path) -> list[Path]:
    return [path for path in Path(f"{root}.loading").rglob("*") if path.is_file()]


def find_state(steps: list[WriteStep]) -> int:
    """The number of the write of the last state: everything else is there."""
    return max(step.number for step in steps if "state-" in str(step))


def test_the_blocks_of_a_killed_driver_are_used_by_the_next(java: Java, template: Path) -> None:
    recorded = fresh_copy(template)
    steps = record(drive, java, recorded)
    assert not list_files(recorded)
    kill_at(drive, (java, template), find_state(steps), "after")
    left = {path for path in list_files(template) if path.suffix == ".npy" and "block-" in path.name}
    assert left
    again = record(drive, java, template)
    # Nothing was cut again, and the dead one is not waited for.
    assert not any("numbers-" in str(step) for step in again)
    assert not list_files(template)


def test_the_blocks_of_a_killed_driver_are_removed_by_a_run_on_another_commit(java: Java, template: Path) -> None:
    steps = record(drive, java, fresh_copy(template))
    kill_at(drive, (java, template), find_state(steps), "after")
    assert list_files(template)
    og.open(template).load([{"edge": "E", "from": a, "to": b} for a, b in RING], mode="append")
    record(drive, java, template)
    assert not list_files(template)


@pytest.mark.slow
def test_killed_anywhere_the_next_run_has_the_result(java: Java, template: Path) -> None:
    steps = record(drive, java, fresh_copy(template))
    for number, when in every_fault(steps):
        root = fresh_copy(template)
        kill_at(drive, (java, root), number, when)
        record(drive, java, root)


@pytest.mark.slow
def test_a_lost_executor_costs_its_tasks_only(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, lost_executor.__file__, str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.endswith("the result is whole\n"), done.stderr[-4_000:]

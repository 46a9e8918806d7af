"""Mutations that are interrupted, or whose process dies: nothing is half-written, and the next mutation works."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.storage.failpoints import When, fail_at
from omnigraph.write.commit.audit import RecoveryKind
from tests import crash
from tests.selection import daily
from tests.write.fleet import DROP, MOVE, NEXT, copy_fleet, mutate, read_fleet, read_fleets_around


@pytest.mark.parametrize("text", daily([MOVE, DROP], [DROP]))
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_leaves_all_or_nothing(fleet_template: Path, text: str, when: When) -> None:
    steps = crash.record(mutate, str(crash.fresh_copy(fleet_template)), text)
    states = read_fleets_around(fleet_template, text)
    for step in steps:
        graph = omnigraph.open(crash.fresh_copy(fleet_template))
        with pytest.raises(KeyboardInterrupt), fail_at(step.number, when, KeyboardInterrupt()):
            graph.mutate(text)
        assert read_fleet(graph) in states, step
        graph.mutate(NEXT)
        assert "v8" in read_fleet(graph)[0]
        assert list(graph._manifest.objects.list("__recovery")) == []


def killed(template: Path, name: str, when: When, branch: str = "main") -> Graph:
    """Return a graph, opened for reading, whose last writer died at its first durable write of a kind."""
    steps = crash.record(mutate, copy_fleet(template, branch), MOVE, branch)
    number = next(step.number for step in steps if step.name == name)
    uri = copy_fleet(template, branch)
    crash.kill_at(mutate, (uri, MOVE, branch), number, when)
    return omnigraph.open(uri, "ro")


def test_opening_finishes_what_was_left(fleet_template: Path) -> None:
    reader = killed(fleet_template, "table.commit", "after")
    before = read_fleet(reader)
    assert reader.recoveries() == []
    graph = omnigraph.open(reader.uri)
    assert read_fleet(graph) == before
    (recovery,) = graph.recoveries()
    assert recovery.kind is RecoveryKind.ROLLED_BACK
    (commit,) = graph.commits(actor="omnigraph:recovery")
    assert commit.id == recovery.graph_commit_id
    assert list(graph._manifest.objects.list("__recovery")) == []


def test_what_was_complete_is_rolled_forward(fleet_template: Path) -> None:
    reader = killed(fleet_template, "table.merge", "before")
    graph = omnigraph.open(reader.uri)
    assert "v9" in read_fleet(graph)[0]
    (recovery,) = graph.recoveries()
    assert recovery.kind is RecoveryKind.ROLLED_FORWARD


def test_deleting_a_branch_finishes_what_was_left_on_it(fleet_template: Path) -> None:
    reader = killed(fleet_template, "table.commit", "after", "review")
    # Opened read-only: a read-write open would heal it.
    graph = Graph(reader._manifest, "rw", None)
    assert list(graph._manifest.objects.list("__recovery")) != []
    graph.delete_branch("review")
    assert list(graph._manifest.objects.list("__recovery")) == []
    assert [recovery.kind for recovery in graph.recoveries()] == [RecoveryKind.ROLLED_BACK]
    graph.create_branch("review")
    assert read_fleet(graph, "review") == read_fleet(graph)


def test_a_reader_finishes_nothing(fleet_template: Path) -> None:
    reader = killed(fleet_template, "table.commit", "after")
    with pytest.raises(OmniGraphError):
        reader.mutate(NEXT)
    assert len(list(reader._manifest.objects.list("__recovery"))) == 1

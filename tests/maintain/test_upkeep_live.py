"""Upkeep beside writers and readers of other processes: nobody fails, nothing is lost, what stays can be read."""

from __future__ import annotations

from datetime import timedelta

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import cleanup
from tests.crash import Pipe, pipe, start
from tests.maintain.ports import REMOVE, add, shown

GRACE = timedelta(seconds=20)
"""What a reader has here instead of an hour."""


def write_ports(end: Pipe, uri: str, name: str, count: int) -> None:
    """Ports come, and every third goes again."""
    try:
        graph = omnigraph.open(uri)
        for number in range(count):
            add(graph, f"{name}{number:04}")
            if number % 3 == 2:
                remove_at_last(graph, f"{name}{number - 1:04}")
        end.send(None)
    except BaseException as error:  # noqa: BLE001  the parent raises it
        end.send(error)


def remove_at_last(graph: Graph, code: str) -> None:
    """A delete is a conflict while others write: it is tried again, as its user would."""
    graph.mutate(REMOVE, params={"code": code}, retries=200)


def read_ports(end: Pipe, uri: str) -> None:
    """Every edge that a snapshot shows has its ends there, until somebody says that it is enough."""
    try:
        graph, reads = omnigraph.open(uri, "ro"), 0
        while not end.poll():
            now = graph.snapshot()
            ports, near = (now.table(name).scan().read_all() for name in ("Port", "Near"))
            assert {*near["src"].to_pylist(), *near["dst"].to_pylist()} <= set(ports["id"].to_pylist())
            reads += 1
        end.send(reads)
    except BaseException as error:  # noqa: BLE001  the parent raises it
        end.send(error)


def live_beside(graph: Graph, each: int) -> None:
    """Two writers and a reader while upkeep goes round and round."""
    writers = {name: pipe() for name in ("a", "b")}
    reader, theirs = pipe()
    children = [start(read_ports, theirs, graph.uri)]
    children += [start(write_ports, end, graph.uri, name, each) for name, (_, end) in writers.items()]
    waiting = [ours for ours, _ in writers.values()]
    while waiting:
        graph.optimize()
        cleanup(graph._manifest, 3, confirm=True, grace=GRACE)
        done = [ours for ours in waiting if ours.poll()]
        for ours in done:
            answer = ours.recv()
            assert answer is None, answer
        waiting = [ours for ours in waiting if ours not in done]
    reader.send("enough")
    reads = reader.recv()
    assert isinstance(reads, int), reads
    assert reads > 0
    for child in children:
        child.join()


def check_nothing_lost(graph: Graph, before: int, each: int) -> None:
    """All ports that came and did not go, and a sound graph."""
    stayed = {
        f"{name}{number:04}" for name in "ab" for number in range(each) if not (number % 3 == 1 and number + 1 < each)
    }
    ports, _ = shown(graph)
    assert stayed <= set(ports)
    assert len(ports) == before + len(stayed)
    assert graph.verify().findings == ()
    cleanup(graph._manifest, 3, confirm=True, grace=timedelta(0), stale_after=timedelta(0))
    assert shown(omnigraph.open(graph.uri))[0] == ports
    assert graph.verify().findings == ()


def test_writers_and_readers_go_on(ports: Graph) -> None:
    live_beside(ports, 8)
    check_nothing_lost(ports, 12, 8)


@pytest.mark.slow
def test_writers_and_readers_go_on_for_long(ports: Graph) -> None:
    live_beside(ports, 200)
    check_nothing_lost(ports, 12, 200)

"""Writers that meet on an object store: at once, stopped, late, killed. Leases order them; the manifest decides."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, cast

import pytest

import omnigraph
from omnigraph.errors import ConflictError
from omnigraph.graph import Graph
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import When, WriteStep
from omnigraph.storage.location import Location, locate
from omnigraph.storage.locks import LockSettings, branch_lock
from omnigraph.storage.locks.leases import LockWait
from omnigraph.storage.tables import Access
from tests.crash import Pipe, pipe, start
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names
from tests.s3 import S3Server
from tests.s3_proxy import Act, Proxy

TTL = 2.0
PATIENCE = 30.0
LATE = "01AAAAAAAAAAAAAAAAAAAAAAAA"


def opened(location: Location) -> Graph:
    return omnigraph.open(location.uri, storage_options=dict(location.storage_options))


def short_leased(location: Location) -> Graph:
    """The graph of a writer that will be stopped or killed: its leases expire soon."""
    locks = LockSettings(ttl=TTL, timeout=PATIENCE)
    return Graph(Manifest(location, Access(location.options()), locks), "rw", "tests")


def heard(line: Pipe) -> object:
    assert line.poll(PATIENCE), "the child is silent"
    return line.recv()


@pytest.fixture(params=["s3", pytest.param("ddb", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest) -> Location:
    return cast("Location", request.getfixturevalue(f"{request.param}_location"))


# --------------------------------------------------------------------------------------------- what children do


def commit_many(line: Pipe, location: Location, type_name: str, prefix: str) -> None:
    """Wait for the start, commit four times, send the ids."""
    graph = opened(location)
    line.send("ready")
    line.recv()
    line.send([commit_rows(graph, {type_name: [f"{prefix}{number}"]}).commit.id for number in range(4)])


def commit_and_die(location: Location, branch: str, phase: str) -> None:
    """Commit a row to a branch and die by SIGKILL after one phase of it."""

    def die(when: When, step: WriteStep) -> None:
        if (when, step.name) == ("after", phase):
            os.kill(os.getpid(), signal.SIGKILL)

    with failpoints._arm(die):
        commit_rows(short_leased(location), {"Person": ["bob"]}, branch)


def publish_when_told(location: Location, parent: Pipe) -> None:
    """Hold the branch's lease, say so, wait; then publish, and tell how it ended."""
    graph = short_leased(location)
    manifest = manifest_of(graph)
    schema_hash = graph.schema.hash
    try:
        with branch_lock(location, "main", manifest.locks) as held:
            manifest.view("main", with_lineage=True)
            parent.send("held")
            parent.recv()
            publish(manifest, held, "main", PublishRequest(CommitIntent(LATE, schema_hash)))
        parent.send("published")
    except ConflictError as error:
        parent.send(f"{type(error).__name__}: {error.message}")


class Child(NamedTuple):
    pid: int
    line: Pipe

    def says(self) -> str:
        return str(heard(self.line))


@contextmanager
def late_publisher(location: Location) -> Generator[Child]:
    """A child that holds the lease of main and publishes when it is told to."""
    ours, theirs = pipe()
    process = start(publish_when_told, location, theirs)
    assert process.pid is not None
    child = Child(process.pid, ours)
    try:
        assert child.says() == "held"
        yield child
    finally:
        process.kill()
        process.join()


# --------------------------------------------------------------------------------------------- at once


@pytest.mark.parametrize(
    "types", [("Person", "City"), pytest.param(("Person", "Person"), marks=pytest.mark.slow)], ids=["disjoint", "same"]
)
def test_two_processes_publish_at_once_and_all_lands(location: Location, types: tuple[str, str]) -> None:
    graph = make_graph(location)
    lines = [pipe() for _ in types]
    for (_, theirs), type_name, prefix in zip(lines, types, "ab", strict=True):
        start(commit_many, theirs, location, type_name, prefix)
    assert [heard(ours) for ours, _ in lines] == ["ready", "ready"]
    for ours, _ in lines:
        ours.send("go")
    made = [commit_id for ours, _ in lines for commit_id in cast("list[str]", heard(ours))]
    assert len(made) == 8
    commits = graph.commits()
    assert {commit.id for commit in commits[:-1]} == set(made)
    assert [commit.parents for commit in commits] == [*((older.id,) for older in commits[1:]), ()]
    found = [name for type_name in sorted(set(types)) for name in names(graph, type_name)]
    assert sorted(found) == [f"{prefix}{number}" for prefix in "ab" for number in range(4)]
    rows = manifest_of(graph).open("main").scan(columns=["object_id"]).read_all().column("object_id").to_pylist()
    assert len(rows) == len(set(rows))


# --------------------------------------------------------------------------------------------- stopped and late


def test_a_holder_that_was_stopped_past_its_lease_changes_nothing(s3_location: Location) -> None:
    graph = make_graph(s3_location)
    with late_publisher(s3_location) as late:
        os.kill(late.pid, signal.SIGSTOP)
        mine = commit_rows(graph, {"Person": ["ann"]}).commit.id
        os.kill(late.pid, signal.SIGCONT)
        late.line.send("go on")
        assert late.says().startswith("ConflictError: the lock 'branch:main' was lost")
    assert [commit.id for commit in graph.commits()][:-1] == [mine]


def test_a_publish_that_arrives_after_its_lease_was_taken_over_is_refused(location: Location, s3_proxy: Proxy) -> None:
    """The last check of the lease was fine, and the request was on its way: only the manifest can refuse it."""
    graph = make_graph(location)
    slow = locate(location.uri, S3Server(s3_proxy.endpoint).options)
    # With DynamoDB the commit is the insertion of its item.
    method, target = ("PUT", "__manifest/_versions/") if location.scheme == "s3" else ("POST", "PutItem")
    with late_publisher(slow) as late, s3_proxy.fault(method, target, Act.HOLD_REQUEST) as held:
        late.line.send("go on")
        assert held.on_its_way.wait(PATIENCE)
        os.kill(late.pid, signal.SIGSTOP)
        mine = commit_rows(graph, {"Person": ["ann"]}).commit.id
        held.released.set()
        os.kill(late.pid, signal.SIGCONT)
        assert late.says().startswith("ConflictError: the lock 'branch:main' was lost")
    assert [commit.id for commit in graph.commits()][:-1] == [mine]
    assert names(graph, "Person") == ["ann"]


# --------------------------------------------------------------------------------------------- killed


def test_a_killed_holder_blocks_others_for_one_time_to_live(s3_location: Location) -> None:
    graph = make_graph(s3_location)
    with late_publisher(s3_location) as late:
        os.kill(late.pid, signal.SIGKILL)
        waiting = LockWait(PATIENCE)
        mine = commit_rows(graph, {"Person": ["ann"]}).commit.id
        assert TTL <= waiting.waited() < PATIENCE
    assert [commit.id for commit in graph.commits()][:-1] == [mine]


PHASES = {
    "table.branch.create": ["ann"],
    "table.stage": ["ann"],
    "table.commit": ["ann"],
    "table.merge": ["ann", "bob"],
}


def test_killed_between_two_phases_a_commit_is_there_or_not_at_all(s3_location: Location) -> None:
    graph = make_graph(s3_location)
    commit_rows(graph, {"Person": ["ann"]})

    def kill_and_go_on(phase: str) -> None:
        graph.create_branch(phase)
        child = start(commit_and_die, s3_location, phase, phase)
        child.join(PATIENCE)
        assert child.exitcode == -signal.SIGKILL
        assert names(graph, "Person", phase) == PHASES[phase]
        commit_rows(graph, {"City": ["rome"]}, phase)
        assert (names(graph, "City", phase), names(graph, "Person", phase)) == (["rome"], PHASES[phase])
        # What the dead writer left of its fork is reclaimed, or is the fork that it published.
        commit_rows(graph, {"Person": ["cid"]}, phase)
        assert names(graph, "Person", phase) == [*PHASES[phase], "cid"]
        graph.delete_branch(phase)

    # All at once: each waits until the lease of its dead writer has expired.
    with ThreadPoolExecutor(len(PHASES)) as pool:
        list(pool.map(kill_and_go_on, PHASES))
    assert names(graph, "Person") == ["ann"]
    assert [branch.name for branch in graph.branches()] == ["main"]

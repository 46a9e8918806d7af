"""Many real processes against one fence: nothing is lost, nothing is there twice, history is one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, cast

import pytest

import omnigraph
from omnigraph.errors import ExpectedVersionMismatch, PublishContention
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from omnigraph.storage.location import Location
from tests.crash import Pipe, pipe, start
from tests.manifest.fence import advance, facts, read_from_nothing, send, send_unlocked, stolen_lock
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names
from tests.selection import daily, sized

Args = TypeVarTuple("Args")
Result = TypeVar("Result")

PROCESSES, ROUNDS = sized(4, 8), sized(6, 50)
ATTEMPTS = sized(8, 15)
TYPES = tuple(f"T{number}" for number in range(PROCESSES))
EIGHT_TYPES = "".join(f"node {name} {{ name: String @key }}\n" for name in TYPES)
PATIENCE = 120.0


def all_at_once(function: Callable[[str, *Args], Result], uri: str, each: list[tuple[*Args]]) -> list[Result]:
    """Call the function in one child per argument tuple, all from one moment on, and collect the answers."""
    lines: list[Pipe] = []
    for args in each:
        ours, theirs = pipe()
        start(_wait_and_call, theirs, function, uri, args)
        theirs.close()
        lines.append(ours)
    assert [line.recv() for line in lines] == ["ready"] * len(each)
    for line in lines:
        line.send("go")
    answers: list[Result] = []
    for line in lines:
        assert line.poll(PATIENCE), f"no answer in {PATIENCE} s"
        succeeded, answer = cast("tuple[bool, object]", line.recv())
        if not succeeded:
            raise cast("BaseException", answer)
        answers.append(cast("Result", answer))
    return answers


def _wait_and_call(line: Pipe, function: Callable[[str, *Args], object], uri: str, args: tuple[*Args]) -> None:
    line.send("ready")
    line.recv()
    try:
        line.send((True, function(uri, *args)))
    except BaseException as error:  # noqa: BLE001  the parent raises it
        line.send((False, error))


def check_history(graph: Graph, published: set[str], branch: str = MAIN) -> None:
    """The commits are exactly these after the first, each the parent of the next; no row of the manifest is double."""
    commits = graph.commits(branch)
    assert {commit.id for commit in commits[:-1]} == published
    assert [commit.parents for commit in commits] == [(commit.id,) for commit in commits[1:]] + [()]
    assert len({commit.manifest_version for commit in commits}) == len(commits)
    ids = Counter(manifest_of(graph).open(branch).scan(["object_id"]).read_all()["object_id"].to_pylist())
    assert [object_id for object_id, count in ids.items() if count > 1] == []


# --------------------------------------------------------------------------------------------- disjoint tables


def publish_rows(uri: str, type_name: str, rounds: int) -> list[str]:
    graph = omnigraph.open(uri)
    return [commit_rows(graph, {type_name: [f"{type_name}-{number}"]}).commit.id for number in range(rounds)]


def test_publishes_on_disjoint_tables_all_land(local_location: Location) -> None:
    omnigraph.init(local_location.uri, EIGHT_TYPES)
    answers = all_at_once(publish_rows, local_location.uri, [(name, ROUNDS) for name in TYPES])
    graph = omnigraph.open(local_location.uri, "ro")
    published = [commit_id for answer in answers for commit_id in answer]
    assert len(published) == PROCESSES * ROUNDS
    check_history(graph, set(published))
    for name in TYPES:
        assert names(graph, name) == sorted(f"{name}-{number}" for number in range(ROUNDS))


# --------------------------------------------------------------------------------------------- the same table


def contend(uri: str, rounds: int) -> list[tuple[int, str | ExpectedVersionMismatch]]:
    """Publish on the version seen before the lock; what was expected, with the commit or the error."""
    graph = omnigraph.open(uri)
    outcomes: list[tuple[int, str | ExpectedVersionMismatch]] = []
    for _ in range(rounds):
        expected = manifest_of(graph).view(MAIN).tables.version_of("node:Person")
        try:
            outcomes.append((expected, send(graph, advance(graph, {"node:Person": expected})).commit.id))
        except ExpectedVersionMismatch as lost:
            outcomes.append((expected, lost))
    return outcomes


def test_on_one_table_each_version_has_one_winner_and_losers_learn_the_numbers(local_location: Location) -> None:
    make_graph(local_location)
    answers = all_at_once(contend, local_location.uri, [(ATTEMPTS,)] * PROCESSES)
    outcomes = [outcome for answer in answers for outcome in answer]
    wins = {expected: commit_id for expected, commit_id in outcomes if isinstance(commit_id, str)}
    losses = [(expected, error) for expected, error in outcomes if not isinstance(error, str)]
    graph = omnigraph.open(local_location.uri, "ro")
    final = graph.snapshot().pin("Person").version
    assert sorted(wins) == list(range(1, final))
    assert len(wins) + len(losses) == PROCESSES * ATTEMPTS
    assert losses, "the processes never met"
    for expected, error in losses:
        assert (error.table_key, error.expected) == ("node:Person", expected)
        assert expected < error.actual <= final
    check_history(graph, set(wins.values()))


# --------------------------------------------------------------------------------------------- without any lock


def publish_unlocked(uri: str, table_key: str, rounds: int) -> tuple[list[str], int]:
    """Commits that landed, as those of one whose lease excludes nobody, and how many publishes lost every attempt."""
    graph = omnigraph.open(uri)
    landed: list[str] = []
    for _ in range(rounds):
        now = manifest_of(graph).view(MAIN).tables.version_of(table_key)
        try:
            published = send_unlocked(graph, advance(graph, {table_key: now}))
        except PublishContention:
            continue
        assert published.commit.manifest_version == published.view.version
        landed.append(published.commit.id)
    return landed, rounds - len(landed)


def compact_unlocked(uri: str, rounds: int) -> tuple[list[str], int]:
    """Compact again and again, beside everybody else."""
    manifest = manifest_of(omnigraph.open(uri))
    lost = 0
    for _ in range(rounds):
        stolen_lock().check()
        try:
            manifest.compact(manifest.writable_view(MAIN))
        except PublishContention:
            lost += 1
    return [], lost


def unlocked(uri: str, table_key: str | None, rounds: int) -> tuple[list[str], int]:
    return compact_unlocked(uri, rounds) if table_key is None else publish_unlocked(uri, table_key, rounds)


@pytest.mark.parametrize("beside_a_compactor", daily([False, True], [True]))
def test_the_fence_holds_without_any_lock(local_location: Location, beside_a_compactor: bool) -> None:
    make_graph(local_location)
    writers: list[tuple[str | None, int]] = [(key, 20) for key in ("node:Person", "node:City", "node:Firm")]
    answers = all_at_once(unlocked, local_location.uri, [*writers, *([(None, 20)] if beside_a_compactor else [])])
    graph = omnigraph.open(local_location.uri)
    landed = {commit_id for commits, _ in answers for commit_id in commits}
    check_history(graph, landed)
    versions = [graph.snapshot().pin(name).version for name in ("Person", "City", "Firm")]
    assert [version - 1 for version in versions] == [len(commits) for commits, _ in answers[:3]]
    manifest = manifest_of(graph)
    assert facts(manifest.view(MAIN, with_lineage=True)) == facts(read_from_nothing(manifest))
    # And the next one under a lock is let through at once.
    send(graph, advance(graph, {"node:Person": versions[0]}))


# --------------------------------------------------------------------------------------------- an object store


def publish_rows_on_s3(uri: str, options: dict[str, str], type_name: str) -> list[str]:
    graph = omnigraph.open(uri, storage_options=options)
    return [commit_rows(graph, {type_name: [f"{number}"]}).commit.id for number in range(4)]


@pytest.mark.slow
def test_publishes_on_an_object_store_all_land(s3_location: Location) -> None:
    options = dict(s3_location.storage_options)
    make_graph(s3_location)
    answers = all_at_once(publish_rows_on_s3, s3_location.uri, [(options, name) for name in ("Person", "City", "Firm")])
    graph = omnigraph.open(s3_location.uri, "ro", storage_options=options)
    check_history(graph, {commit_id for answer in answers for commit_id in answer})
    assert [len(names(graph, name)) for name in ("Person", "City", "Firm")] == [4, 4, 4]

"""Races about what exists at all: two inits, two creators, create against delete, and the writer that wakes up late."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import cast

import omnigraph
from omnigraph.errors import AlreadyExists, ConflictError, NotFound
from omnigraph.manifest.rows import MAIN, HeadPointer, encode_rows
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from tests.crash import Pipe, pipe, start
from tests.manifest.fence import advance, send
from tests.manifest.publishing import SCHEMA, commit_rows, make_graph, manifest_of, names
from tests.manifest.test_races import all_at_once
from tests.selection import sized

PATIENCE = 60.0


# --------------------------------------------------------------------------------------------- one winner


def initialise(uri: str, actor: str) -> str | None:
    try:
        omnigraph.init(uri, SCHEMA, actor=actor)
    except AlreadyExists:
        return None
    return actor


def test_of_several_inits_at_once_one_wins(local_location: Location) -> None:
    for number in range(sized(1, 2)):
        uri = f"{local_location.uri}-{number}"
        answers = all_at_once(initialise, uri, [(f"act-{actor}",) for actor in range(4)])
        winners = [actor for actor in answers if actor is not None]
        assert len(winners) == 1
        graph = omnigraph.open(uri)
        assert [commit.actor for commit in graph.commits()] == winners
        commit_rows(graph, {"Person": ["ann"]})


def create(uri: str, name: str, beginning: str) -> str | None:
    try:
        omnigraph.open(uri).create_branch(name, from_=beginning)
    except AlreadyExists:
        return None
    return beginning


def test_of_several_creators_of_one_name_one_wins(local_location: Location) -> None:
    graph = make_graph(local_location)
    beginnings = [commit_rows(graph, {"Person": [name]}).commit.id for name in "abcd"]
    for number in range(sized(1, 3)):
        name = f"dev-{number}"
        answers = all_at_once(create, graph.uri, [(name, beginning) for beginning in beginnings])
        winners = [beginning for beginning in answers if beginning is not None]
        assert len(winners) == 1
        assert [branch.head for branch in graph.branches() if branch.name == name] == winners
        assert len(names(graph, "Person", name)) == beginnings.index(winners[0]) + 1


def tag(uri: str, name: str, commit: str) -> str | None:
    try:
        omnigraph.open(uri).create_tag(name, commit)
    except AlreadyExists:
        return None
    return commit


def test_of_several_tags_of_one_name_one_wins(local_location: Location) -> None:
    graph = make_graph(local_location)
    commits = [commit_rows(graph, {"Person": [name]}).commit.id for name in "abcd"]
    answers = all_at_once(tag, graph.uri, [("release", commit) for commit in commits])
    assert [found.commit for found in graph.tags()] == [commit for commit in answers if commit is not None]


# --------------------------------------------------------------------------------------------- create against delete


MOST_TRIES = {"create": 20_000, "delete": 20_000, "write": 25, "look": 40}


def act(uri: str, role: str, rounds: int) -> Counter[str]:
    """Create, delete, write to or look at one branch until that has worked so often; how often each came out how."""
    graph = omnigraph.open(uri)
    outcomes: Counter[str] = Counter()
    for number in range(MOST_TRIES[role]):
        if outcomes[role] == rounds:
            break
        try:
            match role:
                case "create":
                    graph.create_branch("dev")
                case "delete":
                    graph.delete_branch("dev")
                case "write":
                    commit_rows(graph, {"Person": [f"p{number}"]}, "dev")
                case _:
                    graph.branches()
                    graph.commit(graph.commits()[-1].id)
            outcomes[role] += 1
        except (AlreadyExists, NotFound) as refused:
            outcomes[refused.code] += 1
    return outcomes


def test_create_against_delete_of_one_branch(local_location: Location) -> None:
    graph = make_graph(local_location)
    main = commit_rows(graph, {"City": ["rome"]}).commit.id
    # Neither can be ahead of the other by more than one, so they meet all the time.
    roles = [("create", 12), ("delete", 12), ("write", 25), ("look", 40)]
    outcomes = sum(all_at_once(act, graph.uri, roles), Counter[str]())
    assert "dev" not in [branch.name for branch in omnigraph.open(graph.uri).branches()]
    assert outcomes["create"] == outcomes["delete"] == 12
    # Looking at the graph never fails because of a branch that is going.
    assert outcomes["look"] == 40
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["ann"]}, "dev")
    assert names(graph, "Person", "dev") == ["ann"]
    assert [commit.id for commit in graph.commits("dev")][1:] == [commit.id for commit in graph.commits()]
    assert graph.commits()[0].id == main


# --------------------------------------------------------------------------------------------- the late writer


def write_late(line: Pipe, uri: str) -> None:
    """Stage work on a branch, wait, and publish it in three ways; say what came of each."""
    graph = omnigraph.open(uri)
    manifest = manifest_of(graph)
    view = manifest.view("dev", with_lineage=True)
    request = replace(advance(graph, {"node:Person": 1}, "dev"), incarnation=view.incarnation)
    stale = manifest.open("dev")
    line.send("staged")
    line.recv()
    try:
        send(graph, request, "dev")
        line.send("published")
    except (ConflictError, NotFound) as refused:
        line.send(refused.code)
    line.recv()
    tables.merge_rows(stale, encode_rows([HeadPointer("dev", "late", None)]))
    line.send("resurrected")
    line.recv()


def test_a_late_writer_cannot_publish_to_a_branch_made_anew_nor_harm_it(local_location: Location) -> None:
    graph = make_graph(local_location)
    graph.create_branch("dev")
    ours, theirs = pipe()
    child = start(write_late, theirs, graph.uri)
    theirs.close()

    def said() -> str:
        assert ours.poll(PATIENCE)
        return cast("str", ours.recv())

    assert said() == "staged"
    graph.delete_branch("dev")
    graph.create_branch("dev")
    ours.send("publish")
    assert said() == "conflict"
    assert len(graph.commits("dev")) == 1
    # Deleted once more: the writer's Lance handle brings the folder back.
    graph.delete_branch("dev")
    ours.send("write below the fence")
    assert said() == "resurrected"
    assert manifest_of(graph).open(MAIN).is_leftover_branch("dev")
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["ann"]}, "dev")
    fresh = omnigraph.open(graph.uri, "ro")
    assert names(fresh, "Person", "dev") == ["ann"]
    assert [commit.branch for commit in fresh.commits("dev")] == ["dev", "main"]
    ours.send("done")
    child.join(PATIENCE)

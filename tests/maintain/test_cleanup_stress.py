"""Every call that names an old commit or another branch, while cleanup in another process keeps only the heads.

Each call works or raises an error that says what is gone or that somebody else was first. Afterwards every branch can
be read and written, and the graph is sound.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeAlias, cast

import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, ConflictError, MergeConflicts, NotFoundError, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.read.changes import ChangeBlock
from tests.crash import Pipe, pipe, start
from tests.maintain.ports import add, cleanup_now, shown

HONEST = (NotFoundError, ConflictError, AlreadyExists, MergeConflicts)
"""It is gone, another was first, or it is there already: what a caller can act on without a person who looks."""
ALL = "query all() { match { $p: Port  $q: Port  $p near $q } return { $p.code } }"

Call: TypeAlias = Callable[[Graph, random.Random, str], object]


def old_commit(graph: Graph, chance: random.Random, branch: str = "main") -> str:
    """A commit that may be gone, or go at any moment."""
    return chance.choice(graph.commits(branch, limit=6)).id


def other_branch(graph: Graph, chance: random.Random) -> str:
    """A branch that may be deleted at any moment."""
    return chance.choice(graph.branches()).name


def read_blocks(blocks: Iterable[ChangeBlock]) -> None:
    """Read all changes."""
    for block in blocks:
        list(block.records())


CALLS: dict[str, Call] = {
    "read at": lambda graph, chance, _: shown(graph, at=old_commit(graph, chance)),
    "read a branch": lambda graph, chance, _: shown(graph, other_branch(graph, chance)),
    "query at": lambda graph, chance, _: graph.query(ALL, at=old_commit(graph, chance)).rows,
    "branch of a commit": lambda graph, chance, name: graph.create_branch(name, old_commit(graph, chance)),
    "branch of a branch": lambda graph, chance, name: graph.create_branch(name, other_branch(graph, chance)),
    "tag": lambda graph, chance, name: graph.create_tag(f"tag-{name}", old_commit(graph, chance)),
    "delete a branch": lambda graph, chance, _: graph.delete_branch(other_branch(graph, chance)),
    "write": lambda graph, _, name: add(graph, name),
    "write to a branch": lambda graph, chance, name: add(graph, name, other_branch(graph, chance)),
    "load into a branch of a commit": lambda graph, chance, name: graph.load(
        [{"type": "Port", "data": {"code": name}}], branch=name, from_branch=old_commit(graph, chance)
    ),
    "diff": lambda graph, chance, _: graph.diff(old_commit(graph, chance), other_branch(graph, chance)).summary(),
    "merge a branch": lambda graph, chance, _: graph.merge(other_branch(graph, chance), delete_branch=True),
    "merge into a branch": lambda graph, chance, _: graph.merge("main", other_branch(graph, chance)),
    "merge a commit": lambda graph, chance, _: graph.merge(old_commit(graph, chance), other_branch(graph, chance)),
    "revert": lambda graph, chance, _: graph.revert(old_commit(graph, chance)),
    "follow": lambda graph, chance, _: read_blocks(graph.changes(f"after:{old_commit(graph, chance)}")),
    "baseline": lambda graph, chance, _: read_blocks([graph.baseline(old_commit(graph, chance))]),
    "export": lambda graph, chance, _: list(graph.export(at=old_commit(graph, chance))),
    "optimize": lambda graph, chance, _: graph.optimize(other_branch(graph, chance)),
}


def act(end: Pipe, uri: str, seed: int, calls: int) -> None:
    """Make random calls; answer with how each ended, and the dishonest ones in full."""
    chance, ended = random.Random(seed), Counter[str]()  # noqa: S311  repeatable
    wrong: list[str] = []
    graph = omnigraph.open(uri)
    for number in range(calls):
        name = chance.choice([*CALLS])
        try:
            CALLS[name](graph, chance, f"c{seed}-{number}")
            ended[f"{name}: done"] += 1
        except HONEST as error:
            ended[f"{name}: {error.code}"] += 1
        except OmniGraphError as error:
            if error.code != "parameter_error":
                wrong.append(f"{name}: {traceback.format_exc()}")
            ended[f"{name}: {error.code}"] += 1
        except Exception:  # noqa: BLE001  that is what is looked for
            wrong.append(f"{name}: {traceback.format_exc()}")
    end.send((ended, wrong))


def live_beside_cleanup(graph: Graph, seed: int, actors: int, calls: int) -> Counter[str]:
    """Random callers while cleanup goes round and round, and takes something; how all calls ended."""
    graph.create_branch("dev")
    add(graph, "d1", "dev")
    lines = [pipe() for _ in range(actors)]
    children = [start(act, theirs, graph.uri, seed * 100 + number, calls) for number, (_, theirs) in enumerate(lines)]
    ended, wrong, waiting = Counter[str](), list[str](), [ours for ours, _ in lines]
    gone = 0
    for _ in count():
        gone = cleanup_now(graph, 1).commits_gone
        for ours in [each for each in waiting if each.poll()]:
            counts, mistakes = cast("tuple[Counter[str], list[str]]", ours.recv())
            ended += counts
            wrong += mistakes
            waiting.remove(ours)
        if not waiting:
            break
    for child in children:
        child.join()
    assert not wrong, "\n".join(wrong)
    assert gone > 0
    return ended


def check_every_branch(graph: Graph) -> None:
    """All branches can be read, written and cleaned."""
    again = omnigraph.open(graph.uri)
    for branch in again.branches():
        before = shown(again, branch.name)[0]
        add(again, "last", branch.name)
        assert set(shown(again, branch.name)[0]) == {*before, "last"}
    for tag in again.tags():
        shown(again, at=tag.name)
    cleanup_now(again, 1)
    assert again.verify().findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_old_commits_and_other_branches_beside_cleanup(ports: Graph, seed: int) -> None:
    ended = live_beside_cleanup(ports, seed, 2, 10)
    assert sum(ended.values()) == 20
    check_every_branch(ports)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_old_commits_and_other_branches_beside_cleanup_for_long(ports: Graph, seed: int) -> None:
    ended = live_beside_cleanup(ports, seed, 3, 60)
    # Which calls find their commit is chance: on a busy machine cleanup can be faster than all of them, or slower.
    assert sum(ended.values()) == 180
    assert any(name.endswith(": done") for name in ended)
    check_every_branch(ports)

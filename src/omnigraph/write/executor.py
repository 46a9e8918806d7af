"""Work that divides: independent tasks, and who runs them. Whoever starts the work says so, with a runner.

What a task is given and gives back must pickle, and so must the task itself: it may run on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Final, Protocol, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Executor(Protocol):
    """Runs tasks, here or elsewhere."""

    @property
    def parallelism(self) -> int:
        """How many tasks it can run at the same time: in more pieces than that no work is done sooner."""
        ...

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """What the task makes of each item, in their order. A task may be run again after it failed."""
        ...


class LocalExecutor:
    """Runs tasks in this process, one after the other: Lance uses all cores for each."""

    parallelism = 1

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """What the task makes of each item."""
        return [task(item) for item in items]


LOCAL: Final = LocalExecutor()


def group_evenly(rows: Mapping[int, int], most: int) -> list[tuple[int, ...]]:
    """Divide fragments, given with their rows, into as few groups as hold at most so many rows on average.

    The largest go first, each to the group that has least: no division of whole fragments is much more even.
    """
    count = max(1, min(len(rows), -(-sum(rows.values()) // most)))
    groups: list[list[int]] = [[] for _ in range(count)]
    least = [(0, at) for at in range(count)]
    heapify(least)
    for fragment in sorted(rows, key=lambda each: rows[each], reverse=True):
        held, at = least[0]
        groups[at].append(fragment)
        heapreplace(least, (held + rows[fragment], at))
    return [tuple(sorted(group)) for group in groups]

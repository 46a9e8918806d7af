"""Executors run independent tasks, in this process or elsewhere. Whoever starts work that divides passes one.

A task, its items and its results must pickle: it may run on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Final, Protocol, TypeVar

from omnigraph.worker_threads import WorkerThreads

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Executor(Protocol):
    """Runs independent tasks."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time. More pieces than that finish no sooner."""
        ...

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """Run the task on each item and return the results in order. A task that failed may run again."""
        ...


class LocalExecutor:
    """Runs tasks in this process, one after the other. Lance uses all cores for each."""

    parallelism = 1

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """Run the task on each item and return the results in order."""
        return [task(item) for item in items]


LOCAL: Final = LocalExecutor()


class ThreadExecutor:
    """Runs tasks in threads of this process, for what waits for requests. All have ended when it returns."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """Run the task on each item, once, and return the results in order. The first failure, by order, is raised."""
        if min(self.parallelism, len(items)) < 2:
            return [task(item) for item in items]
        with WorkerThreads(min(self.parallelism, len(items))) as pool:
            running = [pool.submit(task, item) for item in items]
        return [each.result() for each in running]


_ROWS_IN_A_PIECE: Final = 1_000_000


def divide_evenly(rows: Mapping[int, int], parallelism: int) -> list[tuple[int, ...]]:
    """Divide the fragments of a table, given with their row counts, into pieces for tasks; one if one task runs."""
    share = max(1, -(-sum(rows.values()) // parallelism))
    return group_evenly(rows, share if parallelism == 1 else min(share, _ROWS_IN_A_PIECE))


def group_evenly(rows: Mapping[int, int], max_rows: int) -> list[tuple[int, ...]]:
    """Divide fragments, given with their row counts, into groups of about equal size, at most ``max_rows`` on average.

    Largest first, each to the smallest group so far (LPT scheduling): close to the best division of whole fragments.
    """
    count = max(1, min(len(rows), -(-sum(rows.values()) // max_rows)))
    groups: list[list[int]] = [[] for _ in range(count)]
    sizes = [(0, group) for group in range(count)]
    heapify(sizes)
    for fragment in sorted(rows, key=lambda each: rows[each], reverse=True):
        size, group = sizes[0]
        groups[group].append(fragment)
        heapreplace(sizes, (size + rows[fragment], group))
    return [tuple(sorted(group)) for group in groups]

"""Admission: how many requests work at the same time, in all, of one actor, and on one branch.

Whoever waits too long, or would, is told at once when to try again. Counts live on the event loop and need no lock.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import field
from typing import Final

from omnigraph.errors import TooManyRequests
from omnigraph.lazy_dataclass import dataclass
from omnigraph.server.config import Limits

_LONGEST_RETRY: Final = 60
_NEWEST_WEIGHT: Final = 0.2
_MINUTE: Final = 60.0
_MOST_BRANCHES: Final = 1024
"""Of so many branches it is known how long a write takes. Clients choose the names."""
_MOST_ADDRESSES: Final = 4096
"""Of so many addresses failed logins are counted. One machine may have more of them than there is memory."""


@dataclass(slots=True)
class _BranchQueue:
    """The writers of one branch, and how long a write takes: a moving mean."""

    slots: asyncio.Semaphore
    writers: int = 0
    """Those who write and those who wait."""
    waiting: int = 0
    seconds: float = 0.1

    def expect_wait(self) -> float:
        return self.waiting * self.seconds

    def record(self, seconds: float) -> None:
        self.seconds += _NEWEST_WEIGHT * (seconds - self.seconds)


@dataclass(slots=True)
class Admission:
    """The counts of one server."""

    limits: Limits
    _reads: Counter[str] = field(default_factory=Counter[str])
    _controls: Counter[str] = field(default_factory=Counter[str])
    _writes: Counter[str] = field(default_factory=Counter[str])
    _subscribers: Counter[str] = field(default_factory=Counter[str])
    _branches: defaultdict[tuple[str, str], _BranchQueue] = field(init=False)
    _read_slots: asyncio.Semaphore = field(init=False)
    _actor_slots: defaultdict[str, asyncio.Semaphore] = field(init=False)
    _write_slots: asyncio.Semaphore = field(init=False)
    _stream_slots: defaultdict[str, asyncio.Semaphore] = field(init=False)
    _failures: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict[str, deque[float]](deque))

    def __post_init__(self) -> None:
        limits = self.limits
        self._read_slots = asyncio.Semaphore(limits.read_threads)
        # One actor's slow queries leave a quarter of the threads to others.
        share = limits.read_threads - limits.read_threads // 4
        self._actor_slots = defaultdict(lambda: asyncio.Semaphore(share))
        self._write_slots = asyncio.Semaphore(limits.write_threads)
        self._branches = defaultdict(lambda: _BranchQueue(asyncio.Semaphore(limits.branch_writers)))
        self._stream_slots = defaultdict(lambda: asyncio.Semaphore(limits.exports))

    @asynccontextmanager
    async def admit_read(self, actor: str) -> AsyncGenerator[None]:
        """Wait for a thread that reads."""
        async with self._count(self._reads, actor, self.limits.actor_reads):
            slots = (self._actor_slots[actor], self._read_slots)
            async with self._hold(slots, "reads"):
                yield

    @asynccontextmanager
    async def admit_control(self, actor: str) -> AsyncGenerator[None]:
        """Count a request about the server itself. It waits for nobody."""
        async with self._count(self._controls, actor, self.limits.actor_reads):
            yield

    @asynccontextmanager
    async def admit_stream(self, actor: str, graph_id: str) -> AsyncGenerator[None]:
        """Wait for one of the streams of a graph."""
        slots = (self._stream_slots[graph_id],)
        async with self._count(self._reads, actor, self.limits.actor_reads), self._hold(slots, "streams"):
            yield

    @asynccontextmanager
    async def admit_subscriber(self, graph_id: str) -> AsyncGenerator[None]:
        """Count one of those who follow a graph. They cost little while they wait, but each has a thread."""
        async with self._count(self._subscribers, graph_id, self.limits.subscribers):
            yield

    @asynccontextmanager
    async def admit_write(self, actor: str, graph_id: str, branch: str, deadline: float) -> AsyncGenerator[None]:
        """Wait for the turn of a writer on its branch. ``deadline``: the seconds that the write has."""
        async with self._join_queue((graph_id, branch)) as queue:
            expected = queue.expect_wait()
            if queue.waiting >= self.limits.branch_queue or expected > deadline:
                raise TooManyRequests(f"{queue.waiting} writers wait for branch '{branch}'", _to_retry(expected))
            async with (
                self._count(self._writes, actor, self.limits.actor_writes),
                self._hold((queue.slots, self._write_slots), "writes", queue),
            ):
                began = time.monotonic()
                try:
                    yield
                finally:
                    queue.record(time.monotonic() - began)

    @asynccontextmanager
    async def _join_queue(self, key: tuple[str, str]) -> AsyncGenerator[_BranchQueue]:
        queue = self._branches[key]
        queue.writers += 1
        try:
            yield queue
        finally:
            queue.writers -= 1
            if not queue.writers and len(self._branches) > _MOST_BRANCHES:
                del self._branches[key]

    def check_logins(self, address: str) -> None:
        """Refuse an address that failed to log in too often within a minute."""
        failures = self._failures.get(address)
        if failures is None:
            return
        now = time.monotonic()
        while failures and failures[0] < now - _MINUTE:
            failures.popleft()
        if not failures:
            del self._failures[address]
        elif len(failures) >= self.limits.failed_logins:
            raise TooManyRequests("too many requests without a valid token", _to_retry(failures[0] + _MINUTE - now))

    def record_failed_login(self, address: str) -> None:
        """Count a request without a valid token."""
        self._failures[address].append(time.monotonic())
        if len(self._failures) > _MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]

    @asynccontextmanager
    async def _count(self, counts: Counter[str], actor: str, most: int) -> AsyncGenerator[None]:
        if counts[actor] >= most:
            raise TooManyRequests(f"{most} requests for '{actor}' are under way already", 1)
        counts[actor] += 1
        try:
            yield
        finally:
            counts[actor] -= 1
            if not counts[actor]:
                del counts[actor]
                if counts is self._reads:
                    self._actor_slots.pop(actor, None)

    @asynccontextmanager
    async def _hold(
        self, slots: tuple[asyncio.Semaphore, ...], kind: str, queue: _BranchQueue | None = None
    ) -> AsyncGenerator[None]:
        held: list[asyncio.Semaphore] = []
        try:
            await self._take(slots, held, kind, queue)
            yield
        finally:
            for each in held:
                each.release()

    async def _take(
        self, slots: tuple[asyncio.Semaphore, ...], held: list[asyncio.Semaphore], kind: str, queue: _BranchQueue | None
    ) -> None:
        """Take all of the slots in their order, within one time. ``held`` are those that were taken."""
        wait_ms = self.limits.read_wait_ms if queue is None else self.limits.write_wait_ms
        # Who does not wait needs no clock.
        must_wait = any(each.locked() for each in slots)
        if queue is not None:
            queue.waiting += 1
        try:
            async with asyncio.timeout(wait_ms / 1000) if must_wait else nullcontext():
                for each in slots:
                    await each.acquire()
                    held.append(each)
        except TimeoutError:
            expected = 1.0 if queue is None else queue.expect_wait()
            raise TooManyRequests(f"the server is busy with other {kind}", _to_retry(expected)) from None
        finally:
            if queue is not None:
                queue.waiting -= 1


def _to_retry(seconds: float) -> int:
    return min(max(1, math.ceil(seconds)), _LONGEST_RETRY)

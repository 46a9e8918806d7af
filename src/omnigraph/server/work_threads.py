"""Threads in which requests do their work, so that the event loop never waits for it.

Handing a job over and back wakes one thread and the event loop once each. With jobs of a millisecond that is what the
server costs, so there is nothing else in between. How many jobs run at once is the matter of admission.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Final, Generic, TypeVar, cast

from anyio import CancelScope
from starlette.types import Receive

from omnigraph.deadlines import Deadline

Value = TypeVar("Value")

_MOST_IDLE: Final = 16
"""Threads that wait for a job. Others end with theirs."""
_PATIENCE_SECONDS: Final = 0.05
"""How long a job runs before somebody looks whether its client is still there: most are over before."""


class _Job(Generic[Value]):
    """A function to run, and the future of the event loop that waits for it."""

    def __init__(self, function: Callable[[], Value]) -> None:
        self._function = function
        self._context: Context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._value: Value | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self._waiter = self._loop.create_future()

    def run(self) -> None:
        """Run the function, in a thread."""
        try:
            self._value = self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001  whoever waits raises it
            self._error = error
        # The loop is closed if the server was told to stop at once.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    async def wait(self) -> Value:
        """Wait for the function. Who is cancelled meanwhile still waits: the work uses what its caller holds."""
        try:
            await self._waiter
        except asyncio.CancelledError:
            with CancelScope(shield=True):
                while not self._is_over:
                    self._waiter = self._loop.create_future()
                    await self._waiter
            raise
        if self._error is not None:
            raise self._error
        return cast("Value", self._value)

    def _end(self) -> None:
        self._is_over = True
        if not self._waiter.done():
            self._waiter.set_result(None)


class _WorkThreads:
    """Threads that run jobs. The one that ended its job last is given the next: what it used is still in the caches.

    A new one is started if all are busy.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        """Where those that wait take their next job."""

    def begin(self, run: Callable[[], None]) -> None:
        """Run a function soon."""
        with self._guard:
            jobs = self._idle.pop() if self._idle else None
        if jobs is not None:
            jobs.put(run)
        else:
            threading.Thread(target=self._work, args=(run,), name="omnigraph-work", daemon=True).start()

    def _work(self, first: Callable[[], None]) -> None:
        jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        jobs.put(first)
        while True:
            jobs.get()()
            with self._guard:
                if len(self._idle) >= _MOST_IDLE:
                    return
                self._idle.append(jobs)


_threads: Final = _WorkThreads()


async def run_in_thread(function: Callable[[], Value]) -> Value:
    """Run a function in a thread and wait for it."""
    job = _Job(function)
    _threads.begin(job.run)
    return await job.wait()


async def has_left(receive: Receive) -> bool:
    """Return whether the client of a request that was read to its end has gone away. Does not wait."""
    with CancelScope() as scope:
        scope.cancel()
        return (await receive())["type"] == "http.disconnect"
    return False


async def run_watched(receive: Receive, deadline: Deadline, function: Callable[[], Value]) -> Value:
    """Run a function in a thread. If the client goes away meanwhile, cancel the deadline."""
    loop = asyncio.get_running_loop()
    watchers: list[asyncio.Task[None]] = []

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        deadline.cancel()

    timer = loop.call_later(_PATIENCE_SECONDS, lambda: watchers.append(loop.create_task(watch())))
    try:
        return await run_in_thread(function)
    finally:
        timer.cancel()
        for watcher in watchers:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher

"""Threads for pieces of work, which may also be asked for while the interpreter exits.

Python then starts no new work in pools, although threads of the program go on until they end. A write in one of them
must not fail because of that: its pieces run in the thread that asks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Args = ParamSpec("Args")
Result = TypeVar("Result")


class WorkerThreads(ThreadPoolExecutor):
    """A pool of threads; while the interpreter exits, the calling thread does the work."""

    _is_closed = False

    def submit(self, fn: Callable[Args, Result], /, *args: Args.args, **kwargs: Args.kwargs) -> Future[Result]:
        """Start a call, or run it right away while the interpreter exits."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            if self._is_closed:
                raise
        done = Future[Result]()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  the caller asks the future
            done.set_exception(error)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as there
        """End the pool."""
        self._is_closed = True
        super().shutdown(wait, cancel_futures=cancel_futures)

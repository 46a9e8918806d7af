"""Pools of threads that keep working while the interpreter exits.

While the interpreter exits, Python starts no new work in pools, although the threads of the program run until they
end. A write in such a thread must not fail, so it does the work of its pools itself.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from threading import get_ident
from typing import Final, ParamSpec, TypeVar

Args = ParamSpec("Args")
Result = TypeVar("Result")

_REFUSED: Final = "cannot schedule new futures"
"""Python refuses a call before it queues it. After any other error a thread may still run the call."""
_served: ContextVar[int | None] = ContextVar("_served", default=None)


def get_served_thread() -> int:
    """Return the identity of this thread; in a pool, that of the thread that submitted the work."""
    served = _served.get()
    return get_ident() if served is None else served


def _serve(thread: int, fn: Callable[Args, Result], /, *args: Args.args, **kwargs: Args.kwargs) -> Result:
    _served.set(thread)
    return fn(*args, **kwargs)


class WorkerThreads(ThreadPoolExecutor):
    """A pool of threads; while the interpreter exits, the calling thread does the work."""

    _is_closed = False

    def submit(self, fn: Callable[Args, Result], /, *args: Args.args, **kwargs: Args.kwargs) -> Future[Result]:
        """Start a call, or run it right away while the interpreter exits."""
        try:
            return super().submit(_serve, get_served_thread(), fn, *args, **kwargs)
        except RuntimeError as error:
            if self._is_closed or not str(error).startswith(_REFUSED):
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

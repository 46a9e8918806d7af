"""Progress: what a long call has done so far, told to whoever watches.

Nobody has to: a call tells its steps to the function that :func:`watch_progress` was given, if there is one in its
thread. A step is a table, a commit or a folder, never a row, so that telling costs nothing.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TypeAlias, TypeVar

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """How far one part of a call is: ``done`` steps of ``total``, the newest of them ``name``.

    ``doing`` is a word for the part, such as "writing". Each part begins with 0 steps done, and without a name.
    """

    doing: str
    name: str | None
    done: int
    total: int


Watcher: TypeAlias = Callable[[ProgressStep], object]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_progress(watcher: Watcher) -> Generator[None]:
    """Call a function after every step of the calls in this block: tables written, checked, exported or cleaned up.

    It is called by one thread at a time. If it raises, the call ends there with that error, as if it had failed.

    >>> with og.watch_progress(lambda step: print(step.doing, step.done, "of", step.total)):
    ...     graph.optimize()
    """
    if not callable(watcher):
        raise ParameterError(f"watcher is {reprlib.repr(watcher)}", hint="give a function that takes a step")
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


class Steps:
    """The steps of one part of a call. Threads that share the work may finish them in any order."""

    def __init__(self, doing: str, total: int) -> None:
        self._doing = doing
        self._total = total
        self._done = 0
        self._watcher = _watcher.get() if total else None
        self._turn = Lock()
        self._tell(None)

    def finish(self, name: str) -> None:
        """Tell that one more step is done."""
        with self._turn:
            self._done += 1
            self._tell(name)

    def _tell(self, name: str | None) -> None:
        if self._watcher is not None:
            self._watcher(ProgressStep(self._doing, name, self._done, self._total))


def follow_steps(doing: str, items: Collection[Item], name: Callable[[Item], str] = str) -> Iterator[Item]:
    """Yield items. Each is done when the next one is asked for."""
    steps = Steps(doing, len(items))
    for item in items:
        yield item
        steps.finish(name(item))

"""Deadlines: how long a call may take, and how another thread cancels it.

Deadlines hold for what a thread does inside :func:`observe`, those of outer blocks too. Long work calls
:func:`check_deadline` between its pieces: a query for each step, a load for each block, a wait for a lock for each
attempt. A call into Lance cannot be divided: :func:`wait_for` leaves it alone when time is over. Under a lock no
deadline is observed, so that a commit never stops half-way: a write that is too late has changed nothing.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import field
from functools import partial, wraps
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic as read_clock
from types import FunctionType, TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from omnigraph.errors import Cancelled, DeadlineExceeded, ParameterError
from omnigraph.lazy_dataclass import dataclass

Item = TypeVar("Item")
Class = TypeVar("Class", bound=type)

MOST_SECONDS: Final = 1_000_000_000
_WAIT_SECONDS: Final = 0.02
_observed: ContextVar[tuple[Deadline, ...]] = ContextVar("deadlines", default=())


class Deadline:
    """The time that one call, or several together, may take. It begins with the first of them.

    ``cancel`` may be called from any thread: calls that observe the deadline then raise ``Cancelled``. Give it as
    ``timeout``, or use it as a ``with`` block: it then holds for all that the block does in its thread.
    """

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not 0 < seconds <= MOST_SECONDS:
            raise ParameterError(
                f"a timeout of {reprlib.repr(seconds)} seconds", hint=f"give a number above 0, up to {MOST_SECONDS:,}"
            )
        self._seconds = seconds
        self._end: float | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Make the calls that observe this deadline raise ``Cancelled``."""
        self._is_cancelled = True

    def __enter__(self) -> Self:
        if self._end is None and self._seconds is not None:
            self._end = read_clock() + self._seconds
        self.check()
        _observed.set((*_observed.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _observed.set(_observed.get()[:-1])

    def check(self) -> None:
        """Raise ``Cancelled`` or ``DeadlineExceeded`` if it is time to stop."""
        if self._is_cancelled:
            raise Cancelled
        if self._seconds is not None and self._end is not None and read_clock() >= self._end:
            raise DeadlineExceeded(self._seconds)

    def find_remaining(self) -> float | None:
        """Return the seconds that are left; None without a limit, and before the first call."""
        return None if self._end is None else max(0.0, self._end - read_clock())


class _CallDeadline(Deadline):
    """The deadline of a call that was given seconds: rows that are computed later have as many seconds again."""

    def renew(self) -> _CallDeadline:
        return _CallDeadline(self._seconds)


Timeout: TypeAlias = float | Deadline | None
"""How long a call may take: seconds, a deadline, or None for the default of the graph."""


def check_deadline() -> None:
    """Raise ``Cancelled`` or ``DeadlineExceeded`` if what this thread does must stop."""
    for deadline in _observed.get():
        deadline.check()


def find_remaining_seconds() -> float | None:
    """Return the seconds that are left for what this thread does; None without a limit."""
    left = [seconds for deadline in _observed.get() if (seconds := deadline.find_remaining()) is not None]
    return min(left, default=None)


def wait_for(work: Callable[[], Item]) -> Item:
    """Return what a call into native code returns, which nothing can interrupt, but only while deadlines allow it.

    The call runs in another thread. If a deadline passes, or the user interrupts the program, nobody waits for it any
    longer: it ends by itself, and what it returns is dropped. It must change nothing.
    """
    if not _observed.get():
        return work()
    check_deadline()
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    try:
        inbox = _idle_threads.pop()
    except IndexError:
        inbox = _start_thread()
    inbox.put((work, answers))
    while True:
        try:
            found, error = answers.get(timeout=_WAIT_SECONDS)
        except Empty:
            check_deadline()
        else:
            if error is not None:
                raise error
            return found


_Inbox: TypeAlias = "SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[Any, BaseException | None]]]]"
_idle_threads: list[_Inbox] = []
"""The threads that wait for work. A call takes the last of them, or a new one."""
# A child has none of the threads of its parent.
os.register_at_fork(after_in_child=_idle_threads.clear)


def _start_thread() -> _Inbox:
    inbox: _Inbox = SimpleQueue()
    # A daemon: at the end of the program nobody waits for a call that was left alone.
    Thread(target=_serve_calls, args=(inbox,), name="omnigraph-native-call", daemon=True).start()
    return inbox


def _serve_calls(inbox: _Inbox) -> None:
    while True:
        work, answers = inbox.get()
        found, error = None, None
        try:
            found = work()
        except BaseException as raised:  # noqa: BLE001  the thread that waits raises it
            error = raised
        _idle_threads.append(inbox)
        answers.put((found, error))
        # Nothing is kept alive while it waits for the next call.
        del work, answers, found, error


def observe(timeout: Timeout) -> AbstractContextManager[object]:
    """Return a block that observes a timeout beside those that hold already."""
    if timeout is None:
        return nullcontext()
    return timeout if isinstance(timeout, Deadline) else _CallDeadline(timeout)


def suspend_deadlines() -> Callable[[], object]:
    """Observe no deadline from now on; return the function that ends this."""
    before = _observed.get()
    _observed.set(())
    return lambda: _observed.set(before)


@dataclass(frozen=True, slots=True)
class CarriedDeadlines:
    """The deadlines of the call that made something, for work on it that is done later."""

    deadlines: tuple[Deadline, ...] = field(default_factory=_observed.get)

    @contextmanager
    def observe(self) -> Generator[None]:
        """Observe them again. Those that hold already, as in a block around both calls, are not asked twice."""
        held = _observed.get()
        with ExitStack() as stack:
            for deadline in self.deadlines:
                if deadline not in held:
                    stack.enter_context(deadline)
            yield

    def carry_to(self, make: Callable[[], Iterator[Item]]) -> Callable[[], Iterator[Item]]:
        """Return a function that makes the same items, and observes them meanwhile."""
        return partial(self.iterate, make) if self.deadlines else make

    def iterate(self, make: Callable[[], Iterator[Item]]) -> Iterator[Item]:
        """Yield items; the seconds of a call begin again with the first of them.

        Deadlines hold only while an item is computed: in between the caller does what it likes.
        """
        if not self.deadlines:
            yield from make()
            return
        own = CarriedDeadlines(
            tuple(each.renew() if isinstance(each, _CallDeadline) else each for each in self.deadlines)
        )
        with own.observe():
            items = make()
        while True:
            with own.observe():
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item


class _HasDefault(Protocol):
    timeout: Timeout


def observe_timeouts(class_: Class) -> Class:
    """Make the methods of a class that have a ``timeout`` observe it; its default is the ``timeout`` of the object."""
    for name, member in list(vars(class_).items()):
        is_public = isinstance(member, FunctionType) and not name.startswith("_")
        if is_public and "timeout" in inspect.signature(member).parameters:
            setattr(class_, name, _observe_own_timeout(member))
    return class_


def _observe_own_timeout(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: _HasDefault, *args: object, **kwargs: object) -> object:
        given = kwargs.get("timeout", self.timeout)
        timeout = self.timeout if given is None else given
        if timeout is None or isinstance(timeout, bool) or not isinstance(timeout, (int, float, Deadline)):
            # Nothing to observe; or the method itself says what is wrong with it.
            return method(self, *args, **kwargs)
        with observe(timeout):
            return method(self, *args, **kwargs)

    return call

"""Fault injection: every durable write passes through here, so that tests can make any of them fail.

``with mark_write("objects.put", path):`` surrounds one write. Disarmed, it costs one comparison. Armed, the writes of
the process are numbered from 1. A test can record them, raise at one of them, or kill the process by SIGKILL before or
after it. Writes that run side by side have no fixed numbers: they are named by their kind and target, and a test kills
after any subset of them. ``OMNIGRAPH_FAILPOINT=kill:before:17`` (or ``raise``) arms a child process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, TypeAlias, cast

from omnigraph.lazy_dataclass import dataclass

VARIABLE = "OMNIGRAPH_FAILPOINT"
When: TypeAlias = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class WriteStep:
    """One durable write: its number in this process, its kind and its target."""

    number: int
    name: str
    detail: str


class InjectedFault(Exception):
    """A fault that a test injected. It is not an OmniGraphError, so no code handles it."""

    def __init__(self, when: When, step: WriteStep) -> None:
        super().__init__(when, step)

    def __str__(self) -> str:
        when, step = cast("tuple[When, WriteStep]", self.args)
        return f"injected {when} write {step.number}: {step.name} {step.detail}"


_Action: TypeAlias = Callable[[When, WriteStep], None]


class _Numbering:
    """Number the durable writes of the process and call the action before and after each."""

    def __init__(self, action: _Action) -> None:
        self._action = action
        self._last = 0
        self._guard = threading.Lock()

    @contextmanager
    def step(self, name: str, detail: str) -> Generator[None]:
        with self._guard:
            self._last += 1
            step = WriteStep(self._last, name, detail)
            self._action("before", step)
        yield
        self._action("after", step)


class _Subset:
    """Of the writes of one kind, let some happen and hold the others up; when those have happened, kill the process."""

    def __init__(self, name: str, details: frozenset[str]) -> None:
        self._name = name
        self._missing = set(details)
        self._details = details
        self._guard = threading.Lock()

    @contextmanager
    def step(self, name: str, detail: str) -> Generator[None]:
        if name != self._name:
            yield
            return
        self._kill_if_done()
        if detail not in self._details:
            threading.Event().wait()
        yield
        with self._guard:
            self._missing.discard(detail)
        self._kill_if_done()

    def _kill_if_done(self) -> None:
        if not self._missing:
            os.kill(os.getpid(), signal.SIGKILL)


_armed: _Numbering | _Subset | None = None
_UNARMED = nullcontext()


def mark_write(name: str, detail: str = "") -> AbstractContextManager[None]:
    """Surround one durable write: one call that succeeds as a whole or not at all."""
    armed = _armed
    return _UNARMED if armed is None else armed.step(name, detail)


@contextmanager
def record_writes() -> Generator[list[WriteStep]]:
    """Record the durable writes of the process in the order of their start."""
    steps: list[WriteStep] = []

    def record(when: When, step: WriteStep) -> None:
        if when == "before":
            steps.append(step)

    with _arm(record):
        yield steps


@contextmanager
def fail_at(number: int, when: When, error: BaseException | None = None) -> Generator[None]:
    """Raise at write ``number``: before it, so that it does not happen, or after it, as if its answer were lost."""
    with _arm(_raise_at(number, when, error)):
        yield


@contextmanager
def kill_at(number: int, when: When) -> Generator[None]:
    """Kill this process by SIGKILL before or after write ``number``."""
    with _arm(_kill_at(number, when)):
        yield


@contextmanager
def kill_after_subset(name: str, details: Iterable[str]) -> Generator[None]:
    """Kill this process by SIGKILL when, of the writes of a kind that run side by side, exactly these have happened.

    What lies on the disk after writes that run side by side is some subset of them, whatever their order was.
    """
    with _arm_with(_Subset(name, frozenset(details))):
        yield


def _raise_at(number: int, when: When, error: BaseException | None) -> _Action:
    def act(now: When, step: WriteStep) -> None:
        if now == when and step.number == number:
            raise error or InjectedFault(when, step)

    return act


def _kill_at(number: int, when: When) -> _Action:
    def act(now: When, step: WriteStep) -> None:
        if now == when and step.number == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def _arm(action: _Action) -> AbstractContextManager[None]:
    return _arm_with(_Numbering(action))


@contextmanager
def _arm_with(armed: _Numbering | _Subset) -> Generator[None]:
    global _armed
    if _armed is not None:
        raise RuntimeError("failpoints are armed already")
    _armed = armed
    try:
        yield
    finally:
        _armed = None


def _parse_variable(text: str) -> _Numbering:
    """Parse ``kill:before:17`` or ``raise:after:3``."""
    match text.split(":"):
        case ["kill" | "raise" as act, "before" | "after" as when, number] if number.isdecimal() and int(number) > 0:
            at = int(number)
            return _Numbering(_kill_at(at, when) if act == "kill" else _raise_at(at, when, None))
        case _:
            raise ValueError(f"{VARIABLE}={text!r} is not of the form kill|raise:before|after:NUMBER")


if VARIABLE in os.environ:
    _armed = _parse_variable(os.environ[VARIABLE])

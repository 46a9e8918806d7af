"""The seam that every durable write passes, so that tests can make any of them fail or die.

``with durable("objects.put", path):`` surrounds one write. Unused, it costs one comparison. Armed, the writes of
the process are numbered from 1, and a test records them, kills the process by SIGKILL before or after one of them,
or raises there. A child process is armed from outside by ``OMNIGRAPH_FAILPOINT=kill:before:17`` (or ``raise``).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

VARIABLE = "OMNIGRAPH_FAILPOINT"
When: TypeAlias = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class WriteStep:
    """One durable write: its number in this process, the kind of write, and what it wrote to."""

    number: int
    name: str
    detail: str


class InjectedFault(Exception):
    """A fault that a test injected. It is no OmniGraphError, so nothing in the system expects it."""

    def __init__(self, when: When, step: WriteStep) -> None:
        super().__init__(when, step)

    def __str__(self) -> str:
        when, step = cast("tuple[When, WriteStep]", self.args)
        return f"injected {when} write {step.number}: {step.name} {step.detail}"


_Action: TypeAlias = Callable[[When, WriteStep], None]


class _Numbering:
    """Gives each durable write of the process its number, and tells the action before and after it."""

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


_armed: _Numbering | None = None
_UNARMED = nullcontext()


def mark_write(name: str, detail: str = "") -> AbstractContextManager[None]:
    """Surround one durable write. The write is one call that lands as a whole or not at all."""
    armed = _armed
    return _UNARMED if armed is None else armed.step(name, detail)


@contextmanager
def record_writes() -> Generator[list[WriteStep]]:
    """Record the durable writes of the process, in the order in which they began."""
    steps: list[WriteStep] = []

    def record(when: When, step: WriteStep) -> None:
        if when == "before":
            steps.append(step)

    with _arm(record):
        yield steps


@contextmanager
def fail_at(number: int, when: When, error: BaseException | None = None) -> Generator[None]:
    """Raise at write ``number``: before it, so that it never happens, or after it, as if its answer were lost."""
    with _arm(_raise_at(number, when, error)):
        yield


@contextmanager
def kill_at(number: int, when: When) -> Generator[None]:
    """Kill this process by SIGKILL before or after write ``number``."""
    with _arm(_kill_at(number, when)):
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


@contextmanager
def _arm(action: _Action) -> Generator[None]:
    global _armed
    if _armed is not None:
        raise RuntimeError("failpoints are armed already")
    _armed = _Numbering(action)
    try:
        yield
    finally:
        _armed = None


def _parse_variable(text: str) -> _Numbering:
    """Read ``kill:before:17`` or ``raise:after:3``."""
    match text.split(":"):
        case ["kill" | "raise" as act, "before" | "after" as when, number] if number.isdecimal() and int(number) > 0:
            at = int(number)
            return _Numbering(_kill_at(at, when) if act == "kill" else _raise_at(at, when, None))
        case _:
            raise ValueError(f"{VARIABLE}={text!r} is not of the form kill|raise:before|after:NUMBER")


if VARIABLE in os.environ:
    _armed = _parse_variable(os.environ[VARIABLE])

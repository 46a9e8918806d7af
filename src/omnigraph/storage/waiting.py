"""Waiting for something that another process holds: a clock that never jumps back, a deadline, and growing pauses."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from dataclasses import dataclass, field

# Unlike the plain monotonic clock of Linux this one goes on while the machine is suspended, and so does a lease.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_chance = random.SystemRandom()  # own state per call: processes forked at the same moment do not wait in step


def clock() -> float:
    """Seconds since some fixed moment of this machine."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of somebody's patience."""

    patience: float
    began: float = field(default_factory=clock)

    def waited(self) -> float:
        """Seconds since the wait began."""
        return clock() - self.began

    def remaining(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.patience - self.waited())


def pauses(first: float, longest: float) -> Generator[float]:
    """Seconds to wait before each next try: doubling, and never the same for two waiters."""
    pause = first
    while True:
        yield pause * _chance.uniform(0.5, 1.0)
        pause = min(longest, pause * 2)

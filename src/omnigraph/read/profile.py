"""What each step of a query really did: rows, time and the way it took."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from omnigraph.language.query.plan import PlanOperator
from omnigraph.read.frames import Frame

_THEN: Final = ", then "


@dataclass(slots=True)
class OperatorStats:
    """The work of one operator so far: its own time, the rows it gave, those that it kept in memory for them."""

    seconds: float = 0.0
    rows: int = 0
    frame_rows: int = 0
    access_path: str = ""

    def add_access_path(self, access_path: str) -> None:
        """Note how rows are found. An operator that runs in pieces may change it on the way."""
        if self.access_path.split(_THEN)[-1] != access_path:
            self.access_path = _THEN.join(filter(None, (self.access_path, access_path)))

    def add_frame(self, frame: Frame) -> Frame:
        """Add the rows of a frame, which is passed on as it is."""
        self.rows += frame.total_rows
        self.frame_rows += frame.num_rows
        return frame


@dataclass(frozen=True, slots=True)
class ProfileRecorder:
    """Takes notes while a query runs, by the identity of the operator."""

    stats: dict[int, OperatorStats] = field(default_factory=dict[int, OperatorStats])
    _running: list[OperatorStats] = field(default_factory=list[OperatorStats])

    @contextmanager
    def measure(self, plan: PlanOperator) -> Generator[OperatorStats]:
        """Add the time that is spent inside to an operator, and take it from the one that it runs inside of."""
        note = self.stats.setdefault(id(plan), OperatorStats())
        self._running.append(note)
        begun = time.perf_counter()
        try:
            yield note
        finally:
            spent = time.perf_counter() - begun
            note.seconds += spent
            self._running.pop()
            if self._running:
                self._running[-1].seconds -= spent

    def record_access_path(self, access_path: str) -> None:
        """Note how the operator that runs now finds its rows."""
        if self._running:
            self._running[-1].add_access_path(access_path)

    def stats_of(self, plan: PlanOperator) -> OperatorStats:
        """The notes on an operator; it may not have run at all."""
        return self.stats.get(id(plan), OperatorStats())

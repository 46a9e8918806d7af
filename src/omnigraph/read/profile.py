"""What each step of a query really did: rows, time and the way it took."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.language.query.plan import Plan
from omnigraph.read.frames import Frame


@dataclass(slots=True)
class Measured:
    """The work of one operator so far: its own time, the rows it gave, those that it kept in memory for them."""

    seconds: float = 0.0
    rows: int = 0
    kept: int = 0
    way: str = ""

    def counted(self, frame: Frame) -> Frame:
        """Add the rows of a frame, which is passed on as it is."""
        self.rows += frame.total
        self.kept += frame.num_rows
        return frame


@dataclass(frozen=True, slots=True)
class Recorder:
    """Takes notes while a query runs, by the identity of the operator."""

    notes: dict[int, Measured] = field(default_factory=dict[int, Measured])
    _running: list[Measured] = field(default_factory=list[Measured])

    @contextmanager
    def measuring(self, plan: Plan) -> Generator[Measured]:
        """Add the time that is spent inside to an operator, and take it from the one that it runs inside of."""
        note = self.notes.setdefault(id(plan), Measured())
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

    def of(self, plan: Plan) -> Measured:
        """The notes on an operator; it may not have run at all."""
        return self.notes.get(id(plan), Measured())

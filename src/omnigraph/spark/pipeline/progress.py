"""The steps of a run: told to whoever watches, and kept with the time that each took."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

StepKind: TypeAlias = Literal["spark", "source", "view", "map", "load", "check", "merge"]


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One part of a run. ``rows``: how many it loaded, found or changed; None where nobody has counted."""

    kind: StepKind
    name: str
    rows: int | None = None
    seconds: float = 0.0


class StepObserver(Protocol):
    """Who is told how far a run has come."""

    def on_start(self, step: PipelineStep) -> None:
        """A step begins."""
        ...

    def on_end(self, step: PipelineStep) -> None:
        """A step is over, and went well."""
        ...


class StepRecorder:
    """The steps so far."""

    def __init__(self, watch: StepObserver) -> None:
        self.done: list[PipelineStep] = []
        self._observer = watch
        self._rows: int | None = None

    @contextmanager
    def record(self, kind: StepKind, name: str) -> Generator[None]:
        """One more step, which takes as long as its block."""
        step = PipelineStep(kind, name)
        self._rows = None
        self._observer.on_start(step)
        begun = time.perf_counter()
        yield
        step = replace(step, rows=self._rows, seconds=time.perf_counter() - begun)
        self.done.append(step)
        self._observer.on_end(step)

    def set_rows(self, rows: int) -> None:
        """How many rows the step that runs has loaded or found."""
        self._rows = rows

"""Record the steps of a pipeline run with their times, and notify an observer."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, Protocol, TypeAlias

from omnigraph.lazy_dataclass import dataclass

StepKind: TypeAlias = Literal["spark", "source", "view", "map", "load", "check", "merge"]


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One step of a run. ``rows`` is the number that it loaded, found or changed; None if rows are not counted."""

    kind: StepKind
    name: str
    rows: int | None = None
    seconds: float = 0.0


class StepObserver(Protocol):
    """Is notified of the progress of a run."""

    def on_start(self, step: PipelineStep) -> None:
        """Called when a step starts."""
        ...

    def on_end(self, step: PipelineStep) -> None:
        """Called when a step has succeeded."""
        ...


class StepRecorder:
    """Records the steps of a run."""

    def __init__(self, observer: StepObserver) -> None:
        self.done: list[PipelineStep] = []
        self._observer = observer
        self._rows: int | None = None

    @contextmanager
    def record(self, kind: StepKind, name: str) -> Generator[None]:
        """Record the block as a step."""
        step = PipelineStep(kind, name)
        self._rows = None
        self._observer.on_start(step)
        started = time.perf_counter()
        yield
        step = replace(step, rows=self._rows, seconds=time.perf_counter() - started)
        self.done.append(step)
        self._observer.on_end(step)

    def set_rows(self, rows: int) -> None:
        """Set the number of rows of the current step."""
        self._rows = rows

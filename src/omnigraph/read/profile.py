"""What each operator of a query really did: rows, time and access path. A recorder collects it while the query runs."""

from __future__ import annotations

import time
from dataclasses import field
from types import TracebackType
from typing import Final

from omnigraph.deadlines import check_deadline
from omnigraph.errors import Json
from omnigraph.language.query.plan import PlanOperator, ReadPlan, inputs_of, print_operator, print_plan, walk_plan
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Frame

_THEN: Final = ", then "


@dataclass(slots=True)
class OperatorStats:
    """What one operator did so far: its own time, its output rows, and the frame rows that represent them."""

    seconds: float = 0.0
    rows: int = 0
    frame_rows: int = 0
    access_path: str = ""

    def add_frame(self, frame: Frame) -> Frame:
        """Count the rows of an output frame, and return the frame."""
        self.add_rows(frame.total_rows, frame.num_rows)
        return frame

    def add_rows(self, rows: int, frame_rows: int | None = None) -> None:
        """Count output rows."""
        self.rows += rows
        self.frame_rows += rows if frame_rows is None else frame_rows

    def add_access_path(self, access_path: str) -> None:
        """Note how rows are found. An operator that runs in pieces may switch on the way."""
        if self.access_path.split(_THEN)[-1] != access_path:
            self.access_path = _THEN.join(filter(None, (self.access_path, access_path)))


@dataclass(slots=True)
class Measurement:
    """A block whose time is that of one operator."""

    plan: PlanOperator
    stats: OperatorStats
    running: list[tuple[PlanOperator, OperatorStats]]
    """The operators that run now, the innermost last."""
    started: float = 0.0

    def __enter__(self) -> OperatorStats:
        self.running.append((self.plan, self.stats))
        self.started = time.perf_counter()
        return self.stats

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self.started
        self.stats.seconds += seconds
        self.running.pop()
        if self.running:
            self.running[-1][1].seconds -= seconds


@dataclass(frozen=True, slots=True)
class ProfileRecorder:
    """Collects the statistics of a running query, by the identity of the operator."""

    stats: dict[int, OperatorStats] = field(default_factory=dict[int, OperatorStats])
    _running: list[tuple[PlanOperator, OperatorStats]] = field(default_factory=list[tuple[PlanOperator, OperatorStats]])

    def measure(self, plan: PlanOperator) -> Measurement:
        """Add the time spent inside to an operator, and subtract it from the operator that contains it."""
        check_deadline()
        stats = self.stats.get(id(plan))
        if stats is None:
            stats = self.stats[id(plan)] = OperatorStats()
        return Measurement(plan, stats, self._running)

    def name_running(self) -> str:
        """Return the operator that runs now, as a plan shows it."""
        return print_operator(self._running[-1][0]) if self._running else ""

    def record_access_path(self, access_path: str) -> None:
        """Note how the operator that runs now finds its rows."""
        if self._running:
            self._running[-1][1].add_access_path(access_path)


@dataclass(frozen=True, slots=True)
class Profile:
    """A query that ran: its plan with the rows and the time of each operator, and the total time."""

    plan: ReadPlan
    row_count: int
    seconds: float
    _recorder: ProfileRecorder

    def __str__(self) -> str:
        total = f"{self.row_count:,} rows in {self.seconds * 1000:.1f} ms"
        return f"{print_plan(self.plan, self._describe)}\n{total}"

    def to_json(self) -> Json:
        """Return the profile as JSON, with the operators nested as in the plan."""
        # Built from the leaves up, without recursion: a long match is a deep plan.
        built: dict[int, Json] = {}
        for operator in reversed(list(walk_plan(self.plan))):
            built[id(operator)] = self._operator_to_json(operator, [built[id(below)] for below in inputs_of(operator)])
        return {
            "row_count": self.row_count,
            "milliseconds": round(self.seconds * 1000, 3),
            "plan": built[id(self.plan)],
        }

    def _describe(self, operator: PlanOperator) -> str:
        stats = self._recorder.stats.get(id(operator))
        if stats is None:
            return "not run"
        frame_rows = f" as {stats.frame_rows:,}" if stats.frame_rows not in (0, stats.rows) else ""
        access_path = f", {stats.access_path}" if stats.access_path else ""
        return f"{stats.rows:,} rows{frame_rows}, {stats.seconds * 1000:.1f} ms{access_path}"

    def _operator_to_json(self, operator: PlanOperator, inputs: list[Json]) -> Json:
        stats = self._recorder.stats.get(id(operator), OperatorStats())
        return {
            "operator": print_operator(operator),
            "rows": stats.rows,
            "kept": stats.frame_rows,
            "milliseconds": round(stats.seconds * 1000, 3),
            "way": stats.access_path,
            "inputs": inputs,
        }

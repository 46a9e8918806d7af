"""A query explained: the plan that would run with its guesses, or the one that ran with what it took."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import Json
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Plan,
    ReadPlan,
    Scan,
    Select,
    inputs_of,
    tree,
)
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import Estimate, sizes_of
from omnigraph.read.match import comparison_of, way_of_edges, way_of_scan
from omnigraph.read.profile import Recorder

_LARGE_PRODUCT = 1e6


def explained(plan: ReadPlan, reading: QueryContext) -> str:
    """The plan with the way that each operator would take and the rows it is thought to give; nothing is read."""
    estimate = Estimate(sizes_of(reading.snapshot, reading.catalog))
    estimate.of(plan)

    def notes(operator: Plan) -> str:
        way = _way(operator, estimate, reading)
        return f"~{_number(estimate.rows[id(operator)])} rows{f', {way}' if way else ''}"

    return "\n".join([tree(plan, notes), *_warnings(plan, estimate)])


def _way(plan: Plan, estimate: Estimate, reading: QueryContext) -> str:
    match plan:
        case Scan():
            return way_of_scan(plan, reading)
        case Expand() | ExpandEdges() | Connect() | ConnectEdges():
            return way_of_edges(plan, estimate.rows[id(plan.input)], reading)
        case _:
            return ""


def _warnings(plan: ReadPlan, estimate: Estimate) -> list[str]:
    """Products of two parts that nothing connects, where they are large."""
    found: list[str] = []
    waiting: list[tuple[Plan, Plan | None]] = [(plan, None)]
    while waiting:
        operator, above = waiting.pop()
        is_product = isinstance(operator, Cross) and not _is_join(operator, above)
        if is_product and estimate.rows[id(operator)] > _LARGE_PRODUCT:
            found.append(
                f"warning: a product of about {_number(estimate.rows[id(operator)])} rows;"
                " connect its two parts by an edge or a comparison"
            )
        waiting += [(below, operator) for below in inputs_of(operator)]
    return found


def _is_join(product: Cross, above: Plan | None) -> bool:
    return isinstance(above, Select) and comparison_of(product, above) is not None


def _number(rows: float) -> str:
    return f"{rows:.1e}" if rows >= 1e9 else f"{round(rows):,}"


# --------------------------------------------------------------------------------------------- what it took


@dataclass(frozen=True, slots=True)
class Profile:
    """A query that ran: its plan with the rows and the time of each operator, and the time of all of it."""

    plan: ReadPlan
    row_count: int
    seconds: float
    _recorder: Recorder

    def __str__(self) -> str:
        total = f"{self.row_count:,} rows in {self.seconds * 1000:.1f} ms"
        return f"{tree(self.plan, self._notes)}\n{total}"

    def to_json(self) -> Json:
        """The same as data."""
        return {
            "row_count": self.row_count,
            "milliseconds": round(self.seconds * 1000, 3),
            "plan": self._operator(self.plan),
        }

    def _notes(self, operator: Plan) -> str:
        note = self._recorder.notes.get(id(operator))
        if note is None:
            return "not run"
        kept = f" as {note.kept:,}" if note.kept not in (0, note.rows) else ""
        way = f", {note.way}" if note.way else ""
        return f"{note.rows:,} rows{kept}, {note.seconds * 1000:.1f} ms{way}"

    def _operator(self, plan: Plan) -> Json:
        note = self._recorder.of(plan)
        return {
            "operator": tree(plan).splitlines()[0],
            "rows": note.rows,
            "kept": note.kept,
            "milliseconds": round(note.seconds * 1000, 3),
            "way": note.way,
            "inputs": [self._operator(below) for below in inputs_of(plan)],
        }

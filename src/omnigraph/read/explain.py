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
    NodeScan,
    PlanOperator,
    ReadPlan,
    Select,
    inputs_of,
    print_plan,
    walk_plan,
)
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import CardinalityEstimator, table_sizes_of
from omnigraph.read.match import describe_edge_access, describe_scan_access, find_join_comparison
from omnigraph.read.profile import ProfileRecorder

_LARGE_PRODUCT = 1e6


def explain_plan(plan: ReadPlan, reading: QueryContext) -> str:
    """The plan with the way that each operator would take and the rows it is thought to give; nothing is read."""
    estimate = CardinalityEstimator(table_sizes_of(reading.snapshot, reading.catalog))
    estimate.estimate(plan)

    def notes(operator: PlanOperator) -> str:
        way = _describe_access(operator, estimate, reading)
        return f"~{_format_rows(estimate.rows[id(operator)])} rows{f', {way}' if way else ''}"

    return "\n".join([print_plan(plan, notes), *_find_large_products(plan, estimate)])


def _describe_access(plan: PlanOperator, estimate: CardinalityEstimator, reading: QueryContext) -> str:
    match plan:
        case NodeScan():
            return describe_scan_access(plan, reading)
        case Expand() | ExpandEdges() | Connect() | ConnectEdges():
            return describe_edge_access(plan, estimate.rows[id(plan.input)], reading.tables)
        case _:
            return ""


def _find_large_products(plan: ReadPlan, estimate: CardinalityEstimator) -> list[str]:
    """Products of two parts that nothing connects, where they are large."""
    found: list[str] = []
    pairs = ((above, operator) for above in walk_plan(plan) for operator in inputs_of(above))
    for above, operator in pairs:
        is_product = isinstance(operator, Cross) and not _is_join(operator, above)
        if is_product and estimate.rows[id(operator)] > _LARGE_PRODUCT:
            found.append(
                f"warning: a product of about {_format_rows(estimate.rows[id(operator)])} rows;"
                " connect its two parts by an edge or a comparison"
            )
    return found


def _is_join(product: Cross, above: PlanOperator) -> bool:
    return isinstance(above, Select) and find_join_comparison(product, above) is not None


def _format_rows(rows: float) -> str:
    return f"{rows:.1e}" if rows >= 1e9 else f"{round(rows):,}"


# --------------------------------------------------------------------------------------------- what it took


@dataclass(frozen=True, slots=True)
class Profile:
    """A query that ran: its plan with the rows and the time of each operator, and the time of all of it."""

    plan: ReadPlan
    row_count: int
    seconds: float
    _recorder: ProfileRecorder

    def __str__(self) -> str:
        total = f"{self.row_count:,} rows in {self.seconds * 1000:.1f} ms"
        return f"{print_plan(self.plan, self._notes)}\n{total}"

    def to_json(self) -> Json:
        """The same as data."""
        return {
            "row_count": self.row_count,
            "milliseconds": round(self.seconds * 1000, 3),
            "plan": self._operator(self.plan),
        }

    def _notes(self, operator: PlanOperator) -> str:
        note = self._recorder.stats.get(id(operator))
        if note is None:
            return "not run"
        kept = f" as {note.frame_rows:,}" if note.frame_rows not in (0, note.rows) else ""
        way = f", {note.access_path}" if note.access_path else ""
        return f"{note.rows:,} rows{kept}, {note.seconds * 1000:.1f} ms{way}"

    def _operator(self, plan: PlanOperator) -> Json:
        note = self._recorder.stats_of(plan)
        return {
            "operator": print_plan(plan).splitlines()[0],
            "rows": note.rows,
            "kept": note.frame_rows,
            "milliseconds": round(note.seconds * 1000, 3),
            "way": note.access_path,
            "inputs": [self._operator(below) for below in inputs_of(plan)],
        }

"""Limits on what a query may cost, checked when it is planned and before a row is read.

A server sets them around the work of a request. Without them nothing is refused: who waits for a query decides.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from omnigraph.errors import QueryTooCostly
from omnigraph.language.query.plan import Connect, Cross, Expand, ExpandEdges, Optional, ReadPlan, Select, walk_plan
from omnigraph.language.schema import Catalog
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.estimate import CardinalityEstimator, table_sizes_of
from omnigraph.read.match import find_join_comparison


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The most that a query may cost; 0 stands for no limit."""

    hops: int = 0
    """Hops of one walk. A walk without an upper bound has more than any number."""
    rows: int = 0
    """Estimated rows of one step. Reading the rows of a type once does not count."""


_NONE: Final = QueryLimits()
_MAKING_ROWS: Final = (Cross, Expand, ExpandEdges, Optional)
_limits: ContextVar[QueryLimits] = ContextVar("query_limits", default=_NONE)


@contextmanager
def limit_queries(limits: QueryLimits) -> Generator[None]:
    """Refuse queries that cost more, of all that are planned in the block."""
    before = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(before)


def find_most_hops(plan: ReadPlan) -> int | None:
    """Return the hops of the longest walk of a plan; None if one has no upper bound."""
    bounds = [each.maximum for each in walk_plan(plan) if isinstance(each, Expand | Connect)]
    return None if None in bounds else max((each for each in bounds if each is not None), default=0)


def estimate_most_rows(plan: ReadPlan, snapshot: Snapshot, catalog: Catalog) -> int:
    """Estimate the rows of the largest step of a plan that makes rows. Those that only read a type do not."""
    estimator = CardinalityEstimator(table_sizes_of(snapshot, catalog))
    estimator.estimate(plan)
    operators = list(walk_plan(plan))
    joined = {
        id(each.input)
        for each in operators
        if isinstance(each, Select) and isinstance(each.input, Cross) and find_join_comparison(each.input, each)
    }
    # A product below its join is never made.
    made = [each for each in operators if isinstance(each, _MAKING_ROWS) and id(each) not in joined]
    return int(max((estimator.rows[id(each)] for each in made), default=0))


def check_query_limits(plan: ReadPlan, snapshot: Snapshot, catalog: Catalog) -> None:
    """Raise ``QueryTooCostly`` for a plan that costs more than the limits of this thread allow."""
    limits = _limits.get()
    if limits.hops:
        hops = find_most_hops(plan)
        if hops is None or hops > limits.hops:
            raise _refuse_hops(hops, limits.hops)
    if limits.rows:
        rows = estimate_most_rows(plan, snapshot, catalog)
        if rows > limits.rows:
            raise _refuse_rows(rows, limits.rows)


def _refuse_hops(hops: int | None, limit: int) -> QueryTooCostly:
    found = "a walk has no upper bound" if hops is None else f"a walk has {hops:,} hops"
    return QueryTooCostly(
        f"{found}; {limit:,} are allowed here",
        hint=f"write an upper bound, such as knows{{1,{limit}}}; or raise the limit 'hops' of the server",
        details={"what": "hops", "estimate": hops, "limit": limit},
    )


def _refuse_rows(rows: int, limit: int) -> QueryTooCostly:
    return QueryTooCostly(
        f"a step of the query is estimated to make {rows:,} rows; {limit:,} are allowed here",
        hint="filter more, or connect the parts of the match: explain shows the step; or raise 'estimate_rows'",
        details={"what": "rows", "estimate": rows, "limit": limit},
    )

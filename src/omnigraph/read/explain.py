"""The plan that would run, with estimated rows and access paths, as text. Nothing is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from omnigraph.language.query import TypedMutation
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    MutationPlan,
    NodeScan,
    PlanOperator,
    ReadPlan,
    Select,
    TopRanked,
    inputs_of,
    print_plan,
    walk_plan,
)
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import CardinalityEstimator, table_sizes_of
from omnigraph.read.match import (
    IN_RANKING,
    RANKED_BY_STORAGE,
    RankedScan,
    describe_edge_access,
    describe_scan_access,
    find_join_comparison,
    find_ranked_scans,
)

_LARGE_PRODUCT: Final = 1e6
"""A product with more rows than this gets a warning."""


def explain_plan(plan: ReadPlan, context: QueryContext, mutation: TypedMutation | None = None) -> str:
    """Print a plan with the estimated rows and the access path of each operator, and warnings below it.

    With a ``mutation`` the plan is that of its match, and its statements are printed too.
    """
    estimator = CardinalityEstimator(table_sizes_of(context.snapshot, context.catalog))
    estimator.estimate(plan)
    ranked = find_ranked_scans(plan, context)

    def describe(operator: PlanOperator) -> str:
        access_path = _describe_access(operator, ranked, estimator, context)
        rows = _format_rows(estimator.rows[id(operator)])
        return f"~{rows} rows, {access_path}" if access_path else f"~{rows} rows"

    whole = plan if mutation is None else MutationPlan(mutation, plan)
    return "\n".join([print_plan(whole, describe), *_warn_of_products(plan, estimator)])


def _describe_access(
    plan: PlanOperator, ranked: Mapping[int, RankedScan], estimator: CardinalityEstimator, context: QueryContext
) -> str:
    match plan:
        case NodeScan() if id(plan) in ranked:
            return IN_RANKING
        case TopRanked() if id(plan.input) in ranked:
            return RANKED_BY_STORAGE
        case NodeScan():
            return describe_scan_access(plan, context)
        case Expand() | ExpandEdges() | Connect() | ConnectEdges():
            return describe_edge_access(plan, estimator.rows[id(plan.input)], context.tables)
        case _:
            return ""


def _warn_of_products(plan: ReadPlan, estimator: CardinalityEstimator) -> list[str]:
    """Return a warning for each large product of two parts that nothing connects."""
    products = [
        operator
        for above in walk_plan(plan)
        for operator in inputs_of(above)
        if isinstance(operator, Cross) and not _is_join(operator, above)
    ]
    sizes = [rows for rows in (estimator.rows[id(product)] for product in products) if rows > _LARGE_PRODUCT]
    return [
        f"warning: a product of about {_format_rows(rows)} rows; connect its two parts by an edge or a comparison"
        for rows in sizes
    ]


def _is_join(product: Cross, above: PlanOperator) -> bool:
    # A walk between two bound ends connects them.
    return isinstance(above, Connect) or (
        isinstance(above, Select) and find_join_comparison(product, above) is not None
    )


def _format_rows(rows: float) -> str:
    return f"{rows:.1e}" if rows >= 1e9 else f"{round(rows):,}"

"""Scan the best nodes of a type: a ranking right above a scan, answered by one search of the storage.

The storage ranks by its indexes and returns little more than the rows that are needed. The conditions of the scan are
filters of that search. Where it cannot decide them all, the scan runs first, and then its nodes are ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from omnigraph.language.query import Predicate, TextFunction, TextMatch, TextScore
from omnigraph.language.query.plan import NodeScan, ReadPlan, TopRanked, walk_plan
from omnigraph.language.schema import NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import EntityColumn, Frame
from omnigraph.read.match.scan_nodes import is_id_condition, split_predicates
from omnigraph.read.search import RankedRows
from omnigraph.storage.filters import Condition

RANKED_BY_STORAGE: Final = "ranked by the storage"
"""The access path of a ranking that takes the place of the scan below it."""
IN_RANKING: Final = "in the ranking above"
"""The access path of that scan."""


@dataclass(frozen=True, slots=True)
class RankedScan:
    """A ranking with a limit over the nodes of a type that satisfy conditions which the storage decides."""

    plan: TopRanked
    variable: str
    type: NodeType
    limit: int
    conditions: Sequence[Condition]

    def find_rows(self, context: QueryContext, columns: Sequence[str] = ()) -> RankedRows | None:
        """Return the best rows, and all that tie with the last of them; None if the storage cannot rank exactly."""
        return context.search.find_best(self.plan.ranking, self.type, self.limit, self.conditions, columns)

    def uses_index(self, context: QueryContext) -> bool:
        """Whether the table has an index for the ranking, so that little of it is read."""
        return context.search.has_index(self.plan.ranking, self.type)


def find_ranked_scans(plan: ReadPlan, context: QueryContext) -> dict[int, RankedScan]:
    """Return the scans of a plan that a ranking above takes the place of, by the identity of the scan."""
    rankings = [operator for operator in walk_plan(plan) if isinstance(operator, TopRanked)]
    found = [plan_ranked_scan(ranking, context) for ranking in rankings]
    return {id(scan.plan.input): scan for scan in found if scan is not None}


def plan_ranked_scan(plan: TopRanked, context: QueryContext) -> RankedScan | None:
    """Return the scan below a ranking as one search of the storage; None if they have to be two. Nothing is read."""
    scan, limit = plan.input, context.resolve_total(plan.limit, plan.skip)
    if not isinstance(scan, NodeScan) or scan.variable != plan.ranking.target.variable or limit is None:
        return None
    type_ = context.catalog.nodes[scan.node_type]
    predicates = [each for each in scan.predicates if not _is_implied(each, plan)]
    conditions, rest = split_predicates(predicates, scan.variable, type_, context.evaluation)
    # Few nodes that are looked up by their ids are ranked faster without the index.
    if rest or any(map(is_id_condition, conditions)):
        return None
    if not context.search.can_rank_in_storage(plan.ranking, type_, limit, conditions):
        return None
    return RankedScan(plan, scan.variable, type_, limit, conditions)


def execute_ranked_scan(scan: RankedScan, context: QueryContext) -> Frame | None:
    """Return the best nodes with their ranks; None if the storage cannot rank them exactly."""
    nodes = context.tables.partial_table_of(scan.type)
    found = scan.find_rows(context, nodes.columns_to_read)
    if found is None:
        return None
    kept = [name for name in ("id", *nodes.columns_to_read) if name in found.rows.column_names]
    best = nodes.intern(found.rows.select(kept))[found.order_best(scan.limit)]
    return Frame(len(best), {scan.variable: EntityColumn(nodes, best)}, ranks=np.arange(len(best)))


def _is_implied(predicate: Predicate, plan: TopRanked) -> bool:
    """Whether everything that has a rank satisfies a predicate: the text matches the words that it is ranked by."""
    ranking = plan.ranking
    return (
        isinstance(ranking, TextScore)
        and isinstance(predicate, TextMatch)
        and predicate.function is not TextFunction.FUZZY
        and (predicate.target, predicate.query) == (ranking.target, ranking.query)
    )

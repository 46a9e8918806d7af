"""The match of a plan as DataFrames: from its leaf upwards, one operator after the other.

Frames are put together and not run, walks of several hops apart. A join keeps every row of a match, also equal ones:
what counts once is made distinct before it is joined.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import functions as fn

from omnigraph.language.query import Predicate
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    MatchPlan,
    NodeScan,
    Outer,
    Select,
    TopRanked,
    Without,
)
from omnigraph.read.match import Leaf, StepPlan, build_spine
from omnigraph.spark.query.fusion import fuse
from omnigraph.spark.query.match_rows import ID, RANK_SLOTS, MatchRows, Slot, SparkQueryContext, take_first
from omnigraph.spark.query.predicates import holds
from omnigraph.spark.query.requirements import RequiredAttributes, find_required_attributes
from omnigraph.spark.query.search import rank_key, scan_entities
from omnigraph.spark.query.walk import NodePairs, find_destinations, orient_edges


def matched(
    plan: MatchPlan, needs: RequiredAttributes, asked: SparkQueryContext, outer: MatchRows | None = None
) -> MatchRows:
    """The rows of a match; ``outer`` are those that a negation is asked about."""
    spine = build_spine(plan, frozenset())
    rows = _execute_leaf(spine.leaf, needs, asked, outer)
    # Negations that follow each other are all asked about the same rows. Were each asked about what the one before
    # has left, that one would be computed again for it.
    questioned = rows
    for step in spine.steps:
        if isinstance(step.plan, Without):
            rows = _anti_join(rows, step.plan, questioned, asked)
        else:
            rows = questioned = _execute_step(step.plan, rows, needs, asked)
    return rows


def _execute_leaf(
    leaf: Leaf, needs: RequiredAttributes, asked: SparkQueryContext, outer: MatchRows | None
) -> MatchRows:
    match leaf:
        case NodeScan():
            return _scan_nodes(leaf.variable, leaf.node_type, leaf.predicates, needs, asked)
        case Outer():
            return outer or MatchRows(asked.tables.session.range(1).select(), {})
        case Fuse():
            first, second = (matched(arm, needs, asked) for arm in (leaf.first, leaf.second))
            return fuse(first, second, leaf, asked)


def _execute_step(plan: StepPlan, rows: MatchRows, needs: RequiredAttributes, asked: SparkQueryContext) -> MatchRows:
    match plan:
        case Expand():
            return _expand(plan, rows, find_destinations(plan, rows, asked), needs, asked)
        case ExpandEdges():
            return _expand(plan, rows, _scan_edges(plan, needs, asked), needs, asked)
        case Connect():
            steps = find_destinations(plan, rows, asked)
            return rows.semi_join(steps.frame, _end_columns(plan, rows, steps))
        case ConnectEdges():
            steps = _scan_edges(plan, needs, asked)
            return rows.join(steps.frame, _end_columns(plan, rows, steps), steps.slots)
        case Cross():
            right = matched(plan.right, needs, asked)
            return MatchRows(rows.frame.crossJoin(right.frame), {**rows.slots, **right.slots})
        case Select():
            return _filter_rows(rows, (plan.predicate,), asked)
        case TopRanked():
            return _take_top_ranked(plan, rows, asked)
        case Without():
            raise AssertionError("a negation is asked about rows before it")


def _filter_rows(rows: MatchRows, predicates: Iterable[Predicate], asked: SparkQueryContext) -> MatchRows:
    for predicate in predicates:
        rows = rows.where(holds(predicate, rows, asked.reading))
    return rows


# --------------------------------------------------------------------------------------------- nodes and edges


def _scan_nodes(
    variable: str, type_: str, predicates: Iterable[Predicate], needs: RequiredAttributes, asked: SparkQueryContext
) -> MatchRows:
    found = scan_entities(variable, asked.reading.catalog.nodes[type_], needs.get(variable, ()), asked)
    return _filter_rows(found, predicates, asked)


def _scan_edges(plan: ExpandEdges | ConnectEdges, needs: RequiredAttributes, asked: SparkQueryContext) -> NodePairs:
    """The edges of a type that satisfy the predicates, as they are walked."""
    # Words and vectors are looked for in nodes only.
    bound = (ID, *(trait for trait in needs.get(plan.edge_variable, ()) if isinstance(trait, str)))
    begin, end, *columns = (asked.new_column() for _ in ("from", "to", *bound))
    slots: dict[Slot, str] = {(plan.edge_variable, name): column for name, column in zip(bound, columns, strict=True)}
    found = asked.tables.edges(plan.edge_type, ["from", "to", *bound])
    walked = orient_edges(found, plan.direction).toDF(begin, end, *columns)
    return NodePairs(_filter_rows(MatchRows(walked, slots), plan.edge_predicates, asked).frame, begin, end, slots)


def _expand(
    plan: Expand | ExpandEdges, rows: MatchRows, steps: NodePairs, needs: RequiredAttributes, asked: SparkQueryContext
) -> MatchRows:
    found = rows.join(
        steps.frame,
        [(rows.id_of(plan.source), steps.source)],
        {**steps.slots, (plan.destination, ID): steps.destination},
    )
    nodes = _scan_nodes(plan.destination, plan.destination_type, plan.predicates, needs, asked)
    return found.join(nodes.frame, [(steps.destination, nodes.id_of(plan.destination))], nodes.slots)


def _end_columns(plan: Connect | ConnectEdges, rows: MatchRows, steps: NodePairs) -> list[tuple[str, str]]:
    return [(rows.id_of(plan.source), steps.source), (rows.id_of(plan.destination), steps.destination)]


# --------------------------------------------------------------------------------------------- ranking


def _take_top_ranked(plan: TopRanked, rows: MatchRows, asked: SparkQueryContext) -> MatchRows:
    """The rows of the best entities, each with what its entity is ranked by."""
    id_, far, entity = rows.id_of(plan.ranking.target.variable), asked.new_column(), asked.new_column()
    known = rows.frame.select(rank_key(plan.ranking, rows, asked).alias(far), fn.col(id_).alias(entity))
    best = known.where(fn.col(far).isNotNull()).distinct()
    if plan.limit is not None:
        best = take_first(best, [fn.col(far), fn.col(entity)], asked.reading.resolve_count(plan.limit))
    return rows.join(best, [(id_, entity)], dict(zip(RANK_SLOTS, (far, entity), strict=True)))


# --------------------------------------------------------------------------------------------- negation


def _anti_join(rows: MatchRows, plan: Without, questioned: MatchRows, asked: SparkQueryContext) -> MatchRows:
    """The rows for whose outer entities the inner plan finds nothing; equal ones are asked about once."""
    ids = [questioned.id_of(variable) for variable in plan.outer]
    outer = questioned.select_variables(plan.outer)
    distinct = MatchRows(outer.frame.dropDuplicates(ids), outer.slots)
    found = matched(plan.inner, find_required_attributes(plan.inner, asked.reading.search), asked, distinct)
    return MatchRows(rows.frame.join(found.frame.select(*ids), ids, "left_anti"), rows.slots)

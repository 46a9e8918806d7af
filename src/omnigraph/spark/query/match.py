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
from omnigraph.read.match import Leaf, StepPlan, spine_of
from omnigraph.spark.query.fusion import fused
from omnigraph.spark.query.match_rows import ID, RANKED_BY, Asked, Rows, Slot, limited
from omnigraph.spark.query.predicates import holds
from omnigraph.spark.query.requirements import Needs, needs_of
from omnigraph.spark.query.search import best_first, entities
from omnigraph.spark.query.walk import Steps, reached, turned


def matched(plan: MatchPlan, needs: Needs, asked: Asked, outer: Rows | None = None) -> Rows:
    """The rows of a match; ``outer`` are those that a negation is asked about."""
    spine = spine_of(plan, frozenset())
    rows = _leaf(spine.MatchSpine, needs, asked, outer)
    # Negations that follow each other are all asked about the same rows. Were each asked about what the one before
    # has left, that one would be computed again for it.
    questioned = rows
    for step in spine.steps:
        if isinstance(step.SpineStep, Without):
            rows = _without(rows, step.SpineStep, questioned, asked)
        else:
            rows = questioned = _stepped(step.SpineStep, rows, needs, asked)
    return rows


def _leaf(leaf: Leaf, needs: Needs, asked: Asked, outer: Rows | None) -> Rows:
    match leaf:
        case NodeScan():
            return _nodes(leaf.variable, leaf.node_type, leaf.predicates, needs, asked)
        case Outer():
            return outer or Rows(asked.tables.session.range(1).select(), {})
        case Fuse():
            first, second = (matched(arm, needs, asked) for arm in (leaf.first, leaf.second))
            return fused(first, second, leaf, asked)


def _stepped(plan: StepPlan, rows: Rows, needs: Needs, asked: Asked) -> Rows:
    match plan:
        case Expand():
            return _expanded(plan, rows, reached(plan, rows, asked), needs, asked)
        case ExpandEdges():
            return _expanded(plan, rows, _edges(plan, needs, asked), needs, asked)
        case Connect():
            steps = reached(plan, rows, asked)
            return rows.among(steps.frame, _ends(plan, rows, steps))
        case ConnectEdges():
            steps = _edges(plan, needs, asked)
            return rows.joined(steps.frame, _ends(plan, rows, steps), steps.slots)
        case Cross():
            right = matched(plan.right, needs, asked)
            return Rows(rows.frame.crossJoin(right.frame), {**rows.slots, **right.slots})
        case Select():
            return _satisfying(rows, (plan.predicate,), asked)
        case TopRanked():
            return _top_ranked(plan, rows, asked)
        case Without():
            raise AssertionError("a negation is asked about rows before it")


def _satisfying(rows: Rows, predicates: Iterable[Predicate], asked: Asked) -> Rows:
    for predicate in predicates:
        rows = rows.where(holds(predicate, rows, asked.reading))
    return rows


# --------------------------------------------------------------------------------------------- nodes and edges


def _nodes(variable: str, type_: str, predicates: Iterable[Predicate], needs: Needs, asked: Asked) -> Rows:
    found = entities(variable, asked.reading.catalog.nodes[type_], needs.get(variable, ()), asked)
    return _satisfying(found, predicates, asked)


def _edges(plan: ExpandEdges | ConnectEdges, needs: Needs, asked: Asked) -> Steps:
    """The edges of a type that satisfy the predicates, as they are walked."""
    # Words and vectors are looked for in nodes only.
    bound = (ID, *(trait for trait in needs.get(plan.edge_variable, ()) if isinstance(trait, str)))
    begin, end, *columns = (asked.name() for _ in ("from", "to", *bound))
    slots: dict[Slot, str] = {(plan.edge_variable, name): column for name, column in zip(bound, columns, strict=True)}
    found = asked.tables.edges(plan.edge_type, ["from", "to", *bound])
    walked = turned(found, plan.direction).toDF(begin, end, *columns)
    return Steps(_satisfying(Rows(walked, slots), plan.edge_predicates, asked).frame, begin, end, slots)


def _expanded(plan: Expand | ExpandEdges, rows: Rows, steps: Steps, needs: Needs, asked: Asked) -> Rows:
    found = rows.joined(
        steps.frame, [(rows.id_of(plan.source), steps.begin)], {**steps.slots, (plan.destination, ID): steps.end}
    )
    nodes = _nodes(plan.destination, plan.destination_type, plan.predicates, needs, asked)
    return found.joined(nodes.frame, [(steps.end, nodes.id_of(plan.destination))], nodes.slots)


def _ends(plan: Connect | ConnectEdges, rows: Rows, steps: Steps) -> list[tuple[str, str]]:
    return [(rows.id_of(plan.source), steps.begin), (rows.id_of(plan.destination), steps.end)]


# --------------------------------------------------------------------------------------------- ranking


def _top_ranked(plan: TopRanked, rows: Rows, asked: Asked) -> Rows:
    """The rows of the best entities, each with what its entity is ranked by."""
    id_, far, entity = rows.id_of(plan.ranking.target.variable), asked.name(), asked.name()
    known = rows.frame.select(best_first(plan.ranking, rows, asked).alias(far), fn.col(id_).alias(entity))
    best = known.where(fn.col(far).isNotNull()).distinct()
    if plan.limit is not None:
        best = limited(best, [fn.col(far), fn.col(entity)], asked.reading.resolve_count(plan.limit))
    return rows.joined(best, [(id_, entity)], dict(zip(RANKED_BY, (far, entity), strict=True)))


# --------------------------------------------------------------------------------------------- negation


def _without(rows: Rows, plan: Without, questioned: Rows, asked: Asked) -> Rows:
    """The rows for whose outer entities the inner plan finds nothing; equal ones are asked about once."""
    ids = [questioned.id_of(variable) for variable in plan.outer]
    outer = questioned.of(plan.outer)
    distinct = Rows(outer.frame.dropDuplicates(ids), outer.slots)
    found = matched(plan.inner, needs_of(plan.inner, asked.reading.search), asked, distinct)
    return Rows(rows.frame.join(found.frame.select(*ids), ids, "left_anti"), rows.slots)

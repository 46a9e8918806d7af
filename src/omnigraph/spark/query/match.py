"""Execute the match part of a plan as DataFrames, one operator after the other, from the leaf upwards.

DataFrames are built but not run, except for walks of several hops. Joins keep duplicate rows of a match; whatever must
count once is made distinct before the join.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from omnigraph.language.query import Predicate, TraversalDirection
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    Mark,
    MatchPlan,
    NodeScan,
    Optional,
    Outer,
    Select,
    TopRanked,
    With,
    Without,
)
from omnigraph.language.schema import EdgeType
from omnigraph.read.match import Leaf, StepPlan, build_spine, plan_ranked_scan, split_predicates
from omnigraph.spark.query.evaluation import evaluate_predicate
from omnigraph.spark.query.fusion import fuse
from omnigraph.spark.query.match_rows import (
    ID,
    MARK,
    PAIR_BYTES,
    RANK_SLOTS,
    UNKNOWN_ROWS,
    MatchRows,
    Slot,
    SparkQueryContext,
    take_first,
)
from omnigraph.spark.query.paths import find_paths
from omnigraph.spark.query.requirements import RequiredAttributes, find_required_attributes
from omnigraph.spark.query.search import rank_key, scan_entities
from omnigraph.spark.query.walk import NodePairs, find_destinations, find_hops, orient_edges
from omnigraph.spark.sized_frames import JoinKind, SizedFrame, hint_join
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import column_of
from omnigraph.storage.filters import MAX_LISTED_VALUES, ValueIn
from omnigraph.storage.tables import estimate_row_bytes


def execute_match(
    plan: MatchPlan, required: RequiredAttributes, context: SparkQueryContext, outer: MatchRows | None = None
) -> MatchRows:
    """Return the rows of a match; ``outer`` are the rows that the inner plan of a block starts from."""
    spine = build_spine(plan, frozenset())
    steps = list(spine.steps)
    first = steps[0].plan if steps else None
    best = _scan_best(first, required, context) if isinstance(first, TopRanked) else None
    if isinstance(first, Expand | ExpandEdges) and _is_given_by_edges(spine.leaf, first, required, context):
        rows = _start_at_edges(first, required, context)
        del steps[0]
    else:
        rows = best or _execute_leaf(spine.leaf, required, context, outer)
    # Consecutive blocks all start from the rows before the first of them. If each started from the result of the
    # previous one, Spark would compute that one again.
    before_blocks = rows
    for step in steps:
        if isinstance(step.plan, Optional):
            rows = before_blocks = _join_optional(step.plan, rows, required, context)
        elif isinstance(step.plan, With | Without | Mark):
            rows = _apply_block(rows, step.plan, before_blocks, context)
        else:
            rows = before_blocks = _execute_step(step.plan, rows, required, context)
    return rows


def _execute_leaf(
    leaf: Leaf, required: RequiredAttributes, context: SparkQueryContext, outer: MatchRows | None
) -> MatchRows:
    match leaf:
        case NodeScan():
            return _scan_nodes(leaf.variable, leaf.node_type, leaf.predicates, required, context)
        case Outer():
            return outer or MatchRows(context.tables.session.range(1).select(), {}, max_rows=1)
        case Fuse():
            return fuse([execute_match(arm, required, context) for arm in leaf.arms], leaf, context)


def _execute_step(
    plan: StepPlan, rows: MatchRows, required: RequiredAttributes, context: SparkQueryContext
) -> MatchRows:
    match plan:
        case Expand():
            return _expand(plan, rows, _find_pairs(plan, rows, required, context), required, context)
        case ExpandEdges():
            return _expand(plan, rows, _scan_edges(plan, required, context), required, context)
        case Connect():
            pairs = _find_pairs(plan, rows, required, context)
            ends = _end_columns(plan, rows, pairs)
            if pairs.slots:
                return rows.join(pairs.sized, ends, pairs.slots, context)
            return rows.semi_join(pairs.sized, ends, context)
        case ConnectEdges():
            pairs = _scan_edges(plan, required, context)
            return rows.join(pairs.sized, _end_columns(plan, rows, pairs), pairs.slots, context)
        case Cross():
            right = execute_match(plan.right, required, context)
            most = min(UNKNOWN_ROWS, rows.max_rows * right.max_rows)
            product = rows.frame.crossJoin(right.frame)
            return MatchRows(product, {**rows.slots, **right.slots}, most, rows.row_bytes + right.row_bytes)
        case Select():
            return _filter_rows(rows, (plan.predicate,), context)
        case TopRanked():
            return _take_top_ranked(plan, rows, context)
        case With() | Without() | Mark() | Optional():
            raise AssertionError("execute_match handles blocks")


def _find_pairs(
    plan: Expand | Connect, rows: MatchRows, required: RequiredAttributes, context: SparkQueryContext
) -> NodePairs:
    """Return the pairs of nodes that a walk connects, with the path of each if something reads it."""
    if plan.path is not None and required.get(plan.path):
        return find_paths(plan, plan.path, rows, context)
    return find_destinations(plan, rows, context)


def _filter_rows(rows: MatchRows, predicates: Iterable[Predicate], context: SparkQueryContext) -> MatchRows:
    for predicate in predicates:
        rows = rows.where(evaluate_predicate(predicate, rows, context.query))
    return rows


# --------------------------------------------------------------------------------------------- nodes and edges


def _scan_nodes(
    variable: str, name: str, predicates: Sequence[Predicate], required: RequiredAttributes, context: SparkQueryContext
) -> MatchRows:
    type_ = context.query.catalog.nodes[name]
    pushed, rest = split_predicates(predicates, variable, type_, context.query.evaluation)
    found = scan_entities(variable, type_, required.get(variable, ()), context, pushed)
    return _filter_rows(found, rest, context)


def _scan_edges(
    plan: ExpandEdges | ConnectEdges, required: RequiredAttributes, context: SparkQueryContext
) -> NodePairs:
    """Return the edges of a type that satisfy the predicates, in the direction of the walk."""
    # Only nodes can be searched by words or vectors.
    bound = (ID, *(attribute for attribute in required.get(plan.edge_variable, ()) if isinstance(attribute, str)))
    begin, end, *columns = (context.new_column() for _ in ("from", "to", *bound))
    slots: dict[Slot, str] = {(plan.edge_variable, name): column for name, column in zip(bound, columns, strict=True)}
    edge = context.query.catalog.edges[plan.edge_type]
    pushed, rest = split_predicates(plan.edge_predicates, plan.edge_variable, edge, context.query.evaluation)
    found = context.tables.rows(edge, dict.fromkeys(("from", "to", *bound)), conditions=pushed)
    # An end that is an attribute of the edge stays what it is when the edge is walked against its direction.
    names = zip(("from", "to", *bound), (begin, end, *columns), strict=True)
    renamed = found.select(*(fn.col(name).alias(column) for name, column in names))
    walked = orient_edges(renamed, plan.direction).toDF(begin, end, *columns)
    kept = _filter_rows(MatchRows(walked, slots), rest, context).frame
    row_bytes = PAIR_BYTES + estimate_row_bytes(arrow_schema(edge), [ID, *edge.properties.keys() & set(bound)])
    return NodePairs(kept, begin, end, context.count_walked(plan.edge_type, plan.direction), slots, row_bytes)


def _expand(
    plan: Expand | ExpandEdges,
    rows: MatchRows,
    pairs: NodePairs,
    required: RequiredAttributes,
    context: SparkQueryContext,
) -> MatchRows:
    bound = {**pairs.slots, (plan.destination, ID): pairs.destination}
    found = rows.join(pairs.sized, [(rows.id_of(plan.source), pairs.source)], bound, context)
    return _join_destinations(plan, found, required, context)


def _is_given_by_edges(
    leaf: Leaf, plan: Expand | ExpandEdges, required: RequiredAttributes, context: SparkQueryContext
) -> bool:
    """Return whether one hop from all nodes of a type, of which only the ids are used, is what its edges say."""
    if not isinstance(leaf, NodeScan) or leaf.predicates or required.get(leaf.variable) or plan.source != leaf.variable:
        return False
    if isinstance(plan, ExpandEdges):
        walked = [(plan.edge_type, plan.direction)]
    elif plan.minimum == plan.maximum == 1 and (plan.path is None or not required.get(plan.path)):
        walked = [(step.edge_type, step.direction) for step in plan.steps]
    else:
        return False
    return all(_starts_at(context.query.catalog.edges[edge], direction, leaf.node_type) for edge, direction in walked)


def _starts_at(edge: EdgeType, direction: TraversalDirection, node_type: str) -> bool:
    """Return whether an edge that is walked in a direction begins at nodes of a type, and at no others."""
    begins = {TraversalDirection.OUT: {edge.from_type}, TraversalDirection.IN: {edge.to_type}}
    return begins.get(direction, {edge.from_type, edge.to_type}) == {node_type}


def _start_at_edges(plan: Expand | ExpandEdges, required: RequiredAttributes, context: SparkQueryContext) -> MatchRows:
    """Return the rows of one hop from all nodes of a type. The nodes are not read: every edge begins at one."""
    pairs = _scan_edges(plan, required, context) if isinstance(plan, ExpandEdges) else find_hops(plan, context)
    slots = {(plan.source, ID): pairs.source, **pairs.slots, (plan.destination, ID): pairs.destination}
    found = MatchRows(pairs.frame.select(*slots.values()), slots, pairs.max_rows, pairs.row_bytes)
    return _join_destinations(plan, found, required, context)


def _join_destinations(
    plan: Expand | ExpandEdges, found: MatchRows, required: RequiredAttributes, context: SparkQueryContext
) -> MatchRows:
    """Join the properties of destinations that are used, and keep those that satisfy the predicates."""
    if not (plan.predicates or required.get(plan.destination)):
        # Every edge ends at a node, and the edge has its id.
        return found
    nodes = _scan_nodes(plan.destination, plan.destination_type, plan.predicates, required, context)
    ends = [(found.id_of(plan.destination), nodes.id_of(plan.destination))]
    joined = found.join(nodes.sized, ends, nodes.slots, context)
    # Of each id there is one node.
    return replace(joined, max_rows=found.max_rows)


def _end_columns(plan: Connect | ConnectEdges, rows: MatchRows, pairs: NodePairs) -> list[tuple[str, str]]:
    return [(rows.id_of(plan.source), pairs.source), (rows.id_of(plan.destination), pairs.destination)]


# --------------------------------------------------------------------------------------------- ranking


def _scan_best(plan: TopRanked, required: RequiredAttributes, context: SparkQueryContext) -> MatchRows | None:
    """Read only the best nodes of a scan, and those that tie with the last of them; the ranking above orders them.

    This process asks the storage for their ids. None if the storage cannot rank them, or if they are many.
    """
    scan = plan_ranked_scan(plan, context.query)
    if scan is None or scan.limit > MAX_LISTED_VALUES or not scan.uses_index(context.query):
        return None
    best = scan.find_rows(context.query)
    if best is None or best.rows.num_rows > MAX_LISTED_VALUES:
        return None
    ids = ValueIn((ID,), cast("pa.StringArray", column_of(best.rows, ID)))
    return scan_entities(scan.variable, scan.type, required.get(scan.variable, ()), context, [ids])


def _take_top_ranked(plan: TopRanked, rows: MatchRows, context: SparkQueryContext) -> MatchRows:
    """Return the rows of the best entities, each with the rank key of its entity."""
    id_, key, entity = rows.id_of(plan.ranking.target.variable), context.new_column(), context.new_column()
    known = rows.frame.select(rank_key(plan.ranking, rows, context).alias(key), fn.col(id_).alias(entity))
    best = context.gather(known.where(fn.col(key).isNotNull()).distinct())
    limit = context.query.resolve_total(plan.limit, plan.skip)
    if limit is not None:
        best = take_first(best, [fn.col(key), fn.col(entity)], limit)
    ranked = SizedFrame(best, rows.max_rows if limit is None else limit, PAIR_BYTES)
    joined = rows.join(ranked, [(id_, entity)], dict(zip(RANK_SLOTS, (key, entity), strict=True)), context)
    return replace(joined, max_rows=rows.max_rows)


# --------------------------------------------------------------------------------------------- blocks


def _apply_block(
    rows: MatchRows, plan: With | Without | Mark, before_blocks: MatchRows, context: SparkQueryContext
) -> MatchRows:
    """Keep or mark the rows for which the inner plan finds something; it runs once per distinct outer entities."""
    found = _execute_inner(plan, before_blocks, find_required_attributes(plan.inner, context.query), context)
    ids = [rows.id_of(variable) for variable in plan.outer]
    keys = [context.new_column() for _ in ids]
    witnesses = found.frame.select(*(fn.col(id_).alias(key) for id_, key in zip(ids, keys, strict=True)))
    known = SizedFrame(witnesses, found.max_rows, PAIR_BYTES * max(1, len(keys)))
    match plan:
        case With():
            return replace(rows, frame=_join_outer(rows.frame, known, ids, keys, "left_semi", context))
        case Without():
            return replace(rows, frame=_join_outer(rows.frame, known, ids, keys, "left_anti", context))
        case Mark():
            mark = context.new_column()
            marked = witnesses.distinct().withColumn(mark, fn.lit(True))  # noqa: FBT003  a value, not a switch
            sized = SizedFrame(marked, known.max_rows, known.row_bytes)
            joined = _join_outer(rows.frame, sized, ids, keys, "left", context).drop(*keys)
            is_marked = joined.withColumn(mark, fn.col(mark).isNotNull())
            return replace(rows, frame=is_marked, slots={**rows.slots, (plan.name, MARK): mark})


def _join_optional(
    plan: Optional, rows: MatchRows, required: RequiredAttributes, context: SparkQueryContext
) -> MatchRows:
    """Join the rows with the matches of the inner plan; a row without any is kept once."""
    inside = find_required_attributes(plan.inner, context.query)
    attributes = {
        name: dict.fromkeys((*inside.get(name, ()), *required.get(name, ()))) for name in {*inside, *required}
    }
    found = _execute_inner(plan, rows, attributes, context)
    ids = [rows.id_of(variable) for variable in plan.outer]
    keys = [context.new_column() for _ in ids]
    bound = {slot: column for slot, column in found.slots.items() if slot[0] in plan.variables}
    outer = [fn.col(id_).alias(key) for id_, key in zip(ids, keys, strict=True)]
    matches = found.frame.select(*outer, *bound.values())
    known = SizedFrame(matches, found.max_rows, found.row_bytes)
    joined = _join_outer(rows.frame, known, ids, keys, "left", context).drop(*keys)
    return MatchRows(joined, {**rows.slots, **bound})


def _execute_inner(
    plan: With | Without | Mark | Optional, rows: MatchRows, required: RequiredAttributes, context: SparkQueryContext
) -> MatchRows:
    outer = rows.select_variables(plan.outer)
    keys = [rows.id_of(variable) for variable in plan.outer]
    distinct = outer.frame.dropDuplicates(keys)
    if keys:
        distinct = context.gather(distinct)
    return execute_match(plan.inner, required, context, replace(outer, frame=distinct))


def _join_outer(
    rows: DataFrame,
    found: SizedFrame,
    ids: list[str],
    keys: list[str],
    how: JoinKind,
    context: SparkQueryContext,
) -> DataFrame:
    """Join rows with what a block found for their outer entities."""
    joined = hint_join(rows, found, _same_outer(ids, keys), how)
    return joined if found.can_broadcast or not ids else context.gather(joined)


def _same_outer(ids: list[str], keys: list[str]) -> Column:
    # An outer variable may be absent, and then its id is null.
    equal = [fn.col(id_).eqNullSafe(fn.col(key)) for id_, key in zip(ids, keys, strict=True)]
    return reduce(Column.__and__, equal)

"""Execute the result part of a plan as DataFrames: groups, order, limit, and named columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from omnigraph.language.query import Aggregate, AggregateFunction, ColumnValue, TypedOrderKey
from omnigraph.language.query import ResultColumn as TypedColumn
from omnigraph.language.query.plan import ByRank, Group, Keep, Limit, MatchPlan, Project, ReadPlan, Sort, tables_of
from omnigraph.language.types import FLOATS
from omnigraph.language.values import LARGEST_EXACT_FLOAT
from omnigraph.manifest.handle import Manifest
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import estimate_read_cost
from omnigraph.read.query import PlannedQuery
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.query.evaluation import evaluate, evaluate_predicate
from omnigraph.spark.query.match import execute_match
from omnigraph.spark.query.match_rows import (
    PAIR_BYTES,
    RANK_SLOTS,
    RESULT,
    MatchRows,
    Slot,
    SparkQueryContext,
    sort_rows,
    take_first,
)
from omnigraph.spark.query.requirements import RequiredAttributes, find_required_attributes
from omnigraph.spark.scratch import open_scratch_folder
from omnigraph.spark.source import SparkSnapshot, to_spark_type
from omnigraph.spark.spool import Spool


@dataclass(frozen=True, slots=True)
class _SortAndLimit:
    """The sort and the limit of a result, and the plan below them."""

    below: MatchPlan | Group | Keep
    sort: Sort | None
    end: int | None
    """Where the limit ends, counted from the first row that is not shown."""
    skip: int = 0

    def apply(self, frame: DataFrame, order: list[Column]) -> DataFrame:
        """Sort a frame, skip some rows and keep the first of the others."""
        found = sort_rows(frame, order) if self.end is None else take_first(frame, order, self.end)
        return found.offset(self.skip) if self.skip else found


def run_on_executors(
    query: PlannedQuery, manifest: Manifest, tables: SparkSnapshot, keep_open: Callable[[ExitStack], object]
) -> DataFrame:
    """Return the rows of a query on a snapshot as a DataFrame that executors compute.

    Text searches, embeddings, fusions and walks of several hops run immediately, everything else when Spark runs the
    DataFrame. Rows have the order that the query asks for, until an operation on the DataFrame changes it. If the
    DataFrame reads temporary files, ``keep_open`` gets the stack that deletes them.
    """
    with ExitStack() as stack:
        spool = Spool(
            SparkExecutor(tables.session, "querying"),
            cache(lambda: stack.enter_context(open_scratch_folder(manifest))),
        )
        size = _estimate_data_bytes(query.plan, query.context)
        frame = execute_read(query.plan, SparkQueryContext(query.context, tables, spool, size))
        if spool.has_files:
            keep_open(stack.pop_all())
    return frame


def _estimate_data_bytes(plan: ReadPlan, context: QueryContext) -> int:
    pins = (context.snapshot.pins.get(key) for key in tables_of(plan))
    stored = sum(pin.row_count for pin in pins if pin is not None)
    cost = estimate_read_cost(plan, context)
    return max(cost.read_bytes, max(stored, cost.match_rows) * PAIR_BYTES)


def execute_read(plan: ReadPlan, context: SparkQueryContext) -> DataFrame:
    """Return the rows of a result."""
    required = find_required_attributes(plan, context.query)
    if isinstance(plan, Project):
        return _project(plan, required, context)
    return _group(plan, required, context)


def _split_sort_and_limit(plan: MatchPlan | Group | Keep | Sort | Limit, context: SparkQueryContext) -> _SortAndLimit:
    end, skip = None, 0
    if isinstance(plan, Limit):
        end = context.query.resolve_total(plan.count, plan.skip)
        skip = 0 if plan.skip is None else context.query.resolve_count(plan.skip)
        plan = plan.input
    sort = plan if isinstance(plan, Sort) else None
    return _SortAndLimit(plan.input if isinstance(plan, Sort) else plan, sort, end, skip)


def _order_key(column: Column, *, descending: bool) -> Column:
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


def _name_columns(columns: tuple[TypedColumn, ...], values: Mapping[str, Column]) -> list[Column]:
    return [values[each.name].cast(to_spark_type(each.expression.type)).alias(each.name) for each in columns]


# --------------------------------------------------------------------------------------------- one row per match


def _project(plan: Project, required: RequiredAttributes, context: SparkQueryContext) -> DataFrame:
    top = _split_sort_and_limit(plan.input, context)
    assert not isinstance(top.below, Group | Keep)
    rows = execute_match(top.below, required, context)
    order = [] if top.sort is None else _row_order(top.sort, rows, context)
    values = {each.name: evaluate(each.expression, rows, context.query) for each in plan.columns}
    return top.apply(rows.frame, order).select(*_name_columns(plan.columns, values))


def _row_order(sort: Sort, rows: MatchRows, context: SparkQueryContext) -> list[Column]:
    keys = [column for key in sort.keys for column in _row_order_keys(key, rows, context)]
    return [*keys, *(_order_key(fn.col(rows.id_of(variable)), descending=False) for variable in sort.tie_break)]


def _row_order_keys(key: TypedOrderKey | ByRank, rows: MatchRows, context: SparkQueryContext) -> list[Column]:
    if isinstance(key, ByRank):
        return [_order_key(fn.col(rows.slots[slot]), descending=False) for slot in RANK_SLOTS]
    return [_order_key(evaluate(key.expression, rows, context.query), descending=key.descending)]


# --------------------------------------------------------------------------------------------- one row per group


def _group(plan: Group | Keep | Sort | Limit, required: RequiredAttributes, context: SparkQueryContext) -> DataFrame:
    top = _split_sort_and_limit(plan, context)
    keep = top.below if isinstance(top.below, Keep) else None
    group = top.below if keep is None else keep.input
    assert isinstance(group, Group)
    rows = execute_match(group.input, required, context)
    names = {column.name: context.new_column() for column in group.columns}
    keys = [evaluate(key.expression, rows, context.query).alias(names[key.name]) for key in group.keys]
    aggregates = [
        _aggregate(column.expression, rows, context).alias(names[column.name])
        for column in group.columns
        if isinstance(column.expression, Aggregate)
    ]
    # Without aggregates the groups are the distinct rows.
    frame = rows.frame.groupBy(*keys).agg(*aggregates) if aggregates else rows.frame.select(*keys).distinct()
    if keep is not None:
        slots: dict[Slot, str] = {(RESULT, name): column for name, column in names.items()}
        frame = frame.where(evaluate_predicate(keep.predicate, MatchRows(frame, slots), context.query))
    order = [] if top.sort is None else _group_order(top.sort, names)
    values = {name: fn.col(column) for name, column in names.items()}
    return top.apply(frame, order).select(*_name_columns(group.columns, values))


def _group_order(sort: Sort, names: Mapping[str, str]) -> list[Column]:
    """The stated keys; all columns break ties."""
    ties = [_order_key(fn.col(column), descending=False) for column in names.values()]
    return [*(_group_order_key(key, names) for key in sort.keys), *ties]


def _group_order_key(key: TypedOrderKey | ByRank, names: Mapping[str, str]) -> Column:
    assert isinstance(key, TypedOrderKey)
    assert isinstance(key.expression, ColumnValue), "groups are sorted by their columns"
    return _order_key(fn.col(names[key.expression.name]), descending=key.descending)


def _aggregate(aggregate: Aggregate, rows: MatchRows, context: SparkQueryContext) -> Column:
    argument = evaluate(aggregate.argument, rows, context.query)
    is_float = aggregate.argument.type.scalar in FLOATS
    match aggregate.function:
        case AggregateFunction.COUNT:
            return fn.count_distinct(argument) if aggregate.distinct else fn.count(argument)
        case AggregateFunction.SUM:
            return _sum(argument, is_float=is_float).cast("double")
        case AggregateFunction.AVG:
            return _mean(_sum(argument, is_float=is_float), fn.count(argument), is_float=is_float)
        case AggregateFunction.MIN:
            return fn.min(argument)
        case AggregateFunction.MAX:
            return fn.max(argument)
        case AggregateFunction.COLLECT:
            collected = fn.collect_set(argument) if aggregate.distinct else fn.collect_list(argument)
            return fn.sort_array(collected)


def _sum(numbers: Column, *, is_float: bool) -> Column:
    """Sum numbers; sums of integers are exact and cannot overflow below 10 billion of the largest."""
    return fn.sum(numbers.cast("double" if is_float else "decimal(20,0)"))


def _mean(sum_: Column, count: Column, *, is_float: bool) -> Column:
    # The count is 0 only where the sum is null.
    counted = fn.greatest(count, fn.lit(1))
    mean = sum_.cast("double") / counted.cast("double")
    if is_float:
        return mean
    # Converting a large sum to a float before the division would round twice.
    exact = (sum_ / counted.cast("decimal(20,0)")).cast("double")
    return fn.when(fn.abs(sum_) <= fn.lit(LARGEST_EXACT_FLOAT), mean).otherwise(exact)

"""Execute the result part of a plan as DataFrames: groups, order, limit, and named columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from omnigraph.language.query import Aggregate, AggregateFunction, ColumnValue, TypedOrderKey
from omnigraph.language.query import ResultColumn as TypedColumn
from omnigraph.language.query.plan import (
    BranchPlan,
    ByRank,
    Group,
    Keep,
    Limit,
    MatchPlan,
    Project,
    ReadPlan,
    Sort,
    TopRows,
    Union,
    tables_of,
)
from omnigraph.language.types import FLOATS
from omnigraph.language.values import LARGEST_EXACT_FLOAT
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import estimate_read_cost
from omnigraph.read.query import PlannedQuery
from omnigraph.read.result import result_columns_of
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.query.computed import convert_number
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
from omnigraph.spark.query.requirements import find_required_attributes
from omnigraph.spark.scratch import open_scratch_folder
from omnigraph.spark.source import SparkSnapshot, to_spark_type
from omnigraph.spark.spool import Spool


@dataclass(frozen=True, slots=True)
class _SortAndLimit:
    """The sort and the limit of a result, and the plan below them."""

    below: MatchPlan | Group | Keep | Union
    sort: Sort | None
    end: int | None
    """Where the limit ends, counted from the first row that is not shown."""
    skip: int = 0

    def apply(self, frame: DataFrame, order: list[Column], context: SparkQueryContext) -> DataFrame:
        """Sort a frame, skip some rows and keep the first of the others."""
        if self.end is not None:
            found = take_first(frame, order, self.end)
        elif self.skip and order:
            # Only its own sort tells Spark which rows are skipped.
            found = frame.orderBy(*order)
        else:
            found = sort_rows(frame, order, context)
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
    if isinstance(plan, Project):
        top = _split_sort_and_limit(plan.input, context)
        if not isinstance(top.below, Union):
            return _project(plan, top, context)
        return _show_columns(top, plan.columns, context)
    return _show_columns(_split_sort_and_limit(plan, context), result_columns_of(plan), context)


def _split_sort_and_limit(plan: MatchPlan | ReadPlan, context: SparkQueryContext) -> _SortAndLimit:
    end, skip = None, 0
    if isinstance(plan, TopRows):
        end = context.query.resolve_total(plan.limit, plan.skip)
        plan = plan.input
    if isinstance(plan, Limit):
        end = context.query.resolve_total(plan.count, plan.skip)
        skip = 0 if plan.skip is None else context.query.resolve_count(plan.skip)
        plan = plan.input
    assert not isinstance(plan, Project | Limit | TopRows)
    sort = plan if isinstance(plan, Sort) else None
    return _SortAndLimit(plan.input if isinstance(plan, Sort) else plan, sort, end, skip)


def _order_key(column: Column, *, descending: bool) -> Column:
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


def _name_columns(columns: tuple[TypedColumn, ...], values: Mapping[str, Column]) -> list[Column]:
    return [values[each.name].cast(to_spark_type(each.expression.type)).alias(each.name) for each in columns]


# --------------------------------------------------------------------------------------------- one row per match


def _project(plan: Project, top: _SortAndLimit, context: SparkQueryContext) -> DataFrame:
    assert not isinstance(top.below, Group | Keep | Union)
    rows = execute_match(top.below, find_required_attributes(plan, context.query), context)
    order = [] if top.sort is None else _row_order(top.sort, rows, context)
    values = {each.name: evaluate(each.expression, rows, context.query) for each in plan.columns}
    return top.apply(rows.frame, order, context).select(*_name_columns(plan.columns, values))


def _row_order(sort: Sort, rows: MatchRows, context: SparkQueryContext) -> list[Column]:
    keys = [column for key in sort.keys for column in _row_order_keys(key, rows, context)]
    return [*keys, *(_order_key(fn.col(rows.id_of(variable)), descending=False) for variable in sort.tie_break)]


def _row_order_keys(key: TypedOrderKey | ByRank, rows: MatchRows, context: SparkQueryContext) -> list[Column]:
    if isinstance(key, ByRank):
        return [_order_key(fn.col(rows.slots[slot]), descending=False) for slot in RANK_SLOTS]
    return [_order_key(evaluate(key.expression, rows, context.query), descending=key.descending)]


# --------------------------------------------------------------------------------------------- columns


def _show_columns(top: _SortAndLimit, columns: tuple[TypedColumn, ...], context: SparkQueryContext) -> DataFrame:
    """Sort and limit rows of columns, and show some of the columns under their names."""
    assert isinstance(top.below, Group | Keep | Union)
    rows = _execute_columns(top.below, context)
    names = {str(attribute): column for (_, attribute), column in rows.slots.items()}
    order = [] if top.sort is None else _column_order(top.sort, names)
    return top.apply(rows.frame, order, context).select(
        *_name_columns(columns, {name: fn.col(column) for name, column in names.items()})
    )


def _execute_columns(plan: Group | Keep | Union, context: SparkQueryContext) -> MatchRows:
    """Return rows of columns; a slot of the result holds each."""
    match plan:
        case Group():
            return _group(plan, context)
        case Keep():
            rows = _group(plan.input, context)
            return rows.where(evaluate_predicate(plan.predicate, rows, context.query))
        case Union():
            return _unite(plan, context)


def _unite(plan: Union, context: SparkQueryContext) -> MatchRows:
    """Put the rows of all branches together; each branch has names of its own for the same columns."""
    slots: dict[Slot, str] = {(RESULT, column.name): context.new_column() for column in plan.columns}
    frames = [_convert_branch(branch, plan, slots, context) for branch in plan.branches]
    return MatchRows(reduce(DataFrame.union, frames), slots)


def _convert_branch(
    branch: BranchPlan, plan: Union, slots: Mapping[Slot, str], context: SparkQueryContext
) -> DataFrame:
    # By position: the names of two columns may differ in case only.
    columns = zip(slots.values(), result_columns_of(branch), plan.columns, strict=True)
    shown = execute_read(branch, context).toDF(*slots.values())
    return shown.select(
        *(
            convert_number(fn.col(name), given.expression.type, target.type).alias(name)
            for name, given, target in columns
        )
    )


def _group(group: Group, context: SparkQueryContext) -> MatchRows:
    """Return one row per group."""
    if isinstance(group.input, Union):
        rows = _unite(group.input, context)
    else:
        rows = execute_match(group.input, find_required_attributes(group, context.query), context)
    names = {column.name: context.new_column() for column in group.columns}
    keys = [evaluate(key.expression, rows, context.query).alias(names[key.name]) for key in group.keys]
    aggregates = [
        _aggregate(column.expression, rows, context).alias(names[column.name])
        for column in group.columns
        if isinstance(column.expression, Aggregate)
    ]
    # Without aggregates the groups are the distinct rows.
    frame = rows.frame.groupBy(*keys).agg(*aggregates) if aggregates else rows.frame.select(*keys).distinct()
    if keys:
        frame = context.gather(frame)
    return MatchRows(frame, {(RESULT, name): column for name, column in names.items()})


def _column_order(sort: Sort, names: Mapping[str, str]) -> list[Column]:
    """The stated keys; all columns break ties."""
    ties = [_order_key(fn.col(column), descending=False) for column in names.values()]
    return [*(_column_order_key(key, names) for key in sort.keys), *ties]


def _column_order_key(key: TypedOrderKey | ByRank, names: Mapping[str, str]) -> Column:
    assert isinstance(key, TypedOrderKey)
    assert isinstance(key.expression, ColumnValue), "groups and unions are sorted by their columns"
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

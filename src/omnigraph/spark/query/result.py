"""The result part of a plan as DataFrames: groups, order, a limit, and columns with names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from omnigraph.language.query import Aggregate, AggregateFunction, ColumnValue, SortKey
from omnigraph.language.query import ResultColumn as TypedColumn
from omnigraph.language.query.plan import ByRank, Group, Limit, MatchPlan, Project, ReadPlan, Sort
from omnigraph.language.types import FLOATS
from omnigraph.manifest.handle import Manifest
from omnigraph.read.query import QueryOptions, QueryRequest, plan_query
from omnigraph.read.search import EmbeddingSettings
from omnigraph.spark.query.match import matched
from omnigraph.spark.query.match_rows import RANK_SLOTS, MatchRows, SparkQueryContext, sort_rows, take_first
from omnigraph.spark.query.requirements import RequiredAttributes, find_required_attributes
from omnigraph.spark.query.values import evaluate
from omnigraph.spark.source import SparkSnapshot, to_spark_type

_MOST_EXACT: Final = 2**53
"""Integers up to here are floats without loss."""


@dataclass(frozen=True, slots=True)
class _SortAndLimit:
    """What stands above the rows or groups of a result."""

    below: MatchPlan | Group
    sort: Sort | None
    limit: int | None

    def apply(self, frame: DataFrame, order: list[Column]) -> DataFrame:
        """The first rows of a frame, in order."""
        return sort_rows(frame, order) if self.limit is None else take_first(frame, order, self.limit)


def query(
    manifest: Manifest, tables: SparkSnapshot, question: QueryRequest, embedding: EmbeddingSettings | None
) -> DataFrame:
    """The rows that a query has on a snapshot; its time for ``now()`` is that of this call.

    Words are searched, texts embedded and walks of more than one hop made at once, everything else when Spark runs
    the DataFrame. Rows are in the order that the query asks for until something is done that changes it.
    """
    asked = plan_query(manifest, tables.snapshot, question, QueryOptions(embedding))
    return answered(asked.plan, SparkQueryContext(asked.context, tables))


def answered(plan: ReadPlan, asked: SparkQueryContext) -> DataFrame:
    """The rows of a result."""
    needs = find_required_attributes(plan, asked.reading.search)
    if isinstance(plan, Project):
        return _project(plan, needs, asked)
    return _group(plan, needs, asked)


def _split_sort_and_limit(plan: MatchPlan | Group | Sort | Limit, asked: SparkQueryContext) -> _SortAndLimit:
    limit = asked.reading.resolve_count(plan.count) if isinstance(plan, Limit) else None
    plan = plan.input if isinstance(plan, Limit) else plan
    sort = plan if isinstance(plan, Sort) else None
    return _SortAndLimit(plan.input if isinstance(plan, Sort) else plan, sort, limit)


def _order_key(column: Column, *, descending: bool) -> Column:
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


def _name_columns(columns: tuple[TypedColumn, ...], values: Mapping[str, Column]) -> list[Column]:
    return [values[each.name].cast(to_spark_type(each.expression.type)).alias(each.name) for each in columns]


# --------------------------------------------------------------------------------------------- one row per match


def _project(plan: Project, needs: RequiredAttributes, asked: SparkQueryContext) -> DataFrame:
    cut = _split_sort_and_limit(plan.input, asked)
    assert not isinstance(cut.below, Group)
    rows = matched(cut.below, needs, asked)
    order = [] if cut.sort is None else _row_order(cut.sort, rows, asked)
    values = {each.name: evaluate(each.expression, rows, asked.reading) for each in plan.columns}
    return cut.apply(rows.frame, order).select(*_name_columns(plan.columns, values))


def _row_order(sort: Sort, rows: MatchRows, asked: SparkQueryContext) -> list[Column]:
    keys = [column for key in sort.keys for column in _row_order_keys(key, rows, asked)]
    return [*keys, *(_order_key(fn.col(rows.id_of(variable)), descending=False) for variable in sort.tie_break)]


def _row_order_keys(key: SortKey | ByRank, rows: MatchRows, asked: SparkQueryContext) -> list[Column]:
    if isinstance(key, ByRank):
        return [_order_key(fn.col(rows.slots[slot]), descending=False) for slot in RANK_SLOTS]
    return [_order_key(evaluate(key.expression, rows, asked.reading), descending=key.descending)]


# --------------------------------------------------------------------------------------------- one row per group


def _group(plan: Group | Sort | Limit, needs: RequiredAttributes, asked: SparkQueryContext) -> DataFrame:
    cut = _split_sort_and_limit(plan, asked)
    group = cut.below
    assert isinstance(group, Group)
    rows = matched(group.input, needs, asked)
    names = {column.name: asked.new_column() for column in group.columns}
    keys = [evaluate(key.expression, rows, asked.reading).alias(names[key.name]) for key in group.keys]
    aggregates = [
        _aggregate(column.expression, rows, asked).alias(names[column.name])
        for column in group.columns
        if isinstance(column.expression, Aggregate)
    ]
    frame = rows.frame.groupBy(*keys).agg(*aggregates)
    order = [] if cut.sort is None else [_group_order_key(key, names) for key in cut.sort.keys]
    values = {name: fn.col(column) for name, column in names.items()}
    return cut.apply(frame, order).select(*_name_columns(group.columns, values))


def _group_order_key(key: SortKey | ByRank, names: Mapping[str, str]) -> Column:
    assert isinstance(key, SortKey)
    assert isinstance(key.expression, ColumnValue), "groups are sorted by their columns"
    return _order_key(fn.col(names[key.expression.name]), descending=key.descending)


def _aggregate(aggregate: Aggregate, rows: MatchRows, asked: SparkQueryContext) -> Column:
    argument = evaluate(aggregate.argument, rows, asked.reading)
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


def _sum(numbers: Column, *, is_float: bool) -> Column:
    """The sum; of integers it is exact and has room for 10 billion of the largest."""
    return fn.sum(numbers.cast("double" if is_float else "decimal(20,0)"))


def _mean(sum_: Column, count: Column, *, is_float: bool) -> Column:
    # Nothing was counted only where the sum is null.
    counted = fn.greatest(count, fn.lit(1))
    mean = sum_.cast("double") / counted.cast("double")
    if is_float:
        return mean
    # A sum that is rounded to a float and then divided would be rounded twice.
    exact = (sum_ / counted.cast("decimal(20,0)")).cast("double")
    return fn.when(fn.abs(sum_) <= fn.lit(_MOST_EXACT), mean).otherwise(exact)

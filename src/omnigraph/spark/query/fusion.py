"""Reciprocal rank fusion: merge two rankings into one, which ``rrf`` orders by."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from omnigraph.language.query.plan import Fuse
from omnigraph.spark.query.match_rows import (
    PAIR_BYTES,
    RANK_SLOTS,
    RESULT,
    UNKNOWN_ROWS,
    MatchRows,
    SparkQueryContext,
    take_first,
)
from omnigraph.spark.query.requirements import fusion_of_plan
from omnigraph.spark.sized_frames import SizedFrame


def fuse(first: MatchRows, second: MatchRows, plan: Fuse, context: SparkQueryContext) -> MatchRows:
    """Return the rows of the best entities of both rankings. Rows of an entity come from the first ranking that has it.

    One task numbers all rows of a ranking: every match for words, as many as the limit for vectors.
    """
    # Each side is read twice: to rank its entities, and for its rows.
    first, second = (_keep_rows(rows, context) for rows in (first, second))
    fusion = fusion_of_plan(plan, context.query.search)
    scores = _score_entities(
        _rank_entities(first, plan.variable, context), _rank_entities(second, plan.variable, context), fusion.k, context
    )
    entity, in_first, in_second, score = scores.columns
    order = [fn.col(score).desc(), fn.col(in_first).asc_nulls_last(), fn.col(in_second).asc_nulls_last()]
    best, rank = scores, context.new_column()
    limit = context.query.resolve_total(plan.limit, plan.skip)
    if limit is not None:
        best = take_first(best, order, limit)
    best = best.withColumn(rank, fn.row_number().over(Window.orderBy(*order)))
    bound = {**dict(zip(RANK_SLOTS, (rank, entity), strict=True)), (RESULT, fusion): score}
    most = UNKNOWN_ROWS if limit is None else limit
    kept = first.join(SizedFrame(best, most, PAIR_BYTES), [(first.id_of(plan.variable), entity)], bound, context)
    rest = best.where(fn.col(in_first).isNull())
    added = second.join(SizedFrame(rest, most, PAIR_BYTES), [(second.id_of(plan.variable), entity)], bound, context)
    return MatchRows(kept.frame.union(added.frame.select(*(added.slots[slot] for slot in kept.slots))), kept.slots)


def _keep_rows(rows: MatchRows, context: SparkQueryContext) -> MatchRows:
    kept = context.spool.keep(rows.frame)
    return MatchRows(kept.frame, rows.slots, kept.max_rows, kept.row_bytes)


def number_entities(ranked: DataFrame, context: SparkQueryContext) -> DataFrame:
    """Number entities from 0 for the best. The input has two columns: the rank key and the id."""
    key, id_ = ranked.columns
    number = fn.row_number().over(Window.orderBy(key, id_)) - 1
    return ranked.select(fn.col(id_).alias(context.new_column()), number.alias(context.new_column()))


def fuse_ranks(first: Column, second: Column, k: int) -> Column:
    """Return the fused score of an entity, given its number in each ranking; null if it is in neither."""
    score = _reciprocal_rank(first, k) + _reciprocal_rank(second, k)
    return fn.when(first.isNotNull() | second.isNotNull(), score)


def _reciprocal_rank(number: Column, k: int) -> Column:
    score = fn.lit(1.0) / (fn.lit(float(k)) + number + fn.lit(1.0))
    return fn.coalesce(score, fn.lit(0.0))


def _rank_entities(rows: MatchRows, variable: str, context: SparkQueryContext) -> DataFrame:
    """Number the entities of a variable by the best rank among their rows."""
    rank = fn.min(fn.struct(*(rows.slots[slot] for slot in RANK_SLOTS)))
    id_, key = rows.id_of(variable), context.new_column()
    return number_entities(rows.frame.groupBy(id_).agg(rank.alias(key)).select(key, id_), context)


def _score_entities(first: DataFrame, second: DataFrame, k: int, context: SparkQueryContext) -> DataFrame:
    """Join two rankings: each entity, its number in both, and its fused score."""
    (in_first, first_number), (in_second, second_number) = first.columns, second.columns
    both = first.join(second, fn.col(in_first) == fn.col(in_second), "full")
    return both.select(
        fn.coalesce(in_first, in_second).alias(context.new_column()),
        first_number,
        second_number,
        fuse_ranks(fn.col(first_number), fn.col(second_number), k).alias(context.new_column()),
    )

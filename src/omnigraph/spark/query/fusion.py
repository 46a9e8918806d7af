"""Reciprocal rank fusion: merge rankings into one, which ``rrf`` orders by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

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


def fuse(arms: Sequence[MatchRows], plan: Fuse, context: SparkQueryContext) -> MatchRows:
    """Return the rows of the best entities of all rankings. Rows of an entity come from the first ranking that has it.

    One task numbers all rows of a ranking: every match for words, as many as the limit for vectors.
    """
    # Each arm is read twice: to rank its entities, and for its rows.
    kept = [_keep_rows(rows, context) for rows in arms]
    fusion = fusion_of_plan(plan, context.query.search)
    scores = _score_entities([_rank_entities(rows, plan.variable, context) for rows in kept], fusion.k, context)
    entity, *numbers, score = scores.columns
    order = [fn.col(score).desc(), *(fn.col(number).asc_nulls_last() for number in numbers)]
    best, rank = scores, context.new_column()
    limit = context.query.resolve_total(plan.limit, plan.skip)
    if limit is not None:
        best = take_first(best, order, limit)
    best = best.withColumn(rank, fn.row_number().over(Window.orderBy(*order)))
    bound = {**dict(zip(RANK_SLOTS, (rank, entity), strict=True)), (RESULT, fusion): score}
    most = UNKNOWN_ROWS if limit is None else limit
    found: list[MatchRows] = []
    for rows, number in zip(kept, numbers, strict=True):
        sized = SizedFrame(best.where(fn.col(number).isNotNull()), most, PAIR_BYTES)
        found.append(rows.join(sized, [(rows.id_of(plan.variable), entity)], bound, context))
        # What this arm has is not taken from the next ones.
        best = best.where(fn.col(number).isNull())
    slots = found[0].slots
    frames = [rows.frame.select(*(rows.slots[slot] for slot in slots)) for rows in found]
    return MatchRows(reduce(DataFrame.union, frames), slots)


def _keep_rows(rows: MatchRows, context: SparkQueryContext) -> MatchRows:
    kept = context.spool.keep(rows.frame)
    return MatchRows(kept.frame, rows.slots, kept.max_rows, kept.row_bytes)


def number_entities(ranked: DataFrame, context: SparkQueryContext) -> DataFrame:
    """Number entities from 0 for the best. The input has two columns: the rank key and the id."""
    key, id_ = ranked.columns
    number = fn.row_number().over(Window.orderBy(key, id_)) - 1
    return ranked.select(fn.col(id_).alias(context.new_column()), number.alias(context.new_column()))


def fuse_ranks(numbers: Sequence[Column], k: int) -> Column:
    """Return the fused score of an entity, given its number in each ranking; null if it is in none."""
    score = reduce(Column.__add__, [_reciprocal_rank(number, k) for number in numbers])
    return fn.when(reduce(Column.__or__, [number.isNotNull() for number in numbers]), score)


def _reciprocal_rank(number: Column, k: int) -> Column:
    score = fn.lit(1.0) / (fn.lit(float(k)) + number + fn.lit(1.0))
    return fn.coalesce(score, fn.lit(0.0))


def _rank_entities(rows: MatchRows, variable: str, context: SparkQueryContext) -> DataFrame:
    """Number the entities of a variable by the best rank among their rows."""
    rank = fn.min(fn.struct(*(rows.slots[slot] for slot in RANK_SLOTS)))
    id_, key = rows.id_of(variable), context.new_column()
    best = context.gather(rows.frame.groupBy(id_).agg(rank.alias(key)).select(key, id_))
    return number_entities(best, context)


def _score_entities(rankings: Sequence[DataFrame], k: int, context: SparkQueryContext) -> DataFrame:
    """Join rankings: each entity, its number in every one, and its fused score."""
    joined, *others = rankings
    for other in others:
        (entity, *numbers), (same, number) = joined.columns, other.columns
        both = joined.join(other, fn.col(entity) == fn.col(same), "full")
        joined = both.select(fn.coalesce(entity, same).alias(context.new_column()), *numbers, number)
    numbers = [fn.col(number) for number in joined.columns[1:]]
    return joined.select("*", fuse_ranks(numbers, k).alias(context.new_column()))

"""Two rankings as one, by reciprocal rank: what ``rrf`` orders by."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from omnigraph.language.query.plan import Fuse
from omnigraph.spark.query.match_rows import RANK_SLOTS, RESULT, MatchRows, SparkQueryContext, take_first
from omnigraph.spark.query.requirements import fusion_of_plan


def fuse(first: MatchRows, second: MatchRows, plan: Fuse, asked: SparkQueryContext) -> MatchRows:
    """The rows of the entities that are best in both rankings together; an entity's are those of the first that has it.

    One task numbers what a ranking has: all that match, for words, and as many as the limit, for vectors.
    """
    # Rows are needed to number their entities and once more as rows.
    first, second = (MatchRows(rows.frame.localCheckpoint(eager=False), rows.slots) for rows in (first, second))
    made = fusion_of_plan(plan, asked.reading.search)
    scores = _score_entities(
        _rank_entities(first, plan.variable, asked), _rank_entities(second, plan.variable, asked), made.k, asked
    )
    entity, in_first, in_second, score = scores.columns
    order = [fn.col(score).desc(), fn.col(in_first).asc_nulls_last(), fn.col(in_second).asc_nulls_last()]
    best, rank = scores, asked.new_column()
    if plan.limit is not None:
        best = take_first(best, order, asked.reading.resolve_count(plan.limit))
    best = best.withColumn(rank, fn.row_number().over(Window.orderBy(*order)))
    bound = {**dict(zip(RANK_SLOTS, (rank, entity), strict=True)), (RESULT, made): score}
    kept = first.join(best, [(first.id_of(plan.variable), entity)], bound)
    rest = best.where(fn.col(in_first).isNull())
    added = second.join(rest, [(second.id_of(plan.variable), entity)], bound)
    return MatchRows(kept.frame.union(added.frame.select(*(added.slots[slot] for slot in kept.slots))), kept.slots)


def number_entities(ranked: DataFrame, asked: SparkQueryContext) -> DataFrame:
    """Entities, given by what they are ranked by and their ids, with their numbers, 0 for the best."""
    key, id_ = ranked.columns
    number = fn.row_number().over(Window.orderBy(key, id_)) - 1
    return ranked.select(fn.col(id_).alias(asked.new_column()), number.alias(asked.new_column()))


def fuse_ranks(first: Column, second: Column, k: int) -> Column:
    """The score of an entity by its numbers in two rankings; null if it is in neither."""
    score = _reciprocal_rank(first, k) + _reciprocal_rank(second, k)
    return fn.when(first.isNotNull() | second.isNotNull(), score)


def _reciprocal_rank(number: Column, k: int) -> Column:
    share = fn.lit(1.0) / (fn.lit(float(k)) + number + fn.lit(1.0))
    return fn.coalesce(share, fn.lit(0.0))


def _rank_entities(rows: MatchRows, variable: str, asked: SparkQueryContext) -> DataFrame:
    """The entities of a variable, numbered by the best rank among their rows."""
    rank = fn.min(fn.struct(*(rows.slots[slot] for slot in RANK_SLOTS)))
    id_, key = rows.id_of(variable), asked.new_column()
    return number_entities(rows.frame.groupBy(id_).agg(rank.alias(key)).select(key, id_), asked)


def _score_entities(first: DataFrame, second: DataFrame, k: int, asked: SparkQueryContext) -> DataFrame:
    """Each entity of two rankings, its number in both, and its score."""
    (in_first, first_number), (in_second, second_number) = first.columns, second.columns
    both = first.join(second, fn.col(in_first) == fn.col(in_second), "full")
    return both.select(
        fn.coalesce(in_first, in_second).alias(asked.new_column()),
        first_number,
        second_number,
        fuse_ranks(fn.col(first_number), fn.col(second_number), k).alias(asked.new_column()),
    )

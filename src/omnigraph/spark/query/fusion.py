"""Two rankings as one, by reciprocal rank: what ``rrf`` orders by."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from omnigraph.language.query.plan import Fuse
from omnigraph.spark.query.match_rows import RANKED_BY, RESULT, Asked, Rows, limited
from omnigraph.spark.query.requirements import fusion_made


def fused(first: Rows, second: Rows, plan: Fuse, asked: Asked) -> Rows:
    """The rows of the entities that are best in both rankings together; an entity's are those of the first that has it.

    One task numbers what a ranking has: all that match, for words, and as many as the limit, for vectors.
    """
    # Rows are needed to number their entities and once more as rows.
    first, second = (Rows(rows.frame.localCheckpoint(eager=False), rows.slots) for rows in (first, second))
    made = fusion_made(plan, asked.reading.search)
    scores = _scores(_entities(first, plan.variable, asked), _entities(second, plan.variable, asked), made.k, asked)
    entity, in_first, in_second, score = scores.columns
    order = [fn.col(score).desc(), fn.col(in_first).asc_nulls_last(), fn.col(in_second).asc_nulls_last()]
    best, rank = scores, asked.name()
    if plan.limit is not None:
        best = limited(best, order, asked.reading.resolve_count(plan.limit))
    best = best.withColumn(rank, fn.row_number().over(Window.orderBy(*order)))
    bound = {**dict(zip(RANKED_BY, (rank, entity), strict=True)), (RESULT, made): score}
    kept = first.joined(best, [(first.id_of(plan.variable), entity)], bound)
    rest = best.where(fn.col(in_first).isNull())
    added = second.joined(rest, [(second.id_of(plan.variable), entity)], bound)
    return Rows(kept.frame.union(added.frame.select(*(added.slots[slot] for slot in kept.slots))), kept.slots)


def numbered(ranked: DataFrame, asked: Asked) -> DataFrame:
    """Entities, given by what they are ranked by and their ids, with their numbers, 0 for the best."""
    key, id_ = ranked.columns
    number = fn.row_number().over(Window.orderBy(key, id_)) - 1
    return ranked.select(fn.col(id_).alias(asked.name()), number.alias(asked.name()))


def fused_score(first: Column, second: Column, k: int) -> Column:
    """The score of an entity by its numbers in two rankings; null if it is in neither."""
    score = _share(first, k) + _share(second, k)
    return fn.when(first.isNotNull() | second.isNotNull(), score)


def _share(number: Column, k: int) -> Column:
    share = fn.lit(1.0) / (fn.lit(float(k)) + number + fn.lit(1.0))
    return fn.coalesce(share, fn.lit(0.0))


def _entities(rows: Rows, variable: str, asked: Asked) -> DataFrame:
    """The entities of a variable, numbered by the best rank among their rows."""
    rank = fn.min(fn.struct(*(rows.slots[slot] for slot in RANKED_BY)))
    id_, key = rows.id_of(variable), asked.name()
    return numbered(rows.frame.groupBy(id_).agg(rank.alias(key)).select(key, id_), asked)


def _scores(first: DataFrame, second: DataFrame, k: int, asked: Asked) -> DataFrame:
    """Each entity of two rankings, its number in both, and its score."""
    (in_first, first_number), (in_second, second_number) = first.columns, second.columns
    both = first.join(second, fn.col(in_first) == fn.col(in_second), "full")
    return both.select(
        fn.coalesce(in_first, in_second).alias(asked.name()),
        first_number,
        second_number,
        fused_score(fn.col(first_number), fn.col(second_number), k).alias(asked.name()),
    )

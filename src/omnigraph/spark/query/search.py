"""What a search says of entities, as columns of their rows.

Words are looked up and texts embedded in this process, while the frame is put together, by what answers without Spark:
so both agree. Spark gets the ids and scores of what was found, and joins them to the rows; memory here grows with what
is found, not with what is searched.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as fn

from omnigraph.language.query import Distance, TextMatch, TextScore
from omnigraph.language.schema import NodeType
from omnigraph.read.search import Ranking
from omnigraph.spark.query.fusion import number_entities
from omnigraph.spark.query.match_rows import ID, Attribute, Fusion, MatchRows, RankNumber, SparkQueryContext, bind_rows
from omnigraph.spark.query.requirements import traits_of
from omnigraph.spark.query.values import compute_distance, evaluate
from omnigraph.storage.columns import column_of
from omnigraph.storage.searching import SCORE


def scan_entities(variable: str, type_: NodeType, traits: Iterable[Attribute], asked: SparkQueryContext) -> MatchRows:
    """All rows of a type as those of a variable, with its id and the traits that are asked for."""
    traits = list(traits)
    names = [trait for trait in traits if isinstance(trait, str)]
    found = asked.tables.rows(type_, [ID, *names])
    return _add_search_columns(bind_rows(found, variable, names, asked), variable, type_, traits, asked)


def _add_search_columns(
    rows: MatchRows, variable: str, type_: NodeType, traits: Iterable[Attribute], asked: SparkQueryContext
) -> MatchRows:
    """The rows of a variable with what searches say of it; its properties are there already."""
    for trait in traits:
        match trait:
            case TextMatch() | TextScore():
                rows = _add_text_search(rows, variable, type_, trait, asked)
            case Distance():
                vector = asked.reading.search.resolve_vector(trait, type_.table_key)
                away = compute_distance(evaluate(trait.target, rows, asked.reading), vector)
                rows = rows.with_column((variable, trait), away, asked.new_column())
            case RankNumber():
                rows = _add_rank_number(rows, variable, type_, trait, asked)
            case str() | Fusion():
                pass
    return rows


def rank_key(ranking: Ranking, rows: MatchRows, asked: SparkQueryContext) -> Column:
    """What entities are ranked by, the smallest first; null for those that have no rank."""
    found = evaluate(ranking, rows, asked.reading)
    return -found if isinstance(ranking, TextScore) else found


def _add_text_search(
    rows: MatchRows, variable: str, type_: NodeType, trait: TextMatch | TextScore, asked: SparkQueryContext
) -> MatchRows:
    slot, column, id_ = (variable, trait), asked.new_column(), asked.new_column()
    found = asked.reading.search.find_texts(trait, type_.table_key)
    if found is None:
        nothing = fn.lit(None).cast("double" if isinstance(trait, TextScore) else "boolean")
        return rows.with_column(slot, nothing, column)
    scores = column_of(found, SCORE).cast(pa.float64())
    hits = asked.tables.session.createDataFrame(pa.table({id_: column_of(found, ID), column: scores}))
    rows = rows.left_join(hits, (rows.id_of(variable), id_), {slot: column})
    return (
        rows if isinstance(trait, TextScore) else rows.with_column(slot, fn.col(column).isNotNull(), asked.new_column())
    )


def _add_rank_number(
    rows: MatchRows, variable: str, type_: NodeType, trait: RankNumber, asked: SparkQueryContext
) -> MatchRows:
    ranking = trait.ranking
    among = scan_entities(variable, type_, [each for _, each in traits_of(ranking)], asked)
    key = asked.new_column()
    ranked = among.frame.select(rank_key(ranking, among, asked).alias(key), among.id_of(variable))
    numbers = number_entities(ranked.where(fn.col(key).isNotNull()), asked)
    id_, number = numbers.columns
    return rows.left_join(numbers, (rows.id_of(variable), id_), {(variable, trait): number})

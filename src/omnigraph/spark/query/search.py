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
from omnigraph.spark.query.fusion import numbered
from omnigraph.spark.query.match_rows import ID, Asked, Fusion, Numbered, Rows, Trait, bound_rows
from omnigraph.spark.query.requirements import traits_of
from omnigraph.spark.query.values import distance, value
from omnigraph.storage.columns import column_of
from omnigraph.storage.searching import SCORE


def entities(variable: str, type_: NodeType, traits: Iterable[Trait], asked: Asked) -> Rows:
    """All rows of a type as those of a variable, with its id and the traits that are asked for."""
    traits = list(traits)
    names = [trait for trait in traits if isinstance(trait, str)]
    found = asked.tables.rows(type_, [ID, *names])
    return _searched(bound_rows(found, variable, names, asked), variable, type_, traits, asked)


def _searched(rows: Rows, variable: str, type_: NodeType, traits: Iterable[Trait], asked: Asked) -> Rows:
    """The rows of a variable with what searches say of it; its properties are there already."""
    for trait in traits:
        match trait:
            case TextMatch() | TextScore():
                rows = _with_words(rows, variable, type_, trait, asked)
            case Distance():
                vector = asked.reading.search.resolve_vector(trait, type_.table_key)
                away = distance(value(trait.target, rows, asked.reading), vector)
                rows = rows.with_value((variable, trait), away, asked.name())
            case Numbered():
                rows = _with_number(rows, variable, type_, trait, asked)
            case str() | Fusion():
                pass
    return rows


def best_first(ranking: Ranking, rows: Rows, asked: Asked) -> Column:
    """What entities are ranked by, the smallest first; null for those that have no rank."""
    found = value(ranking, rows, asked.reading)
    return -found if isinstance(ranking, TextScore) else found


def _with_words(rows: Rows, variable: str, type_: NodeType, trait: TextMatch | TextScore, asked: Asked) -> Rows:
    slot, column, id_ = (variable, trait), asked.name(), asked.name()
    found = asked.reading.search.find_texts(trait, type_.table_key)
    if found is None:
        nothing = fn.lit(None).cast("double" if isinstance(trait, TextScore) else "boolean")
        return rows.with_value(slot, nothing, column)
    scores = column_of(found, SCORE).cast(pa.float64())
    hits = asked.tables.session.createDataFrame(pa.table({id_: column_of(found, ID), column: scores}))
    rows = rows.looked_up(hits, (rows.id_of(variable), id_), {slot: column})
    return rows if isinstance(trait, TextScore) else rows.with_value(slot, fn.col(column).isNotNull(), asked.name())


def _with_number(rows: Rows, variable: str, type_: NodeType, trait: Numbered, asked: Asked) -> Rows:
    ranking = trait.ranking
    among = entities(variable, type_, [each for _, each in traits_of(ranking)], asked)
    key = asked.name()
    ranked = among.frame.select(best_first(ranking, among, asked).alias(key), among.id_of(variable))
    numbers = numbered(ranked.where(fn.col(key).isNotNull()), asked)
    id_, number = numbers.columns
    return rows.looked_up(numbers, (rows.id_of(variable), id_), {(variable, trait): number})

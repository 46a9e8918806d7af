"""Add search results to the rows of a match: text matches, scores, distances and ranks.

Text search and embedding run in this process while the DataFrame is built, with the code of the local engine, so both
engines agree. Spark joins the ids and scores of the hits to the rows. Memory grows with the hits, not with the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as fn

from omnigraph.language.query import Distance, TextMatch, TextScore
from omnigraph.language.schema import NodeType
from omnigraph.read.search import Ranking
from omnigraph.spark.query.evaluation import compute_distance, evaluate
from omnigraph.spark.query.fusion import number_entities
from omnigraph.spark.query.match_rows import (
    ID,
    PAIR_BYTES,
    Attribute,
    Fusion,
    MatchRows,
    RankNumber,
    SparkQueryContext,
    bind_rows,
)
from omnigraph.spark.query.requirements import slots_of
from omnigraph.spark.sized_frames import SizedFrame
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import column_of
from omnigraph.storage.filters import Condition, ValueIn
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.tables import estimate_row_bytes


def scan_entities(
    variable: str,
    type_: NodeType,
    attributes: Iterable[Attribute],
    context: SparkQueryContext,
    conditions: Sequence[Condition] = (),
) -> MatchRows:
    """Read the rows of a type that satisfy the conditions, and bind them to a variable, with these attributes."""
    attributes = list(attributes)
    names = [attribute for attribute in attributes if isinstance(attribute, str)]
    frame = context.tables.rows(type_, [ID, *names], conditions=conditions)
    row_bytes = estimate_row_bytes(arrow_schema(type_), [ID, *names])
    found = SizedFrame(frame, _bound_rows(type_, conditions, context), row_bytes)
    among = next((each.values for each in conditions if isinstance(each, ValueIn) and each.columns == (ID,)), None)
    return _add_search_columns(bind_rows(found, variable, names, context), variable, type_, attributes, among, context)


def _bound_rows(type_: NodeType, conditions: Sequence[Condition], context: SparkQueryContext) -> int:
    """Return how many rows a scan gives at most: those of the table, or the ids that it looks for."""
    listed = [len(each.values) for each in conditions if isinstance(each, ValueIn) and each.columns == (ID,)]
    return min([context.count_rows(type_.table_key), *listed])


def _add_search_columns(
    rows: MatchRows,
    variable: str,
    type_: NodeType,
    attributes: Iterable[Attribute],
    among: pa.StringArray | None,
    context: SparkQueryContext,
) -> MatchRows:
    """Add the attributes that are search results; the properties are bound already. ``among`` lists all ids, if few."""
    for attribute in attributes:
        match attribute:
            case TextMatch() | TextScore():
                found = context.query.search.find_texts(attribute, type_.table_key, among)
                rows = _add_text_search(rows, variable, attribute, found, context)
            case Distance():
                vector = context.query.search.resolve_vector(attribute, type_.table_key)
                distance = compute_distance(evaluate(attribute.target, rows, context.query), vector)
                rows = rows.with_column((variable, attribute), distance, context.new_column())
            case RankNumber():
                rows = _add_rank_number(rows, variable, type_, attribute, context)
            case str() | Fusion():
                pass
    return rows


def rank_key(ranking: Ranking, rows: MatchRows, context: SparkQueryContext) -> Column:
    """Return what entities are ranked by, smallest first; null for entities without a rank."""
    found = evaluate(ranking, rows, context.query)
    return -found if isinstance(ranking, TextScore) else found


def _add_text_search(
    rows: MatchRows,
    variable: str,
    attribute: TextMatch | TextScore,
    found: pa.Table | None,
    context: SparkQueryContext,
) -> MatchRows:
    slot, column, id_ = (variable, attribute), context.new_column(), context.new_column()
    if found is None:
        none = fn.lit(None).cast("double") if isinstance(attribute, TextScore) else fn.lit(False)  # noqa: FBT003  a value
        return rows.with_column(slot, none, column)
    scores = column_of(found, InternalColumn.SCORE).cast(pa.float64())
    hits = context.tables.session.createDataFrame(pa.table({id_: column_of(found, ID), column: scores}))
    known = SizedFrame(hits, found.num_rows, PAIR_BYTES)
    rows = rows.left_join(known, (rows.id_of(variable), id_), {slot: column}, context)
    return (
        rows
        if isinstance(attribute, TextScore)
        else rows.with_column(slot, fn.col(column).isNotNull(), context.new_column())
    )


def _add_rank_number(
    rows: MatchRows, variable: str, type_: NodeType, attribute: RankNumber, context: SparkQueryContext
) -> MatchRows:
    ranking = attribute.ranking
    entities = scan_entities(variable, type_, [each for _, each in slots_of(ranking)], context)
    key = context.new_column()
    ranked = entities.frame.select(rank_key(ranking, entities, context).alias(key), entities.id_of(variable))
    numbers = number_entities(ranked.where(fn.col(key).isNotNull()), context)
    id_, number = numbers.columns
    known = SizedFrame(numbers, entities.max_rows, PAIR_BYTES)
    return rows.left_join(known, (rows.id_of(variable), id_), {(variable, attribute): number}, context)

"""Evaluate the search functions of a query: distances, text matches and scores, and the top-ranked entities.

A score depends on the entity and not on its row, so it is computed once for each entity. Text scores are relative to
all texts of the table; a ranking chooses among the entities that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query import (
    Constant,
    Distance,
    Expression,
    FusedScore,
    ParameterValue,
    TextFunction,
    TextMatch,
    TextScore,
)
from omnigraph.language.query.plan import Count, Fuse, MatchPlan, NodeScan, TopRanked, walk_plan
from omnigraph.language.schema import Catalog, NodeType, TableKey
from omnigraph.language.values import ConstantValue
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import (
    Cache,
    EntityColumn,
    EntitySet,
    EvaluationContext,
    Frame,
    Positions,
    open_full_table,
    to_condition,
)
from omnigraph.read.search.embedding import EmbeddingSettings, create_embedder
from omnigraph.read.search.fusion import FusionResult, find_ranks, fuse_frames, sort_entities
from omnigraph.read.search.text import TextQuery, search_text
from omnigraph.read.search.vectors import DISTANCE, Vector, compute_distances, find_nearest_rows, has_vector_index
from omnigraph.storage.columns import Values, column_of, compute
from omnigraph.storage.filters import Condition
from omnigraph.storage.lagging_columns import has_declared_column
from omnigraph.storage.row_search import SCORE
from omnigraph.storage.table import Table

Ranking: TypeAlias = Distance | TextScore
Keys: TypeAlias = npt.NDArray[np.float64]
"""The sort keys of a ranking, smallest first; NaN for an entity without a rank."""

_DEFAULT_EDITS: Final = 2
_FEW: Final = 2_000
"""Up to this number of vectors, distances are computed without Lance's index. Measured at 100,000 vectors of 64 and 384
dimensions: that is faster up to about 5,000 if the column is in memory, and up to about 500 if rows are fetched."""


class RankingContext(Protocol):
    """The part of the query context that a ranking needs."""

    @property
    def search(self) -> Search:
        """The search of the query."""
        ...

    @property
    def evaluation(self) -> EvaluationContext:
        """The parameters of the query."""
        ...

    def resolve_total(self, count: Count | None, skip: Count | None) -> int | None:
        """Return how many entities a limit needs, with those that are skipped."""
        ...


# --------------------------------------------------------------------------------------------- rows of a match


def execute_top_ranked(frame: Frame, plan: TopRanked, context: RankingContext) -> Frame:
    """Return the rows of the best entities, each with the rank of its entity."""
    limit = context.resolve_total(plan.limit, plan.skip)
    binding = frame.bindings[plan.ranking.target.variable]
    candidates, numbers = np.unique(binding.positions, return_inverse=True)
    conditions = _pushed_conditions(plan, context.evaluation)
    best = context.search.rank_top(plan.ranking, binding.entities, candidates, limit, conditions)
    ranks = find_ranks(best, candidates)[numbers]
    return replace(frame, ranks=ranks).filter(ranks >= 0)


def execute_fuse(arms: Sequence[Frame], plan: Fuse, context: RankingContext) -> Frame:
    """Return the rows of the best entities of all rankings together."""
    limit = context.resolve_total(plan.limit, plan.skip)
    frame, result = fuse_frames(arms, plan.variable, context.search.resolve_rank_constant(plan.k), limit)
    context.search.remember_fusion(plan, result)
    return frame


def _pushed_conditions(plan: TopRanked, evaluation: EvaluationContext) -> Sequence[Condition] | None:
    """Return the conditions of a ranked scan, so that Lance can rank; None if not all of them can be pushed down."""
    if not isinstance(plan.input, NodeScan):
        return None
    found = [to_condition(predicate, plan.input.variable, evaluation) for predicate in plan.input.predicates]
    return None if None in found else cast("list[Condition]", found)


# --------------------------------------------------------------------------------------------- search


class Search:
    """The search functions of one query on one snapshot. Each text is embedded once and searched once."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        cache: Cache,
        parameters: Mapping[str, ConstantValue],
        embedding: EmbeddingSettings | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._catalog = catalog
        self._cache = cache
        self._parameters = parameters
        self._embedding = embedding
        self._vectors: dict[tuple[str, str, str], Vector] = {}
        self._texts: dict[tuple[str, str, TextQuery], pa.Table] = {}
        self._fusion: _FusedOrder | None = None

    def score(self, expression: Distance | TextMatch | TextScore | FusedScore, frame: Frame) -> Values:
        """Return for each row a distance or a score, null if there is none, or whether a text matches."""
        if isinstance(expression, FusedScore):
            return _to_values(self._compute_fused_scores(expression, frame))
        binding = frame.bindings[expression.target.variable]
        entities, numbers = np.unique(binding.positions, return_inverse=True)
        return self._score_entities(expression, binding.entities, entities).take(numbers)

    def find_matching_ids(self, expression: TextMatch, table_key: str) -> pa.StringArray:
        """Return the ids of all rows of a table whose text matches."""
        found = self.find_texts(expression, table_key)
        return pa.array([], pa.string()) if found is None else cast("pa.StringArray", column_of(found, "id"))

    def find_texts(self, expression: TextMatch | TextScore, table_key: str) -> pa.Table | None:
        """Return the ids and scores of all rows of a table whose text matches; None if the query text is null."""
        query = self._build_text_query(expression)
        return None if query is None else self._search_text(table_key, expression.target.name, query)

    def resolve_vector(self, ranking: Distance, table_key: str) -> Vector | None:
        """Return the query vector: the given one, or the embedding of the given text."""
        value = self._resolve_value(ranking.query)
        if not isinstance(value, str):
            return None if value is None else np.array(value, np.float32)
        key = (table_key, ranking.target.name, value)
        if key not in self._vectors:
            self._vectors[key] = self._embed_text(ranking, table_key, value)
        return self._vectors[key]

    def rank_top(
        self,
        ranking: Ranking,
        entity_set: EntitySet,
        positions: Positions,
        limit: int | None,
        conditions: Sequence[Condition] | None = None,
    ) -> Positions:
        """Return the best of distinct positions, best first, then by id; positions without a rank are left out.

        ``conditions``, if given, select exactly the rows of the table that the positions stand for.
        """
        if isinstance(ranking, Distance) and limit and conditions is not None and len(positions) > max(_FEW, limit):
            found = self._rank_by_index(ranking, entity_set, positions, limit, conditions)
            if found is not None:
                return found
        return _select_best(self._compute_keys(ranking, entity_set, positions), entity_set, positions, limit)

    def resolve_rank_constant(self, k: Expression) -> int:
        """Return the ``k`` of ``rrf``."""
        return cast(int, self._resolve_value(k))

    def remember_fusion(self, plan: Fuse, scores: FusionResult) -> None:
        """Keep the fused scores that the result is ordered by, for expressions that return them."""
        self._fusion = _FusedOrder(rankings_of(plan), self.resolve_rank_constant(plan.k), plan.variable, scores)

    # ----------------------------------------------------------------------------------------- once for each entity

    def _score_entities(
        self, expression: Distance | TextMatch | TextScore, entity_set: EntitySet, entities: Positions
    ) -> Values:
        match expression:
            case TextMatch():
                query = self._build_text_query(expression)
                if query is None:
                    # Nothing matches a text that is null: a text predicate is never unknown.
                    return cast("Values", pa.array(np.zeros(len(entities), np.bool_)))
                ids = cast("Values", entity_set.take_ids(entities))
                found = self._search_text(entity_set.table_key, expression.target.name, query)
                return compute("is_in", ids, options=pc.SetLookupOptions(column_of(found, "id")))
            case TextScore():
                return _to_values(-self._compute_keys(expression, entity_set, entities))
            case Distance():
                return _to_values(self._compute_keys(expression, entity_set, entities))

    def _compute_keys(self, ranking: Ranking, entity_set: EntitySet, positions: Positions) -> Keys:
        if isinstance(ranking, Distance):
            vector = self.resolve_vector(ranking, entity_set.table_key)
            if vector is None:
                return np.full(len(positions), np.nan)
            return compute_distances(entity_set.take_values(ranking.target.name, positions), vector)
        query = self._build_text_query(ranking)
        if query is None:
            return np.full(len(positions), np.nan)
        found = self._search_text(entity_set.table_key, ranking.target.name, query)
        at = _find_rows(entity_set.take_ids(positions), found)
        scores = column_of(found, SCORE).to_numpy(zero_copy_only=False).astype(np.float64)
        return -np.append(scores, np.nan)[at]

    def _rank_by_index(
        self,
        ranking: Distance,
        entity_set: EntitySet,
        positions: Positions,
        limit: int,
        conditions: Sequence[Condition],
    ) -> Positions | None:
        """Rank by the vector index; None if there is none, or if it cannot rank exactly these rows."""
        vector = self.resolve_vector(ranking, entity_set.table_key)
        filters = [condition.to_sql() for condition in conditions]
        if vector is None or None in filters or entity_set.table_key not in self._snapshot.pins:
            return None
        table, column = self._snapshot.table(entity_set.table_key), ranking.target.name
        type_ = self._catalog.nodes[TableKey(entity_set.table_key).type_name]
        if not _has_columns(type_, table, column, conditions) or not has_vector_index(table, column):
            return None
        where = " AND ".join(f"({text})" for text in filters) or None
        rows = find_nearest_rows(table, column, vector, limit, where)
        if rows is None:
            return None
        at = _find_rows(entity_set.take_ids(positions), rows)
        nearest = np.flatnonzero(at < rows.num_rows)
        keys = column_of(rows, DISTANCE).to_numpy()[at[nearest]]
        return _select_best(keys, entity_set, positions[nearest], limit)

    def _search_text(self, table_key: str, column: str, query: TextQuery) -> pa.Table:
        key = (table_key, column, query)
        if key not in self._texts:
            type_ = self._catalog.nodes[TableKey(table_key).type_name]
            self._texts[key] = search_text(self._snapshot, type_, column, query, self._cache)
        return self._texts[key]

    # ----------------------------------------------------------------------------------------- queries

    def _resolve_value(self, expression: Expression) -> ConstantValue:
        assert isinstance(expression, Constant | ParameterValue), "the query of a search is the same for every row"
        return expression.value if isinstance(expression, Constant) else self._parameters[expression.name]

    def _build_text_query(self, expression: TextMatch | TextScore) -> TextQuery | None:
        text = cast("str | None", self._resolve_value(expression.query))
        if text is None:
            return None
        if isinstance(expression, TextScore) or expression.function is not TextFunction.FUZZY:
            return TextQuery(text)
        given = expression.max_edits
        return TextQuery(text, _DEFAULT_EDITS if given is None else cast(int, self._resolve_value(given)))

    def _embed_text(self, ranking: Distance, table_key: str, text: str) -> Vector:
        declared = self._catalog.nodes[TableKey(table_key).type_name].properties[ranking.target.name]
        assert declared.type.dimension is not None
        recorded = declared.embedding.model if declared.embedding else None
        return create_embedder(self._embedding, recorded).vectors([text], declared.type.dimension)[0]

    # ----------------------------------------------------------------------------------------- fused scores

    def _compute_fused_scores(self, expression: FusedScore, frame: Frame) -> Keys:
        """Return the scores that the result is ordered by; if it is not, rank all nodes of the type."""
        k, kept = self.resolve_rank_constant(expression.k), self._fusion
        if kept is not None and (kept.arms, kept.k) == (expression.arms, k):
            return kept.scores.scores_of(frame.bindings[kept.variable])
        shares = [self._compute_share(arm, frame.bindings[arm.target.variable], k) for arm in expression.arms]
        total = np.nansum(shares, axis=0)
        total[np.isnan(shares).all(axis=0)] = np.nan
        return cast("Keys", total)

    def _compute_share(self, ranking: Ranking, binding: EntityColumn, k: int) -> Keys:
        """Return the share of one ranking in the fused score of each row; NaN if its entity has no rank."""
        table_key = binding.entities.table_key
        type_ = self._catalog.nodes[TableKey(table_key).type_name]
        whole = open_full_table(self._snapshot, table_key, type_, self._cache)
        best = self.rank_top(ranking, whole, np.arange(len(whole)), None)
        entities, numbers = np.unique(binding.positions, return_inverse=True)
        ranks = find_ranks(best, whole.locate(binding.entities.take_ids(entities)))
        return np.where(ranks < 0, np.nan, 1 / (k + ranks + 1.0))[numbers]


@dataclass(frozen=True, slots=True)
class _FusedOrder:
    """The rankings that a result is ordered by, and their fused scores."""

    arms: tuple[Ranking, ...]
    k: int
    variable: str
    scores: FusionResult


# --------------------------------------------------------------------------------------------- steps


def _select_best(keys: Keys, entity_set: EntitySet, positions: Positions, limit: int | None) -> Positions:
    ranked = np.flatnonzero(~np.isnan(keys))
    if limit is not None and limit < len(ranked):
        if not limit:
            return positions[:0]
        worst = np.partition(keys[ranked], limit - 1)[limit - 1]
        ranked = ranked[keys[ranked] <= worst]
    order = sort_entities(keys[ranked], entity_set.take_ids(positions[ranked]))
    return positions[ranked[order]][:limit]


def _find_rows(ids: pa.StringArray, rows: pa.Table) -> Positions:
    """Return the row of each id; the number of rows if it has none."""
    at = compute("index_in", cast("Values", ids), options=pc.SetLookupOptions(column_of(rows, "id")))
    known = compute("coalesce", at, pa.scalar(rows.num_rows, pa.int32()))
    return known.to_numpy(zero_copy_only=False).astype(np.int64)


def _to_values(keys: Keys) -> Values:
    """Convert keys to an Arrow column, with null for NaN."""
    return cast("Values", pa.array(keys, pa.float64(), mask=np.isnan(keys)))


def _has_columns(type_: NodeType, table: Table, column: str, conditions: Sequence[Condition]) -> bool:
    """Whether the storage has the ranked column, and those of the conditions, as the schema declares them."""
    names = {column, *(name for condition in conditions for name in condition.columns)}
    return all(has_declared_column(type_, table.schema, name) for name in names)


def rankings_of(plan: Fuse) -> tuple[Ranking, ...]:
    """The rankings of the arms of a fusion."""
    return tuple(map(_ranking_of, plan.arms))


def _ranking_of(plan: MatchPlan) -> Ranking:
    """The ranking of one arm of a fusion; it has exactly one."""
    return next(each.ranking for each in walk_plan(plan) if isinstance(each, TopRanked))

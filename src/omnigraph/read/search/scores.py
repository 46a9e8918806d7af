"""Evaluate the search functions of a query: distances, text matches and scores, and the top-ranked entities.

A score depends on the entity and not on its row, so it is computed once for each entity. Text scores are relative to
all texts of the table; a ranking chooses among the entities that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
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
from omnigraph.language.query.plan import Count, Fuse, MatchPlan, TopRanked, walk_plan
from omnigraph.language.schema import Catalog, NodeType, TableKey
from omnigraph.language.values import ConstantValue
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import (
    Cache,
    EntityColumn,
    EntitySet,
    EvaluationContext,
    Frame,
    PartialTable,
    Positions,
    WholeTable,
    find_positions,
    open_node_table,
    read_contents,
)
from omnigraph.read.search.embedding import EmbeddingSettings, create_embedder
from omnigraph.read.search.fusion import FusionResult, find_ranks, fuse_frames
from omnigraph.read.search.text import NO_MATCHES, TextQuery, find_text_index, open_text_index, search_text
from omnigraph.read.search.top_k import (
    FetchRows,
    Keys,
    RankedRows,
    RowMask,
    find_best_rows,
    refill_best_rows,
    sort_entities,
)
from omnigraph.read.search.vectors import Vector, compute_distances, fetch_nearest
from omnigraph.storage.columns import Values, column_of, compute
from omnigraph.storage.filters import Condition, list_filter
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.lagging_columns import has_declared_column
from omnigraph.storage.tables import IndexKind, can_search

Ranking: TypeAlias = Distance | TextScore

_DEFAULT_EDITS: Final = 2
_FEW: Final = 2_000
"""Up to this number of vectors, distances are computed without Lance's index. Measured at 100,000 vectors of 64 and 384
dimensions: that is faster up to about 5,000 if the column is in memory, and up to about 500 if rows are fetched."""
_FEW_IDS: Final = 256
"""Up to this number of rows, a text search is limited to them."""
_LEAST_REDUCTION: Final = 4
"""If more than one row in this many has to be fetched to find enough candidates, all candidates are ranked."""


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
    best = context.search.rank_top(plan.ranking, binding.entities, candidates, limit)
    ranks = find_ranks(best, candidates)[numbers]
    return replace(frame, ranks=ranks).filter(ranks >= 0)


def execute_fuse(arms: Sequence[Frame], plan: Fuse, context: RankingContext) -> Frame:
    """Return the rows of the best entities of all rankings together."""
    limit = context.resolve_total(plan.limit, plan.skip)
    frame, result = fuse_frames(arms, plan.variable, context.search.resolve_rank_constant(plan.k), limit)
    context.search.remember_fusion(plan, result)
    return frame


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
        self._best: dict[tuple[str, str, TextQuery], pa.Table] = {}
        self._fusion: _FusedOrder | None = None

    def score(self, expression: Distance | TextMatch | TextScore | FusedScore, frame: Frame) -> Values:
        """Return for each row a distance or a score, null if there is none, or whether a text matches."""
        if isinstance(expression, FusedScore):
            return _to_values(self._compute_fused_scores(expression, frame))
        binding = frame.bindings[expression.target.variable]
        if len(binding.positions) <= _FEW and len(set(binding.positions.tolist())) == len(binding.positions):
            return self._score_entities(expression, binding.entities, binding.positions)
        entities, numbers = np.unique(binding.positions, return_inverse=True)
        return self._score_entities(expression, binding.entities, entities).take(numbers)

    def find_matching_ids(self, expression: TextMatch, table_key: str) -> pa.StringArray:
        """Return the ids of all rows of a table whose text matches."""
        found = self.find_texts(expression, table_key)
        return pa.array([], pa.string()) if found is None else cast("pa.StringArray", column_of(found, "id"))

    def find_texts(
        self, expression: TextMatch | TextScore, table_key: str, among: pa.StringArray | None = None
    ) -> pa.Table | None:
        """Return the ids and scores of all rows of a table whose text matches; None if the query text is null.

        With ids to look ``among``, other rows may be missing.
        """
        query = self._build_text_query(expression)
        if query is None:
            return None
        if among is not None:
            return self._search_among(expression, table_key, query, among)
        return self._search_text(table_key, expression.target.name, query)

    def resolve_vector(self, ranking: Distance, table_key: str) -> Vector | None:
        """Return the query vector: the given one, or the embedding of the given text."""
        value = self._resolve_value(ranking.query)
        if not isinstance(value, str):
            return None if value is None else np.array(value, np.float32)
        key = (table_key, ranking.target.name, value)
        if key not in self._vectors:
            self._vectors[key] = self._embed_text(ranking, table_key, value)
        return self._vectors[key]

    def rank_top(self, ranking: Ranking, entity_set: EntitySet, positions: Positions, limit: int | None) -> Positions:
        """Return the best of distinct positions, best first, then by id; positions without a rank are left out."""
        if limit == 0:
            return positions[:0]
        best = None if limit is None else self._rank_by_refill(ranking, entity_set, positions, limit)
        if best is not None:
            return best
        return _select_best(self._compute_keys(ranking, entity_set, positions), entity_set, positions, limit)

    def can_rank_in_storage(
        self, ranking: Ranking, type_: NodeType, limit: int, conditions: Sequence[Condition]
    ) -> bool:
        """Whether :meth:`find_best` can ask the storage for the best rows. No row is read and no text is embedded."""
        if type_.table_key not in self._snapshot.pins or self._resolve_value(ranking.query) is None or not limit:
            return False
        column, contents = ranking.target.name, read_contents(self._snapshot, type_.table_key, self._cache)
        if not self._has_columns(type_, [name for condition in conditions for name in condition.columns]):
            return False
        if isinstance(ranking, Distance):
            return contents.num_rows > max(_FEW, limit) and self._has_vector_index(ranking, type_)
        if not conditions:
            return True
        query = self._build_text_query(ranking)
        index = query and find_text_index(self._snapshot, type_, column, query, self._cache)
        return index is not None and index.has_exact_scores

    def has_index(self, ranking: Ranking, type_: NodeType) -> bool:
        """Whether the table has an index for a ranking that Lance can search."""
        contents = read_contents(self._snapshot, type_.table_key, self._cache)
        kind = IndexKind.IVF_FLAT if isinstance(ranking, Distance) else IndexKind.INVERTED
        is_indexed = contents.count_indexed(kind, ranking.target.name) > 0
        return is_indexed and can_search(self._snapshot.table(type_.table_key), kind)

    def find_best(
        self, ranking: Ranking, type_: NodeType, limit: int, conditions: Sequence[Condition], columns: Sequence[str]
    ) -> RankedRows | None:
        """Return the best rows of a table that satisfy the conditions, and all that tie with the last of them.

        The rows have ids, and these columns if one search can read both. None if the storage cannot rank them exactly.
        """
        where = " AND ".join(f"({condition.to_sql()})" for condition in conditions) or None
        fetch = self._fetch_rows(ranking, type_, where, columns)
        found = None if fetch is None else find_best_rows(fetch, limit)
        return self._remember_scores(ranking, type_, found)

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
                found = self._search_among(expression, entity_set.table_key, query, cast("pa.StringArray", ids))
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
        ids = entity_set.take_ids(positions)
        found = self._search_among(ranking, entity_set.table_key, query, ids)
        at = _find_rows(ids, found)
        scores = column_of(found, InternalColumn.SCORE).to_numpy(zero_copy_only=False).astype(np.float64)
        return -np.append(scores, np.nan)[at]

    # ----------------------------------------------------------------------------------------- by the storage

    def _rank_by_refill(
        self, ranking: Ranking, entity_set: EntitySet, positions: Positions, limit: int
    ) -> Positions | None:
        """Rank many candidates by fetching the best rows of the table until enough candidates are among them."""
        if len(positions) <= max(_FEW, limit) or not isinstance(entity_set, WholeTable | PartialTable):
            return None
        type_ = self._type_of(entity_set.table_key)
        fetch = self._fetch_rows(ranking, type_)
        if fetch is None:
            return None
        is_candidate = np.zeros(len(entity_set), np.bool_)
        is_candidate[positions] = True

        def keep(rows: pa.Table) -> RowMask:
            at = entity_set.locate(column_of(rows, "id"))
            return (at >= 0) & is_candidate[at]

        rows = self._snapshot.pins[type_.table_key].row_count
        found = refill_best_rows(fetch, limit, keep, len(positions) / rows, rows // _LEAST_REDUCTION)
        self._remember_scores(ranking, type_, found)
        if found is None:
            return None
        return _select_best(found.keys, entity_set, entity_set.locate(column_of(found.rows, "id")), limit)

    def _fetch_rows(
        self, ranking: Ranking, type_: NodeType, where: str | None = None, columns: Sequence[str] = ()
    ) -> FetchRows | None:
        """Return how to fetch the best rows of a table from the storage, if it can rank them."""
        column = ranking.target.name
        if isinstance(ranking, Distance):
            if not self._has_vector_index(ranking, type_):
                return None
            vector = self.resolve_vector(ranking, type_.table_key)
            table = self._snapshot.table(type_.table_key)
            return None if vector is None else fetch_nearest(table, column, vector, where, columns)
        query = self._build_text_query(ranking)
        index = query and open_text_index(self._snapshot, type_, column, query, self._cache)
        if query is None or index is None:
            return None
        return index.fetch_best(query, where, () if index.is_private else columns)

    def _remember_scores(self, ranking: Ranking, type_: NodeType, found: RankedRows | None) -> RankedRows | None:
        """Keep the scores of the best rows for expressions that return them."""
        query = None if isinstance(ranking, Distance) else self._build_text_query(ranking)
        if query is not None and found is not None:
            key = (type_.table_key, ranking.target.name, query)
            self._best[key] = found.rows
        return found

    def _search_among(
        self, expression: TextMatch | TextScore, table_key: str, query: TextQuery, ids: pa.StringArray
    ) -> pa.Table:
        """Return the ids and scores of rows whose text matches, among them all that have one of these ids."""
        key = (table_key, expression.target.name, query)
        best = self._best.get(key)
        if best is not None and len(ids) <= best.num_rows and (_find_rows(ids, best) < best.num_rows).all():
            return best
        if key in self._texts or len(ids) > _FEW_IDS:
            return self._search_text(*key)
        index = open_text_index(self._snapshot, self._type_of(table_key), key[1], query, self._cache)
        if index is None:
            return NO_MATCHES
        if index.has_exact_scores:
            # The id of an absent entity is null.
            present = ids.unique().drop_null()
            return index.search(query, list_filter("id", present)) if len(present) else NO_MATCHES
        return self._search_text(*key)

    def _has_vector_index(self, ranking: Distance, type_: NodeType) -> bool:
        """Whether vectors have an index, and the storage has them as the schema declares them.

        Lance also reads the rows that the index does not cover.
        """
        return self.has_index(ranking, type_) and self._has_columns(type_, [ranking.target.name])

    def _has_columns(self, type_: NodeType, columns: Sequence[str]) -> bool:
        """Whether the storage has columns as the schema declares them."""
        stored = self._snapshot.table(type_.table_key).column_types if columns else None
        return stored is None or all(has_declared_column(type_, stored, name) for name in columns)

    def _type_of(self, table_key: str) -> NodeType:
        return self._catalog.nodes[TableKey(table_key).type_name]

    def _search_text(self, table_key: str, column: str, query: TextQuery) -> pa.Table:
        key = (table_key, column, query)
        if key not in self._texts:
            self._texts[key] = search_text(self._snapshot, self._type_of(table_key), column, query, self._cache)
        return self._texts[key]

    # ----------------------------------------------------------------------------------------- queries

    def _resolve_value(self, expression: Expression) -> ConstantValue:
        assert isinstance(expression, Constant | ParameterValue), "the query of a search is the same for every row"
        return expression.value if isinstance(expression, Constant) else self._parameters[expression.name]

    def _build_text_query(self, expression: TextMatch | TextScore) -> TextQuery | None:
        text = cast("str | None", self._resolve_value(expression.query))
        if text is None:
            return None
        if isinstance(expression, TextScore):
            return TextQuery(text, needs_scores=True)
        if expression.function is not TextFunction.FUZZY:
            return TextQuery(text)
        given = expression.max_edits
        return TextQuery(text, _DEFAULT_EDITS if given is None else cast(int, self._resolve_value(given)))

    def _embed_text(self, ranking: Distance, table_key: str, text: str) -> Vector:
        declared = self._type_of(table_key).properties[ranking.target.name]
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
        whole = open_node_table(self._snapshot, self._type_of(table_key), self._cache)
        best = self.rank_top(ranking, whole, whole.all_positions(), None)
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
    at = find_positions(cast("Values", ids), column_of(rows, "id")).astype(np.int64)
    at[at < 0] = rows.num_rows
    return at


def _to_values(keys: Keys) -> Values:
    """Convert keys to an Arrow column, with null for NaN."""
    return cast("Values", pa.array(keys, pa.float64(), mask=np.isnan(keys)))


def rankings_of(plan: Fuse) -> tuple[Ranking, ...]:
    """The rankings of the arms of a fusion."""
    return tuple(map(_ranking_of, plan.arms))


def _ranking_of(plan: MatchPlan) -> Ranking:
    """The ranking of one arm of a fusion; it has exactly one."""
    return next(each.ranking for each in walk_plan(plan) if isinstance(each, TopRanked))

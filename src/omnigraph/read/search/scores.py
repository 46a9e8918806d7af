"""Search in a query: how near a vector is, whether words are found and how well, and the best entities by that.

What is asked of an entity does not depend on its row, so each is looked at once. Scores of texts are those among all
texts of the table; a ranking takes the best of the entities that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ParameterError
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
from omnigraph.language.schema import Catalog, TableKey
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
from omnigraph.storage.pinned import Table
from omnigraph.storage.searching import SCORE

Ranking: TypeAlias = Distance | TextScore
Keys: TypeAlias = npt.NDArray[np.float64]
"""What entities are ranked by, the smallest first; NaN for those that have no rank."""

_DEFAULT_EDITS: Final = 2
_FEW: Final = 2_000
"""The distances of so few vectors are computed without asking Lance. A compromise, measured at 100,000 vectors of 64
and 384 numbers: that is faster up to some 5,000 if the column is in memory, up to some 500 if rows are fetched."""


class RankingContext(Protocol):
    """What a ranking needs of the reading that it belongs to."""

    @property
    def search(self) -> Search:
        """The search of the query."""
        ...

    @property
    def request(self) -> EvaluationContext:
        """Its parameters."""
        ...

    def number(self, count: Count) -> int:
        """The value of a limit."""
        ...


# --------------------------------------------------------------------------------------------- rows of a match


def execute_top_ranked(frame: Frame, plan: TopRanked, reading: RankingContext) -> Frame:
    """The rows of the best entities, each row with the rank of its entity."""
    limit = None if plan.limit is None else reading.number(plan.limit)
    binding = frame.bindings[plan.ranking.target.variable]
    candidates, numbers = np.unique(binding.positions, return_inverse=True)
    conditions = _conditions(plan, reading.request)
    best = reading.search.rank_top(plan.ranking, binding.entities, candidates, limit, conditions)
    ranks = find_ranks(best, candidates)[numbers]
    return replace(frame, ranks=ranks).filter(ranks >= 0)


def execute_fuse(first: Frame, second: Frame, plan: Fuse, reading: RankingContext) -> Frame:
    """The rows of the entities that are best in both rankings together."""
    limit = None if plan.limit is None else reading.number(plan.limit)
    frame, made = fuse_frames(first, second, plan.variable, reading.search.resolve_rank_constant(plan.k), limit)
    reading.search.remember_fusion(plan, made)
    return frame


def _conditions(plan: TopRanked, request: EvaluationContext) -> Sequence[Condition] | None:
    """The conditions that the ranked entities are all rows of, where there are no others: the storage may rank them."""
    if not isinstance(plan.input, NodeScan):
        return None
    found = [to_condition(predicate, plan.input.variable, request) for predicate in plan.input.predicates]
    return None if None in found else cast("list[Condition]", found)


# --------------------------------------------------------------------------------------------- search


class Search:
    """The search of one query on one snapshot. A text is embedded once, and looked for once, whoever asks."""

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
        self._remembered: _Remembered | None = None

    def score(self, expression: Distance | TextMatch | TextScore | FusedScore, frame: Frame) -> Values:
        """One value for each row: a distance or a score, null where there is none; or whether a text matches."""
        if isinstance(expression, FusedScore):
            return _numbers(self._fused_scores(expression, frame))
        binding = frame.bindings[expression.target.variable]
        entities, numbers = np.unique(binding.positions, return_inverse=True)
        return self._of_entities(expression, binding.entities, entities).take(numbers)

    def find_matching_ids(self, expression: TextMatch, table_key: str) -> pa.StringArray:
        """The ids of all rows of a table whose text matches."""
        found = self.find_texts(expression, table_key)
        return pa.array([], pa.string()) if found is None else cast("pa.StringArray", column_of(found, "id"))

    def find_texts(self, expression: TextMatch | TextScore, table_key: str) -> pa.Table | None:
        """The ids and scores of all rows of a table whose text matches; None where nothing is looked for."""
        words = self._words(expression)
        return None if words is None else self._found(table_key, expression.target.name, words)

    def resolve_vector(self, ranking: Distance, table_key: str) -> Vector | None:
        """The vector that is looked for: the one that is given, or that of a text."""
        value = self._value(ranking.query)
        if not isinstance(value, str):
            return None if value is None else np.array(value, np.float32)
        key = (table_key, ranking.target.name, value)
        if key not in self._vectors:
            self._vectors[key] = self._embedded(ranking, table_key, value)
        return self._vectors[key]

    def rank_top(
        self,
        ranking: Ranking,
        population: EntitySet,
        positions: Positions,
        limit: int | None,
        conditions: Sequence[Condition] | None = None,
    ) -> Positions:
        """The best of distinct positions, best first and then by id; those that have no rank are left out.

        ``conditions``, where they are given, say which rows of the table the positions are: exactly those.
        """
        if isinstance(ranking, Distance) and limit and conditions is not None and len(positions) > max(_FEW, limit):
            found = self._nearest(ranking, population, positions, limit, conditions)
            if found is not None:
                return found
        return _best(self._keys(ranking, population, positions), population, positions, limit)

    def resolve_rank_constant(self, k: Expression) -> int:
        """The ``k`` of ``rrf``."""
        value = self._value(k)
        if not isinstance(value, int) or value < 1:
            raise ParameterError(f"the k of rrf is {value}", hint="give 1 or more")
        return value

    def remember_fusion(self, plan: Fuse, scores: FusionResult) -> None:
        """Keep the fused scores that the result was ordered by, for whoever wants to see them."""
        self._remembered = _Remembered(*rankings_of(plan), self.resolve_rank_constant(plan.k), plan.variable, scores)

    # ----------------------------------------------------------------------------------------- one entity each

    def _of_entities(
        self, expression: Distance | TextMatch | TextScore, population: EntitySet, entities: Positions
    ) -> Values:
        match expression:
            case TextMatch():
                words = self._words(expression)
                if words is None:
                    return cast("Values", pa.nulls(len(entities), pa.bool_()))
                ids = cast("Values", population.take_ids(entities))
                found = self._found(population.table_key, expression.target.name, words)
                return compute("is_in", ids, options=pc.SetLookupOptions(column_of(found, "id")))
            case TextScore():
                return _numbers(-self._keys(expression, population, entities))
            case Distance():
                return _numbers(self._keys(expression, population, entities))

    def _keys(self, ranking: Ranking, population: EntitySet, positions: Positions) -> Keys:
        if isinstance(ranking, Distance):
            vector = self.resolve_vector(ranking, population.table_key)
            if vector is None:
                return np.full(len(positions), np.nan)
            return compute_distances(population.take_values(ranking.target.name, positions), vector)
        words = self._words(ranking)
        if words is None:
            return np.full(len(positions), np.nan)
        found = self._found(population.table_key, ranking.target.name, words)
        at = _looked_up(population.take_ids(positions), found)
        scores = column_of(found, SCORE).to_numpy(zero_copy_only=False).astype(np.float64)
        return -np.append(scores, np.nan)[at]

    def _nearest(
        self,
        ranking: Distance,
        population: EntitySet,
        positions: Positions,
        limit: int,
        conditions: Sequence[Condition],
    ) -> Positions | None:
        """The best by Lance's index; None where it has none, or cannot be told which rows are meant."""
        vector = self.resolve_vector(ranking, population.table_key)
        filters = [condition.sql() for condition in conditions]
        if vector is None or None in filters or population.table_key not in self._snapshot.pins:
            return None
        table, column = self._snapshot.table(population.table_key), ranking.target.name
        if not _has_columns(table, column, conditions) or not has_vector_index(table, column):
            return None
        where = " AND ".join(f"({text})" for text in filters) or None
        rows = find_nearest_rows(table, column, vector, limit, where)
        if rows is None:
            return None
        at = _looked_up(population.take_ids(positions), rows)
        nearest = np.flatnonzero(at < rows.num_rows)
        keys = column_of(rows, DISTANCE).to_numpy()[at[nearest]]
        return _best(keys, population, positions[nearest], limit)

    def _found(self, table_key: str, column: str, words: TextQuery) -> pa.Table:
        key = (table_key, column, words)
        if key not in self._texts:
            self._texts[key] = search_text(self._snapshot, table_key, column, words, self._cache)
        return self._texts[key]

    # ----------------------------------------------------------------------------------------- what is looked for

    def _value(self, expression: Expression) -> ConstantValue:
        assert isinstance(expression, Constant | ParameterValue), "what is looked for is the same for every row"
        return expression.value if isinstance(expression, Constant) else self._parameters[expression.name]

    def _words(self, expression: TextMatch | TextScore) -> TextQuery | None:
        text = cast("str | None", self._value(expression.query))
        if text is None:
            return None
        if isinstance(expression, TextScore) or expression.function is not TextFunction.FUZZY:
            return TextQuery(text)
        given = expression.max_edits
        edits = _DEFAULT_EDITS if given is None else cast(int, self._value(given))
        if edits < 0:
            raise ParameterError(f"the edits of fuzzy are {edits}", hint="give 0 or more; 2 are usual")
        return TextQuery(text, edits)

    def _embedded(self, ranking: Distance, table_key: str, text: str) -> Vector:
        declared = self._catalog.nodes[TableKey(table_key).type_name].properties[ranking.target.name]
        assert declared.type.dimension is not None
        recorded = declared.embedding.model if declared.embedding else None
        return create_embedder(self._embedding, recorded).vectors([text], declared.type.dimension)[0]

    # ----------------------------------------------------------------------------------------- fused scores

    def _fused_scores(self, expression: FusedScore, frame: Frame) -> Keys:
        """Those that the result was ordered by; else those of a ranking of all nodes of the type."""
        k, kept = self.resolve_rank_constant(expression.k), self._remembered
        if kept is not None and (kept.first, kept.second, kept.k) == (expression.first, expression.second, k):
            return kept.scores.scores_of(frame.bindings[kept.variable])
        shares = [
            self._share(arm, frame.bindings[arm.target.variable], k) for arm in (expression.first, expression.second)
        ]
        total = np.nansum(shares, axis=0)
        total[np.isnan(shares).all(axis=0)] = np.nan
        return cast("Keys", total)

    def _share(self, ranking: Ranking, binding: EntityColumn, k: int) -> Keys:
        """What one ranking gives to the entity of each row; NaN to those without a rank."""
        table_key = binding.entities.table_key
        type_ = self._catalog.nodes[TableKey(table_key).type_name]
        whole = open_full_table(self._snapshot, table_key, type_, self._cache)
        best = self.rank_top(ranking, whole, np.arange(len(whole)), None)
        entities, numbers = np.unique(binding.positions, return_inverse=True)
        ranks = find_ranks(best, whole.locate(binding.entities.take_ids(entities)))
        return np.where(ranks < 0, np.nan, 1 / (k + ranks + 1.0))[numbers]


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The fused scores of the rankings that a result was ordered by."""

    first: Ranking
    second: Ranking
    k: int
    variable: str
    scores: FusionResult


# --------------------------------------------------------------------------------------------- steps


def _best(keys: Keys, population: EntitySet, positions: Positions, limit: int | None) -> Positions:
    ranked = np.flatnonzero(~np.isnan(keys))
    if limit is not None and limit < len(ranked):
        if not limit:
            return positions[:0]
        worst = np.partition(keys[ranked], limit - 1)[limit - 1]
        ranked = ranked[keys[ranked] <= worst]
    order = sort_entities(keys[ranked], population.take_ids(positions[ranked]))
    return positions[ranked[order]][:limit]


def _looked_up(ids: pa.StringArray, rows: pa.Table) -> Positions:
    """For each id its row; the number of rows, where it has none."""
    at = compute("index_in", cast("Values", ids), options=pc.SetLookupOptions(column_of(rows, "id")))
    known = compute("coalesce", at, pa.scalar(rows.num_rows, pa.int32()))
    return known.to_numpy(zero_copy_only=False).astype(np.int64)


def _numbers(keys: Keys) -> Values:
    return cast("Values", pa.array(keys, pa.float64(), mask=np.isnan(keys)))


def _has_columns(table: Table, column: str, conditions: Sequence[Condition]) -> bool:
    return {column, *(name for condition in conditions for name in condition.columns)} <= set(table.schema.names)


def rankings_of(plan: Fuse) -> tuple[Ranking, Ranking]:
    """The rankings that a fusion has in its arms."""
    return _ranking_of(plan.first), _ranking_of(plan.second)


def _ranking_of(plan: MatchPlan) -> Ranking:
    """The ranking in one arm of a fusion: there is one."""
    return next(each.ranking for each in walk_plan(plan) if isinstance(each, TopRanked))

"""Reciprocal rank fusion: combine rankings into one, for ``rrf``. Works on positions in memory; reads no table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.read.frames import (
    EntityColumn,
    EntitySet,
    Frame,
    OptionalEntities,
    PartialTable,
    PathSet,
    Positions,
    WholeTable,
    concat_frames,
)
from omnigraph.read.search.top_k import sort_entities


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The entities of all rankings in ascending order of position, and their fused scores."""

    entities: Positions
    scores: npt.NDArray[np.float64]

    def scores_of(self, binding: EntityColumn) -> npt.NDArray[np.float64]:
        """The score of the entity of each row; every entity must be ranked."""
        return self.scores[np.searchsorted(self.entities, binding.positions)]


def find_ranks(best: Positions, positions: Positions) -> Positions:
    """Return the index of each position in ``best``, whose elements are distinct; -1 if it is not there."""
    order = np.argsort(best)
    ranked = best[order]
    at = np.minimum(np.searchsorted(ranked, positions), max(0, len(best) - 1))
    return np.where(ranked[at] == positions, order[at], -1) if len(best) else np.full(len(positions), -1)


def fuse_frames(arms: Sequence[Frame], variable: str, k: int, limit: int | None) -> tuple[Frame, FusionResult]:
    """Return the rows of the entities with the best sums of ``1 / (k + rank + 1)``, and the sums of all entities.

    The rows of an entity are taken from the first frame that has it.
    """
    frames = _align_frames(arms)
    rankings = [_rank_entities(frame, variable) for frame in frames]
    entities = np.unique(np.concatenate(rankings))
    ranks = [_ranks_or_infinity(ranking, entities) for ranking in rankings]
    # From the first to the last arm: Spark adds in the same order, and gets the same sums.
    scores = np.zeros(len(entities))
    for of_arm in ranks:
        scores = scores + 1 / (k + of_arm + 1)
    best = entities[np.lexsort((*reversed(ranks), -scores))][:limit]
    kept: list[Frame] = []
    seen = np.zeros(0, np.int64)
    for frame, ranking in zip(frames, rankings, strict=True):
        positions = frame.bindings[variable].positions
        found = find_ranks(best, positions)
        kept.append(replace(frame, ranks=found).filter((found >= 0) & (find_ranks(seen, positions) < 0)))
        seen = np.union1d(seen, ranking)
    return concat_frames(kept), FusionResult(entities, scores)


def _rank_entities(frame: Frame, variable: str) -> Positions:
    """Return the distinct entities, ordered by the best rank among their rows, then by id."""
    binding = frame.bindings[variable]
    entities, rows = np.unique(binding.positions, return_inverse=True)
    ranks = np.full(len(entities), np.iinfo(np.int64).max)
    np.minimum.at(ranks, rows, _ranks_of(frame))
    return entities[sort_entities(ranks, binding.entities.take_ids(entities))]


def _ranks_or_infinity(ranking: Positions, entities: Positions) -> npt.NDArray[np.float64]:
    """Return the rank of each entity; infinity if it has none, which adds nothing to its score."""
    ranks = find_ranks(ranking, entities)
    return np.where(ranks < 0, np.inf, ranks)


def _ranks_of(frame: Frame) -> Positions:
    assert frame.ranks is not None, "every arm of a fusion is ranked"
    return frame.ranks


# --------------------------------------------------------------------------------------------- common positions


def _align_frames(frames: Sequence[Frame]) -> list[Frame]:
    """Return the same frames where equal positions mean equal entities in all of them."""
    first, *others = frames
    # Twice: one of the others may move the first to another set of entities, which those before it must follow.
    for _ in range(2):
        for number, other in enumerate(others):
            first, others[number] = _align_entities(first, other)
    return [first, *others]


def _align_entities(first: Frame, second: Frame) -> tuple[Frame, Frame]:
    """Return the same frames where equal positions mean equal entities."""
    for name, one in first.bindings.items():
        one, other = _align_columns(one, second.bindings[name])
        first, second = (
            first.bind(name, one.entities, one.positions),
            second.bind(name, other.entities, other.positions),
        )
    return first, second


def _align_columns(one: EntityColumn, other: EntityColumn) -> tuple[EntityColumn, EntityColumn]:
    if one.entities == other.entities:
        return one, other
    if isinstance(one.entities, PathSet) and isinstance(other.entities, PathSet):
        return _join_paths(one, other, one.entities.extend(other.entities), len(one.entities))
    if isinstance(one.entities, OptionalEntities) and isinstance(other.entities, OptionalEntities):
        bases = one.entities.base, other.entities.base
        if isinstance(bases[0], PathSet) and isinstance(bases[1], PathSet):
            return _join_paths(one, other, OptionalEntities(bases[0].extend(bases[1])), len(bases[0]))
    if isinstance(other.entities, WholeTable):
        return _rebase(one, other.entities), other
    assert isinstance(one.entities, WholeTable | PartialTable)
    return one, _rebase(other, one.entities)


def _join_paths(
    one: EntityColumn, other: EntityColumn, both: EntitySet, count: int
) -> tuple[EntityColumn, EntityColumn]:
    """Express positions among the paths of two walks; an absent path is position 0 of both."""
    is_absent = (other.positions == 0) & isinstance(both, OptionalEntities)
    moved = np.where(is_absent, 0, other.positions + count)
    return EntityColumn(both, one.positions), EntityColumn(both, moved)


def _rebase(column: EntityColumn, target: WholeTable | PartialTable) -> EntityColumn:
    """Express the positions of a column in another entity set."""
    entities, numbers = np.unique(column.positions, return_inverse=True)
    ids = column.entities.take_ids(entities)
    if isinstance(target, WholeTable):
        positions = target.locate(ids)
        assert not (positions < 0).any(), "both frames are of one snapshot"
    else:
        positions = target.intern(pa.table({"id": ids}))
    return EntityColumn(target, positions[numbers])

"""Reciprocal rank fusion: combine rankings into one, for ``rrf``. Works on positions in memory; reads no table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import (
    EntityColumn,
    Frame,
    Positions,
    align_frames,
    concat_frames,
    sort_distinct,
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
    frames = align_frames(arms)
    rankings = [_rank_entities(frame, variable) for frame in frames]
    entities = sort_distinct(np.concatenate(rankings))
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

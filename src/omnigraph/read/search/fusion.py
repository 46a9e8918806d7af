"""Two rankings as one, by reciprocal rank: what ``rrf`` orders by. Integers and a few floats; nothing is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.read.frames import EntityColumn, Frame, FullTable, PartialTable, Positions, concat_frames


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The entities that either ranking has, in ascending order of their positions, and their scores."""

    entities: Positions
    scores: npt.NDArray[np.float64]

    def scores_of(self, binding: EntityColumn) -> npt.NDArray[np.float64]:
        """The score of the entity of each row; all of them were ranked."""
        return self.scores[np.searchsorted(self.entities, binding.positions)]


def find_ranks(best: Positions, positions: Positions) -> Positions:
    """For each position its place among the best, which are distinct; -1 where it has none."""
    order = np.argsort(best)
    ranked = best[order]
    at = np.minimum(np.searchsorted(ranked, positions), max(0, len(best) - 1))
    return np.where(ranked[at] == positions, order[at], -1) if len(best) else np.full(len(positions), -1)


def sort_entities(keys: npt.NDArray[np.int64] | npt.NDArray[np.float64], ids: pa.StringArray) -> Positions:
    """How to order entities: by their keys, the smallest first, then by their ids."""
    found = pa.Table.from_arrays([pa.array(keys), ids], names=["key", "id"])
    order = pc.sort_indices(found, sort_keys=[("key", "ascending"), ("id", "ascending")])
    return order.to_numpy().astype(np.int64)


def fuse_frames(first: Frame, second: Frame, variable: str, k: int, limit: int | None) -> tuple[Frame, FusionResult]:
    """The rows of the entities with the best sums of ``1 / (k + number + 1)``, and the sums of all entities.

    An entity's rows are those of the first frame that has it.
    """
    first, second = _aligned(first, second)
    numbered = _numbered(first, variable), _numbered(second, variable)
    entities = np.unique(np.concatenate(numbered))
    numbers = [_numbers(best, entities) for best in numbered]
    scores = 1 / (k + numbers[0] + 1) + 1 / (k + numbers[1] + 1)
    best = entities[np.lexsort((numbers[1], numbers[0], -scores))][:limit]
    frames = [replace(frame, ranks=find_ranks(best, frame.bindings[variable].positions)) for frame in (first, second)]
    is_new = find_ranks(numbered[0], second.bindings[variable].positions) < 0
    kept = [frames[0].filter(_ranks(frames[0]) >= 0), frames[1].filter((_ranks(frames[1]) >= 0) & is_new)]
    return concat_frames(kept), FusionResult(entities, scores)


def _numbered(frame: Frame, variable: str) -> Positions:
    """The distinct entities by the best rank among their rows, then by id."""
    binding = frame.bindings[variable]
    entities, rows = np.unique(binding.positions, return_inverse=True)
    ranks = np.full(len(entities), np.iinfo(np.int64).max)
    np.minimum.at(ranks, rows, _ranks(frame))
    return entities[sort_entities(ranks, binding.entities.take_ids(entities))]


def _numbers(best: Positions, entities: Positions) -> npt.NDArray[np.float64]:
    """For each entity its number; infinite where it has none, so that it scores nothing and comes last."""
    ranks = find_ranks(best, entities)
    return np.where(ranks < 0, np.inf, ranks)


def _ranks(frame: Frame) -> Positions:
    assert frame.ranks is not None, "both arms of a fusion are ranked"
    return frame.ranks


# --------------------------------------------------------------------------------------------- two frames as one


def _aligned(first: Frame, second: Frame) -> tuple[Frame, Frame]:
    """The same rows, with positions that mean the same entities in both frames."""
    for name, one in first.bindings.items():
        one, other = _of_one_population(one, second.bindings[name])
        first, second = (
            first.bind(name, one.entities, one.positions),
            second.bind(name, other.entities, other.positions),
        )
    return first, second


def _of_one_population(one: EntityColumn, other: EntityColumn) -> tuple[EntityColumn, EntityColumn]:
    if one.entities == other.entities:
        return one, other
    if isinstance(other.entities, FullTable):
        return _moved(one, other.entities), other
    assert isinstance(one.entities, FullTable | PartialTable)
    return one, _moved(other, one.entities)


def _moved(binding: EntityColumn, population: FullTable | PartialTable) -> EntityColumn:
    entities, numbers = np.unique(binding.positions, return_inverse=True)
    ids = binding.entities.take_ids(entities)
    if isinstance(population, FullTable):
        positions = population.locate(ids)
        assert not (positions < 0).any(), "both frames are of one snapshot"
    else:
        positions = population.intern(pa.table({"id": ids}))
    return EntityColumn(population, positions[numbers])

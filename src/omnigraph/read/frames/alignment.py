"""Frames that were made apart may number the same entities differently: bring them to one numbering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.read.frames.entity_sets import PartialTable
from omnigraph.read.frames.extended_table import WholeTable
from omnigraph.read.frames.frame import EntityColumn, EntitySet, Frame, OptionalEntities, concat_frames
from omnigraph.read.frames.paths import PathSet


def align_frames(frames: Sequence[Frame]) -> list[Frame]:
    """Return the same frames where equal positions mean equal entities in all of them."""
    first, *others = frames
    # Twice: one of the others may move the first to another set of entities, which those before it must follow.
    for _ in range(2):
        for number, other in enumerate(others):
            first, others[number] = _align_entities(first, other)
    return [first, *others]


def join_pieces(pieces: Sequence[Frame]) -> Frame:
    """Concatenate the pieces of a match, which have the same variables."""
    return concat_frames(align_frames(pieces)) if len(pieces) > 1 else pieces[0]


def _align_entities(first: Frame, second: Frame) -> tuple[Frame, Frame]:
    for name, column in first.bindings.items():
        one, other = _align_columns(column, second.bindings[name])
        if one is not column:
            first = first.bind(name, one.entities, one.positions)
        second = second.bind(name, other.entities, other.positions)
    return first, second


def _align_columns(one: EntityColumn, other: EntityColumn) -> tuple[EntityColumn, EntityColumn]:
    if one.entities == other.entities:
        return one, other
    if isinstance(one.entities, OptionalEntities) or isinstance(other.entities, OptionalEntities):
        return _align_optional(_to_optional(one), _to_optional(other))
    if isinstance(one.entities, PathSet) and isinstance(other.entities, PathSet):
        both, moved = one.entities.extend(other.entities), other.positions + len(one.entities)
        return EntityColumn(both, one.positions), EntityColumn(both, moved)
    if isinstance(other.entities, WholeTable):
        return _rebase(one, other.entities), other
    return one, _rebase(other, one.entities)


def _to_optional(column: EntityColumn) -> EntityColumn:
    if isinstance(column.entities, OptionalEntities):
        return column
    return EntityColumn(OptionalEntities(column.entities), column.positions + 1)


def _align_optional(one: EntityColumn, other: EntityColumn) -> tuple[EntityColumn, EntityColumn]:
    """Align what is present in two columns; what is absent stays at position 0."""
    assert isinstance(one.entities, OptionalEntities)
    assert isinstance(other.entities, OptionalEntities)
    bases = one.entities.base, other.entities.base
    if bases[0] is None or bases[1] is None:
        # All of one column is absent.
        either = other.entities if bases[0] is None else one.entities
        return EntityColumn(either, one.positions), EntityColumn(either, other.positions)
    present = [
        EntityColumn(base, column.positions[column.positions > 0] - 1)
        for base, column in zip((bases[0], bases[1]), (one, other), strict=True)
    ]
    first, second = _align_columns(present[0], present[1])
    return _restore_absent(first, one), _restore_absent(second, other)


def _restore_absent(present: EntityColumn, column: EntityColumn) -> EntityColumn:
    positions = np.zeros(len(column.positions), np.int64)
    positions[column.positions > 0] = present.positions + 1
    return EntityColumn(OptionalEntities(present.entities), positions)


def _rebase(column: EntityColumn, target: EntitySet) -> EntityColumn:
    """Express the positions of a column in another entity set."""
    entities, numbers = np.unique(column.positions, return_inverse=True)
    ids = column.entities.take_ids(entities)
    if isinstance(target, WholeTable):
        positions = target.locate(ids)
        assert not (positions < 0).any(), "both frames are of one snapshot"
    else:
        assert isinstance(target, PartialTable)
        positions = target.intern(pa.table({"id": ids}))
    return EntityColumn(target, positions[numbers])

"""A merge of plain dicts, entity by entity: what comes of it, or which conflict it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Entity: TypeAlias = Mapping[str, object]
State: TypeAlias = Mapping[tuple[str, str], Entity]
"""Entities by type and id."""
By: TypeAlias = Literal["row", "property"]


def merged(base: Entity | None, ours: Entity | None, theirs: Entity | None, by: By) -> Entity | str | None:
    """One entity: as it is afterwards, None if it is gone, or the kind of the conflict."""
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    if base is None:
        return "DivergentInsert"
    if ours is None or theirs is None:
        return "DeleteVsUpdate"
    if by == "row":
        return "DivergentUpdate"
    found: dict[str, object] = {}
    for name, was in base.items():
        mine, other = ours[name], theirs[name]
        if other not in (was, mine) and mine != was:
            return "DivergentUpdate"
        found[name] = mine if other in (was, mine) else other
    return found


def merge(
    base: State, ours: State, theirs: State, by: By
) -> tuple[dict[tuple[str, str], Entity], dict[tuple[str, str], str]]:
    """Whole graphs: what comes of everything that is not at odds, and the conflicts. What is at odds stays as ours."""
    state: dict[tuple[str, str], Entity] = {}
    conflicts: dict[tuple[str, str], str] = {}
    for key in {*base, *ours, *theirs}:
        found = merged(base.get(key), ours.get(key), theirs.get(key), by)
        if isinstance(found, str):
            conflicts[key] = found
            found = ours.get(key)
        if found is not None:
            state[key] = found
    return state, conflicts


def preferred(
    base: State, ours: State, theirs: State, by: By, side: Literal["ours", "theirs"]
) -> dict[tuple[str, str], Entity]:
    """The same, where one side is right whenever both are at odds; of properties, where those are."""
    state, conflicts = merge(base, ours, theirs, by)
    for key in conflicts:
        found = _by_preference(base.get(key), ours.get(key), theirs.get(key), by, side)
        state.pop(key, None)
        if found is not None:
            state[key] = found
    return state


def _by_preference(
    base: Entity | None, ours: Entity | None, theirs: Entity | None, by: By, side: Literal["ours", "theirs"]
) -> Entity | None:
    right, other = (ours, theirs) if side == "ours" else (theirs, ours)
    if by == "row" or base is None or right is None or other is None:
        return right
    return {name: other[name] if right[name] == was else right[name] for name, was in base.items()}


def orphans(state: State) -> set[tuple[str, str]]:
    """The edges that lack one of their ends."""
    people = {id_ for type_, id_ in state if type_ == "Person"}
    return {
        key
        for key, found in state.items()
        if key[0] == "Knows" and not {str(found["from"]), str(found["to"])} <= people
    }

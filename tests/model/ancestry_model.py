"""Where two histories met, found by comparing all ancestors: what a merge takes for its base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TypeAlias

from tests.model.merge_model import Entity, State, merged

Parents: TypeAlias = Mapping[str, Sequence[str]]
"""The parents of every commit. One that is named and not there is known no longer: history ends before it."""


def ancestors(parents: Parents, commit: str) -> dict[str, int]:
    """A commit and all that it follows, each with the steps to it on the shortest way."""
    found: dict[str, int] = {}
    newest = [commit]
    for steps in count():
        newest = [each for each in newest if each in parents and each not in found]
        if not newest:
            break
        found |= dict.fromkeys(newest, steps)
        newest = [parent for each in newest for parent in parents[each]]
    return found


def bases(parents: Parents, one: str, other: str, version: Callable[[str], int] = lambda _: 0) -> list[str]:
    """Common ancestors that no other one follows, the nearest to both first, then the newest."""
    ways = ancestors(parents, one), ancestors(parents, other)
    shared = ways[0].keys() & ways[1].keys()
    found = [each for each in shared if not any(each in ancestors(parents, more) for more in shared - {each})]
    return sorted(found, key=lambda each: (ways[0][each] + ways[1][each], -version(each), each))


def common(
    parents: Parents,
    shown: Callable[[str], State],
    first: str,
    others: Sequence[str],
    version: Callable[[str], int] = lambda _: 0,
) -> dict[tuple[str, str], Entity]:
    """What both sides have seen: the first meeting point, and what the others have that it has not."""
    known, told = shown(first), dict[tuple[str, str], Entity | None]()
    for other in others:
        before = shown(bases(parents, first, other, version)[0])
        for key in {*known, *shown(other), *before}:
            found = merged(before.get(key), known.get(key), shown(other).get(key), "property")
            if isinstance(found, str):
                told.setdefault(key, before.get(key))
            elif found != known.get(key):
                told.setdefault(key, found)
    return {key: row for key, row in {**known, **told}.items() if row is not None}

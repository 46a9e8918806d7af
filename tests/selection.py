"""What ``make test`` runs of a family of tests. ``make test-all`` runs all of it.

The daily run has one representative of every behaviour; the others carry the mark ``slow``. Nothing that only the long
run looks at may be the sole guard of a promise in ``docs/concepts/guarantees.md``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar, cast

import pytest
from _pytest.mark.structures import ParameterSet

T = TypeVar("T")

LARGE: Final = os.environ.get("OMNIGRAPH_FUZZ") == "large"


def sized(daily: int, large: int) -> int:
    """How many examples, rounds or rows: few in ``make test``, many in ``make test-all``."""
    return large if LARGE else daily


def daily(values: Iterable[T], chosen: Collection[T], name: Callable[[T], str] = str) -> list[ParameterSet]:
    """All values as parameters, tuples as several; those that are not chosen are left to the long run."""
    found = list(values)
    missing = [name(value) for value in chosen if value not in found]
    assert not missing, f"not among the values: {missing}"
    return [
        pytest.param(*_arguments(value), id=name(value), marks=() if value in chosen else (pytest.mark.slow,))
        for value in found
    ]


def _arguments(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)

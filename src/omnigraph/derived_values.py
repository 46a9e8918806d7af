"""Keep what is derived from objects that never change, such as types of a schema and plans of queries.

Queries ask for it again and again, and the objects are too large to be compared: they are told apart by identity.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Subject = TypeVar("Subject")
Value = TypeVar("Value")


def keep_derived(most: int) -> Callable[[Callable[[Subject], Value]], Callable[[Subject], Value]]:
    """Make a function of one immutable object keep its values, of at most so many objects at a time."""

    def decorate(derive: Callable[[Subject], Value]) -> Callable[[Subject], Value]:
        # With the object itself: another one may get its identity once it is gone.
        kept: dict[int, tuple[Subject, Value]] = {}

        @wraps(derive)
        def find(subject: Subject) -> Value:
            found = kept.get(id(subject))
            if found is not None and found[0] is subject:
                return found[1]
            value = derive(subject)
            if len(kept) >= most:
                kept.clear()
            kept[id(subject)] = subject, value
            return value

        return find

    return decorate

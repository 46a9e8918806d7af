"""The cache that all readers of a process share: arrays derived from table versions, within a budget of bytes.

Every key contains the table contents that its value was derived from, so an entry is never wrong. It can only become
useless, and then it is evicted first.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import field
from functools import cache
from threading import Event, Lock
from typing import Final, TypeVar, cast

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.machine_memory import available_memory

T = TypeVar("T")

BUDGET_VARIABLE: Final = "OMNIGRAPH_CACHE_BYTES"
_LARGEST_DEFAULT: Final = 4 * 2**30
_MOST_ENTRIES: Final = 8_192
"""A server that reads after each commit makes small entries for each version: so many, whatever their bytes."""


@dataclass(slots=True)
class _PendingValue:
    """A value that one thread makes while others wait for it."""

    finished: Event = field(default_factory=Event)
    value: object = None
    is_made: bool = False


class Cache:
    """An LRU cache of at most ``budget`` bytes in a bounded number of entries, safe to share between threads.

    If several threads need the same value, one of them makes it. Making a value may use the cache for others.
    """

    def __init__(self, budget: int, most_entries: int = _MOST_ENTRIES) -> None:
        self.budget = budget
        self._most_entries = most_entries
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._building: dict[Hashable, _PendingValue] = {}
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """The bytes in use."""
        with self._lock:
            return self._nbytes

    def get_or_make(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return the value of a key, and make it if it is missing. A value larger than the budget is not kept."""
        while True:
            with self._lock:
                if key in self._entries:
                    self._entries.move_to_end(key)
                    return cast(T, self._entries[key][0])
                building = self._building.get(key)
                if building is None:
                    mine = self._building[key] = _PendingValue()
                    break
            building.finished.wait()
            if building.is_made:
                return cast(T, building.value)
            # The other thread failed and raised to its own caller; this caller tries again.
        return self._make(key, mine, make, size)

    def _make(self, key: Hashable, building: _PendingValue, make: Callable[[], T], size: Callable[[T], int]) -> T:
        try:
            value = make()
            building.value, building.is_made = value, True
            self._keep(key, value, size(value))
            return value
        finally:
            with self._lock:
                del self._building[key]
            building.finished.set()

    def _keep(self, key: Hashable, value: object, nbytes: int) -> None:
        with self._lock:
            _, freed = self._entries.pop(key, (None, 0))
            self._nbytes -= freed
            if nbytes > self.budget:
                return
            self._entries[key] = (value, nbytes)
            self._nbytes += nbytes
            while self._nbytes > self.budget or len(self._entries) > self._most_entries:
                _, (_, freed) = self._entries.popitem(last=False)
                self._nbytes -= freed

    def replace(self, key: Hashable, value: object, nbytes: int) -> None:
        """Set the value of a key, whether it has one or not."""
        self._keep(key, value, nbytes)

    def peek(self, key: Hashable) -> object | None:
        """Return the value of a key or None. This does not count as a use."""
        with self._lock:
            found = self._entries.get(key)
        return None if found is None else found[0]

    def find(self, key: Hashable) -> object | None:
        """Return the value of a key or None. This counts as a use."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
        return found[0]

    def all_keys(self) -> tuple[Hashable, ...]:
        """Return the keys of all entries."""
        with self._lock:
            return tuple(self._entries)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._nbytes = 0


class StagedCache(Cache):
    """Values that are made apart from another cache, and become part of it together.

    What the other one has is used and not made again.
    """

    def __init__(self, target: Cache) -> None:
        super().__init__(target.budget // 2)
        self._target = target

    def get_or_make(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return the value of a key of either cache, and make it here if both lack it."""
        known = self._target.peek(key)
        return super().get_or_make(key, make, size) if known is None else cast(T, known)

    def peek(self, key: Hashable) -> object | None:
        """Return the value of a key of either cache or None."""
        found = super().peek(key)
        return self._target.peek(key) if found is None else found

    def find(self, key: Hashable) -> object | None:
        """Return the value of a key of either cache or None."""
        return self.peek(key)

    def all_keys(self) -> tuple[Hashable, ...]:
        """Return the keys of all entries of both caches."""
        return *super().all_keys(), *self._target.all_keys()

    def publish(self, rank: Callable[[Hashable], int]) -> None:
        """Move all entries to the other cache, those with a lower rank first; those below 0 are dropped."""
        with self._lock:
            made = dict(self._entries)
        for key in sorted((key for key in made if rank(key) >= 0), key=rank):
            self._target.replace(key, *made[key])
        self.clear()


@cache
def shared_cache() -> Cache:
    """The cache of this process: a quarter of the memory, at most 4 GiB, or OMNIGRAPH_CACHE_BYTES."""
    return Cache(_parse_budget(os.environ.get(BUDGET_VARIABLE)))


def _parse_budget(setting: str | None) -> int:
    if not setting:
        return min(_LARGEST_DEFAULT, available_memory() // 4)
    if not (setting.isascii() and setting.isdigit()):
        raise ParameterError(f"{BUDGET_VARIABLE} is '{setting}'", hint="give a number of bytes; 0 keeps nothing")
    return int(setting)

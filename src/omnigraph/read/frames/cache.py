"""What readers of this process keep in memory: arrays derived from table versions, under one budget of bytes.

Every key begins with the contents that the value was derived from, so nothing in here can become wrong; it can only
become useless, and then it is the first to go.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Event, Lock
from typing import Final, TypeVar, cast

from omnigraph.errors import ParameterError

T = TypeVar("T")

BUDGET_VARIABLE: Final = "OMNIGRAPH_CACHE_BYTES"
_MOST: Final = 4 * 2**30
_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


@dataclass(slots=True)
class _PendingValue:
    """A value that a thread is making while others wait for it."""

    finished: Event = field(default_factory=Event)
    value: object = None
    is_made: bool = False


class Cache:
    """Values by key, the least recently used ones dropped beyond ``budget`` bytes. Safe to share between threads.

    A value that several threads ask for at once is made by one of them. Making one may ask for others.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._building: dict[Hashable, _PendingValue] = {}
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """How many bytes are kept now."""
        with self._lock:
            return self._nbytes

    def get_or_make(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """The value of a key, made if it is not there. What is larger than the budget is given out, but not kept."""
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
            # Whoever tried has failed and says so to its own caller: this caller's attempt is another one.
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
            if nbytes > self.budget:
                return
            self._entries[key] = (value, nbytes)
            self._nbytes += nbytes
            while self._nbytes > self.budget:
                _, (_, freed) = self._entries.popitem(last=False)
                self._nbytes -= freed

    def peek(self, key: Hashable) -> object | None:
        """The value of a key if it is there; that it was looked at does not keep it longer."""
        with self._lock:
            found = self._entries.get(key)
        return None if found is None else found[0]

    def all_keys(self) -> tuple[Hashable, ...]:
        """The keys of all values that are there now."""
        with self._lock:
            return tuple(self._entries)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._nbytes = 0


@cache
def shared_cache() -> Cache:
    """The cache of this process: a quarter of the memory, at most 4 GiB, or what OMNIGRAPH_CACHE_BYTES says."""
    return Cache(_budget(os.environ.get(BUDGET_VARIABLE)))


def _budget(wanted: str | None) -> int:
    if not wanted:
        return min(_MOST, _memory() // 4)
    if not (wanted.isascii() and wanted.isdigit()):
        raise ParameterError(f"{BUDGET_VARIABLE} is '{wanted}'", hint="give a number of bytes; 0 keeps nothing")
    return int(wanted)


def _memory() -> int:
    """The bytes of memory that this process may use: those of the machine, or of the container it runs in."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = _CONTAINER_LIMIT.read_text().strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical

"""The memory of queries: one pool of bytes for the process, and the account of each query that draws on it.

An operator asks its query's account before it allocates. If it does not get what it asks for, it works on fewer rows
at a time, writes them to a file, or the query is refused. Arrays of whole tables have a budget of their own: see
:mod:`omnigraph.read.frames`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from threading import Condition
from types import GeneratorType, TracebackType
from typing import Final, Self, TypeAlias, TypeVar

from omnigraph.deadlines import check_deadline
from omnigraph.errors import MemoryExceeded, ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.machine_memory import available_memory

Item = TypeVar("Item")

MemoryLimit: TypeAlias = int | str | None
"""How much memory a query may use: bytes, a text such as "512MB", or None for the default of the graph."""

POOL_VARIABLE: Final = "OMNIGRAPH_QUERY_BYTES"
SMALL_QUERY: Final = 16 * 2**20
"""A query may use so many bytes beside the pool, so that small queries never wait for large ones."""
_STEP: Final = 16 * 2**20
"""What an account takes from the pool at a time."""
_LEAST_SHARE: Final = 64
"""Blocks inside blocks divide the memory again and again, but only down to this part of it."""
_WAIT_SECONDS: Final = 0.05
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class MemoryPool:
    """The bytes that the queries of a process share, safe to use from several threads."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._free = budget
        self._changed = Condition()
        self._running: set[QueryMemory] = set()
        """The accounts that have bytes of the pool and can release them without help, so that others may wait."""

    @property
    def free(self) -> int:
        """The bytes that no query has."""
        with self._changed:
            return self._free

    def take(self, account: QueryMemory, nbytes: int) -> bool:
        """Take bytes. Wait while another query that runs may give some back; False if there is none."""
        with self._changed:
            # Two that wait for each other would wait for ever: the second one sees that nobody else runs.
            self._running.discard(account)
            try:
                while self._free < nbytes:
                    if not self._running:
                        return False
                    self._changed.wait(_WAIT_SECONDS)
                    check_deadline()
                self._free -= nbytes
                account.granted += nbytes
                return True
            finally:
                if account.granted:
                    self._running.add(account)

    def give_back(self, account: QueryMemory, nbytes: int) -> None:
        """Give bytes back. An account without any is forgotten."""
        with self._changed:
            self._free += nbytes
            if not account.granted:
                self._running.discard(account)
            self._changed.notify_all()

    def pause(self, account: QueryMemory) -> None:
        """Note that an account keeps its bytes while its query does not run: nobody may wait for these."""
        with self._changed:
            self._running.discard(account)
            self._changed.notify_all()

    def resume(self, account: QueryMemory) -> None:
        """Note that the query of an account runs again."""
        with self._changed:
            if account.granted:
                self._running.add(account)


@cache
def shared_pool() -> MemoryPool:
    """The pool of this process: a quarter of the memory, or OMNIGRAPH_QUERY_BYTES."""
    setting = os.environ.get(POOL_VARIABLE)
    return MemoryPool(parse_bytes(setting, POOL_VARIABLE) if setting else available_memory() // 4)


class QueryMemory:
    """The account of one query: what its operators hold now, and the most that they may hold together."""

    def __init__(self, pool: MemoryPool, limit: int | None = None, name_step: Callable[[], str] = lambda: "") -> None:
        self.budget = pool.budget if limit is None else min(limit, pool.budget)
        self.held = 0
        self.peak = 0
        """The most bytes that were held at a time."""
        self.granted = 0
        """The bytes that this account has from the pool."""
        self._pool = pool
        self._ceiling = self.budget
        self._highest = 0
        self._name_step = name_step

    def reserve(self, nbytes: int) -> None:
        """Hold bytes. Raises ``MemoryExceeded`` if the query may not hold so many more."""
        total = self.held + nbytes
        if total > self._ceiling:
            raise self.refuse(nbytes)
        missing = total - SMALL_QUERY - self.granted
        if missing > 0 and not self._take_from_pool(missing):
            raise self.refuse(nbytes)
        self.held = total
        self._highest = max(self._highest, total)
        self.peak = max(self.peak, total)

    def _take_from_pool(self, nbytes: int) -> bool:
        return self._pool.take(self, -(-nbytes // _STEP) * _STEP) or self._pool.take(self, nbytes)

    def release(self, nbytes: int) -> None:
        """Hold fewer bytes."""
        self.held -= nbytes
        surplus = self.granted - max(0, self.held - SMALL_QUERY)
        if surplus >= 2 * _STEP or (surplus and self.held <= SMALL_QUERY):
            self.granted -= surplus
            self._pool.give_back(self, surplus)

    def refuse(self, nbytes: int) -> MemoryExceeded:
        """Return the error of a step that asks for too much."""
        return MemoryExceeded(self._name_step(), nbytes, self.held, self.budget)

    def hold(self, nbytes: int = 0) -> Holding:
        """Hold bytes while a block runs; it may change how many."""
        return Holding(self).resize(nbytes)

    def share(self, parts: int) -> MemoryShare:
        """Allow a block one of so many equal parts of what is left, but not less than a small part of the whole."""
        size = max((self._ceiling - self.held) // parts, self.budget // _LEAST_SHARE)
        return MemoryShare(self, min(size, self.left))

    def limit(self, ceiling: int, highest: int) -> tuple[int, int]:
        """Set how much may be held from now on and what was held at most; return what both were before."""
        before = self._ceiling, self._highest
        self._ceiling, self._highest = ceiling, highest
        return before

    @property
    def left(self) -> int:
        """The bytes that a step may still reserve."""
        return max(0, self._ceiling - self.held)

    def iterate(self, make: Callable[[], Iterator[Item]]) -> Iterator[Item]:
        """Yield the rows of the query. Between two of them nobody waits for what it holds."""
        items = make()
        try:
            while True:
                # Without bytes of the pool nobody waits for it.
                if self.granted:
                    self._pool.resume(self)
                try:
                    item = next(items)
                except StopIteration:
                    return
                finally:
                    if self.granted:
                        self._pool.pause(self)
                yield item
        finally:
            if isinstance(items, GeneratorType):
                items.close()


@dataclass(slots=True)
class Holding:
    """Bytes that a block holds. They are released when it ends."""

    memory: QueryMemory
    nbytes: int = 0

    def resize(self, nbytes: int) -> Self:
        """Hold so many bytes instead."""
        if nbytes > self.nbytes:
            self.memory.reserve(nbytes - self.nbytes)
        elif nbytes < self.nbytes:
            self.memory.release(self.nbytes - nbytes)
        self.nbytes = nbytes
        return self

    def add(self, nbytes: int) -> Self:
        """Hold so many bytes more."""
        return self.resize(self.nbytes + nbytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resize(0)


class MemoryShare:
    """The part of its query's memory that a block may use, and, after the block, what it used at most."""

    __slots__ = ("_before", "_begin", "_memory", "size", "used")

    def __init__(self, memory: QueryMemory, size: int) -> None:
        self.size = size
        self.used = 0
        self._memory = memory
        self._begin = memory.held
        self._before = (0, 0)

    def __enter__(self) -> Self:
        self._before = self._memory.limit(self._begin + self.size, self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ceiling, highest = self._before
        _, reached = self._memory.limit(ceiling, highest)
        self.used = reached - self._begin
        self._memory.limit(ceiling, max(highest, reached))


# --------------------------------------------------------------------------------------------- sizes


def parse_bytes(size: int | str, name: str = "memory") -> int:
    """Return a number of bytes: from 1 on, or a text with a unit. KB and KiB are both 1,024 bytes."""
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    nbytes = size if isinstance(size, int) else 0 if found is None else _to_bytes(found)
    if nbytes < 1:
        raise ParameterError(f"{name} is {size!r}", hint='give a number of bytes, or a text such as "512MB" or "2GiB"')
    return nbytes


def _to_bytes(found: re.Match[str]) -> int:
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])

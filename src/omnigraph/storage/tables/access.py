"""How to reach the tables of one graph, and what Lance may keep of them in memory.

Lance keeps what it has read of versions and files in a session. Each commit makes another version, and nobody tells
Lance which ones are over: they stay until the session is full. So it gets room for what a graph of this size needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from lance import Session  # pyright: ignore[reportPrivateImportUsage]  documented there, but not marked as exported

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.durability import Durability, WriteBarrier
from omnigraph.storage.machine_memory import available_memory
from omnigraph.storage.tables.written_rows import WrittenRows

_LEAST_ROWS: Final = 2_000_000
_METADATA_PER_ROW: Final = 16
"""Bytes. Of 3 million rows, two thirds of them updated in place, Lance keeps 12 for each."""
_MOST_METADATA: Final = 2**30
_MOST_INDEXES: Final = 6 * 2**30
"""What Lance itself allows."""


def make_session(rows: int = _LEAST_ROWS, index_bytes: int | None = None) -> Session:
    """Make empty caches for the tables of a graph with so many rows.

    Of its indexes they keep so many bytes, or an eighth of the memory.
    """
    return Session(
        index_cache_size_bytes=min(_MOST_INDEXES, available_memory() // 8) if index_bytes is None else index_bytes,
        metadata_cache_size_bytes=min(_MOST_METADATA, _METADATA_PER_ROW * rows),
    )


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the datasets of one graph: the storage options and the session whose caches they share."""

    # May hold credentials: never printed.
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    session: Session = field(default_factory=make_session, repr=False, compare=False)
    barrier: WriteBarrier | None = field(default=None, repr=False, compare=False)
    """Where writers wait until what they wrote survives a power cut; None if they do not."""
    written: WrittenRows = field(default_factory=WrittenRows, repr=False, compare=False)
    """The rows that this process has just written."""
    room: int = field(default=_LEAST_ROWS, repr=False, compare=False)
    """How many rows the caches are made for."""

    @property
    def durability(self) -> Durability:
        """What acknowledged writes survive."""
        return "process" if self.barrier is None else "power"

    def with_room_for(self, rows: int) -> Access:
        """Return the same with larger caches, which are empty, if a graph has outgrown these."""
        if rows <= self.room:
            return self
        return replace(self, session=make_session(2 * rows), room=2 * rows)

    def with_empty_caches(self) -> Access:
        """Return the same with caches that know nothing of the tables."""
        return replace(self, session=make_session(self.room))

    def with_index_cache(self, nbytes: int) -> Access:
        """Return the same with caches of its own, which keep at most so many bytes of indexes."""
        return replace(self, session=make_session(self.room, nbytes))

    def __reduce__(self) -> tuple[object, ...]:
        # A session lives in one process; the next one starts with empty caches. Executors write files, and the
        # process that commits them syncs them.
        return Access, (dict(self.storage_options),)

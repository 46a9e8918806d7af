"""The versions of a table that later ones are derived from while they differ in a few rows.

A version becomes a base when its ids, or the ends of its edges, are read. Bases are entries of the cache like any
other; without one, the rows of a version are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.contents import TableContents

if TYPE_CHECKING:
    from omnigraph.read.frames.entity_sets import FullTable

_MOST_BASES: Final = 4
"""Branches that differ much need different bases."""
_BYTES_PER_BASE: Final = 10_000
"""Estimated memory of an open table."""


@dataclass(frozen=True, slots=True)
class TableLineage:
    """The versions of a table that begin with the same fragment. Those of other graphs have other files."""

    table_key: str
    first_files: tuple[str, ...]


def note_base(base: FullTable, cache: Cache) -> None:
    """Make a version the first base that later ones are compared with."""
    if not base.contents.fragments:
        return
    others = [each for each in list_bases(base.contents, cache) if each.contents != base.contents]
    bases = (base, *others)[:_MOST_BASES]
    cache.replace(lineage_of(base.contents), bases, _BYTES_PER_BASE * len(bases))


def list_bases(contents: TableContents, cache: Cache) -> tuple[FullTable, ...]:
    """Return the bases of a table that has some contents, the newest first."""
    if not contents.fragments:
        return ()
    return cast("tuple[FullTable, ...] | None", cache.peek(lineage_of(contents))) or ()


def lineage_of(contents: TableContents) -> TableLineage:
    """Return the lineage of a version that has rows: the key of what is kept for it and its successors."""
    return TableLineage(contents.table_key, contents.fragments[0].files)

"""The difference of two versions of a table, found by their fragments: which rows went, and where the others are.

Only metadata and deletion files are read. A difference is small, or there is none: beyond a share of the rows it is
cheaper to read the newer version.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from typing import Final, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from omnigraph.errors import HistoryGone
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.contents import FragmentContents, TableContents
from omnigraph.read.frames.frame import Positions
from omnigraph.storage.tables import Numbers, Table, read_deleted_offsets

_SMALLEST_SHARE: Final = 32
"""A difference is small up to one row in so many,"""
_FEW_CHANGES: Final = 1_000
"""or up to so many rows,"""
_FEW_FRAGMENTS: Final = 256
"""in at most so many fragments."""

OpenTable: TypeAlias = Callable[[], Table]


@dataclass(frozen=True, slots=True, eq=False)
class AddedRows:
    """Rows of a version that the base does not have: all of a fragment, or those at some offsets."""

    fragment: FragmentContents
    offsets: Numbers | None

    @property
    def num_rows(self) -> int:
        """How many rows these are."""
        return self.fragment.num_rows if self.offsets is None else len(self.offsets)

    @property
    def key(self) -> Hashable:
        """What tells these rows from all others of the table."""
        offsets = None if self.offsets is None else self.offsets.tobytes()
        return self.fragment.fragment, self.fragment.files, self.fragment.deletions, offsets


@dataclass(frozen=True, slots=True, eq=False)
class VersionDelta:
    """How a version differs from the base: an updated row is removed, and added with its new values."""

    base: TableContents
    contents: TableContents
    removed: Positions
    """The positions in the base of rows that are not in the version, sorted."""
    added: tuple[AddedRows, ...]
    part_keys: tuple[Hashable, ...] = field(init=False)
    """What tells the added rows from all others of the table."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "part_keys", tuple(part.key for part in self.added))

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays, and an estimate for the rest."""
        return self.removed.nbytes + 200 * (1 + len(self.added))


@dataclass(frozen=True, slots=True)
class DeltaKey:
    """The cache key of a difference, and part of the keys of what is derived from it."""

    base: TableContents
    contents: TableContents


def find_delta(
    base: TableContents, contents: TableContents, open_base: OpenTable, open_table: OpenTable, cache: Cache
) -> VersionDelta | None:
    """Return how a version differs from a base, from the cache if possible; None if not in a few rows."""

    def make() -> VersionDelta | None:
        if (base.table_key, base.columns) != (contents.table_key, contents.columns):
            return None
        pairs, gone, new = _pair_fragments(base, contents)
        if not _is_small(pairs, gone, new, base.num_rows):
            return None
        try:
            return _compare_fragments(base, contents, (open_base, open_table), cache)
        except HistoryGone:
            # Cleanup has removed the deletion files of the base.
            return None

    return cache.get_or_make(DeltaKey(base, contents), make, lambda made: 100 if made is None else made.nbytes)


_Pairs: TypeAlias = list[tuple[FragmentContents, FragmentContents]]
"""Fragments of the base, and the same in the version."""


def _pair_fragments(
    base: TableContents, contents: TableContents
) -> tuple[_Pairs, list[FragmentContents], list[FragmentContents]]:
    """Return the fragments of both, those of the base alone, and those of the version alone."""
    known = {each.fragment: each for each in base.fragments}
    pairs = [(known[each.fragment], each) for each in contents.fragments if each.fragment in known]
    pairs = [(old, new) for old, new in pairs if old.has_files_of(new)]
    shared = {old.fragment for old, _ in pairs}
    gone = [each for each in base.fragments if each.fragment not in shared]
    return pairs, gone, [each for each in contents.fragments if each.fragment not in shared]


def _is_small(pairs: _Pairs, gone: Sequence[FragmentContents], new: Sequence[FragmentContents], base_rows: int) -> bool:
    thinned = sum(abs(before.num_rows - after.num_rows) for before, after in pairs)
    changes = thinned + sum(each.num_rows for each in (*gone, *new))
    return changes <= max(_FEW_CHANGES, base_rows // _SMALLEST_SHARE) and len(new) <= _FEW_FRAGMENTS


def _compare_fragments(
    base: TableContents, contents: TableContents, open_tables: tuple[OpenTable, OpenTable], cache: Cache
) -> VersionDelta:
    pairs, gone, new = _pair_fragments(base, contents)
    ends = np.cumsum([0, *(each.num_rows for each in base.fragments)])
    starts = dict(zip((each.fragment for each in base.fragments), ends.tolist(), strict=False))
    removed = [starts[each.fragment] + np.arange(each.num_rows) for each in gone]
    added = [AddedRows(each, None) for each in new]
    for before, after in pairs:
        if before.deletions == after.deletions:
            continue
        deleted = [
            _read_deleted(each, open_table, cache)
            for each, open_table in zip((before, after), open_tables, strict=True)
        ]
        went = _subtract(deleted[1], deleted[0])
        removed.append(starts[before.fragment] + count_rows_before(went, deleted[0]))
        came = _subtract(deleted[0], deleted[1])
        added += [AddedRows(after, came)] if len(came) else []
    positions = np.sort(np.concatenate([np.zeros(0, np.int64), *removed]))
    return VersionDelta(base, contents, positions, tuple(added))


# --------------------------------------------------------------------------------------------- from part to part


@dataclass(frozen=True, slots=True)
class _KeptParts:
    """What was derived from the rows that some version adds to a base."""

    keys: tuple[Hashable, ...]
    made: Derived


class Derived(Protocol):
    """An array with one entry for each added row."""

    @property
    def nbytes(self) -> int: ...  # noqa: D102  as in Arrow and NumPy


DerivedT = TypeVar("DerivedT", bound=Derived)


def extend_parts(
    key: Hashable,
    delta: VersionDelta,
    cache: Cache,
    extend: Callable[[Sequence[DerivedT], Sequence[AddedRows]], DerivedT],
) -> DerivedT:
    """Return an array over all added rows of a version.

    The array of the last version is kept under the key. Commits mostly add parts to it, and then ``extend`` gets it
    together with those parts; else it gets nothing and all parts.
    """
    kept = cast("_KeptParts | None", cache.peek(key))
    shared = 0
    if kept is not None and kept.keys == delta.part_keys[: len(kept.keys)]:
        shared = len(kept.keys)
        if shared == len(delta.added):
            return cast("DerivedT", kept.made)
    known = [cast("DerivedT", kept.made)] if kept is not None and shared else []
    made = extend(known, delta.added[shared:])
    cache.replace(key, _KeptParts(delta.part_keys, made), made.nbytes + 200 * (1 + len(delta.added)))
    return made


def _read_deleted(fragment: FragmentContents, open_table: OpenTable, cache: Cache) -> Numbers:
    """Return the sorted offsets of the deleted rows of a fragment. Deletion files never change."""
    if fragment.source.deletion_file is None:
        return np.zeros(0, np.uint64)
    return cache.get_or_make(
        fragment.source.deletion_file,
        lambda: read_deleted_offsets(open_table(), [fragment.source])[0],
        lambda made: made.nbytes,
    )


def _subtract(offsets: Numbers, others: Numbers) -> Numbers:
    """Return the offsets that are not among others; both are sorted."""
    if not len(offsets) or not len(others):
        return offsets
    at = np.minimum(np.searchsorted(others, offsets), len(others) - 1)
    return offsets[others[at] != offsets]


def count_rows_before(offsets: Numbers, deleted: Numbers) -> Positions:
    """Return how many remaining rows of a fragment come before each offset."""
    return offsets.astype(np.int64) - np.searchsorted(deleted, offsets)

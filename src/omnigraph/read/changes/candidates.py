"""Which rows of two versions of a table can differ at all, found in the metadata of their fragments.

A fragment that both versions have needs no look. One that both have with other deletions differs in what these take
away. All other fragments were written anew: by a change, or by a compaction, which moves rows and changes none. Where
the two versions share a history, the row ids and row versions of these fragments tell which rows were only moved.

In memory are 8 bytes for every row that was written anew, and what is compared of at most ``ROWS_AT_ONCE`` of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.storage.fragments import (
    Fragment,
    Numbers,
    RowVersions,
    deleted_offsets,
    fragments_of,
    read_rows,
    row_offsets,
    row_versions,
    shared_versions,
)
from omnigraph.storage.pinned import Table

ROWS_AT_ONCE: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class CandidateFragment:
    """Rows of one fragment that may be others on the other side, by their offsets in it; None for all of them."""

    fragment: Fragment
    offsets: Numbers | None = None

    @property
    def num_rows(self) -> int:
        """How many rows."""
        return self.fragment.num_rows if self.offsets is None else len(self.offsets)


@dataclass(frozen=True, slots=True)
class CandidateRows:
    """The rows of one side that may be others on the other side."""

    table: Table
    parts: tuple[CandidateFragment, ...]

    @property
    def num_rows(self) -> int:
        """How many rows."""
        return sum(part.num_rows for part in self.parts)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows with their addresses, in small batches."""
        return read_rows(self.table, ((part.fragment, part.offsets) for part in self.parts), columns)


def select_all_rows(table: Table) -> CandidateRows:
    """Every row of a table."""
    return CandidateRows(table, tuple(CandidateFragment(each) for each in fragments_of(table)))


def find_candidates(before: Table, after: Table) -> tuple[CandidateRows, CandidateRows]:
    """The rows of two versions that may differ, on each side."""
    olds = {each.files: each for each in fragments_of(before)}
    news = {each.files: each for each in fragments_of(after)}
    lost = [each for files, each in olds.items() if files not in news]
    come = [each for files, each in news.items() if files not in olds]
    gone, back = _rewritten(before, lost, after, come)
    both = [(old, news[files]) for files, old in olds.items() if files in news]
    thinned = [(old, new) for old, new in both if old.deletions != new.deletions]
    were, are = (
        deleted_offsets(before, [old for old, _ in thinned]),
        deleted_offsets(after, [new for _, new in thinned]),
    )
    for (old, new), was, is_ in zip(thinned, were, are, strict=True):
        gone.append(CandidateFragment(old, np.setdiff1d(is_, was, assume_unique=True)))
        back.append(CandidateFragment(new, np.setdiff1d(was, is_, assume_unique=True)))
    return CandidateRows(before, _in_order(gone)), CandidateRows(after, _in_order(back))


def _in_order(parts: Iterable[CandidateFragment]) -> tuple[CandidateFragment, ...]:
    return tuple(sorted((part for part in parts if part.num_rows), key=lambda part: part.fragment.id))


# --------------------------------------------------------------------------------------------- moved, not changed


def _rewritten(
    before: Table, lost: Sequence[Fragment], after: Table, come: Sequence[Fragment]
) -> tuple[list[CandidateFragment], list[CandidateFragment]]:
    """The rows of fragments that only one side has, less those that were moved as they are."""
    # A column that came or went changes rows without a word in their versions.
    shared = shared_versions(before, after) if lost and come and before.schema == after.schema else -1
    olds, news = _Moving(before, lost, shared), _Moving(after, come, shared)
    if shared >= 0:
        rounds = 1 + sum(each.num_rows for each in come) // ROWS_AT_ONCE
        for number in range(rounds):
            _mark_moved(olds, news, number, rounds)
    return olds.left(), news.left()


class _Moving:
    """The fragments that only one side has, and the offsets of their rows that are found to be only moved."""

    def __init__(self, table: Table, fragments: Sequence[Fragment], shared: float) -> None:
        self._table = table
        self._fragments = fragments
        self._shared = shared
        self._moved: dict[int, list[Numbers]] = {}

    def __len__(self) -> int:
        return len(self._fragments)

    def known(self, number: int, round_: int, rounds: int) -> RowVersions:
        """The rows of one fragment that the other side may know too.

        Those of one round only, by their ids, so that a row is in the same round on both sides.
        """
        found = row_versions(self._table, self._fragments[number])
        places = np.flatnonzero((found.versions <= self._shared) & (found.ids % np.uint64(rounds) == round_))
        return RowVersions(found.offsets[places], found.ids[places], found.versions[places])

    def mark(self, number: int, offsets: Numbers) -> None:
        """These rows of a fragment were only moved."""
        if len(offsets):
            self._moved.setdefault(number, []).append(offsets)

    def left(self) -> list[CandidateFragment]:
        """All rows that were not only moved."""
        return [CandidateFragment(each, self._left_of(number)) for number, each in enumerate(self._fragments)]

    def _left_of(self, number: int) -> Numbers | None:
        moved, fragment = self._moved.get(number), self._fragments[number]
        if moved is None:
            return None
        if sum(map(len, moved)) == fragment.num_rows:
            return np.zeros(0, np.uint64)
        return np.setdiff1d(row_offsets(self._table, fragment), np.concatenate(moved), assume_unique=True)


def _mark_moved(olds: _Moving, news: _Moving, round_: int, rounds: int) -> None:
    """Mark on both sides the rows that one version wrote: a row id and a version name one state of a row."""
    found = [news.known(number, round_, rounds) for number in range(len(news))]
    owners = np.repeat(np.arange(len(found)), [len(each.ids) for each in found])
    offsets, ids, versions = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.argsort(ids)
    owners, offsets, ids, versions = owners[order], offsets[order], ids[order], versions[order]
    if not len(ids):
        return
    for number in range(len(olds)):
        old = olds.known(number, round_, rounds)
        at = np.minimum(np.searchsorted(ids, old.ids), len(ids) - 1)
        same = (ids[at] == old.ids) & (versions[at] == old.versions)
        olds.mark(number, old.offsets[same])
        met = at[same]
        for owner in np.unique(owners[met]).tolist():
            news.mark(owner, offsets[met[owners[met] == owner]])

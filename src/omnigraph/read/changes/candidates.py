"""Find the rows of two versions of a table that can differ, from the metadata of their fragments.

A fragment that both versions have needs no look. One that both have with different deletions differs in the rows that
only one of them deletes. All other fragments were rewritten: by a change, or by a compaction, which moves rows and
changes none. Where the two versions share a history, row ids and row versions tell which rows were only moved.

Memory: 8 bytes for every rewritten row, plus the ids and versions of at most ``ROWS_AT_ONCE`` rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.tables import (
    Numbers,
    RowVersions,
    Table,
    TableFragment,
    find_last_shared_version,
    list_fragments,
    read_deleted_offsets,
    read_row_offsets,
    read_row_versions,
    read_rows,
)

ROWS_AT_ONCE: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class CandidateFragment:
    """Rows of one fragment that may differ from the other side, by their offsets in it; None means all rows."""

    fragment: TableFragment
    offsets: Numbers | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.fragment.num_rows if self.offsets is None else len(self.offsets)


@dataclass(frozen=True, slots=True)
class CandidateRows:
    """The rows of one side that may differ from the other side."""

    table: Table
    parts: tuple[CandidateFragment, ...]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return sum(part.num_rows for part in self.parts)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows with their addresses, in small batches."""
        return read_rows(self.table, ((part.fragment, part.offsets) for part in self.parts), columns)


def select_all_rows(table: Table) -> CandidateRows:
    """Select every row of a table."""
    return CandidateRows(table, tuple(CandidateFragment(each) for each in list_fragments(table)))


def find_candidates(before: Table, after: Table) -> tuple[CandidateRows, CandidateRows]:
    """Find the rows of two versions that may differ, on each side."""
    olds = {each.files: each for each in list_fragments(before)}
    news = {each.files: each for each in list_fragments(after)}
    only_old = [each for files, each in olds.items() if files not in news]
    only_new = [each for files, each in news.items() if files not in olds]
    old_parts, new_parts = _find_rewritten(before, only_old, after, only_new)
    common = [(old, news[files]) for files, old in olds.items() if files in news]
    redeleted = [(old, new) for old, new in common if old.deletions != new.deletions]
    old_deletions = read_deleted_offsets(before, [old for old, _ in redeleted])
    new_deletions = read_deleted_offsets(after, [new for _, new in redeleted])
    for (old, new), was, is_ in zip(redeleted, old_deletions, new_deletions, strict=True):
        old_parts.append(CandidateFragment(old, np.setdiff1d(is_, was, assume_unique=True)))
        new_parts.append(CandidateFragment(new, np.setdiff1d(was, is_, assume_unique=True)))
    return CandidateRows(before, _sort_parts(old_parts)), CandidateRows(after, _sort_parts(new_parts))


def _sort_parts(parts: Iterable[CandidateFragment]) -> tuple[CandidateFragment, ...]:
    return tuple(sorted((part for part in parts if part.num_rows), key=lambda part: part.fragment.id))


# --------------------------------------------------------------------------------------------- moved, not changed


def _find_rewritten(
    before: Table, only_old: Sequence[TableFragment], after: Table, only_new: Sequence[TableFragment]
) -> tuple[list[CandidateFragment], list[CandidateFragment]]:
    """Return the rows of fragments that only one side has, without the rows that were moved unchanged."""
    # Adding or dropping a column changes rows, but not their row versions.
    has_same_columns = before.describe_columns() == after.describe_columns()
    shared = find_last_shared_version(before, after) if only_old and only_new and has_same_columns else -1
    olds, news = _RewrittenFragments(before, only_old, shared), _RewrittenFragments(after, only_new, shared)
    if shared >= 0:
        rounds = 1 + sum(each.num_rows for each in only_new) // ROWS_AT_ONCE
        for number in range(rounds):
            _mark_moved_rows(olds, news, number, rounds)
    return olds.list_changed(), news.list_changed()


class _RewrittenFragments:
    """The fragments that only one side has, and the offsets of their rows that were only moved."""

    def __init__(self, table: Table, fragments: Sequence[TableFragment], shared: float) -> None:
        self._table = table
        self._fragments = fragments
        self._shared = shared
        self._moved: dict[int, list[Numbers]] = {}

    def __len__(self) -> int:
        return len(self._fragments)

    def read_shared(self, number: int, round_: int, rounds: int) -> RowVersions:
        """Read the row versions of one fragment that the other side may have too.

        A round takes a share of the rows by their ids, so that a row is in the same round on both sides.
        """
        found = read_row_versions(self._table, self._fragments[number])
        places = np.flatnonzero((found.versions <= self._shared) & (found.ids % np.uint64(rounds) == round_))
        return RowVersions(found.offsets[places], found.ids[places], found.versions[places])

    def mark_moved(self, number: int, offsets: Numbers) -> None:
        """Note rows of a fragment that were only moved."""
        if len(offsets):
            self._moved.setdefault(number, []).append(offsets)

    def list_changed(self) -> list[CandidateFragment]:
        """Return all rows that were not only moved."""
        return [CandidateFragment(each, self._changed_offsets(number)) for number, each in enumerate(self._fragments)]

    def _changed_offsets(self, number: int) -> Numbers | None:
        moved, fragment = self._moved.get(number), self._fragments[number]
        if moved is None:
            return None
        if sum(map(len, moved)) == fragment.num_rows:
            return np.zeros(0, np.uint64)
        return np.setdiff1d(read_row_offsets(self._table, fragment), np.concatenate(moved), assume_unique=True)


def _mark_moved_rows(olds: _RewrittenFragments, news: _RewrittenFragments, round_: int, rounds: int) -> None:
    """Mark the rows of one round that both sides have: a row id and a row version identify one state of a row."""
    found = [news.read_shared(number, round_, rounds) for number in range(len(news))]
    owners = np.repeat(np.arange(len(found)), [len(each.ids) for each in found])
    offsets, ids, versions = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.argsort(ids)
    owners, offsets, ids, versions = owners[order], offsets[order], ids[order], versions[order]
    if not len(ids):
        return
    for number in range(len(olds)):
        old = olds.read_shared(number, round_, rounds)
        at = np.minimum(np.searchsorted(ids, old.ids), len(ids) - 1)
        same = (ids[at] == old.ids) & (versions[at] == old.versions)
        olds.mark_moved(number, old.offsets[same])
        matched = at[same]
        for owner in np.unique(owners[matched]).tolist():
            news.mark_moved(owner, offsets[matched[owners[matched] == owner]])

"""The history of a branch: its commits, newest first, and the merge bases of two histories.

A lineage is a projection of the ``graph_commit`` rows that a branch of the manifest shows. It stays in Arrow, and a
commit is decoded on request, so a long history is cheap to open. A lineage is extended by new rows, never read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Flag, auto
from functools import cached_property
from heapq import heappop, heappush
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.rows import CommitRecord, decode_commit, encode_rows, refuse_missing

COLUMNS = ("object_id", "metadata", "table_branch", "table_version")
CREATED_VERSION = "_row_created_at_version"
_MAX_CHUNKS = 64
KEY_MICROSECONDS: Final = 24 * 60 * 60 * 1_000_000
"""How long a key is known."""
_Order: TypeAlias = np.ndarray[tuple[int], np.dtype[np.intp]]


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The position and the time of the commit of each key, from old to new."""

    positions: Mapping[str, tuple[int, int]]

    def extend(self, newer: KeyIndex) -> KeyIndex:
        """Return the index with newer commits, and without those that are older by more than a day."""
        newest = max((created for _, created in newer.positions.values()), default=0)
        kept = {digest: found for digest, found in self.positions.items() if found[1] >= newest - KEY_MICROSECONDS}
        return KeyIndex({**kept, **newer.positions}) if newer.positions else self


@dataclass(frozen=True)
class Lineage:
    """The commits that one branch of the manifest shows, unordered, each with its manifest version."""

    rows: pa.Table
    versions: np.ndarray[tuple[int], np.dtype[np.int64]]

    def __len__(self) -> int:
        return self.rows.num_rows

    def extend(self, newer: Lineage) -> Lineage:
        """Return this history with newer commits of the same branch."""
        if not len(newer):
            return self
        rows = pa.concat_tables([self.rows, newer.rows])
        if rows.column(0).num_chunks > _MAX_CHUNKS:
            rows = rows.combine_chunks()
        extended = Lineage(rows, np.concatenate([self.versions, newer.versions]))
        if "_keyed" in self.__dict__:
            # The index of keys is extended too: reading it again would cost as much as the history is long.
            extended.__dict__["_keyed"] = self._keyed.extend(newer.index_keys(len(self)))
        return extended

    def head(self) -> CommitRecord | None:
        """Return the newest commit; None if there is none."""
        return self._head

    @cached_property
    def _head(self) -> CommitRecord | None:
        if not len(self):
            return None
        newest = np.flatnonzero(self.versions == self.versions.max())
        return max((self._commit(int(index)) for index in newest), key=lambda commit: commit.order)

    def data_head(self) -> CommitRecord | None:
        """Return the newest commit that is not upkeep, which is the head for users; None if there is none."""
        return self._data_head

    @cached_property
    def _data_head(self) -> CommitRecord | None:
        head = self.head()
        if head is None or not head.upkeep:
            return head
        return next((commit for commit in self.list_newest_first() if not commit.upkeep), None)

    def is_data_head(self, commit_id: str) -> bool:
        """Return whether no row has changed since a commit, which may be upkeep."""
        commit, head = self.find(commit_id), self.data_head()
        shown = None if commit is None else commit.parent if commit.upkeep else commit.id
        return head is not None and shown == head.id

    def find(self, commit_id: str) -> CommitRecord | None:
        """Return the commit of an id, if this branch shows it."""
        index = pc.index(self.rows.column("object_id"), pa.scalar(commit_id)).as_py()
        return None if index < 0 else self._commit(index)

    def list_by_part(self, part: str) -> list[CommitRecord]:
        """Return the commits whose id begins or ends with some characters."""
        ids = self.rows.column("object_id")
        fits = pc.or_(pc.starts_with(ids, part), pc.ends_with(ids, part)).to_numpy(zero_copy_only=False)
        return [self._commit(int(index)) for index in np.flatnonzero(fits)]

    def list_by_metadata(self, text: str) -> list[CommitRecord]:
        """Return the commits whose row has some text in its JSON, newest first. No others are decoded."""
        fits = pc.match_substring(self.rows.column("metadata"), text).to_numpy(zero_copy_only=False)
        return sorted((self._commit(int(index)) for index in np.flatnonzero(fits)), key=lambda commit: commit.order)[
            ::-1
        ]

    def find_key(self, digest: str, since: int) -> CommitRecord | None:
        """Return the commit of a key, if it was made since a time in microseconds."""
        found = self._keyed.positions.get(digest)
        if found is None or found[1] < since:
            return None
        return self._commit(found[0])

    @cached_property
    def _keyed(self) -> KeyIndex:
        return self.index_keys(0)

    def index_keys(self, offset: int) -> KeyIndex:
        """Return the positions of the commits that have a key, counted from ``offset``."""
        has_key = pc.match_substring(self.rows.column("metadata"), '"key":').to_numpy(zero_copy_only=False)
        positions: dict[str, tuple[int, int]] = {}
        for commit, position in sorted(
            ((self._commit(int(index)), int(index) + offset) for index in np.flatnonzero(has_key)),
            key=lambda each: each[0].created_at,
        ):
            if commit.key is not None:
                positions[commit.key.digest] = position, commit.created_at
        return KeyIndex(positions)

    def positions_by_id(self) -> dict[str, int]:
        """Return the position of each commit by id, for many lookups."""
        ids = cast("list[str]", self.rows.column("object_id").to_pylist())
        return dict(zip(ids, range(len(ids)), strict=True))

    def commit_at(self, position: int) -> CommitRecord:
        """Return the commit at a position."""
        return self._commit(position)

    def list_newest_first(self) -> Iterator[CommitRecord]:
        """Yield all commits, newest first."""
        return self._in_order(np.argsort(-self.versions, kind="stable"), newest_first=True)

    def list_oldest_first(self, after: CommitRecord | None = None) -> Iterator[CommitRecord]:
        """Yield all commits, or those newer than ``after``, oldest first. Each follows its first parent."""
        order = np.argsort(self.versions, kind="stable")
        if after is not None:
            order = order[self.versions[order] >= after.manifest_version]
        commits = self._in_order(order, newest_first=False)
        return (commit for commit in commits if after is None or commit.order > after.order)

    def _in_order(self, order: _Order, *, newest_first: bool) -> Iterator[CommitRecord]:
        """Yield commits by version. Commits of one version, which a backfill can produce, are sorted by their order."""
        start = 0
        while start < len(order):
            stop = start + 1
            while stop < len(order) and self.versions[order[stop]] == self.versions[order[start]]:
                stop += 1
            same_version = [self._commit(int(index)) for index in order[start:stop]]
            yield from sorted(same_version, key=lambda commit: commit.order, reverse=newest_first)
            start = stop

    def _commit(self, index: int) -> CommitRecord:
        commit_id, metadata, branch, _ = (self.rows.column(name)[index].as_py() for name in COLUMNS)
        version = int(self.versions[index])
        return decode_commit(str(commit_id), str(metadata), cast("str | None", branch), version, version)


def decode_lineage(rows: pa.Table, *, row_versions: bool) -> Lineage:
    """Return the lineage in ``graph_commit`` rows; ``row_versions`` says whether their row versions are valid."""
    refuse_missing(rows, "metadata", "table_version")
    recorded = rows.column("table_version").cast(pa.int64())
    versions = recorded
    if row_versions:
        backfilled = pc.match_substring(rows.column("metadata"), '"backfilled":true')
        versions = pc.if_else(backfilled, recorded, rows.column(CREATED_VERSION).cast(pa.int64()))
    return Lineage(rows.select(list(COLUMNS)), np.asarray(versions.to_numpy(zero_copy_only=False), dtype=np.int64))


def build_lineage(commits: Sequence[CommitRecord]) -> Lineage:
    """Return the lineage of decoded commits: those of a publish, or of a legacy table."""
    rows = encode_rows(commits).select(list(COLUMNS))
    return Lineage(rows, np.array([commit.manifest_version for commit in commits], dtype=np.int64))


class CommitLookup(Protocol):
    """A lookup of commits by id."""

    def get(self, commit_id: str, /) -> CommitRecord | None:
        """Return the commit, if it is known."""
        ...


def find_merge_bases(source: str, target: str, commits: CommitLookup) -> list[CommitRecord]:
    """Return all merge bases of two commits: common ancestors that are no ancestor of another one. May be empty.

    The nearest to both comes first, then the newest. There are several after criss-cross merges, or if both sides
    merged the same third branch.
    """
    candidates = _find_candidate_bases(source, target, commits)
    return candidates if len(candidates) < 2 else _order_bases(source, target, commits)


class _Reachable(Flag):
    """Which of the two heads a commit reaches. An ancestor of a common ancestor is passed: it is no base."""

    SOURCE = auto()
    TARGET = auto()
    BOTH = SOURCE | TARGET
    PASSED = auto()


def _find_candidate_bases(source: str, target: str, commits: CommitLookup) -> list[CommitRecord]:
    """Return all bases, and perhaps some of their ancestors. A single result is the base.

    Both histories are walked from the newest commit on, until only passed commits remain. A base is reached through
    commits of one side only, so the walk cannot end before it. Differing clocks make the walk longer, and may leave an
    ancestor of a base among the results.
    """
    marks: dict[str, _Reachable] = {}
    waiting: list[tuple[int, str, CommitRecord]] = []
    found: dict[str, CommitRecord] = {}

    def mark(commit_id: str, as_: _Reachable) -> None:
        before = marks.get(commit_id, _Reachable(0))
        # A parent on a deleted branch is unknown: history ends there.
        commit = commits.get(commit_id) if as_ not in before else None
        if commit is not None:
            marks[commit_id] = before | as_
            heappush(waiting, (-commit.created_at, commit_id, commit))

    mark(source, _Reachable.SOURCE)
    mark(target, _Reachable.TARGET)
    while any(_Reachable.PASSED not in marks[commit_id] for _, commit_id, _ in waiting):
        _, commit_id, commit = heappop(waiting)
        as_ = marks[commit_id]
        if as_ == _Reachable.BOTH:
            found[commit_id] = commit
        for parent in _parents(commit):
            mark(parent, as_ | _Reachable.PASSED if _Reachable.BOTH in as_ else as_)
    return [commit for commit_id, commit in found.items() if _Reachable.PASSED not in marks[commit_id]]


def _order_bases(source: str, target: str, commits: CommitLookup) -> list[CommitRecord]:
    """Return all bases in order, by a walk over all ancestors of both sides."""
    known: dict[str, CommitRecord] = {}
    from_source, from_target = (_measure_distances(start, commits, known) for start in (source, target))
    shared = from_source.keys() & from_target.keys()
    # Ancestors of a shared commit are shared too, so each shared ancestor is a parent of a shared commit.
    passed = {parent for each in shared for parent in _parents(known[each])}
    return sorted(
        (known[commit_id] for commit_id in shared - passed),
        key=lambda commit: (from_source[commit.id] + from_target[commit.id], -commit.manifest_version, commit.id),
    )


def _measure_distances(start: str, commits: CommitLookup, known: dict[str, CommitRecord]) -> dict[str, int]:
    found: dict[str, int] = {}
    waiting = deque([(start, 0)])
    while waiting:
        commit_id, distance = waiting.popleft()
        commit = None if commit_id in found else commits.get(commit_id)
        if commit is not None:
            found[commit_id], known[commit_id] = distance, commit
            waiting.extend((parent, distance + 1) for parent in _parents(commit))
    return found


def _parents(commit: CommitRecord) -> list[str]:
    return [parent for parent in (commit.parent, commit.merged_parent) if parent is not None]

"""The history of a branch: its commits, newest first, and where two histories meet.

A lineage is a projection of the ``graph_commit`` rows that a branch of the manifest shows. It stays Arrow, and a
commit is decoded only when somebody asks for it, so a long history costs little to open. A lineage is extended by
new rows, never read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property
from heapq import heappop, heappush
from typing import Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.manifest.rows import CommitRecord, decode_commit, encode_rows, refuse_missing

COLUMNS = ("object_id", "metadata", "table_branch", "table_version")
CREATED_VERSION = "_row_created_at_version"
_MAX_CHUNKS = 64
_Order: TypeAlias = np.ndarray[tuple[int], np.dtype[np.intp]]


@dataclass(frozen=True)
class Lineage:
    """The commits that one branch of the manifest shows, in no particular order, each with its manifest version."""

    rows: pa.Table
    versions: np.ndarray[tuple[int], np.dtype[np.int64]]

    def __len__(self) -> int:
        return self.rows.num_rows

    def extend(self, newer: Lineage) -> Lineage:
        """This history and newer commits of the same branch."""
        if not len(newer):
            return self
        rows = pa.concat_tables([self.rows, newer.rows])
        if rows.column(0).num_chunks > _MAX_CHUNKS:
            rows = rows.combine_chunks()
        return Lineage(rows, np.concatenate([self.versions, newer.versions]))

    def head(self) -> CommitRecord | None:
        """The newest commit; None where history has not begun."""
        return self._head

    @cached_property
    def _head(self) -> CommitRecord | None:
        if not len(self):
            return None
        newest = np.flatnonzero(self.versions == self.versions.max())
        return max((self._commit(int(index)) for index in newest), key=lambda commit: commit.order)

    def find(self, commit_id: str) -> CommitRecord | None:
        """The commit of that id, if this branch shows it."""
        index = pc.index(self.rows.column("object_id"), pa.scalar(commit_id)).as_py()
        return None if index < 0 else self._commit(index)

    def positions_by_id(self) -> dict[str, int]:
        """The place of each commit by its id, for those who look for many."""
        ids = cast("list[str]", self.rows.column("object_id").to_pylist())
        return dict(zip(ids, range(len(ids)), strict=True))

    def commit_at(self, place: int) -> CommitRecord:
        """The commit at a place."""
        return self._commit(place)

    def list_newest_first(self) -> Iterator[CommitRecord]:
        """Every commit, newest first."""
        return self._in_order(np.argsort(-self.versions, kind="stable"), newest_first=True)

    def list_oldest_first(self, after: CommitRecord | None = None) -> Iterator[CommitRecord]:
        """Every commit, or those that are newer than one of them, oldest first: each follows its first parent."""
        order = np.argsort(self.versions, kind="stable")
        if after is not None:
            order = order[self.versions[order] >= after.manifest_version]
        commits = self._in_order(order, newest_first=False)
        return (commit for commit in commits if after is None or commit.order > after.order)

    def _in_order(self, order: _Order, *, newest_first: bool) -> Iterator[CommitRecord]:
        """Commits in the order of their versions; of one version, which a backfill may give to several, in theirs."""
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
    """The lineage in ``graph_commit`` rows as read; ``row_versions`` says whether their row-version column counts."""
    refuse_missing(rows, "metadata", "table_version")
    recorded = rows.column("table_version").cast(pa.int64())
    versions = recorded
    if row_versions:
        backfilled = pc.match_substring(rows.column("metadata"), '"backfilled":true')
        versions = pc.if_else(backfilled, recorded, rows.column(CREATED_VERSION).cast(pa.int64()))
    return Lineage(rows.select(list(COLUMNS)), np.asarray(versions.to_numpy(zero_copy_only=False), dtype=np.int64))


def build_lineage(commits: Sequence[CommitRecord]) -> Lineage:
    """The lineage of commits that are already decoded: those of a publish, or of a legacy table."""
    rows = encode_rows(commits).select(list(COLUMNS))
    return Lineage(rows, np.array([commit.manifest_version for commit in commits], dtype=np.int64))


class CommitLookup(Protocol):
    """Commits by their ids, wherever they are known from."""

    def get(self, commit_id: str, /) -> CommitRecord | None:
        """The commit, if it is known."""
        ...


def find_merge_bases(source: str, target: str, commits: CommitLookup) -> list[CommitRecord]:
    """All commits in which two histories met last: common ancestors that no other one follows. None if they never met.

    The nearest to both comes first, then the newest. There are several once each side has merged what the other one
    had, or both have merged the same third one.
    """
    met = _find_candidate_bases(source, target, commits)
    return met if len(met) < 2 else _order_bases(source, target, commits)


class _Reachable(Flag):
    """Which of the two a commit leads to. What a commit that leads to both follows is passed: it is no base."""

    SOURCE = auto()
    TARGET = auto()
    BOTH = SOURCE | TARGET
    PASSED = auto()


def _find_candidate_bases(source: str, target: str, commits: CommitLookup) -> list[CommitRecord]:
    """All bases, and perhaps commits that one of them follows; a single one is the base.

    Both histories are walked from the newest commit on, until all that is left is passed. A base is reached by commits
    that lead to one side only, so the walk cannot end before it. Clocks that differ make the walk longer, and may leave
    a commit among the answers that is passed further down.
    """
    marks: dict[str, _Reachable] = {}
    waiting: list[tuple[int, str, CommitRecord]] = []
    found: dict[str, CommitRecord] = {}

    def mark(commit_id: str, as_: _Reachable) -> None:
        before = marks.get(commit_id, _Reachable(0))
        # A parent on a branch that was deleted since is no longer known: history ends there.
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
    """All bases in their order, by a look at everything that led to either side."""
    known: dict[str, CommitRecord] = {}
    from_source, from_target = (_measure_distances(start, commits, known) for start in (source, target))
    shared = from_source.keys() & from_target.keys()
    # All that a shared commit follows is shared as well, so whoever is followed by one is the parent of one.
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

"""Commits for users: list them newest first, filter them, and walk the graph of commits of all branches."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import islice

from omnigraph.errors import NotFound, ParameterError
from omnigraph.language.values import from_microseconds
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.analysis_trailers import AnalysisTrailers, read_trailers
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.rows import MAIN, CommitRecord, malformed_row


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the graph."""

    id: str
    parents: tuple[str, ...]
    branch: str
    manifest_version: int
    actor: str | None
    message: str | None
    created_at: datetime
    txn: tuple[str, int] | None
    upkeep: bool = False
    """Whether it changed no row: an index build or a compaction."""

    @property
    def analyses(self) -> list[AnalysisTrailers]:
        """The results of algorithms that it wrote, or brought by a merge, as the end of its message tells them."""
        return read_trailers(self.id, self.message)


def to_commit(record: CommitRecord) -> Commit:
    """Return the public form of a commit row."""
    try:
        created_at = from_microseconds(record.created_at)
    except OverflowError as error:
        raise malformed_row(record.id, f"created_at is {record.created_at}, which is not a time") from error
    return Commit(
        record.id,
        tuple(parent for parent in (record.parent, record.merged_parent) if parent is not None),
        record.branch or MAIN,
        record.manifest_version,
        record.actor,
        record.message,
        created_at,
        record.txn,
        record.upkeep,
    )


def list_commits(
    manifest: Manifest,
    branch: str,
    *,
    limit: int | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    upkeep: bool = False,
) -> list[Commit]:
    """Return the commits of a branch, newest first, optionally by one actor, within a time range, or with upkeep."""
    if limit is not None and limit < 0:
        raise ParameterError(f"limit is {limit}", hint="give the number of commits to list")
    for bound in (since, until):
        if bound is not None:
            refuse_naive(bound)
    most = None if limit is None else min(limit, sys.maxsize)
    found = _match_commits(manifest, branch, actor, since, until)
    return list(islice((commit for commit in found if upkeep or not commit.upkeep), most))


def refuse_naive(instant: datetime) -> None:
    """Refuse a time without a time zone."""
    if instant.tzinfo is None:
        raise ParameterError(f"{instant!r} has no time zone", hint="use datetime(..., tzinfo=timezone.utc)")


def _match_commits(
    manifest: Manifest, branch: str, actor: str | None, since: datetime | None, until: datetime | None
) -> Iterator[Commit]:
    for record in manifest.view(branch, with_lineage=True).history.list_newest_first():
        commit = to_commit(record)
        actor_matches = actor is None or commit.actor == actor
        time_matches = (since is None or commit.created_at >= since) and (until is None or commit.created_at <= until)
        if actor_matches and time_matches:
            yield commit


# --------------------------------------------------------------------------------------------- the graph of commits


def list_ancestry(manifest: Manifest, branch: str | None, limit: int | None, *, upkeep: bool = False) -> list[Commit]:
    """Return all ancestors of a branch, or of all branches, by both parents: newest first, children before parents.

    A parent on a deleted branch is unknown: history ends there. Upkeep, if it is asked for, has a parent and no child.
    """
    if limit is not None and limit < 0:
        raise ParameterError(f"limit is {limit}", hint="give the number of commits to list")
    histories = _histories(manifest)
    if branch is not None and branch not in histories:
        histories[branch] = manifest.view(branch, with_lineage=True).history
    shown = [history for name, history in histories.items() if branch in (None, name)]
    heads = [head for head in (history.data_head() for history in shown) if head is not None]
    if upkeep:
        heads += [commit for history in shown for commit in history.list_newest_first() if commit.upkeep]
    newest = _newest(histories, heads, limit)
    return [to_commit(commit) for commit in _children_first(newest)]


def _histories(manifest: Manifest) -> dict[str, Lineage]:
    """Return the history of every branch."""
    found: dict[str, Lineage] = {}
    for name in branch_names(manifest):
        # Skip a branch that was deleted since they were listed.
        with suppress(NotFound):
            found[name] = manifest.view(name, with_lineage=True).history
    return found


def _newest(
    histories: Mapping[str, Lineage], heads: Iterable[CommitRecord], limit: int | None
) -> dict[str, CommitRecord]:
    """Walk from the heads, always from the newest commit, so that no more than ``limit`` commits are looked up."""
    found: dict[str, CommitRecord] = {}
    waiting = [(-head.created_at, head.id, head) for head in {head.id: head for head in heads}.values()]
    heapify(waiting)
    while waiting and (limit is None or len(found) < limit):
        _, commit_id, commit = heappop(waiting)
        if commit_id in found:
            continue
        found[commit_id] = commit
        for parent_id in (commit.parent, commit.merged_parent):
            parent = None if parent_id is None else _find(histories, parent_id, commit)
            if parent is not None and parent.id not in found:
                heappush(waiting, (-parent.created_at, parent.id, parent))
    return found


def _find(histories: Mapping[str, Lineage], commit_id: str, child: CommitRecord) -> CommitRecord | None:
    """Find a commit, first on the branch of its child: a branch also shows the commits that it inherited."""
    for name in dict.fromkeys((child.branch or MAIN, *histories)):
        found = histories[name].find(commit_id) if name in histories else None
        if found is not None:
            return found
    return None


def _children_first(commits: dict[str, CommitRecord]) -> list[CommitRecord]:
    """Sort newest first. Clocks of writers differ, so a commit waits until all its children are listed."""
    children = Counter(parent for commit in commits.values() for parent in _parents(commit, commits))
    ready = [(-commit.created_at, commit.id) for commit in commits.values() if not children[commit.id]]
    heapify(ready)
    ordered: list[CommitRecord] = []
    while ready:
        _, commit_id = heappop(ready)
        ordered.append(commits[commit_id])
        for parent in _parents(commits[commit_id], commits):
            children[parent] -= 1
            if not children[parent]:
                heappush(ready, (-commits[parent].created_at, parent))
    return ordered


def _parents(commit: CommitRecord, commits: dict[str, CommitRecord]) -> set[str]:
    return {parent for parent in (commit.parent, commit.merged_parent) if parent in commits}

"""The commits of several branches as one graph: children before their parents, merged ones among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from heapq import heapify, heappop, heappush

from omnigraph.errors import NotFound, ParameterError
from omnigraph.manifest.branches import branch_names
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.rows import MAIN, CommitRecord


def ancestry(manifest: Manifest, branch: str | None, limit: int | None) -> list[Commit]:
    """All that led to a branch, by either parent, or to any branch; the newest first, children before parents.

    A parent on a branch that was deleted since is no longer known: history ends there.
    """
    if limit is not None and limit < 0:
        raise ParameterError(f"limit is {limit}", hint="give the number of commits that are wanted")
    histories = _histories(manifest)
    if branch is not None and branch not in histories:
        histories[branch] = manifest.view(branch, with_lineage=True).history
    heads = [history.head() for name, history in histories.items() if branch in (None, name)]
    newest = _newest(histories, [head for head in heads if head is not None], limit)
    return [commit_of(commit) for commit in _children_first(newest)]


def _histories(manifest: Manifest) -> dict[str, Lineage]:
    """The history of every branch, each looked at once."""
    found: dict[str, Lineage] = {}
    for name in branch_names(manifest):
        # One that was deleted since the branches were listed has no history any more.
        with suppress(NotFound):
            found[name] = manifest.view(name, with_lineage=True).history
    return found


def _newest(
    histories: Mapping[str, Lineage], heads: Iterable[CommitRecord], limit: int | None
) -> dict[str, CommitRecord]:
    """Walk from the heads down, always on from the newest commit, so that only what is wanted is looked up."""
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
    """A commit, looked for first where its child was made: a branch shows what it began with too."""
    for name in dict.fromkeys((child.branch or MAIN, *histories)):
        found = histories[name].find(commit_id) if name in histories else None
        if found is not None:
            return found
    return None


def _children_first(commits: dict[str, CommitRecord]) -> list[CommitRecord]:
    """The newest first. Clocks differ between writers, so a commit waits until all its children are there."""
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

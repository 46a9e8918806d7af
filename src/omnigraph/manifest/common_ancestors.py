"""Find the last common ancestors of two commits, across the histories of all branches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from omnigraph.errors import ConflictError, NotFound, Unsupported
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.lineage import CommitLookup, Lineage, find_merge_bases
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CommonAncestors:
    """The last common ancestors of two commits, the best one first, and a lookup of all known commits."""

    commits: tuple[CommitRecord, ...]
    known: CommitLookup

    @property
    def id(self) -> str:
        """The id of the best ancestor."""
        return self.commits[0].id


def find_common_ancestors(manifest: Manifest, source: str, target: str, branches: Iterable[str]) -> CommonAncestors:
    """Find the last common ancestors of two commits; ``branches`` are where the two commits are.

    Commits of a deleted branch are unknown, so the history ends there and an older ancestor is found. The merge is
    still correct, but changes that both sides took from that branch count as changes of both.
    """
    commits = _CommitLookup(manifest, dict.fromkeys(branches))
    for commit_id in (source, target):
        if commits.get(commit_id) is None:
            # Without it the search would go wrong silently, or find nothing.
            raise ConflictError(
                f"no branch has commit {commit_id} any more: its branch was deleted",
                hint="look at the branches, and try again",
                details={"commit": commit_id},
            )
    bases = find_merge_bases(source, target, commits)
    if not bases:
        raise Unsupported(
            "the two commits share no history, so their changes cannot be compared",
            hint="export one and load it into a branch of the other",
            details={"source": source, "target": target},
        )
    return CommonAncestors(tuple(bases), commits)


class _CommitLookup:
    """Looks up commits by id: first in some branches, then in all. A commit is decoded on first use."""

    def __init__(self, manifest: Manifest, branches: Iterable[str]) -> None:
        self._manifest = manifest
        self._histories: dict[str, tuple[Lineage, Mapping[str, int]]] = {}
        self._cache: dict[str, CommitRecord | None] = {}
        self._has_all_branches = False
        self._add(branches)

    def get(self, commit_id: str, /) -> CommitRecord | None:
        if commit_id not in self._cache:
            found = self._find(commit_id)
            if found is None and not self._has_all_branches:
                # A commit merged from another branch: that branch's history may hold a common ancestor.
                self._has_all_branches = True
                self._add(branch_names(self._manifest))
                found = self._find(commit_id)
            self._cache[commit_id] = found
        return self._cache[commit_id]

    def _add(self, branches: Iterable[str]) -> None:
        for branch in branches:
            # Skip a branch that was deleted after it was listed.
            with suppress(NotFound):
                history = self._manifest.view(branch, with_lineage=True).history
                self._histories[branch] = history, history.positions_by_id()

    def _find(self, commit_id: str) -> CommitRecord | None:
        for history, positions in self._histories.values():
            if commit_id in positions:
                return history.commit_at(positions[commit_id])
        return None


def take_snapshot_at(manifest: Manifest, commit: CommitRecord) -> Snapshot:
    """Take the snapshot of a commit."""
    return take_snapshot(manifest, commit.branch or MAIN, commit.id)

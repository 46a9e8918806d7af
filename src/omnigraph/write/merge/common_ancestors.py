"""Where the histories of two commits met last, as a snapshot that both sides have seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from omnigraph.errors import NotFound, Unsupported
from omnigraph.manifest.branches import branch_names
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lineage import Commits, Lineage, merge_bases
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.write.merge.alignment import MergeBase, RowImages, overlay_base


@dataclass(frozen=True, slots=True)
class CommonAncestors:
    """The commits in which two histories met last, the best one first, and every commit that is known."""

    commits: tuple[CommitRecord, ...]
    known: Commits

    @property
    def id(self) -> str:
        """The best of them."""
        return self.commits[0].id


def find_common_ancestors(manifest: Manifest, source: str, target: str, branches: Iterable[str]) -> CommonAncestors:
    """The common past of two commits; ``branches`` are where they lie.

    A commit of a branch that was deleted since is not known any more: history ends there, and an older meeting point
    is found. That is still right, but what both sides took from that branch then counts as changed by both.
    """
    commits = _CommitLookup(manifest, dict.fromkeys(branches))
    bases = merge_bases(source, target, commits)
    if not bases:
        raise Unsupported(
            "the two share no history: nothing says what each of them changed",
            hint="export one and load it into a branch of the other",
            details={"source": source, "target": target},
        )
    return CommonAncestors(tuple(bases), commits)


class _CommitLookup:
    """The commits of some branches, each decoded when it is asked for, and of all branches once one is missing."""

    def __init__(self, manifest: Manifest, branches: Iterable[str]) -> None:
        self._manifest = manifest
        self._histories: dict[str, tuple[Lineage, Mapping[str, int]]] = {}
        self._found: dict[str, CommitRecord | None] = {}
        self._has_all = False
        self._add(branches)

    def get(self, commit_id: str, /) -> CommitRecord | None:
        if commit_id not in self._found:
            found = self._find(commit_id)
            if found is None and not self._has_all:
                # One that was merged from elsewhere: its history may be where the two met.
                self._has_all = True
                self._add(branch_names(self._manifest))
                found = self._find(commit_id)
            self._found[commit_id] = found
        return self._found[commit_id]

    def _add(self, branches: Iterable[str]) -> None:
        for branch in branches:
            # One that was deleted since it was listed has nothing to tell.
            with suppress(NotFound):
                history = self._manifest.view(branch, with_lineage=True).history
                self._histories[branch] = history, history.places()

    def _find(self, commit_id: str) -> CommitRecord | None:
        for history, places in self._histories.values():
            if commit_id in places:
                return history.at(places[commit_id])
        return None


def build_merge_base(manifest: Manifest, met: CommonAncestors) -> MergeBase:
    """What both sides have seen: the best meeting point, and over it what the other ones have."""
    first = take_snapshot_at(manifest, met.commits[0])
    overlays: Mapping[str, RowImages] = {}
    for other in met.commits[1:]:
        earlier = merge_bases(met.commits[0].id, other.id, met.known)
        if earlier:
            shared = take_snapshot_at(manifest, earlier[0])
            overlays = overlay_base(first, take_snapshot_at(manifest, other), shared, overlays).overlays
    return MergeBase(first, overlays)


def take_snapshot_at(manifest: Manifest, commit: CommitRecord) -> Snapshot:
    """The graph at a commit."""
    return take_snapshot(manifest, commit.branch or MAIN, commit.id)

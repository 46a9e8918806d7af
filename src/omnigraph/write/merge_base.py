"""Where the histories of two commits met last, as a snapshot that both sides have seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from omnigraph.errors import NotFound, Unsupported
from omnigraph.manifest.branches import branch_names
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lineage import merge_bases
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.write.merge_sides import Base, Changed, overlaid_base


@dataclass(frozen=True, slots=True)
class Met:
    """The commits in which two histories met last, the best one first, and every commit that is known."""

    bases: tuple[CommitRecord, ...]
    commits: Mapping[str, CommitRecord]

    @property
    def id(self) -> str:
        """The best of them."""
        return self.bases[0].id


def where_they_met(manifest: Manifest, source: str, target: str, branches: Iterable[str]) -> Met:
    """The common past of two commits; ``branches`` are where they lie.

    A commit of a branch that was deleted since is not known any more: history ends there, and an older meeting point
    is found. That is still right, but what both sides took from that branch then counts as changed by both.
    """
    commits = _known(manifest, dict.fromkeys(branches))
    if any(parent not in commits for commit in commits.values() for parent in _parents(commit)):
        # One that was merged from elsewhere: its history may be where the two met.
        commits |= _known(manifest, branch_names(manifest))
    bases = merge_bases(source, target, commits)
    if not bases:
        raise Unsupported(
            "the two share no history: nothing says what each of them changed",
            hint="export one and load it into a branch of the other",
            details={"source": source, "target": target},
        )
    return Met(tuple(bases), commits)


def _known(manifest: Manifest, branches: Iterable[str]) -> dict[str, CommitRecord]:
    found: dict[str, CommitRecord] = {}
    for branch in branches:
        # One that was deleted since it was listed has nothing to tell.
        with suppress(NotFound):
            found |= {commit.id: commit for commit in manifest.view(branch, with_lineage=True).history.commits()}
    return found


def _parents(commit: CommitRecord) -> tuple[str, ...]:
    return tuple(parent for parent in (commit.parent, commit.merged_parent) if parent is not None)


def base_of(manifest: Manifest, met: Met) -> Base:
    """What both sides have seen: the best meeting point, and over it what the other ones have."""
    first = snapshot_at(manifest, met.bases[0])
    overlays: Mapping[str, Changed] = {}
    for other in met.bases[1:]:
        earlier = merge_bases(met.bases[0].id, other.id, met.commits)
        if earlier:
            shared = snapshot_at(manifest, earlier[0])
            overlays = overlaid_base(first, snapshot_at(manifest, other), shared, overlays).overlays
    return Base(first, overlays)


def snapshot_at(manifest: Manifest, commit: CommitRecord) -> Snapshot:
    """The graph at a commit."""
    return take_snapshot(manifest, commit.branch or MAIN, commit.id)

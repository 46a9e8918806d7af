"""Decide what cleanup keeps: the commits that stay readable, and every version that one of them needs.

A commit is kept if it is among the newest of its branch, young enough, the head of a branch, tagged, the merge base of
a live branch, or if a reader may have opened it within the last hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.language.values import to_microseconds
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest, public_names
from omnigraph.manifest.lineage import CREATED_VERSION, find_merge_bases
from omnigraph.manifest.rows import MAIN, TABLE_TOMBSTONE, TABLE_VERSION, CommitRecord
from omnigraph.manifest.snapshot import list_pins
from omnigraph.manifest.state import ManifestView
from omnigraph.manifest.tags import FOLDER as TAGS_FOLDER
from omnigraph.manifest.tags import list_tags
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.lance_internals import BranchRef
from omnigraph.storage.objects import ObjectInfo

READER_GRACE: Final = timedelta(hours=1)
"""How long a reader can keep using a commit that was the newest when it began."""

_Numbers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Which commits of each branch are kept: the newest ``keep``, and all that are younger than an age."""

    keep: int | None
    younger_than: timedelta | None
    grace: timedelta = READER_GRACE


@dataclass(frozen=True, slots=True)
class RetentionBasis:
    """What a plan was made from: the branches, the tags, and what the manifest showed on each branch."""

    refs: Mapping[str, BranchRef]
    tags: tuple[ObjectInfo, ...]
    views: Mapping[str, ManifestView]


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What is kept. Table versions are numbers by dataset location, and are kept on every branch that has them."""

    basis: RetentionBasis

    commits: frozenset[str]
    others: int
    """The number of commits that are not kept."""
    versions: Mapping[str, frozenset[int]]
    heads: Mapping[tuple[str, str], int]
    """The version of each table that a live branch owns, by location and branch: newer versions are always kept."""
    first_manifest_version: Mapping[str, int]
    """The first kept version by branch. All later ones are kept: readers probe for the next version number."""


def plan_retention(manifest: Manifest, policy: RetentionPolicy, now: datetime) -> RetentionPlan:
    """Decide what is kept.

    Without the refs lock branches and tags may be created or deleted meanwhile: :func:`follow_basis` tells.
    """
    basis = _read_basis(manifest)
    views = basis.views
    kept = {name: dict(_select_commits(view, policy, now)) for name, view in views.items()}
    for tag in list_tags(manifest):
        commit = views[tag.branch].history.find(tag.commit) if tag.branch in views else None
        if commit is None:
            # Without the commit it is unknown what must be kept.
            raise StorageError(
                f"the tag '{tag.name}' names commit {tag.commit}, which does not exist",
                hint="delete the tag, or restore the graph from a copy",
                details={"tag": tag.name, "commit": tag.commit},
            )
        kept[tag.branch][commit.id] = commit
    for base in _find_merge_bases(manifest, views):
        name = base.branch or MAIN
        if name in kept:
            kept[name][base.id] = base
    ids = frozenset(commit_id for commits in kept.values() for commit_id in commits)
    known = {commit_id for view in views.values() for commit_id in to_list(column_of(view.history.rows, "object_id"))}
    return RetentionPlan(
        basis,
        ids,
        len(known - ids),
        _find_table_versions(manifest, views, kept),
        _heads_of(views),
        _find_first_manifest_versions(manifest, views, kept),
    )


def _read_basis(manifest: Manifest) -> RetentionBasis:
    refs, tags = manifest.list_refs(), tuple(manifest.objects.list(TAGS_FOLDER))
    names = [MAIN, *public_names(refs)]
    return RetentionBasis(refs, tags, {name: manifest.view(name, with_lineage=True) for name in names})


@dataclass(frozen=True, slots=True)
class LaterClaims:
    """What was published after a plan was made: the new basis, and the table versions that new commits show."""

    basis: RetentionBasis
    versions: frozenset[tuple[str, int]]
    """Each with the location of its table."""


def follow_basis(manifest: Manifest, basis: RetentionBasis) -> LaterClaims | None:
    """Return what was published since, under the refs lock; None if it takes a new plan to know what is kept.

    That is so if branches or tags are others now, or if branches were merged: then their merge base is another one.
    """
    now = _read_basis(manifest)
    if (now.refs, now.tags) != (basis.refs, basis.tags):
        return None
    claimed: set[tuple[str, int]] = set()
    for name, view in now.views.items():
        before = basis.views[name]
        if view.version == before.version:
            continue
        table = manifest.open(name, view.version)
        if not table.has_stable_row_ids or _has_merges_since(view, before.version):
            return None
        rows = table.scan(
            columns=["table_key", "table_version"],
            filter=f"_row_last_updated_at_version > {before.version} AND object_type = '{TABLE_VERSION}'",
            after_fragment=before.newest_fragment,
        ).read_all()
        keys, versions = (to_list(column_of(rows, column)) for column in ("table_key", "table_version"))
        claimed.update(
            (view.tables.locations[cast("str", key)], cast("int", version))
            for key, version in zip(keys, versions, strict=True)
        )
    return LaterClaims(now, frozenset(claimed))


def _has_merges_since(view: ManifestView, version: int) -> bool:
    newer = takewhile(lambda commit: commit.manifest_version > version, view.history.list_newest_first())
    return any(commit.merged_parent is not None for commit in newer)


def _select_commits(view: ManifestView, policy: RetentionPolicy, now: datetime) -> Iterator[tuple[str, CommitRecord]]:
    """Yield the kept commits that were made on a branch, and its head, which may be older than the branch."""
    young_since = None if policy.younger_than is None else _find_instant_before(now, policy.younger_than)
    readers_since = _find_instant_before(now, policy.grace)
    newer_is_recent = True
    place = 0
    for commit in view.history.list_newest_first():
        is_own = (commit.branch or MAIN) == view.branch
        is_counted = policy.keep is not None and place < policy.keep and is_own
        is_young = young_since is not None and commit.created_at >= young_since and is_own
        # A commit was the head until the next newer one was made: the head of an hour ago may be older than that.
        may_be_read = newer_is_recent
        newer_is_recent = commit.created_at >= readers_since
        if not (place == 0 or is_counted or is_young or may_be_read):
            # Commits are ordered by time: all others are older.
            return
        yield commit.id, commit
        # Upkeep does not count: the head for users is the commit below it.
        place += not commit.upkeep


def _find_instant_before(now: datetime, age: timedelta) -> int:
    """Return when something of an age was made, in microseconds; the first instant of all if that is too long ago."""
    try:
        return to_microseconds(now - age)
    except OverflowError:
        return to_microseconds(datetime.min.replace(tzinfo=UTC))


def _find_merge_bases(manifest: Manifest, views: Mapping[str, ManifestView]) -> Iterator[CommitRecord]:
    """Yield the merge bases of each branch with main and with its parent: a merge reads their rows."""
    if len(views) < 2:
        return
    refs = manifest.list_refs()
    commits = {commit.id: commit for view in views.values() for commit in view.history.list_newest_first()}
    for name, view in views.items():
        parent = refs[name].parent if name in refs else None
        for other in {MAIN, parent or MAIN} - {name}:
            source, target = view.history.head(), views[other].history.head() if other in views else None
            if source is not None and target is not None:
                yield from find_merge_bases(source.id, target.id, commits)


def _heads_of(views: Mapping[str, ManifestView]) -> dict[tuple[str, str], int]:
    return {
        (pin.location, name): pin.version
        for name, view in views.items()
        for pin in list_pins(view).values()
        if (pin.branch or MAIN) == name
    }


def _find_table_versions(
    manifest: Manifest, views: Mapping[str, ManifestView], kept: Mapping[str, Mapping[str, CommitRecord]]
) -> dict[str, frozenset[int]]:
    """Return the versions that a kept commit or a head shows, by the location of the table."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for name, view in views.items():
        moments = np.unique([view.version, *(commit.manifest_version for commit in kept[name].values())])
        for table_key, versions in _find_versions_at(manifest, view, moments):
            found[view.tables.locations[table_key]].update(versions.tolist())
    return {location: frozenset(versions) for location, versions in found.items()}


def _find_versions_at(manifest: Manifest, view: ManifestView, moments: _Numbers) -> Iterator[tuple[str, _Numbers]]:
    """Yield the versions of each table at some manifest versions.

    A manifest without stable row ids does not say when a row was written: then all versions are returned.
    """
    table = manifest.open(view.branch, view.version)
    has_dates = table.has_stable_row_ids
    columns = ["object_type", "table_key", "table_version", *([CREATED_VERSION] if has_dates else [])]
    rows = table.scan(columns, filter=f"object_type IN ('{TABLE_VERSION}', '{TABLE_TOMBSTONE}')").read_all()
    keys = np.asarray(to_list(column_of(rows, "table_key")), dtype=object)
    dropped = np.asarray(to_list(column_of(rows, "object_type")), dtype=object) == TABLE_TOMBSTONE
    versions = _numbers_of(rows, "table_version")
    since = _numbers_of(rows, CREATED_VERSION) if has_dates else None
    for key in dict.fromkeys(cast("list[str]", keys.tolist())):
        is_version, is_tombstone = (keys == key) & ~dropped, (keys == key) & dropped
        if since is None:
            yield key, versions[is_version]
            continue
        shown = _find_greatest_at(moments, since[is_version], versions[is_version])
        tombstones = _find_greatest_at(moments, since[is_tombstone], versions[is_tombstone])
        yield key, shown[shown > tombstones]


def _numbers_of(rows: pa.Table, column: str) -> _Numbers:
    return column_of(rows, column).to_numpy(zero_copy_only=False).astype(np.int64)


def _find_greatest_at(moments: _Numbers, since: _Numbers, versions: _Numbers) -> _Numbers:
    """Return the greatest version that was published up to each moment; -1 if there was none."""
    order = np.argsort(since, kind="stable")
    greatest: _Numbers = np.concatenate([[-1], np.maximum.accumulate(versions[order])])
    return greatest[np.searchsorted(since[order], moments, side="right")]


def _find_first_manifest_versions(
    manifest: Manifest, views: Mapping[str, ManifestView], kept: Mapping[str, Mapping[str, CommitRecord]]
) -> dict[str, int]:
    first = {name: view.version for name, view in views.items()}
    needed = [
        (commit.branch or MAIN, commit.manifest_version) for commits in kept.values() for commit in commits.values()
    ]
    needed += [(ref.parent or MAIN, ref.parent_version) for ref in manifest.list_refs().values()]
    for name, version in needed:
        if name in first:
            first[name] = min(first[name], version)
    for name, view in views.items():
        if not manifest.open(name, view.version).has_stable_row_ids:
            # Without stable row ids it is unknown which versions a commit needs.
            first[name] = 0
    return first

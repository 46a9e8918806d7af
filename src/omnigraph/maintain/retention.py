"""What cleanup keeps: the commits that stay readable, and every version that one of them needs.

A commit stays for its place in its branch, for its age, because it is the head of a branch, because a tag names it,
because a live branch would be merged from it, or because a reader may have begun on it within the last hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.language.values import to_microseconds
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.lineage import CREATED_VERSION, merge_bases
from omnigraph.manifest.rows import MAIN, TABLE_TOMBSTONE, TABLE_VERSION, CommitRecord
from omnigraph.manifest.snapshot import pins_of
from omnigraph.manifest.state import View
from omnigraph.manifest.tags import list_tags
from omnigraph.storage.columns import column_of, to_list

READER_GRACE: Final = timedelta(hours=1)
"""How long whoever reads may go on with what was the newest commit when it began."""

_Numbers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Which commits of each branch stay: so many of the newest, and all that are younger."""

    keep: int | None
    younger_than: timedelta | None
    grace: timedelta = READER_GRACE


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What stays. Versions of tables are given by number, for each folder, and stay on every branch that has them."""

    commits: frozenset[str]
    others: int
    """How many commits do not stay."""
    versions: Mapping[str, frozenset[int]]
    heads: Mapping[tuple[str, str], int]
    """The version that each live branch shows of the tables that it owns: nothing newer than that ever goes."""
    first_manifest_version: Mapping[str, int]
    """By branch. All that follow stay, because readers look for the next version to learn whether there is one."""


def plan_retention(manifest: Manifest, policy: RetentionPolicy, now: datetime) -> RetentionPlan:
    """Decide, under the refs lock: no branch or tag comes or goes meanwhile."""
    views = {name: manifest.view(name, with_lineage=True) for name in branch_names(manifest)}
    kept = {name: dict(_own(view, policy, now)) for name, view in views.items()}
    for tag in list_tags(manifest):
        commit = views[tag.branch].history.find(tag.commit) if tag.branch in views else None
        if commit is None:
            # Without the commit it cannot be known what has to stay.
            raise StorageError(
                f"the tag '{tag.name}' names commit {tag.commit}, which is not there",
                hint="delete the tag, or restore the graph from a copy",
                details={"tag": tag.name, "commit": tag.commit},
            )
        kept[tag.branch][commit.id] = commit
    for base in _bases(manifest, views):
        name = base.branch or MAIN
        if name in kept:
            kept[name][base.id] = base
    ids = frozenset(commit_id for commits in kept.values() for commit_id in commits)
    known = {commit_id for view in views.values() for commit_id in to_list(column_of(view.history.rows, "object_id"))}
    return RetentionPlan(
        ids,
        len(known - ids),
        _versions(manifest, views, kept),
        _heads(views),
        _first_manifest_versions(manifest, views, kept),
    )


def _own(view: View, policy: RetentionPolicy, now: datetime) -> Iterator[tuple[str, CommitRecord]]:
    """The commits that stay of those that were made on a branch, and its head, which may be older than the branch."""
    youngest_to_go = to_microseconds(now - policy.younger_than) if policy.younger_than is not None else None
    in_use_since = to_microseconds(now - policy.grace)
    newer_in_use = True
    for place, commit in enumerate(view.history.newest_first()):
        is_own = (commit.branch or MAIN) == view.branch
        counted = policy.keep is not None and place < policy.keep and is_own
        young = youngest_to_go is not None and commit.created_at >= youngest_to_go and is_own
        # What was the head an hour ago was made before that.
        in_use = newer_in_use
        newer_in_use = commit.created_at >= in_use_since
        if place == 0 or counted or young or in_use:
            yield commit.id, commit
        else:
            # Commits are in the order of their times, so that all others are older still.
            return


def _bases(manifest: Manifest, views: Mapping[str, View]) -> Iterator[CommitRecord]:
    """Where each branch met main, and the one that it was made from: a merge reads what was there."""
    if len(views) < 2:
        return
    refs = manifest.refs()
    commits = {commit.id: commit for view in views.values() for commit in view.history.newest_first()}
    for name, view in views.items():
        parent = refs[name].parent if name in refs else None
        for other in {MAIN, parent or MAIN} - {name}:
            source, target = view.history.head(), views[other].history.head() if other in views else None
            if source is not None and target is not None:
                yield from merge_bases(source.id, target.id, commits)


def _heads(views: Mapping[str, View]) -> dict[tuple[str, str], int]:
    return {
        (pin.location, name): pin.version
        for name, view in views.items()
        for pin in pins_of(view).values()
        if (pin.branch or MAIN) == name
    }


def _versions(
    manifest: Manifest, views: Mapping[str, View], kept: Mapping[str, Mapping[str, CommitRecord]]
) -> dict[str, frozenset[int]]:
    """Of each table's folder, the versions that a kept commit or a head shows."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for name, view in views.items():
        moments = np.unique([view.version, *(commit.manifest_version for commit in kept[name].values())])
        for table_key, shown in _published(manifest, view, moments):
            found[view.tables.locations[table_key]].update(shown.tolist())
    return {location: frozenset(versions) for location, versions in found.items()}


def _published(manifest: Manifest, view: View, moments: _Numbers) -> Iterator[tuple[str, _Numbers]]:
    """Of each table the versions that were shown at some manifest versions; all, if nobody knows."""
    table = manifest.open(view.branch, view.version)
    dated = table.stable_row_ids
    columns = ["object_type", "table_key", "table_version", *([CREATED_VERSION] if dated else [])]
    rows = table.scan(columns, filter=f"object_type IN ('{TABLE_VERSION}', '{TABLE_TOMBSTONE}')").read_all()
    keys = np.asarray(to_list(column_of(rows, "table_key")), dtype=object)
    dropped = np.asarray(to_list(column_of(rows, "object_type")), dtype=object) == TABLE_TOMBSTONE
    versions = _numbers(rows, "table_version")
    since = _numbers(rows, CREATED_VERSION) if dated else None
    for key in dict.fromkeys(cast("list[str]", keys.tolist())):
        mine, hiding = (keys == key) & ~dropped, (keys == key) & dropped
        if since is None:
            yield key, versions[mine]
            continue
        shown = _greatest_at(moments, since[mine], versions[mine])
        hidden = _greatest_at(moments, since[hiding], versions[hiding])
        yield key, shown[shown > hidden]


def _numbers(rows: pa.Table, column: str) -> _Numbers:
    return column_of(rows, column).to_numpy(zero_copy_only=False).astype(np.int64)


def _greatest_at(moments: _Numbers, since: _Numbers, versions: _Numbers) -> _Numbers:
    """What counts at each moment: the greatest version that was published until then; -1 while there was none."""
    order = np.argsort(since, kind="stable")
    greatest: _Numbers = np.concatenate([[-1], np.maximum.accumulate(versions[order])])
    return greatest[np.searchsorted(since[order], moments, side="right")]


def _first_manifest_versions(
    manifest: Manifest, views: Mapping[str, View], kept: Mapping[str, Mapping[str, CommitRecord]]
) -> dict[str, int]:
    first = {name: view.version for name, view in views.items()}
    needed = [
        (commit.branch or MAIN, commit.manifest_version) for commits in kept.values() for commit in commits.values()
    ]
    needed += [(ref.parent or MAIN, ref.parent_version) for ref in manifest.refs().values()]
    for name, version in needed:
        if name in first:
            first[name] = min(first[name], version)
    for name, view in views.items():
        if not manifest.open(name, view.version).stable_row_ids:
            # Nobody knows which of them a commit needs.
            first[name] = 0
    return first

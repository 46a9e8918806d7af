"""Clean up a graph: remove versions that no kept commit needs, forks of deleted branches, and uncommitted files.

Deletes nothing unless confirmed. It runs under the refs lock, so that no new branch or tag can need what is about to be
deleted. Readers and writers go on: what a live branch shows, or what was the newest an hour ago, is never deleted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from omnigraph.defaults import COMMITS_TO_KEEP
from omnigraph.errors import NotFound, ParameterError, StorageError
from omnigraph.maintain.orphans import (
    STALE_AFTER,
    OrphanFile,
    ReclaimKind,
    find_dead_loads,
    find_orphans,
    list_dataset_files,
    sum_file_sizes,
)
from omnigraph.maintain.retention import READER_GRACE, RetentionPlan, RetentionPolicy, plan_retention
from omnigraph.manifest.branches import has_rows_where, remove_leftover_branch
from omnigraph.manifest.handle import DIRECTORY, Manifest, branch_names
from omnigraph.manifest.opening import SCHEMA_APPLY_LOCK
from omnigraph.manifest.rows import MAIN, TABLE_VERSION
from omnigraph.storage import table_writes as tables
from omnigraph.storage.lance_internals import VERSIONS_FOLDER, BranchRef, branch_ref_path
from omnigraph.storage.locks import HeldLock, branch_lock, refs_lock
from omnigraph.storage.objects import Objects
from omnigraph.storage.table import Table, open_table
from omnigraph.storage.table_versions import estimate_freed_bytes, list_versions
from omnigraph.write.commit import finish_removals, heal, heal_all

_OPERATION: Final = "cleanup"
"""The name of the operation that empties a dropped table."""
_AGE: Final = re.compile(r"(\d+)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """How much of one kind was deleted, or would be."""

    kind: ReclaimKind
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result of a cleanup: what it deleted, or would delete if confirmed."""

    confirmed: bool
    commits_kept: int
    commits_gone: int
    """The number of commits that can no longer be read, because of this cleanup or earlier ones."""
    reclaimed: tuple[Reclaimed, ...]

    @property
    def bytes(self) -> int:
        """The total size of what was deleted, or would be."""
        return sum(each.bytes for each in self.reclaimed)


def cleanup(
    manifest: Manifest,
    keep: int | None = COMMITS_TO_KEEP,
    older_than: timedelta | str | None = None,
    *,
    confirm: bool = False,
    stale_after: timedelta = STALE_AFTER,
    grace: timedelta = READER_GRACE,
) -> Cleaned:
    """Delete what only commits need that are neither among the newest of a branch nor young, and stale orphans."""
    policy = _build_policy(keep, older_than, grace)
    now = datetime.now(UTC)
    with refs_lock(manifest.location, manifest.locks) as refs:
        finish_removals(manifest, refs)
        # Under the refs lock, so that no dead merge is left that could still adopt a version.
        heal_all(manifest)
        retention = plan_retention(manifest, policy, now)
        run = _CleanupRun(manifest, refs, retention, now, stale_after, confirm)
        found = list(run.reclaim_all())
    counts, sizes = Counter[ReclaimKind](), Counter[ReclaimKind]()
    for each in found:
        counts[each.kind] += each.count
        sizes[each.kind] += each.bytes
    reclaimed = tuple(Reclaimed(kind, counts[kind], sizes[kind]) for kind in ReclaimKind if counts[kind])
    return Cleaned(confirm, len(retention.commits), retention.others, reclaimed)


def _build_policy(keep: int | None, older_than: timedelta | str | None, grace: timedelta) -> RetentionPolicy:
    if keep is None and older_than is None:
        raise ParameterError("cleanup needs to know what to keep", hint="give keep, or older_than, or both")
    if keep is not None and keep < 1:
        raise ParameterError(
            f"keep is {keep}", hint="keep at least 1 commit of each branch: the newest is never deleted"
        )
    younger_than = parse_age(older_than) if isinstance(older_than, str) else older_than
    if younger_than is not None and younger_than < timedelta(0):
        raise ParameterError(f"older_than is {younger_than}", hint='give an age like "7d" or timedelta(days=7)')
    return RetentionPolicy(keep, younger_than, grace)


def parse_age(text: str) -> timedelta:
    """Parse an age like ``7d``."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise ParameterError(f"'{text}' is not an age", hint="write a number and s, m, h, d or w, such as 12h or 7d")
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError as error:
        raise ParameterError(f"'{text}' is too long an age", hint="write an age like 7d") from error


# --------------------------------------------------------------------------------------------- the run


@dataclass(frozen=True, slots=True)
class _CleanupRun:
    """One cleanup, under the refs lock. Unless confirmed, it only reports what it would delete."""

    manifest: Manifest
    refs: HeldLock
    retention: RetentionPlan
    now: datetime
    stale_after: timedelta
    confirm: bool

    def reclaim_all(self) -> Iterator[Reclaimed]:
        """Clean up all datasets. The forks of a dataset go before its versions, which they depend on."""
        yield from self._reclaim_half_made_branches()
        for table_key, location in self._list_tables():
            root = open_table(self.manifest.location.join(location), None, None, self.manifest.access)
            yield from self._reclaim_half_made_forks(table_key, location, root)
            yield from self._reclaim_forks(table_key, location, root)
            yield from self._reclaim_dropped_table(location, root)
            yield from self._reclaim_table_versions(location, root)
            yield from self._reclaim_orphans(location)
        yield from self._reclaim_manifest_versions()
        yield from self._reclaim_orphans(DIRECTORY)
        objects, files = find_dead_loads(self.manifest, self.now, self.stale_after)
        yield from self._delete_files(objects, files)

    def _list_tables(self) -> list[tuple[str, str]]:
        """Return the key and location of every table that a live branch has or had."""
        found: dict[str, str] = {}
        for name in branch_names(self.manifest):
            found |= {location: key for key, location in self.manifest.view(name).tables.locations.items()}
        known = [(key, location) for location, key in sorted(found.items())]
        return [
            (key, location) for key, location in known if self.manifest.objects.list(f"{location}/{VERSIONS_FOLDER}")
        ]

    # ----------------------------------------------------------------------------------------- forks

    def _reclaim_half_made_branches(self) -> Iterator[Reclaimed]:
        """Remove branches of the graph that a power cut left half-made. They are not listed, so nobody uses them."""
        main = self.manifest.open(MAIN)
        live = {*self.manifest.list_refs()}
        for name in sorted({*main.list_forks(), *main.list_damaged_refs()} - live):
            yield self._remove_leftover(DIRECTORY, name)

    def _remove_leftover(self, location: str, name: str) -> Reclaimed:
        size = sum_file_sizes(self.manifest.objects.list(f"{location}/tree/{name}"))
        if self.confirm:
            self.refs.check()
            remove_leftover_branch(self.manifest, location, name)
        return Reclaimed(ReclaimKind.FORKS, 1, size)

    def _reclaim_half_made_forks(self, table_key: str, location: str, root: Table) -> Iterator[Reclaimed]:
        """Remove forks whose refs a power cut left half-written: while one is there, Lance drops nothing."""
        live = branch_names(self.manifest)
        for name in root.list_damaged_refs():
            if _is_referenced(self.manifest, live, table_key, name):
                raise StorageError(
                    f"the ref of the fork of '{table_key}' on '{name}' is damaged, and commits need the fork",
                    hint=f"restore {location}/{branch_ref_path(name)} from a copy",
                    details={"table_key": table_key, "branch": name},
                )
            with branch_lock(self.manifest.location, name, self.manifest.locks):
                # A writer may have re-created the fork meanwhile.
                if name in root.list_damaged_refs():
                    yield self._remove_leftover(location, name)

    def _reclaim_forks(self, table_key: str, location: str, root: Table) -> Iterator[Reclaimed]:
        """Delete the forks that no live branch refers to: their branch was deleted, or their writer died."""
        forks = root.list_forks()
        live = branch_names(self.manifest)
        orphans = [
            name
            for name in forks
            if name != SCHEMA_APPLY_LOCK and not _is_referenced(self.manifest, live, table_key, name)
        ]
        for name in _sort_children_first(forks, orphans):
            size = sum_file_sizes(self.manifest.objects.list(f"{location}/tree/{name}"))
            if name in live:
                if not self._reclaim_fork_of_live_branch(table_key, root, name):
                    continue
            elif self.confirm:
                self.refs.check()
                tables.delete_table_branch(root, name)
            yield Reclaimed(ReclaimKind.FORKS, 1, size)

    def _reclaim_fork_of_live_branch(self, table_key: str, root: Table, name: str) -> bool:
        """Delete a fork under the lock of its branch, unless a writer has published it meanwhile."""
        with branch_lock(self.manifest.location, name, self.manifest.locks) as held:
            heal(self.manifest, held, name)
            if _is_referenced(self.manifest, [name], table_key, name):
                return False
            if self.confirm:
                held.check()
                self.refs.check()
                tables.delete_table_branch(root, name)
            return True

    # ----------------------------------------------------------------------------------------- dropped tables

    def _reclaim_dropped_table(self, location: str, root: Table) -> Iterator[Reclaimed]:
        """Empty a table that no kept commit shows. The table itself stays: the type may be added again."""
        if self.retention.versions.get(location) or not root.count_rows():
            return
        files = self.manifest.objects.list(f"{location}/data")
        if not self.confirm:
            yield Reclaimed(ReclaimKind.DROPPED, 1, sum_file_sizes(files))
            return
        self.refs.check()
        empty = tables.commit(root, tables.overwrite(root, root.schema.empty_table()), _OPERATION)
        self.refs.check()
        yield Reclaimed(
            ReclaimKind.DROPPED,
            1,
            tables.drop_versions(empty, [each for each in list_versions(empty) if each < empty.version]),
        )

    # ----------------------------------------------------------------------------------------- versions

    def _reclaim_table_versions(self, location: str, root: Table) -> Iterator[Reclaimed]:
        kept = self.retention.versions.get(location, frozenset())
        forks = root.list_forks()
        # Lance itself keeps the version that a fork starts from, but not its transaction file.
        starts = {(ref.parent or MAIN, ref.parent_version) for ref in forks.values()}
        for name in (MAIN, *forks):
            try:
                table = root if name == MAIN else open_table(root.uri, name, None, self.manifest.access)
            except NotFound:
                # The ref of a fork that was never finished: the next write to it re-creates the fork.
                continue
            head = self.retention.heads.get((location, name), table.version)
            older = [version for version in list_versions(table) if version < head and version not in kept]
            unneeded = [version for version in older if (name, version) not in starts]
            yield from self._drop_versions(ReclaimKind.TABLE_VERSIONS, table, unneeded)

    def _reclaim_manifest_versions(self) -> Iterator[Reclaimed]:
        for name, first in self.retention.first_manifest_version.items():
            table = self.manifest.open(name)
            unneeded = [version for version in list_versions(table) if version < first]
            yield from self._drop_versions(ReclaimKind.MANIFEST_VERSIONS, table, unneeded)

    def _drop_versions(self, kind: ReclaimKind, table: Table, versions: Sequence[int]) -> Iterator[Reclaimed]:
        if not versions:
            return
        if not self.confirm:
            yield Reclaimed(kind, len(versions), estimate_freed_bytes(table, versions))
            return
        self.refs.check()
        freed = tables.drop_versions(table, versions)
        # Lance keeps versions that a Lance tag of another program names.
        remaining = set(list_versions(table))
        yield Reclaimed(kind, sum(version not in remaining for version in versions), freed)

    # ----------------------------------------------------------------------------------------- orphans

    def _reclaim_orphans(self, location: str) -> Iterator[Reclaimed]:
        found = list_dataset_files(self.manifest, location)
        yield from self._delete_files(self.manifest.objects, find_orphans(found, self.now, self.stale_after))

    def _delete_files(self, objects: Objects, files: Iterable[OrphanFile]) -> Iterator[Reclaimed]:
        orphans = list(files)
        if self.confirm and orphans:
            self.refs.check()
            objects.delete_all([each.info.path for each in orphans])
        for each in orphans:
            yield Reclaimed(each.kind, 1, each.info.size)


def _is_referenced(manifest: Manifest, live: Iterable[str], table_key: str, fork: str) -> bool:
    condition = f"object_type = '{TABLE_VERSION}' AND table_key = '{table_key}' AND table_branch = '{fork}'"
    return any(has_rows_where(manifest, name, condition) for name in live)


def _sort_children_first(forks: dict[str, BranchRef], orphans: Sequence[str]) -> list[str]:
    """Return the orphans that can be deleted, children first. The ancestors of a fork in use must stay."""
    waiting = dict.fromkeys(orphans)
    ordered: list[str] = []
    while True:
        parents = {ref.parent for ref in forks.values() if ref.name not in ordered}
        ready = [name for name in waiting if name not in parents]
        if not ready:
            return ordered
        for name in ready:
            del waiting[name]
        ordered += ready

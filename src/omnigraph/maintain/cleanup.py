"""Clean up a graph: remove versions that no kept commit needs, forks of deleted branches, and uncommitted files.

Deletes nothing unless confirmed. It works in turns: whatever is slow happens without a lock, and each turn holds the
refs lock for a few milliseconds, in which no new branch, tag or merge can need what is being deleted. Each turn first
looks whether the plan still holds; a process that dies between two turns leaves nothing that others could trip over.
Readers and writers go on: what a live branch shows, or what was the newest an hour ago, is never deleted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic, thread_time
from typing import Final, TypeVar

from omnigraph.defaults import COMMITS_TO_KEEP
from omnigraph.errors import NotFoundError, ParameterError, StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.maintain.cleanup_ages import AGE_HINT, parse_staged_age, refuse_wrong_clock
from omnigraph.maintain.cleanup_times import keep_cleanup_end
from omnigraph.maintain.cleanup_turns import LONGEST_TURN_SECONDS, TURN_SECONDS, CleanupTurns
from omnigraph.maintain.orphans import (
    LOADS_BEAT,
    STALE_AFTER,
    OrphanFile,
    ReclaimKind,
    find_dead_loads,
    find_orphans,
    list_dataset_files,
    locate_file,
    sum_file_sizes,
)
from omnigraph.maintain.retention import READER_GRACE, RetentionPlan, RetentionPolicy, plan_retention
from omnigraph.maintain.version_removal import (
    BranchVersions,
    DoomedFiles,
    VersionFile,
    find_doomed_files,
    find_unneeded,
    list_dataset_versions,
    list_protected,
)
from omnigraph.manifest.branches import has_rows_where, remove_leftover_branch
from omnigraph.manifest.handle import DIRECTORY, Manifest, branch_names
from omnigraph.manifest.opening import SCHEMA_APPLY_LOCK
from omnigraph.manifest.rows import MAIN, TABLE_VERSION
from omnigraph.manifest.settings import parse_age
from omnigraph.progress import follow_steps
from omnigraph.storage import tables
from omnigraph.storage.lance_internals import VERSIONS_FOLDER, BranchRef, branch_ref_path
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.objects import ObjectInfo, Objects
from omnigraph.storage.tables import Table, open_table
from omnigraph.write.commit import finish_removals, heal, heal_all

_OPERATION: Final = "cleanup"
"""The name of the operation that empties a dropped table."""
_FILES_AT_ONCE: Final = 16
_OBJECTS_AT_ONCE: Final = 1000
"""How many objects of a store one request deletes."""
_TRIES: Final = 4

Result = TypeVar("Result")


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
    staged_older_than: timedelta | str | None = None,
    stale_after: timedelta = STALE_AFTER,
    grace: timedelta = READER_GRACE,
) -> Cleaned:
    """Delete what only commits need that are neither among the newest of a branch nor young, and stale orphans.

    ``staged_older_than``: files that a writer staged and did not commit are stale above this age.
    """
    policy = _build_policy(keep, older_than, grace)
    if staged_older_than is not None:
        stale_after = parse_staged_age(staged_older_than, manifest.location)
    now = datetime.now(UTC)
    if confirm:
        refuse_wrong_clock(manifest.objects, now)
    # Decide by what the storage has, not by the caches of this handle.
    manifest.start_over()
    heal_all(manifest)
    turns = CleanupTurns(manifest, partial(plan_retention, manifest, policy, now))
    with turns.take() as refs:
        finish_removals(manifest, refs)
    found = list(_CleanupRun(manifest, turns, now, stale_after, confirm).reclaim_all())
    counts, sizes = Counter[ReclaimKind](), Counter[ReclaimKind]()
    for each in found:
        counts[each.kind] += each.count
        sizes[each.kind] += each.bytes
    reclaimed = tuple(Reclaimed(kind, counts[kind], sizes[kind]) for kind in ReclaimKind if counts[kind])
    if confirm:
        keep_cleanup_end(manifest.objects, datetime.now(UTC))
    return Cleaned(confirm, len(turns.plan.commits), turns.plan.others, reclaimed)


def _build_policy(keep: int | None, older_than: timedelta | str | None, grace: timedelta) -> RetentionPolicy:
    if keep is None and older_than is None:
        raise ParameterError("cleanup needs to know what to keep", hint="give keep, or older_than, or both")
    if keep is not None and keep < 1:
        raise ParameterError(
            f"keep is {keep}", hint="keep at least 1 commit of each branch: the newest is never deleted"
        )
    younger_than = parse_age(older_than) if isinstance(older_than, str) else older_than
    if younger_than is not None and younger_than < timedelta(0):
        raise ParameterError(f"older_than is {younger_than}", hint=AGE_HINT)
    return RetentionPolicy(keep, younger_than, grace)


# --------------------------------------------------------------------------------------------- the run


@dataclass(frozen=True, slots=True)
class _CleanupRun:
    """One cleanup. Unless confirmed, it only reports what it would delete."""

    manifest: Manifest
    turns: CleanupTurns
    now: datetime
    stale_after: timedelta
    confirm: bool
    unused_forks: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The forks of each dataset that this run deletes."""
    existing: dict[str, list[BranchVersions]] = field(default_factory=dict[str, list[BranchVersions]])
    """The versions of each dataset before the plan was made. Later ones are never deleted."""
    emptied: dict[str, int] = field(default_factory=dict[str, int])
    """The version of each table that this run emptied, or would."""

    def reclaim_all(self) -> Iterator[Reclaimed]:
        """Clean up all datasets. The forks of a dataset go before its versions, which they depend on."""
        yield from self._reclaim_half_made_branches()
        known = self._list_tables()
        for table_key, location in known:
            root = self._open_root(location)
            yield from self._reclaim_half_made_forks(table_key, location, root)
            yield from self._reclaim_forks(table_key, location, root)
        locations = [location for _, location in known]
        for location in (*locations, DIRECTORY):
            listing = partial(list_dataset_versions, self.manifest, location, self.unused_forks[location])
            self.existing[location] = _try_again(listing)
        self.turns.prepare_plan()
        for location in follow_steps("cleaning up", locations):
            is_dropped = self._empty_dropped_table(location)
            yield from self._reclaim_versions(
                ReclaimKind.DROPPED if is_dropped else ReclaimKind.TABLE_VERSIONS, location
            )
            yield from self._reclaim_orphans(location)
        yield from self._reclaim_versions(ReclaimKind.MANIFEST_VERSIONS, DIRECTORY)
        yield from self._reclaim_orphans(DIRECTORY)
        objects, files = find_dead_loads(self.manifest, self.now, max(self.stale_after, LOADS_BEAT))
        yield from self._delete_orphans(objects, files)

    def _list_tables(self) -> list[tuple[str, str]]:
        """Return the key and location of every table that a live branch has or had."""
        found: dict[str, str] = {}
        for locations in _try_again(self._list_locations):
            found |= {location: key for key, location in locations.items()}
        known = [(key, location) for location, key in sorted(found.items())]
        return [
            (key, location) for key, location in known if self.manifest.objects.list(f"{location}/{VERSIONS_FOLDER}")
        ]

    def _list_locations(self) -> list[Mapping[str, str]]:
        return [self.manifest.view(name).tables.locations for name in branch_names(self.manifest)]

    def _open_root(self, location: str) -> Table:
        return open_table(self.manifest.location.join(location), None, None, self.manifest.access)

    # ----------------------------------------------------------------------------------------- forks

    def _reclaim_half_made_branches(self) -> Iterator[Reclaimed]:
        """Remove branches of the graph that a power cut left half-made. They are not listed, so nobody uses them."""
        for name in self._list_half_made_branches():
            with self.turns.take() as refs:
                if name not in self._list_half_made_branches():
                    continue
                if self.confirm:
                    refs.check()
                yield self._remove_leftover(DIRECTORY, name)

    def _list_half_made_branches(self) -> list[str]:
        main = self.manifest.open(MAIN)
        live = {*self.manifest.list_refs()}
        return sorted({*main.list_forks(), *main.list_damaged_refs()} - live)

    def _remove_leftover(self, location: str, name: str) -> Reclaimed:
        size = sum_file_sizes(self.manifest.objects.list(f"{location}/tree/{name}"))
        if self.confirm:
            remove_leftover_branch(self.manifest, location, name)
        return Reclaimed(ReclaimKind.FORKS, 1, size)

    def _reclaim_half_made_forks(self, table_key: str, location: str, root: Table) -> Iterator[Reclaimed]:
        """Remove forks whose refs a power cut left half-written: while one is there, Lance lists no branch."""
        for name in root.list_damaged_refs():
            with self.turns.take() as refs:
                if _is_referenced(self.manifest, branch_names(self.manifest), table_key, name):
                    raise StorageError(
                        f"the ref of the fork of '{table_key}' on '{name}' is damaged, and commits need the fork",
                        hint=f"restore {location}/{branch_ref_path(name)} from a copy",
                        details={"table_key": table_key, "branch": name},
                    )
                with branch_lock(self.manifest.location, name, self.manifest.locks):
                    # A writer may have re-created the fork meanwhile.
                    if name in root.list_damaged_refs():
                        refs.check()
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
            if self._delete_fork(table_key, root, name):
                self.unused_forks[location].add(name)
                yield Reclaimed(ReclaimKind.FORKS, 1, size)

    def _delete_fork(self, table_key: str, root: Table, name: str) -> bool:
        """Delete a fork, under the lock of its branch if that lives, unless somebody needs it by now."""
        with self.turns.take() as refs:
            live = branch_names(self.manifest)
            is_live = name in live
            with branch_lock(self.manifest.location, name, self.manifest.locks) if is_live else nullcontext() as held:
                if held is not None:
                    heal(self.manifest, held, name)
                if _is_referenced(self.manifest, live, table_key, name):
                    return False
                if self.confirm:
                    if held is not None:
                        held.check()
                    refs.check()
                    tables.delete_table_branch(root, name)
                return True

    # ----------------------------------------------------------------------------------------- dropped tables

    def _empty_dropped_table(self, location: str) -> bool:
        """Empty a table that no kept commit shows, and return whether it is one.

        The table itself stays: the type may be added again.
        """
        root = self._open_root(location)
        if self.turns.plan.versions.get(location) or not root.count_rows():
            return False
        if not self.confirm:
            # The version that would be empty: all that there are would go.
            self.emptied[location] = root.version + 1
            return True
        with self.turns.take_planned() as refs:
            root = self._open_root(location)
            if self.turns.plan.versions.get(location):
                return False
            refs.check()
            empty = tables.commit(root, tables.overwrite(root, root.schema.empty_table()), _OPERATION)
            self.emptied[location] = empty.version
            return True

    # ----------------------------------------------------------------------------------------- versions

    def _reclaim_versions(self, kind: ReclaimKind, location: str) -> Iterator[Reclaimed]:
        """Remove the versions of a dataset that the plan does not keep, then what only they needed."""
        doomed = self._choose_versions(location)
        count = 1 if kind is ReclaimKind.DROPPED else sum(map(len, doomed.values()))
        if not any(doomed.values()):
            return
        files = _try_again(partial(find_doomed_files, self.manifest, location, doomed))
        if not self.confirm:
            yield Reclaimed(kind, count, files.bytes)
            return
        removed = self._delete_version_files(location, files)
        self.manifest.objects.sync_deletions(each.info.path for each in removed)
        unneeded = _try_again(partial(find_unneeded, self.manifest, location, files.candidates))
        _delete_in_pieces(self.manifest.objects, unneeded)
        size = sum(each.info.size for each in removed) + sum_file_sizes(unneeded)
        yield Reclaimed(kind, 1 if kind is ReclaimKind.DROPPED else len(removed), size)

    def _choose_versions(self, location: str) -> dict[str, frozenset[int]]:
        """Return the versions of each branch of a dataset that nobody needs, by the plan."""
        plan = self.turns.plan
        if location == DIRECTORY:
            return {
                each.branch: frozenset(
                    version for version in each.versions if version < plan.first_manifest_version.get(each.branch, 0)
                )
                for each in self.existing[location]
            }
        kept = plan.versions.get(location, frozenset())
        # After the plan: a fork that was made since then starts at what the plan keeps.
        protected = list_protected(self.manifest, location, self.unused_forks[location])
        found: dict[str, frozenset[int]] = {}
        for each in self.existing[location]:
            head = self._find_head(plan, location, each)
            stay = kept.union(version for branch, version in protected if branch == each.branch)
            found[each.branch] = frozenset(version for version in each.versions if version < head) - stay
        return found

    def _find_head(self, plan: RetentionPlan, location: str, listed: BranchVersions) -> int:
        newest = max(listed.versions, default=0)
        if listed.branch == MAIN and location in self.emptied:
            return self.emptied[location]
        return plan.heads.get((location, listed.branch), newest)

    def _delete_version_files(self, location: str, files: DoomedFiles) -> list[VersionFile]:
        """Delete the files of versions, turn by turn, oldest first; return those that the plan did not come to keep."""
        # What is newer must be safe before what is older is gone.
        self.manifest.sync()
        waiting, removed = list(files.versions), list[VersionFile]()
        at_once = _FILES_AT_ONCE if self.manifest.location.is_local else _OBJECTS_AT_ONCE
        while waiting:
            with self.turns.take_planned() as refs:
                doomed = self._choose_versions(location)
                work_until, over_at = thread_time() + TURN_SECONDS, monotonic() + LONGEST_TURN_SECONDS
                is_over = False
                while waiting and not is_over:
                    batch, waiting = waiting[:at_once], waiting[at_once:]
                    unneeded = [each for each in batch if each.version in doomed[each.branch]]
                    refs.check()
                    self.manifest.objects.delete_all([each.info.path for each in unneeded])
                    removed += unneeded
                    is_over = thread_time() >= work_until or monotonic() >= over_at
        return removed

    # ----------------------------------------------------------------------------------------- orphans

    def _reclaim_orphans(self, location: str) -> Iterator[Reclaimed]:
        found = _try_again(partial(list_dataset_files, self.manifest, location))
        orphans = list(find_orphans(found, self.now, self.stale_after))
        unlocked = [each for each in orphans if each.kind not in (ReclaimKind.FORKS, ReclaimKind.STAGED)]
        yield from self._delete_orphans(self.manifest.objects, unlocked)
        staged = defaultdict[str, list[OrphanFile]](list)
        for each in orphans:
            if each.kind is ReclaimKind.STAGED:
                staged[locate_file(location, found.branches, each.info)[0] or MAIN].append(each)
        for branch, files in sorted(staged.items()):
            yield from self._delete_staged(location, branch, files)
        yield from self._delete_branch_leftovers(location, [each for each in orphans if _is_of_branch(each)])

    def _delete_orphans(self, objects: Objects, orphans: Sequence[OrphanFile]) -> Iterator[Reclaimed]:
        """Delete files that nobody can come to need: their names are random, and no version has them."""
        if self.confirm:
            _delete_in_pieces(objects, [each.info for each in orphans])
        for each in orphans:
            yield Reclaimed(each.kind, 1, each.info.size)

    def _delete_staged(self, location: str, branch: str, orphans: Sequence[OrphanFile]) -> Iterator[Reclaimed]:
        """Delete files that were staged in the folder of a branch, under its lock.

        A writer checks its staged files under the same lock, before it commits them.
        """
        infos = [each.info for each in orphans]
        if self.confirm:
            with branch_lock(self.manifest.location, branch, self.manifest.locks) as held:
                infos = _try_again(partial(find_unneeded, self.manifest, location, infos))
                held.check()
                _delete_in_pieces(self.manifest.objects, infos)
        for info in infos:
            yield Reclaimed(ReclaimKind.STAGED, 1, info.size)

    def _delete_branch_leftovers(self, location: str, orphans: Sequence[OrphanFile]) -> Iterator[Reclaimed]:
        """Delete files in folders of deleted branches, unless such a branch was created again meanwhile."""
        waiting = list(orphans)
        while waiting:
            batch, waiting = waiting[:_OBJECTS_AT_ONCE], waiting[_OBJECTS_AT_ONCE:]
            if not self.confirm:
                yield from (Reclaimed(each.kind, 1, each.info.size) for each in batch)
                continue
            with self.turns.take() as refs:
                # The first writer to a new branch removes what an earlier one of the name has left.
                live = tuple(f"{location}/tree/{name}/" for name in branch_names(self.manifest))
                gone = [each for each in batch if not each.info.path.startswith(live)]
                refs.check()
                self.manifest.objects.delete_all([each.info.path for each in gone])
            yield from (Reclaimed(each.kind, 1, each.info.size) for each in gone)


def _is_of_branch(orphan: OrphanFile) -> bool:
    return orphan.kind is ReclaimKind.FORKS


def _delete_in_pieces(objects: Objects, files: Sequence[ObjectInfo]) -> None:
    for start in range(0, len(files), _OBJECTS_AT_ONCE):
        objects.delete_all([info.path for info in files[start : start + _OBJECTS_AT_ONCE]])


def _try_again(read: Callable[[], Result]) -> Result:
    """Read without a lock. A branch that is deleted, or another cleanup, can take away what is being read."""
    for _ in range(_TRIES - 1):
        try:
            return read()
        except (NotFoundError, StorageError):
            continue
    return read()


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

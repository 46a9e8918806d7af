"""Giving space back: versions that no kept commit needs, forks of branches that are gone, files that nobody committed.

It looks first and deletes only when it is told to, under the refs lock, so that no branch or tag comes to need what is
about to go. Writers and readers go on: nothing goes that a live branch shows, or that was the newest an hour ago.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from omnigraph.errors import NotFound, ParameterError
from omnigraph.maintain.orphans import (
    STALE_AFTER,
    DatasetFiles,
    OrphanFile,
    ReclaimKind,
    find_dead_loads,
    find_orphans,
    list_dataset_files,
    sum_file_sizes,
)
from omnigraph.maintain.retention import READER_GRACE, RetentionPlan, RetentionPolicy, plan_retention
from omnigraph.manifest.branches import names_any
from omnigraph.manifest.handle import DIRECTORY, Manifest, branch_names
from omnigraph.manifest.opening import SCHEMA_APPLY_LOCK
from omnigraph.manifest.rows import MAIN, TABLE_VERSION
from omnigraph.storage import table_writes as tables
from omnigraph.storage.lance_internals import VERSIONS_FOLDER
from omnigraph.storage.locks import Held, branch_lock, refs_lock
from omnigraph.storage.objects import Objects
from omnigraph.storage.table import BranchRef, Table, freed_by_dropping, open_table, version_numbers
from omnigraph.write.commit import heal, heal_all

DEFAULT_KEEP: Final = 10
_OPERATION: Final = "cleanup"
"""The operation that takes the rows out of a table which nobody shows."""
_AGE: Final = re.compile(r"(\d+)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """How much of one kind went, or would go."""

    kind: ReclaimKind
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a cleanup did, or, if it was not confirmed, would do."""

    confirmed: bool
    commits_kept: int
    commits_gone: int
    """The commits that cannot be read any more, of this cleanup and of earlier ones."""
    reclaimed: tuple[Reclaimed, ...]

    @property
    def bytes(self) -> int:
        """How much space that is."""
        return sum(each.bytes for each in self.reclaimed)


def cleanup(
    manifest: Manifest,
    keep: int | None = DEFAULT_KEEP,
    older_than: timedelta | str | None = None,
    *,
    confirm: bool = False,
    stale_after: timedelta = STALE_AFTER,
    grace: timedelta = READER_GRACE,
) -> Cleaned:
    """Remove what is neither among the newest commits of a branch nor younger, and leftovers that are stale."""
    policy = _policy(keep, older_than, grace)
    heal_all(manifest)
    now = datetime.now(UTC)
    with refs_lock(manifest.location, manifest.locks) as refs:
        stays = plan_retention(manifest, policy, now)
        work = _Cleanup(manifest, refs, stays, now, stale_after, confirm)
        found = list(work.run())
    counts, sizes = Counter[ReclaimKind](), Counter[ReclaimKind]()
    for each in found:
        counts[each.kind] += each.count
        sizes[each.kind] += each.bytes
    reclaimed = tuple(Reclaimed(kind, counts[kind], sizes[kind]) for kind in ReclaimKind if counts[kind])
    return Cleaned(confirm, len(stays.commits), stays.others, reclaimed)


def _policy(keep: int | None, older_than: timedelta | str | None, grace: timedelta) -> RetentionPolicy:
    if keep is None and older_than is None:
        raise ParameterError("cleanup needs to know what stays", hint="give keep, or older_than, or both")
    if keep is not None and keep < 1:
        raise ParameterError(f"keep is {keep}", hint="keep 1 commit of each branch or more: the newest never goes")
    younger_than = parse_age(older_than) if isinstance(older_than, str) else older_than
    if younger_than is not None and younger_than < timedelta(0):
        raise ParameterError(f"older_than is {younger_than}", hint='give an age like "7d" or timedelta(days=7)')
    return RetentionPolicy(keep, younger_than, grace)


def parse_age(text: str) -> timedelta:
    """The age that a text like ``7d`` means."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise ParameterError(f"'{text}' is no age", hint="write a number and s, m, h, d or w, such as 12h or 7d")
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError as error:
        raise ParameterError(f"'{text}' is longer than time itself", hint="write an age like 7d") from error


# --------------------------------------------------------------------------------------------- the work


@dataclass(frozen=True, slots=True)
class _Cleanup:
    """One cleanup, under the refs lock. Unconfirmed it says what it would do."""

    manifest: Manifest
    refs: Held
    stays: RetentionPlan
    now: datetime
    stale_after: timedelta
    confirm: bool

    def run(self) -> Iterator[Reclaimed]:
        """Everything, dataset by dataset; the forks of one before its versions, which they stand on."""
        for table_key, location in self._tables():
            root = open_table(self.manifest.location.join(location), None, None, self.manifest.access)
            yield from self._forks(table_key, location, root)
            yield from self._dropped_table(location, root)
            yield from self._versions(location, root)
            yield from self._leftovers(location)
        yield from self._manifest_versions()
        yield from self._leftovers(DIRECTORY)
        objects, files = find_dead_loads(self.manifest, self.now, self.stale_after)
        yield from self._swept(objects, files)

    def _tables(self) -> list[tuple[str, str]]:
        """Every table that a live branch knows of, dropped or not."""
        found: dict[str, str] = {}
        for name in branch_names(self.manifest):
            found |= {location: key for key, location in self.manifest.view(name).tables.locations.items()}
        there = [(key, location) for location, key in sorted(found.items())]
        return [
            (key, location) for key, location in there if self.manifest.objects.list(f"{location}/{VERSIONS_FOLDER}")
        ]

    # ----------------------------------------------------------------------------------------- forks

    def _forks(self, table_key: str, location: str, root: Table) -> Iterator[Reclaimed]:
        """Forks that the history of no live branch names: their branch is gone, or their writer died."""
        forks = root.branches()
        live = branch_names(self.manifest)
        orphans = [
            name for name in forks if name != SCHEMA_APPLY_LOCK and not _is_named(self.manifest, live, table_key, name)
        ]
        for name in _children_first(forks, orphans):
            size = sum_file_sizes(self.manifest.objects.list(f"{location}/tree/{name}"))
            if name in live:
                if not self._reclaim_of_live(table_key, root, name):
                    continue
            elif self.confirm:
                self.refs.check()
                tables.delete_branch(root, name)
            yield Reclaimed(ReclaimKind.FORKS, 1, size)

    def _reclaim_of_live(self, table_key: str, root: Table, name: str) -> bool:
        """A writer may be about to publish this fork: under the lock of its branch it is known."""
        with branch_lock(self.manifest.location, name, self.manifest.locks) as held:
            heal(self.manifest, held, name)
            if _is_named(self.manifest, [name], table_key, name):
                return False
            if self.confirm:
                held.check()
                self.refs.check()
                tables.delete_branch(root, name)
            return True

    # ----------------------------------------------------------------------------------------- dropped tables

    def _dropped_table(self, location: str, root: Table) -> Iterator[Reclaimed]:
        """A table that no commit shows any more. It stays, without rows: the type may be added again."""
        if self.stays.versions.get(location) or not root.count_rows():
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
            tables.drop_versions(empty, [each for each in version_numbers(empty) if each < empty.version]),
        )

    # ----------------------------------------------------------------------------------------- versions

    def _versions(self, location: str, root: Table) -> Iterator[Reclaimed]:
        stay = self.stays.versions.get(location, frozenset())
        forks = root.branches()
        # A version that a fork was made from Lance would keep, but not the file that says what made it.
        starts = {(ref.parent or MAIN, ref.parent_version) for ref in forks.values()}
        for name in (MAIN, *forks):
            try:
                table = root if name == MAIN else open_table(root.uri, name, None, self.manifest.access)
            except NotFound:
                # The ref of a fork that was never finished: the next write to it makes it anew.
                continue
            shown = self.stays.heads.get((location, name), table.version)
            older = [version for version in version_numbers(table) if version < shown and version not in stay]
            gone = [version for version in older if (name, version) not in starts]
            yield from self._dropped(ReclaimKind.TABLE_VERSIONS, table, gone)

    def _manifest_versions(self) -> Iterator[Reclaimed]:
        for name, first in self.stays.first_manifest_version.items():
            table = self.manifest.open(name)
            gone = [version for version in version_numbers(table) if version < first]
            yield from self._dropped(ReclaimKind.MANIFEST_VERSIONS, table, gone)

    def _dropped(self, kind: ReclaimKind, table: Table, versions: Sequence[int]) -> Iterator[Reclaimed]:
        if not versions:
            return
        if not self.confirm:
            yield Reclaimed(kind, len(versions), freed_by_dropping(table, versions))
            return
        self.refs.check()
        freed = tables.drop_versions(table, versions)
        # Lance keeps what a Lance tag of another program names.
        left = set(version_numbers(table))
        yield Reclaimed(kind, sum(version not in left for version in versions), freed)

    # ----------------------------------------------------------------------------------------- leftovers

    def _leftovers(self, location: str) -> Iterator[Reclaimed]:
        found: DatasetFiles = list_dataset_files(self.manifest, location)
        yield from self._swept(self.manifest.objects, find_orphans(found, self.now, self.stale_after))

    def _swept(self, objects: Objects, files: Iterable[OrphanFile]) -> Iterator[Reclaimed]:
        together = list(files)
        if self.confirm and together:
            self.refs.check()
            objects.delete_all([each.info.path for each in together])
        for each in together:
            yield Reclaimed(each.kind, 1, each.info.size)


def _is_named(manifest: Manifest, live: Iterable[str], table_key: str, fork: str) -> bool:
    condition = f"object_type = '{TABLE_VERSION}' AND table_key = '{table_key}' AND table_branch = '{fork}'"
    return any(names_any(manifest, name, condition) for name in live)


def _children_first(forks: dict[str, BranchRef], orphans: Sequence[str]) -> list[str]:
    """The orphans that can go: one that a fork in use was made from has to stay, and so has its own parent."""
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

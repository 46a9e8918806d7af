"""A handle on a graph's manifest. It caches the newest view of each branch and is shared by all threads."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from omnigraph.errors import (
    HistoryGone,
    NotFound,
    NotFoundError,
    OmniGraphError,
    ParameterError,
    PublishContention,
    StorageError,
)
from omnigraph.language.schema import Schema
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest import migrations
from omnigraph.manifest.lineage import build_lineage
from omnigraph.manifest.rows import MAIN, HeadPointer, Row, SchemaHead, encode_rows
from omnigraph.manifest.state import ManifestView, extend_view, find_head_row, newest_fragment_of, read_view
from omnigraph.storage import tables
from omnigraph.storage.durability import PublishedUnsynced, SyncFailed, sync_root
from omnigraph.storage.lance_internals import (
    VERSIONS_FOLDER,
    BranchRef,
    CommitRefused,
    HeadMoved,
    branch_ref_path,
    has_branch_folder,
    has_version_file,
    identify_version_file,
    read_ref_identifier,
)
from omnigraph.storage.location import Location
from omnigraph.storage.locks import LeaseChain, LockSettings
from omnigraph.storage.objects import Objects, make_forked_error
from omnigraph.storage.tables import Access, Table, branch_uri, list_torn_and_rest, open_newest, open_table

if TYPE_CHECKING:
    from omnigraph.manifest.lagging import SchemaLag
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.policy import Policy

DIRECTORY = "__manifest"
COMPACT_AT_FRAGMENTS = 50
COMPACTED_ROWS = 16_384
_LONGEST_GAP: Final = 64
"""A version that follows after fewer missing ones is looked for. Without power durability a cut may leave such gaps."""

_SURELY_KEPT: Final = 1800.0
"""Cleanup keeps what was the newest version within the last hour. Clocks of two machines may differ."""

_MOST_BRANCHES: Final = 256
"""Branches come and go, also through other processes: what is known of so many is kept."""
_MOST_SCHEMAS: Final = 256

Key = TypeVar("Key")
Value = TypeVar("Value")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CommittedTable:
    """A table as this handle committed it: open, with the incarnation of its branch and the time of the commit."""

    table: Table
    incarnation: str | None
    committed_at: float

    def still_exists(self) -> bool:
        """Return whether cleanup has surely not removed the version; where that takes a request, its age decides."""
        if self.table.is_local:
            return has_version_file(branch_uri(self.table.uri, self.table.branch), self.table.version)
        return monotonic() - self.committed_at < _SURELY_KEPT


class Manifest:
    """The manifest of one graph. Views are immutable; only the newest one of each branch is cached.

    It can be pickled: another process opens the same graph, with empty caches.
    """

    def __init__(self, location: Location, access: Access, locks: LockSettings) -> None:
        self.location = location
        self.access = access
        self.locks = locks
        self.objects = Objects(location, access.durability)
        self.uri = location.join(DIRECTORY)
        self.schemas: dict[str, Schema] = {}
        """Cache of schemas by hash; they never change."""
        self.schema_lags: dict[tuple[str, ...], SchemaLag] = {}
        """Cache of what a sequence of schemas changed, by their hashes."""
        self.head_snapshots: dict[str, tuple[ManifestView, Snapshot]] = {}
        """Cache of the snapshot of each branch's head, with the view that it shows. Its tables stay open."""
        self.lease_chains: defaultdict[str, LeaseChain] = defaultdict(LeaseChain)
        """What this handle knows about the lease of each branch."""
        self._committed: dict[tuple[str, str], CommittedTable] = {}
        """The newest version of each table that was committed through this handle, by branch and path."""
        self._views: dict[str, tuple[ManifestView, Table]] = {}
        self._view_files: dict[str, str | None] = {}
        """The identity of the file that each cached view was read from, in a local folder."""
        self._newest_main: Table | None = None
        self.on_crowded: Callable[[str, frozenset[str]], object] | None = None
        """Called after a commit that left many small fragments, with the branch and the keys of the tables."""
        self.on_commit: Callable[[str, frozenset[str]], object] | None = None
        """Called after a commit, without a lock, with the branch and the keys of the tables that it changed."""
        self.on_publish: Callable[[], object] | None = None
        """Called after each publish, under the branch's lock: it must be quick."""
        self.policy: Policy | None = None
        """Asked before each commit. None: whoever holds the files may write."""
        self.examined: set[str] = set()
        """The branches where a writer has looked for what a power cut left."""
        self._torn: dict[str, dict[int, str | None]] = {}
        """The torn versions of each branch, with the identity of their files."""
        self._synced: dict[str, tuple[str | None, int]] = {}
        """The version of each branch that is surely on the disk."""
        self._pid = os.getpid()
        self._sync_failure: SyncFailed | None = None
        """The failed sync after a publish: the published files may not be on the disk."""
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.location, self.access, self.locks)

    def open(self, branch: str, version: int | None = None) -> Table:
        """Open the manifest's table on a branch and check its format; the newest version unless one is given."""
        self.refuse_forked()
        newest = self._newest_main
        try:
            if (branch, version) == (MAIN, None) and newest is not None and not newest.has_successor():
                # A separate handle: Lance does not allow two threads to use one while it deletes a branch.
                return newest.open_at(newest.version)
            table = self._open_newest(branch) if version is None else open_table(self.uri, branch, version, self.access)
        except NotFound as missing:
            raise self._explain_missing(branch, version) from missing
        except HistoryGone as gone:
            raise HistoryGone(
                f"manifest version {version} of branch '{branch}' was removed by cleanup",
                hint="choose a newer commit; a tag or a branch keeps a commit from cleanup",
                details={"branch": branch, "manifest_version": version},
            ) from gone
        migrations.refuse_unsupported_format(migrations.stamp_of(table), self.location)
        if (branch, version) == (MAIN, None):
            self._newest_main = table
        return table

    def _open_newest(self, branch: str) -> Table:
        """Open the newest version of a branch that no power cut tore."""
        while True:
            try:
                return open_newest(self.uri, branch, self.access, partial(self._is_torn, branch))
            except (StorageError, NotFoundError):
                if not self._step_over(branch):
                    raise

    def _step_over(self, branch: str) -> bool:
        """Look for torn versions of a branch, and remember them; return whether there are any that were not known."""
        found, _ = list_torn_and_rest(self.uri, None if branch == MAIN else branch, self.access)
        if all(self._is_torn(branch, version) for version in found):
            return False
        folder = branch_uri(self.uri, branch)
        self._torn[branch] = {version: identify_version_file(folder, version) for version in found}
        self.forget(branch)
        return True

    def _is_torn(self, branch: str, version: int) -> bool:
        known = self._torn.get(branch, {}).get(version)
        # Another process may have discarded it, and made a new one of this number.
        return known is not None and known == identify_version_file(branch_uri(self.uri, branch), version)

    def list_versions_after(self, view: ManifestView) -> list[int]:
        """Return the versions after the newest one that is whole, newest first. The caller holds the branch's lock."""
        folder = branch_uri(self.uri, view.branch)
        ahead = range(view.version + 1, view.version + 1 + _LONGEST_GAP)
        return [version for version in reversed(ahead) if has_version_file(folder, version)]

    def read_stepping_over(self, branch: str, read: Callable[[Table], Result]) -> Result:
        """Read from the newest version of a branch that no power cut tore."""
        while True:
            try:
                return read(self.open(branch))
            except StorageError:
                if not self._step_over(branch):
                    raise

    def view(self, branch: str, *, with_lineage: bool = False) -> ManifestView:
        """Return the current view of a branch. If nothing changed this costs one check for a newer version."""
        self.refuse_forked()
        while True:
            incarnation = self.read_incarnation(branch)
            self._forget_replaced_folder(branch)
            kept = self._kept(branch)
            try:
                view, table = self._read(branch, incarnation, kept, with_lineage=with_lineage)
            except OmniGraphError as error:
                # A branch that is deleted meanwhile can fail the read anywhere; its ref tells.
                if self.read_incarnation(branch) == incarnation and not self._step_over(branch):
                    raise self._explain_lost(branch, error) from error
                continue
            if branch == MAIN and kept is not None and view is kept[0]:
                # Main is kept whatever was used last.
                return view
            # A read during a re-creation of the branch may mix both.
            if (kept is not None and view is kept[0]) or self.read_incarnation(branch) == incarnation:
                return self._keep(view, table)

    def assume_view(self, branch: str) -> ManifestView | None:
        """Return the cached view of a branch if nobody else is known to have held its lock since, without a look.

        Whoever relies on it takes the lock later, which tells whether that was so.
        """
        chain = self.lease_chains.get(branch)
        return None if chain is None or chain.tag is None else self.cached_view(branch)

    def cached_view(self, branch: str) -> ManifestView | None:
        """Return the newest view of a branch that this handle read or made, with or without lineage."""
        kept = self._kept(branch)
        return None if kept is None else kept[0]

    def keep_committed(self, view: ManifestView, committed: Sequence[Table]) -> None:
        """Keep the tables that were just committed open: most likely they are the next to be read."""
        now = monotonic()
        for table in committed:
            self._committed[view.branch, table.uri] = CommittedTable(table, view.incarnation, now)

    def committed_tables(self, view: ManifestView) -> list[Table]:
        """Return the tables that were committed through this handle on a branch, which a view may show."""
        found = tuple(self._committed.items())
        return [
            kept.table for (branch, _), kept in found if branch == view.branch and kept.incarnation == view.incarnation
        ]

    def find_committed(self, uri: str, version: int) -> Table | None:
        """Return a version of a table of main that was committed through this handle, if it surely still exists."""
        # Main is never re-created, so a number there means one version.
        kept = self._committed.get((MAIN, uri))
        return kept.table if kept is not None and kept.table.version == version and kept.still_exists() else None

    def _read(
        self, branch: str, incarnation: str | None, kept: tuple[ManifestView, Table] | None, *, with_lineage: bool
    ) -> tuple[ManifestView, Table]:
        has_moved = kept is None or kept[0].incarnation != incarnation or kept[1].has_successor()
        if kept is not None and not has_moved:
            table = kept[1]
            view = extend_view(kept[0], table, with_lineage=with_lineage)
        elif kept is not None and kept[0].incarnation == incarnation and self._can_extend(kept[1]):
            table = self.open(branch)
            view = extend_view(kept[0], table, with_lineage=with_lineage)
        else:
            table = self.open(branch)
            view = read_view(table, branch, incarnation, with_lineage=with_lineage)
        return self._add_legacy_history(view, table), table

    def _can_extend(self, table: Table) -> bool:
        """Return whether a view can be extended. Below format 4 a migration would add its history a second time."""
        return migrations.stamp_of(table) >= migrations.LINEAGE_IN_MANIFEST

    def view_at(self, branch: str, version: int) -> ManifestView:
        """Return the view of a branch at a version, without lineage."""
        return read_view(self.open(branch, version), branch, self.read_incarnation(branch), with_lineage=False)

    def _add_legacy_history(self, view: ManifestView, table: Table) -> ManifestView:
        """Add the history of a graph below format 4, which is in other tables, for readers that may not migrate it."""
        known = view.newest if view.lineage is None else view.lineage.rows
        if len(known) or migrations.stamp_of(table) >= migrations.LINEAGE_IN_MANIFEST:
            return view
        commits = migrations.read_legacy_commits(self, view.branch)
        shown = [commit for commit in commits if commit.manifest_version <= view.version]
        lineage = build_lineage(shown)
        return replace(view, newest=lineage.rows, newest_data=lineage.rows, lineage=lineage)

    def writable_view(self, branch: str) -> ManifestView:
        """Return a fresh view with lineage as the basis of a publish; an older format is migrated first."""
        view = self.view(branch, with_lineage=True)
        if migrations.stamp_of(self._table(view)) == migrations.CURRENT:
            return view
        migrations.migrate(self, branch)
        return self.view(branch, with_lineage=True)

    def merge_rows(self, view: ManifestView, rows: Sequence[Row]) -> ManifestView:
        """Merge rows into the manifest on top of a view. Raises ``PublishContention`` if another publish was faster."""
        before = self._table(view)
        head_row = self._find_replaced_row(view, before, rows)
        if head_row is None:
            table = tables.merge_rows(before, encode_rows(rows), on="object_id")
        else:
            table = tables.replace_row(before, head_row, encode_rows(rows))
        if table.version == view.version + 1:
            merged = view.add_published(table, rows)
            if head_row is not None:
                merged = replace(merged, head_row=(merged.newest_fragment << 32) + len(rows) - 1)
        else:
            merged = extend_view(view, table, with_lineage=True)
        self._sync_published()
        self._synced[view.branch] = (view.incarnation, merged.version)
        if self.on_publish is not None:
            self.on_publish()
        return self._keep(merged, table)

    def _find_replaced_row(self, view: ManifestView, table: Table, rows: Sequence[Row]) -> int | None:
        """Return the address of the only row that a publish replaces, the head row; None if it may replace others.

        To replace one row is cheaper than to merge, which reads the keys of all rows.
        """
        *others, last = rows
        is_usual = isinstance(last, HeadPointer) and last.branch == view.branch and table.has_stable_row_ids
        if not is_usual or not all(view.is_new(row) for row in others):
            return None
        return find_head_row(table, view.branch) if view.head_row is None else view.head_row

    def should_compact(self, view: ManifestView) -> bool:
        """Return whether the manifest has too many small fragments: each publish adds one, and they slow it down."""
        rows = self._table(view).fragment_rows().values()
        return sum(count < COMPACTED_ROWS for count in rows) >= COMPACT_AT_FRAGMENTS

    def compact(self, view: ManifestView) -> ManifestView:
        """Compact the manifest on a branch, under its lock, and return the view at the new version.

        Large fragments stay, so the cost does not grow with history.
        """
        table = self._table(view)
        staged = tables.compact(table, COMPACTED_ROWS)
        if staged is None:
            return view
        try:
            table = tables.commit(table, staged, operation_id="manifest.compact")
        except (CommitRefused, HeadMoved) as lost:
            raise PublishContention(f"the manifest moved while it was compacted: {lost}") from lost
        self._sync_published()
        newest = newest_fragment_of(table)
        return self._keep(replace(view, version=table.version, newest_fragment=newest, head_row=None), table)

    def sync(self) -> None:
        """Return when everything written through this handle is on the disk, if it is to survive a power cut."""
        if self.access.barrier is not None:
            self.access.barrier.wait()

    def _sync_published(self) -> None:
        """Sync files that are visible already. If that fails, this handle writes no more: its basis may be lost."""
        try:
            self.sync()
        except SyncFailed as failed:
            self._sync_failure = failed
            raise PublishedUnsynced(failed.message, hint=failed.hint, details=failed.details) from failed

    def refuse_forked(self) -> None:
        """Raise ``ForkedProcess`` in a child of the process that made this handle, which lacks the parent's threads."""
        if self._pid != os.getpid():
            raise make_forked_error(self._pid, str(self.location))

    def check_can_write(self) -> None:
        """Raise ``ForkedProcess``, or ``StorageError`` if files that this handle published could not be synced."""
        self.refuse_forked()
        failed = self._sync_failure
        if failed is not None:
            raise StorageError(
                f"the last commit of this handle may not be on the disk, so it writes no more: {failed.message}",
                hint="look at the disk, then open the graph again",
                details=failed.details,
            )

    def sync_root(self) -> None:
        """Sync the name of the graph's folder itself."""
        if self.access.barrier is not None:
            sync_root(self.location.base)

    def sync_basis(self, view: ManifestView) -> None:
        """Sync the manifest version that a publish builds on, if another process made it and may have died.

        So a version that has a successor is always on the disk, and only the newest can be lost or torn.
        """
        if self.access.barrier is None or self._synced.get(view.branch) == (view.incarnation, view.version):
            return
        tables.note_version(self._table(view))
        self.sync()
        self._synced[view.branch] = (view.incarnation, view.version)

    def read_incarnation(self, branch: str) -> str | None:
        """Return the identity of a branch, which differs after a re-creation; None for main."""
        if branch == MAIN:
            return None
        path = branch_ref_path(branch)
        data = None if path is None else self.objects.get(f"{DIRECTORY}/{path}")
        if data is None:
            raise self._explain_missing(branch, None)
        try:
            return read_ref_identifier(data)
        except ValueError as error:
            raise StorageError(
                f"the ref of branch '{branch}' is damaged",
                hint=f"restore {DIRECTORY}/{path} from a copy, or create the branch again if nothing was written to it",
                details={"branch": branch},
            ) from error

    def list_refs(self) -> dict[str, BranchRef]:
        """Return the refs of all branches but main, by name.

        Refs that a power cut left without content or without a folder are left out, unless the branch has commits:
        then the error names it.
        """
        main = self.open(MAIN)
        try:
            refs = main.list_branches()
        except StorageError:
            for name in main.list_damaged_refs():
                if self._has_own_commits(name):
                    self.read_incarnation(name)
            refs = main.list_forks()
        if not self.location.is_local:
            return refs
        return {name: ref for name, ref in refs.items() if has_branch_folder(self.uri, name)}

    def _has_own_commits(self, branch: str) -> bool:
        """Return whether anything was ever published on a branch, whatever became of its ref."""
        try:
            return open_table(self.uri, branch, None, self.access).count_rows(f"object_id = 'graph_head:{branch}'") > 0
        except NotFound:
            return False

    def current_schema(self) -> SchemaHead | None:
        """Return the current schema of the graph; None for a graph of 0.8 that was never written here.

        Read it once for what belongs together: the next call may find a newer one.
        """
        return self.view(MAIN).tables.schema_head

    def schema_hash(self) -> str | None:
        """Return the hash of the graph's current schema; None for a graph of 0.8 that was never written here."""
        head = self.current_schema()
        return None if head is None else head.schema_ir_hash

    def start_over(self) -> None:
        """Forget everything that this handle and Lance have cached of the graph.

        Call it before anything is discarded. The folder may have been replaced by a copy, so a cache can be wrong
        about it.
        """
        self.access = self.access.with_empty_caches()
        self._torn.clear()
        self._synced.clear()
        self.forget_all()

    def _forget_replaced_folder(self, branch: str) -> None:
        """Start over if the file of the cached view was replaced."""
        kept = self._kept(branch)
        if kept is None or not self.location.is_local:
            return
        if self._view_files.get(branch) != self._identify_file(kept[0]):
            self.examined.clear()
            self.start_over()

    def _identify_file(self, view: ManifestView) -> str | None:
        if not self.location.is_local:
            return None
        return identify_version_file(branch_uri(self.uri, view.branch), view.version)

    def forget_all(self) -> None:
        """Drop the cached views of all branches."""
        with self._guard:
            self.head_snapshots.clear()
            self._committed.clear()
            self._views.clear()
            self._newest_main = None

    def make_room(self, rows: int) -> None:
        """Let Lance keep what it needs for a graph of so many rows. Tables are opened anew if that is more."""
        access = self.access.with_room_for(rows)
        if access is not self.access:
            self.access = access
            self.forget_all()

    def keep_schema(self, schema: Schema) -> None:
        """Keep a schema that was read; those that were read first are forgotten first."""
        _keep_newest(self.schemas, schema.hash, schema)

    def keep_schema_lag(self, hashes: tuple[str, ...], lag: SchemaLag) -> None:
        """Keep what a sequence of schemas changed."""
        _keep_newest(self.schema_lags, hashes, lag)

    def forget_branch(self, branch: str) -> None:
        """Drop everything that is known of a branch: it is deleted, or was not used for long."""
        self.forget(branch)
        self.lease_chains.pop(branch, None)
        self.examined.discard(branch)
        self._torn.pop(branch, None)
        self._synced.pop(branch, None)
        self._view_files.pop(branch, None)

    def forget(self, branch: str) -> None:
        """Drop the cached view of a branch."""
        with self._guard:
            self.head_snapshots.pop(branch, None)
            for key in [key for key in tuple(self._committed) if key[0] == branch]:
                self._committed.pop(key, None)
            self._views.pop(branch, None)
            if branch == MAIN:
                self._newest_main = None

    def _table(self, view: ManifestView) -> Table:
        kept = self._kept(view.branch)
        if kept is not None and kept[0] is view:
            return kept[1]
        return self.open(view.branch, view.version)

    def _kept(self, branch: str) -> tuple[ManifestView, Table] | None:
        with self._guard:
            return self._views.get(branch)

    def _keep(self, view: ManifestView, table: Table) -> ManifestView:
        file = self._identify_file(view)
        with self._guard:
            # The one that was used last comes last.
            self._views.pop(view.branch, None)
            self._views[view.branch] = (view, table)
            self._view_files[view.branch] = file
            if view.branch == MAIN:
                self._newest_main = table
            surplus = len(self._views) - _MOST_BRANCHES
            unused = [name for name in self._views if name != MAIN][:surplus] if surplus > 0 else []
        for name in unused:
            self.forget_branch(name)
        return view

    def _explain_lost(self, branch: str, error: OmniGraphError) -> OmniGraphError:
        """Return the error for a view that cannot be read: its folder may be gone with everything that was cached."""
        return self._explain_missing(branch, None) if isinstance(error, NotFound) else error

    def _explain_missing(self, branch: str, version: int | None) -> NotFound:
        if (branch, version) == (MAIN, None) or not self.objects.list(f"{DIRECTORY}/{VERSIONS_FOLDER}"):
            if self.objects.head("_schema.pg") is not None:
                return unfinished_graph(self.location)
            return NotFound(f"there is no graph at {self.location}", hint="make one with `omnigraph init`")
        if version is None:
            return missing_branch(self.location, branch)
        return NotFound(f"branch '{branch}' has no manifest version {version}", hint="choose a newer commit")


def _keep_newest(kept: dict[Key, Value], key: Key, value: Value) -> None:
    kept[key] = value
    if len(kept) > _MOST_SCHEMAS:
        kept.pop(next(iter(kept)), None)


def branch_names(manifest: Manifest) -> list[str]:
    """Return the names of all branches: main first, then the others by name."""
    return [MAIN, *public_names(manifest.list_refs())]


def public_names(refs: Iterable[str]) -> list[str]:
    """Return the names of refs that are branches of the graph, sorted."""
    return sorted(name for name in refs if not name.startswith("__"))


def refuse_file(location: Location) -> None:
    """Refuse a location that is a file."""
    if location.is_local and Path(location.base).is_file():
        raise ParameterError(f"{location} is a file; a graph is a folder", hint="give the folder of the graph")


def unfinished_graph(location: Location) -> NotFound:
    """Return the error for a graph whose init was interrupted."""
    return NotFound(
        f"the graph at {location} is unfinished: its init was interrupted",
        hint="run `omnigraph init` again with the same schema",
    )


def missing_branch(location: Location, branch: str, creating: str | None = None) -> NotFound:
    """Return the error for a branch that is not there. ``creating`` is an argument of the caller that creates it."""
    hint = "`omnigraph branch list` shows them"
    if creating is not None:
        hint = f'give {creating}="main" to create it; {hint}'
    return NotFound(f"no branch '{branch}' in {location}", hint=hint, details={"branch": branch})

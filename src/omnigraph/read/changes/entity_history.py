"""The history of one entity: the commits that changed it, newest first.

Only commits that moved the table of its type are looked at. Between two of them the entity is the same, so each costs
one lookup.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import cast

from omnigraph.deadlines import check_deadline
from omnigraph.errors import HistoryGone, NotFound, ParameterError
from omnigraph.language.schema import EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.lineage import CREATED_VERSION
from omnigraph.manifest.references import Reference, take_snapshot
from omnigraph.manifest.rows import TABLE_VERSION, CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes.compare_rows import Op
from omnigraph.read.changes.diff import EntityChange
from omnigraph.read.rows import Key, blob_properties_of, get_entity, read_blob, require_type, resolve_id

_Image = Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class EntityRevision:
    """What one commit changed of an entity."""

    commit: Commit
    change: EntityChange


def read_entity_history(
    manifest: Manifest, name: str, key: Key, branch: str, at: Reference | None, limit: int, before: str | None
) -> list[EntityRevision]:
    """Return the commits that changed an entity, newest first; ``before`` is the last commit of the page before.

    The list ends where cleanup has removed the versions of the table.
    """
    if limit < 0:
        raise ParameterError(f"limit is {limit}", hint="give a number of commits, 0 or more")
    now = take_snapshot(manifest, branch, at)
    type_ = require_type(now.catalog(), name)
    walk = _HistoryWalk(manifest, type_, resolve_id(type_, key))
    return list(islice(walk.list_revisions(now, before), min(limit, sys.maxsize)))


@dataclass(frozen=True, slots=True)
class _HistoryWalk:
    manifest: Manifest
    type: NodeType | EdgeType
    id: str

    def list_revisions(self, now: Snapshot, before: str | None) -> Iterator[EntityRevision]:
        newer: CommitRecord | None = None
        after: _Image = None
        try:
            for commit in self._list_candidates(now, before):
                check_deadline()
                image = self._read_image(take_snapshot(self.manifest, now.branch, commit.id))
                if newer is not None and not _is_same(image, after):
                    yield self._to_revision(newer, image, after)
                newer, after = commit, image
        except HistoryGone:
            # What the oldest commit that is left has changed cannot be told.
            return
        if newer is not None and after is not None:
            yield self._to_revision(newer, None, after)

    def _list_candidates(self, now: Snapshot, before: str | None) -> Iterator[CommitRecord]:
        """Yield the commits up to a snapshot that moved the table, newest first."""
        view = self.manifest.view(now.branch, with_lineage=True)
        last = before or (None if now.commit is None else now.commit.id)
        start = None if last is None else view.history.find(last)
        if start is None:
            raise NotFound(f"commit {last} is not in the history of '{now.branch}'", hint="give a commit of the branch")
        moved = self._list_versions(now.branch)
        for commit in view.history.list_newest_first():
            is_older = commit.order < start.order or (before is None and commit.id == start.id)
            if is_older and not commit.upkeep and (moved is None or commit.manifest_version in moved):
                yield commit

    def _list_versions(self, branch: str) -> set[int] | None:
        """Return the versions of the manifest that moved the table; None if an old graph does not tell."""
        table = self.manifest.open(branch)
        if not table.has_stable_row_ids:
            return None
        condition = f"object_type = '{TABLE_VERSION}' AND table_key = '{self.type.table_key}'"
        rows = table.scan(columns=[CREATED_VERSION], filter=condition).read_all()
        return {int(version) for version in cast("list[int]", rows.column(CREATED_VERSION).to_pylist())}

    def _read_image(self, snapshot: Snapshot) -> _Image:
        """Return the properties of the entity at a commit; None if it is not there."""
        catalog = snapshot.catalog()
        type_ = next((each for each in catalog.types() if each.table_key == self.type.table_key), None)
        if type_ is None or type_.table_key not in snapshot.pins:
            return None
        found = get_entity(snapshot, catalog, type_.table_key, self.id)
        if found is None:
            return None
        blobs = {
            name: read_blob(snapshot, catalog, type_.table_key, self.id, name, 0, None)
            for name in blob_properties_of(type_)
        }
        return {name: value for name, value in {**found, **blobs}.items() if name != "id"}

    def _to_revision(self, commit: CommitRecord, before: _Image, after: _Image) -> EntityRevision:
        op = Op.INSERTED if before is None else Op.DELETED if after is None else Op.UPDATED
        key = TableKey(self.type.table_key)
        change = EntityChange(key.kind, key.type_name, self.id, op, before, after, _list_changed(before, after))
        return EntityRevision(to_commit(commit), change)


def _is_same(one: _Image, other: _Image) -> bool:
    # A property that a schema change added, and nobody has set, is no change of the entity.
    return (one is None) == (other is None) and not _list_changed(one, other)


def _list_changed(before: _Image, after: _Image) -> tuple[str, ...]:
    """Return the names of the properties that differ, if the entity is in both."""
    if before is None or after is None:
        return ()
    # By their texts: NaN is the same as NaN here.
    names = dict.fromkeys((*after, *before))
    return tuple(name for name in names if repr(before.get(name)) != repr(after.get(name)))

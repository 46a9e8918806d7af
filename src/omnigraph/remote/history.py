"""Verbs that describe a graph on a server and its history: commits, snapshots, diffs and changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.errors import Json, ParameterError
from omnigraph.graph import GraphInfo
from omnigraph.language.schema import Schema
from omnigraph.manifest.commit_list import CommitList
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read import rows
from omnigraph.read.changes import ChangeBlock, Changes, Diff, EntityRevision
from omnigraph.remote.base import RemoteBase, list_objects, place_of, txn_text
from omnigraph.remote.connection import Fields
from omnigraph.remote.json_records import to_record
from omnigraph.remote.results import RemoteChanges, RemoteDiff, to_revision
from omnigraph.remote.wire_values import refuse_given, to_commit_of_wire, to_path_part, to_reference_text

if TYPE_CHECKING:
    from omnigraph.analytics import Analysis

_COMMIT_ID_LENGTH = 26
_PAGE = 1_000


@observe_timeouts
@check_calls
class RemoteHistory(RemoteBase):
    """Describe a graph on a server and its history."""

    def info(self) -> GraphInfo:
        """Return location, format, branches, newest commit, and row counts on main."""
        found = self._connection.read("")
        head = cast("Mapping[str, Json] | None", found["head"])
        return GraphInfo(
            self.uri,
            "ro" if found["read_only"] else self.mode,
            cast(int, found["format"]),
            cast("str | None", found["schema_ir_hash"]),
            tuple(cast("Sequence[str]", found["branches"])),
            None if head is None else to_commit_of_wire(head),
            cast("Mapping[str, int]", found["nodes"]),
            cast("Mapping[str, int]", found["edges"]),
        )

    def commits(
        self,
        branch: str = MAIN,
        limit: int | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        upkeep: bool = False,
    ) -> CommitList:
        """List the commits of a branch, newest first; with ``upkeep`` also those that changed no row."""
        query: dict[str, Json] = {"branch": branch, "actor": actor, "upkeep": upkeep or None}
        query |= {"since": to_reference_text(since), "until": to_reference_text(until)}
        return self._list_commits("commits", query, limit)

    def ancestry(self, branch: str | None = None, limit: int | None = None, *, upkeep: bool = False) -> CommitList:
        """List all commits, or the ancestors of one branch with merged ones: newest first, children before parents."""
        return self._list_commits("ancestry", {"branch": branch, "upkeep": upkeep or None}, limit)

    def _list_commits(self, path: str, query: Mapping[str, Json], limit: int | None) -> CommitList:
        if limit is not None and limit < 0:
            raise ParameterError(f"limit is {limit}", hint="give the number of commits to list")
        commits = CommitList()
        before: Json = None
        while limit is None or len(commits) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(commits))
            found = self._connection.read(path, {**query, "limit": wanted, "before": before})
            commits += [to_commit_of_wire(each) for each in list_objects(found, "commits")]
            before = found["next"]
            if before is None:
                break
        for commit in commits:
            self._remember(commit)
        return commits

    def commit(self, ref: Reference) -> Commit:
        """Return one commit: by id or tag, or the newest at a version or time of main."""
        text = to_reference_text(ref)
        assert text is not None, "a reference was given"
        if len(text) == _COMMIT_ID_LENGTH and text.isalnum():
            return self._find_commit_by_id(text)
        return to_commit_of_wire(self._connection.read(f"commits/{to_path_part(text)}"))

    def find_commit(
        self,
        branch: str = MAIN,
        *,
        txn: tuple[str, int] | None = None,
        key: str | None = None,
        actor: str | None = None,
    ) -> Commit | None:
        """Return the commit that a write with this ``txn`` or key has made on a branch; None if there is none."""
        refuse_given("a key belongs to the actor of the token", actor=actor)
        if (txn is None) == (key is None):
            raise ParameterError("a write is found by its txn or by its key", hint="give one of them")
        found = self._connection.read("commits", {"branch": branch, "txn": txn_text(txn), "key": key})
        return next((to_commit_of_wire(each) for each in list_objects(found, "commits")), None)

    def snapshot(self, branch: str = MAIN, at: Reference | None = None) -> Snapshot:
        """Return a snapshot: the newest, or the one at a commit, a manifest version or a time."""
        return self._take_snapshot(branch, at)

    def schema_at(self, ref: Reference, branch: str = MAIN) -> Schema:
        """Return the schema at a commit, a version, a time or a tag."""
        return self._schema_for(branch, ref)

    def history(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  as in the base
        *,
        branch: str = MAIN,
        at: Reference | None = None,
        limit: int = 50,
        before: str | None = None,
        timeout: Timeout = None,
    ) -> list[EntityRevision]:
        """Return the commits that changed a node or an edge, newest first, with what each of them changed."""
        type_ = rows.require_type(self._schema_for(branch, at).catalog, name)
        query: dict[str, Json] = {
            "entity": type_.table_key.kind,
            "type": type_.name,
            "id": rows.resolve_id(type_, id),
            "limit": limit,
            "before": before,
            **place_of(branch, at),
        }
        found = self._connection.read("entity/history", query)
        return [to_revision(type_, str(query["id"]), each) for each in list_objects(found, "entries")]

    def diff(
        self,
        a: Reference,
        b: Reference | None = None,
        *,
        types: Collection[str] | None = None,
        branch: str = MAIN,
        tips: bool = False,
        timeout: Timeout = None,
    ) -> Diff:
        """Compare A with B: each a branch, a commit, a tag, or a version or time of ``branch``."""
        query: dict[str, Json] = {"a": to_reference_text(a), "b": to_reference_text(b), "branch": branch}
        if tips:
            query["tips"] = True
        if types is not None:
            query["type"] = list(types)
        return self._open_diff(query)

    def _open_diff(self, query: Mapping[str, Json]) -> RemoteDiff:
        heading = self._connection.read("diff", query)
        before, after = (self._snapshot_of(cast("Fields", heading[side])) for side in ("before", "after"))
        pinned: dict[str, Json] = {"a": before.commit and before.commit.id, "b": after.commit and after.commit.id}
        return RemoteDiff(self._connection, {**query, **pinned, "commit": None, "tips": None}, before, after)

    def _snapshot_of(self, found: Fields) -> Snapshot:
        return self._take_snapshot(str(found["branch"]), cast("str | None", found["commit"]))

    def changes(
        self,
        start: str | None = None,
        cursor: str | None = None,
        *,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        timeout: Timeout = None,
    ) -> Changes:
        """Follow changes commit by commit, from ``"now"``, the ``"beginning"``, ``"after:REF"``, or a cursor."""
        chosen: Json = None if types is None else list(types)
        query: dict[str, Json] = {"branch": branch, "start": start, "cursor": cursor, "type": chosen}

        def make_diff(commit: Commit) -> Diff:
            # The first commit has no parent; it makes the tables, which are empty.
            before = commit.parents[0] if commit.parents else commit.id
            return self._open_diff({"a": before, "b": commit.id, "branch": commit.branch, "type": chosen})

        return RemoteChanges(self._connection, query, make_diff)

    def baseline(
        self,
        at: Reference | None = None,
        *,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        timeout: Timeout = None,
    ) -> ChangeBlock:
        """Return all entities at a commit as one block of insertions, with the cursor to follow changes from."""
        query: dict[str, Json] = {**place_of(branch, at), "type": None if types is None else list(types)}
        path = "changes/baseline"
        found = self._connection.read(path, query)
        after = self._take_snapshot(branch, str(found["commit"]))
        pinned: dict[str, Json] = {**query, "at": after.commit and after.commit.id}
        diff = RemoteDiff(self._connection, pinned, replace(after, pins={}), after, path)
        return ChangeBlock(self._find_commit_by_id(str(found["commit"])), str(found["cursor"]), diff)

    def analyses(self, branch: str = MAIN, *, timeout: Timeout = None) -> list[Analysis]:
        """List the results of algorithms that were written on a branch, newest first, and whether they are stale."""
        # A late import: few processes look at analyses.
        from omnigraph.analytics import Analysis

        found = self._connection.read("analyses", {"branch": branch})
        return [to_record(Analysis, each) for each in list_objects(found, "analyses")]

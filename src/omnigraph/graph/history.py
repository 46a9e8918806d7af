"""Verbs that describe a graph and its history: commits, snapshots, diffs and changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.graph.base import GraphBase, Mode
from omnigraph.language.schema import Schema
from omnigraph.late_imports import LateModule
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest import contract, handle, history, opening, references
from omnigraph.manifest.commit_list import CommitList
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    from omnigraph.read import changes
    from omnigraph.read.changes import ChangeBlock, Changes, Diff, EntityRevision
    from omnigraph.read.rows import Key
    from omnigraph.write import commit
else:
    # Most processes use a few verbs: the rooms of the others need not be imported.
    changes = LateModule("omnigraph.read.changes")
    commit = LateModule("omnigraph.write.commit")


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """What ``Graph.info`` returns: location, format, branches, newest commit, and row counts on main."""

    uri: str
    mode: Mode
    format: int
    schema_ir_hash: str | None
    branches: tuple[str, ...]
    head: Commit | None
    nodes: Mapping[str, int]
    edges: Mapping[str, int]


@observe_timeouts
@check_calls
class HistoryVerbs(GraphBase):
    """Describe a graph and its history."""

    def info(self) -> GraphInfo:
        """Return location, format, branches, newest commit, and row counts on main.

        Examples:
            >>> graph.info().edges
            {'Knows': 2}
        """
        now = self.snapshot()
        counts = {(pin.kind, pin.type_name): pin.row_count for pin in now.pins.values()}
        return GraphInfo(
            self.uri,
            self.mode,
            opening.format_version_of(self._manifest),
            now.schema_ir_hash,
            tuple(handle.branch_names(self._manifest)),
            now.commit,
            {name: count for (kind, name), count in counts.items() if kind == "node"},
            {name: count for (kind, name), count in counts.items() if kind == "edge"},
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
        """List the commits of a branch, newest first; with ``upkeep`` also those that changed no row.

        Examples:
            >>> [commit.message for commit in graph.commits(limit=1)]
            ['three people']
        """
        found = history.list_commits(
            self._manifest, branch, limit=limit, actor=actor, since=since, until=until, upkeep=upkeep
        )
        return CommitList(found)

    def ancestry(self, branch: str | None = None, limit: int | None = None, *, upkeep: bool = False) -> CommitList:
        """List all commits, or the ancestors of one branch with merged ones: newest first, children before parents.

        Examples:
            >>> len(graph.ancestry("review")) > len(graph.commits())
            True
        """
        return CommitList(history.list_ancestry(self._manifest, branch, limit, upkeep=upkeep))

    def commit(self, ref: Reference) -> Commit:
        """Return one commit: by id or tag, or the newest at a version or time of main.

        Examples:
            >>> graph.commit("june") == graph.commits()[0]
            True
        """
        return history.to_commit(references.commit_at(self._manifest, ref))

    def find_commit(
        self,
        branch: str = MAIN,
        *,
        txn: tuple[str, int] | None = None,
        key: str | None = None,
        actor: str | None = None,
    ) -> Commit | None:
        """Return the commit that a write with this ``txn`` or key has made on a branch; None if there is none.

        A key belongs to the actor of the write, and is known for a day.

        Examples:
            >>> graph.find_commit(txn=("nightly", 1)) is None
            True
        """
        can_heal = self.mode == "rw"
        found = commit.find_written(self._manifest, branch, txn, key, actor or self.actor, can_heal=can_heal)
        return None if found is None else history.to_commit(found)

    def snapshot(self, branch: str = MAIN, at: Reference | None = None) -> Snapshot:
        """Return a snapshot: the newest, or the one at a commit, a manifest version or a time.

        Examples:
            >>> graph.snapshot("review").pin("Person").row_count
            4
        """
        return references.take_snapshot(self._manifest, branch, at)

    def schema_at(self, ref: Reference, branch: str = MAIN) -> Schema:
        """Return the schema at a commit, a version, a time or a tag.

        Examples:
            >>> sorted(graph.schema_at("june").catalog.nodes)
            ['Person']
        """
        return contract.load_schema_of(self._manifest, self.snapshot(branch, ref).schema_ir_hash)

    def history(
        self,
        name: str,
        id: Key,  # noqa: A002  as in get
        *,
        branch: str = MAIN,
        at: Reference | None = None,
        limit: int = 50,
        before: str | None = None,
        timeout: Timeout = None,
    ) -> list[EntityRevision]:
        """Return the commits that changed a node or an edge, newest first, with what each of them changed.

        ``before`` is the id of the last commit of the page before. What was merged is part of the merge commit.

        Examples:
            >>> [revision.change.op.value for revision in graph.history("Person", "ann")]
            ['inserted']
        """
        return changes.read_entity_history(self._manifest, name, id, branch, at, limit, before)

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
        """Compare A with B: each a branch, a commit, a tag, or a version or time of ``branch``.

        A branch alone shows what was changed on it, since its merge base with main; with ``tips`` it is compared with
        the head of main. Anything else alone is compared with the current state of ``branch``.

        Examples:
            >>> [(each.type, each.inserted, each.updated) for each in graph.diff("review").summary()]
            [('Person', 1, 0)]
        """
        return changes.compute_diff(self._manifest, a, b, types, branch, tips=tips)

    def changes(
        self,
        start: str | None = None,
        cursor: str | None = None,
        *,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        timeout: Timeout = None,
    ) -> Changes:
        """Follow changes commit by commit, from ``"now"``, the ``"beginning"``, ``"after:REF"``, or a cursor.

        Examples:
            >>> [len(list(block.entities())) for block in graph.changes("beginning")]
            [0, 5]
        """
        return changes.follow_changes(self._manifest, branch, start, cursor, types)

    def baseline(
        self,
        at: Reference | None = None,
        *,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        timeout: Timeout = None,
    ) -> ChangeBlock:
        """Return the state at a commit as inserts, with the cursor after it: to start following, or to restart.

        Examples:
            >>> cursor = graph.baseline().cursor
            >>> list(graph.changes(cursor=cursor))
            []
        """
        return changes.take_baseline(self._manifest, branch, at, types)

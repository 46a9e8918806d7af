"""Verbs that keep a graph in order: indexes, compaction, cleanup, repair, verification."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING

from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.defaults import COMMITS_TO_KEEP
from omnigraph.graph.base import GraphBase
from omnigraph.late_imports import LateModule
from omnigraph.manifest import settings as stored_settings
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.settings import GraphSettings
from omnigraph.write.executor import LOCAL, Executor

if TYPE_CHECKING:
    from omnigraph.maintain import automatic_cleanup, cleanup, health, optimize, repair, upkeep, verify
    from omnigraph.maintain.cleanup import Cleaned
    from omnigraph.maintain.health import Health
    from omnigraph.maintain.optimize import Optimized
    from omnigraph.maintain.repair import Repaired
    from omnigraph.maintain.verify import Verified
    from omnigraph.write import commit, indexes
    from omnigraph.write.commit import Recovery
    from omnigraph.write.indexes import IndexReport
else:
    # Most processes use a few verbs: the rooms of the others need not be imported.
    automatic_cleanup = LateModule("omnigraph.maintain.automatic_cleanup")
    cleanup = LateModule("omnigraph.maintain.cleanup")
    health = LateModule("omnigraph.maintain.health")
    optimize = LateModule("omnigraph.maintain.optimize")
    repair = LateModule("omnigraph.maintain.repair")
    upkeep = LateModule("omnigraph.maintain.upkeep")
    verify = LateModule("omnigraph.maintain.verify")
    indexes = LateModule("omnigraph.write.indexes")
    commit = LateModule("omnigraph.write.commit")


@observe_timeouts
@check_calls
class UpkeepVerbs(GraphBase):
    """Keep a graph in order."""

    def ensure_indexes(
        self,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        actor: str | None = None,
        *,
        timeout: Timeout = None,
    ) -> IndexReport:
        """Build the indexes that the schema declares, where they are missing or do not cover all rows.

        Examples:
            >>> [index.column for index in graph.ensure_indexes(types=["Person"]).built]
            ['id', 'name']
        """
        self._check_writable()
        self._ask("admin", actor)
        return indexes.ensure_indexes(self._manifest, branch, types, actor or self.actor)

    def optimize(
        self,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        actor: str | None = None,
        runner: Executor = LOCAL,
        *,
        timeout: Timeout = None,
    ) -> Optimized:
        """Compact the tables of a branch, build the declared indexes, and compact the manifest.

        Examples:
            >>> [table.fragments for table in graph.optimize(types=["Knows"]).tables]
            [1]
        """
        self._check_writable()
        self._ask("admin", actor)
        return optimize.optimize(self._manifest, branch, types, actor or self.actor, runner)

    def cleanup(
        self,
        keep: int | None = COMMITS_TO_KEEP,
        older_than: timedelta | str | None = None,
        *,
        staged_older_than: timedelta | str | None = None,
        confirm: bool = False,
    ) -> Cleaned:
        """Delete unneeded files and old history; the newest ``keep`` commits of each branch and younger ones stay.

        Files that a write left without a commit go after 7 days, or after ``staged_older_than``. A write whose files
        are younger than that is not disturbed; one that finds its files deleted raises ``ConflictError``.

        Examples:
            >>> graph.cleanup(keep=10).confirmed
            False
        """
        self._check_writable()
        self._ask("admin", None)
        return cleanup.cleanup(self._manifest, keep, older_than, staged_older_than=staged_older_than, confirm=confirm)

    def repair(self, *, confirm: bool = False, force: bool = False) -> Repaired:
        """Report tables that were changed outside the graph (drift). With ``confirm``, repair them.

        Examples:
            >>> graph.repair().drifts
            ()
        """
        self._check_writable()
        self._ask("admin", None)
        return repair.repair(self._manifest, confirm=confirm, force=force)

    def do_upkeep(self, branch: str = MAIN) -> None:
        """Do the upkeep that is due on a branch: merge many small fragments into few, extend indexes over them.

        If the graph keeps history for some time only, old history is removed too. All of it follows commits by itself.
        Call it where that is switched off.

        Examples:
            >>> graph.do_upkeep()
        """
        self._check_writable()
        upkeep.do_upkeep(self._manifest, branch)
        automatic_cleanup.clean_up_if_due(self._manifest, self.keep)

    def settings(self) -> GraphSettings:
        """Return the settings that the graph keeps: durability, kind of lock, and how long history is kept.

        Examples:
            >>> graph.settings().keep
            'off'
        """
        return stored_settings.read_current_settings(self._manifest)

    def change_settings(self, *, keep: str | None = None) -> GraphSettings:
        """Change the settings that the graph keeps, and return them.

        ``keep`` is the age from which history is removed automatically, such as "30d", or "off". Tags, heads of
        branches, merge bases and the last hour stay, whatever their age.

        Examples:
            >>> notes = og.init(folder / "notes.og", "node Note { text: String @key }")
            >>> notes.change_settings(keep="30d").keep
            '30d'
        """
        self._check_writable()
        self._ask("admin", None)
        changed = stored_settings.change_settings(self._manifest, keep)
        self._next_look = 0.0
        return changed

    def delegate_upkeep(self, start: Callable[[str], object]) -> None:
        """Call ``start`` with the branch where upkeep is due after a commit, instead of doing it in a thread.

        Examples:
            >>> asked = []
            >>> opened = og.open(graph.uri)
            >>> opened.delegate_upkeep(asked.append)
        """
        self._starts_upkeep = start

    def verify(self, *, timeout: Timeout = None) -> Verified:
        """Read the whole graph and report everything that is wrong with it.

        Examples:
            >>> graph.verify().is_sound
            True
        """
        return verify.verify(self._manifest)

    def health(self, branch: str = MAIN, *, timeout: Timeout = None) -> Health:
        """Describe the state of a graph: what is unfinished, and how far its tables are from compact and indexed.

        Reads no row.

        Examples:
            >>> sorted(table.rows for table in graph.health().tables)
            [2, 3]
        """
        return health.describe_health(self._manifest, branch)

    def recoveries(self) -> list[Recovery]:
        """List the recoveries: writes that another process finished or rolled back, newest first.

        Examples:
            >>> graph.recoveries()
            []
        """
        return commit.list_recoveries(self._manifest)

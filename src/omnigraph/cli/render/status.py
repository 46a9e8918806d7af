"""The result of ``omnigraph status``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from omnigraph.cli.render.graph import MAIN
from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, pluralize
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.maintain.health import Health, TableHealth
    from omnigraph.manifest.branches import Branch
    from omnigraph.manifest.history import Commit

_MANY_FRAGMENTS: Final = 64
"""From so many on, writers compact by themselves; a table that has more was written by somebody else."""
_MANY_DELETED: Final = 0.2
_FEW_ROWS: Final = 10_000
"""So many are scanned in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class BranchStatus(CommandResult):
    """Where a branch stands. ``ahead`` counts its commits that main does not have."""

    graph: str
    branch: str
    head: Commit | None
    ahead: int
    health: Health
    branches: Sequence[Branch]

    def to_json(self) -> Mapping[str, Json]:
        """Counts, and the commands to run next."""
        return {
            "graph": self.graph,
            "branch": self.branch,
            "commit": None if self.head is None else self.head.id,
            "ahead": self.ahead,
            "branches": len(self.branches),
            "unfinished_writes": self.health.sidecars,
            "to_optimize": [str(table.table_key) for table in self._list_untidy()],
            "to_index": [str(table.table_key) for table in self._list_uncovered()],
            "next": self._list_next(),
        }

    def draw(self, page: Page) -> None:
        """The facts, then the commands."""
        page.facts(
            {
                "graph": self.graph,
                "branch": self.branch,
                "newest": self._describe_head(page),
                "ahead": None if self.branch == MAIN else f"{pluralize(self.ahead, 'commit')} that main does not have",
                "changes": "none that are not committed: every write is a commit",
                "unfinished": self._describe_unfinished(),
                "upkeep": self._describe_upkeep(),
            }
        )
        commands = self._list_next()
        page.print("")
        page.print("next:" if commands else "nothing to do")
        for command in commands:
            page.print(f"  {command}")

    def _describe_head(self, page: Page) -> str | None:
        head = self.head
        if head is None:
            return None
        return "  ".join(filter(None, (head.id, page.moment(head.created_at), head.message)))

    def _describe_unfinished(self) -> str | None:
        count = self.health.sidecars
        return f"{pluralize(count, 'write')} under way, or left by a process that died" if count else None

    def _describe_upkeep(self) -> str:
        untidy, uncovered = self._list_untidy(), self._list_uncovered()
        parts = [f"{pluralize(len(untidy), 'table')} to compact" if untidy else ""]
        parts.append(f"{pluralize(len(uncovered), 'table')} with rows that an index lacks" if uncovered else "")
        return ", ".join(filter(None, parts)) or "nothing due"

    def _list_untidy(self) -> list[TableHealth]:
        return [
            table
            for table in self.health.tables
            if table.fragments > _MANY_FRAGMENTS
            or (table.deleted_rows > _FEW_ROWS and table.deleted_rows > _MANY_DELETED * table.rows)
        ]

    def _list_uncovered(self) -> list[TableHealth]:
        return [table for table in self.health.tables if table.uncovered_rows > _FEW_ROWS]

    def _list_next(self) -> list[str]:
        place = "" if self.branch == MAIN else f" --branch {self.branch}"
        found = [f"omnigraph optimize{place}"] if self._list_untidy() else []
        if self._list_uncovered() and not found:
            found.append(f"omnigraph index{place}")
        if self.ahead:
            found += [f"omnigraph diff main {self.branch}", f"omnigraph merge {self.branch}"]
        return found

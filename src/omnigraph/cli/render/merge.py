"""Results of merges and reverts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph.cli.render.conflicts import draw_conflicts
from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, pluralize
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.write.merge import Counts, MergeResult


@dataclass(frozen=True, slots=True)
class MergeSummary(CommandResult):
    """The result of a merge or revert. ``tried``: it was a dry run. ``file``: where to resolve its conflicts."""

    result: MergeResult
    branch: str
    tried: bool
    file: str | None = None

    def to_json(self) -> Mapping[str, Json]:
        """Every field, the commit as its id; ``branch_kept`` only if there is a reason."""
        result = self.result
        kept = {} if result.branch_kept is None else {"branch_kept": result.branch_kept}
        return {
            "outcome": result.outcome,
            "branch": self.branch,
            "commit": None if result.commit is None else result.commit.id,
            "base": result.base,
            "source": result.source,
            "target": result.target,
            "conflicts": [conflict.to_json() for conflict in result.conflicts],
            "nodes": {name: _json(counts) for name, counts in result.nodes.items()},
            "edges": {name: _json(counts) for name, counts in result.edges.items()},
            "left_out": [each.to_json() for each in result.left_out],
            **kept,
        }

    def draw(self, page: Page) -> None:
        """One line, the conflicts, and the counts per type."""
        result = self.result
        page.print(f"{self.branch}: {self._outcome()}")
        if result.conflicts:
            page.print("")
            page.print(draw_conflicts(result.conflicts))
        kinds = {"node": result.nodes, "edge": result.edges}
        rows = [
            (kind, name, counts.inserted, counts.updated, counts.deleted)
            for kind, types in kinds.items()
            for name, counts in types.items()
        ]
        if rows:
            page.print("")
            page.table(("kind", "type", "inserted", "updated", "deleted"), rows)
        for _, name, counts in ((kind, *each) for kind, types in kinds.items() for each in types.items()):
            if counts.doubled:
                page.say(
                    f"doubled: {pluralize(counts.doubled, 'entity', 'entities')} of {name} that both sides inserted"
                )
        for each in result.left_out:
            page.say(f"left out: {pluralize(each.count, 'change')} of {each.type}: {each.message}")
        if result.branch_kept is not None:
            page.say(f"merged, but the branch was not deleted: {result.branch_kept}")
        if self.file is not None:
            page.say(f"resolve the conflicts in {self.file}, then merge with --resolve {self.file}")

    def _outcome(self) -> str:
        result = self.result
        if result.conflicts:
            return f"{pluralize(len(result.conflicts), 'conflict')}; nothing was written"
        if self.tried:
            return f"{result.outcome}; nothing was written"
        return result.outcome + ("" if result.commit is None else f", commit {result.commit.id}")


def _json(counts: Counts) -> Json:
    return {
        "inserted": counts.inserted,
        "updated": counts.updated,
        "deleted": counts.deleted,
        "doubled": counts.doubled,
    }

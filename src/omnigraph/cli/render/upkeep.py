"""Results of the maintenance commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, pluralize, size_text, to_one_line
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.maintain.cleanup import Cleaned
    from omnigraph.maintain.optimize import Optimized, OptimizedTable
    from omnigraph.maintain.repair import Drift, Repaired
    from omnigraph.maintain.verify import Finding, Verified


@dataclass(frozen=True, slots=True)
class OptimizeSummary(CommandResult):
    """What ``optimize`` did to each table."""

    result: Optimized

    def to_json(self) -> Mapping[str, Json]:
        """The commits, and each table."""
        return {
            "branch": self.result.branch,
            "commits": [commit.id for commit in self.result.commits],
            "manifest_compacted": self.result.manifest_compacted,
            "tables": [_table_json(table) for table in self.result.tables],
        }

    def draw(self, page: Page) -> None:
        """One line for each table that was changed or skipped."""
        shown = [table for table in self.result.tables if _has_news(table)]
        if shown:
            page.table(("table", "fragments", "now", "indexed", "left"), [_table_row(table) for table in shown])
        commits = ", ".join(commit.id for commit in self.result.commits)
        page.print(
            f"optimized {self.result.branch}: {commits}" if commits else f"nothing to do on {self.result.branch}"
        )
        if self.result.manifest_compacted:
            page.say("the manifest was compacted too")


def _has_news(table: OptimizedTable) -> bool:
    return bool(table.fragments != table.fragments_before or table.indexed or table.skipped)


def _table_row(table: OptimizedTable) -> tuple[str | int | None, ...]:
    return table.table_key, table.fragments_before, table.fragments, ", ".join(table.indexed), table.skipped


def _table_json(table: OptimizedTable) -> Mapping[str, Json]:
    return {
        "table": table.table_key,
        "fragments_before": table.fragments_before,
        "fragments": table.fragments,
        "indexed": list(table.indexed),
        "deferred": [{"column": each.index.column, "reason": each.reason} for each in table.deferred],
        "skipped": table.skipped,
    }


@dataclass(frozen=True, slots=True)
class CleanupSummary(CommandResult):
    """What ``cleanup`` deleted, or would delete."""

    result: Cleaned

    def to_json(self) -> Mapping[str, Json]:
        """Counts and bytes by kind."""
        return {
            "confirmed": self.result.confirmed,
            "commits_kept": self.result.commits_kept,
            "commits_gone": self.result.commits_gone,
            "bytes": self.result.bytes,
            "reclaimed": [
                {"kind": str(each.kind), "count": each.count, "bytes": each.bytes} for each in self.result.reclaimed
            ],
        }

    def draw(self, page: Page) -> None:
        """A line for each kind, then the sum."""
        if self.result.reclaimed:
            rows = [(str(each.kind), each.count, size_text(each.bytes)) for each in self.result.reclaimed]
            page.table(("what", "count", "size"), rows)
        kept = f"{pluralize(self.result.commits_kept, 'commit')} can be read"
        did = "reclaimed" if self.result.confirmed else "would reclaim"
        page.print(f"{did} {size_text(self.result.bytes)}; {kept}, {self.result.commits_gone:,} not")


@dataclass(frozen=True, slots=True)
class RepairSummary(CommandResult):
    """Tables that were changed outside the graph."""

    result: Repaired

    def to_json(self) -> Mapping[str, Json]:
        """Each drifted table, and the commits that repaired it."""
        return {
            "confirmed": self.result.confirmed,
            "commits": [commit.id for commit in self.result.commits],
            "moved": self.result.moved,
            "drift": [_drift_json(drift) for drift in self.result.drifts],
        }

    def draw(self, page: Page) -> None:
        """One line per table."""
        if self.result.moved:
            files = pluralize(self.result.moved, "file of a branch names", "files of branches name")
            page.print(f"{files} the folder that the graph was moved from")
        if not self.result.drifts:
            return None if self.result.moved and not self.result.confirmed else page.print("no drift")
        did = "done" if self.result.confirmed else "would be"
        page.table(
            ("branch", "table", "kind", "shown", "head", "operations", did),
            [
                (each.branch, each.table_key, str(each.kind), each.pin, each.head, _operations(each), each.remedy)
                for each in self.result.drifts
            ],
        )
        if not self.result.confirmed:
            return page.say("--force repairs what is left out")
        return page.print(f"repaired: {', '.join(commit.id for commit in self.result.commits) or 'nothing'}")


def _operations(drift: Drift) -> str:
    return ", ".join(drift.operations)


def _drift_json(drift: Drift) -> Mapping[str, Json]:
    return {
        "branch": drift.branch,
        "table": drift.table_key,
        "kind": str(drift.kind),
        "pin": drift.pin,
        "head": drift.head,
        "operations": list(drift.operations),
        "remedy": drift.remedy,
    }


@dataclass(frozen=True, slots=True)
class VerifySummary(CommandResult):
    """What ``verify`` read and found."""

    result: Verified

    def to_json(self) -> Mapping[str, Json]:
        """The counts, and each finding."""
        found = self.result
        return {
            "sound": found.is_sound,
            "branches": found.branches,
            "rows": found.rows,
            "commits": found.commits,
            "commits_gone": found.commits_gone,
            "tags": found.tags,
            "blobs": found.blobs,
            "blob_bytes": found.blob_bytes,
            "recoveries": found.recoveries,
            "files": found.files,
            "bytes": found.bytes,
            "seconds": round(found.seconds, 3),
            "findings": [_finding_json(finding) for finding in found.findings],
        }

    def draw(self, page: Page) -> None:
        """Two lines for each finding, then what was read."""
        found = self.result
        for finding in found.findings:
            where = to_one_line(finding.where)
            page.print(Text.assemble((str(finding.kind), "bold red"), "  ", (where, "bold"), f"  {finding.what}"))
            page.print(f"    {finding.remedy}")
        read = [
            pluralize(found.rows, "row"),
            pluralize(found.branches, "branch", "branches"),
            pluralize(found.commits, "commit"),
            pluralize(found.tags, "tag"),
            *([f"{pluralize(found.blobs, 'blob')} of {size_text(found.blob_bytes)}"] if found.blobs else []),
            f"{pluralize(found.files, 'file')} of {size_text(found.bytes)}",
        ]
        gone = f"; {pluralize(found.commits_gone, 'commit')} cleaned up" if found.commits_gone else ""
        page.say(f"read {', '.join(read)}{gone} in {found.seconds:.1f} s")
        page.print("sound: nothing is wrong" if found.is_sound else pluralize(len(found.findings), "finding"))


def _finding_json(finding: Finding) -> Mapping[str, Json]:
    return {"kind": str(finding.kind), "where": finding.where, "what": finding.what, "remedy": finding.remedy}

"""Results of the commands that read data, and of ``index``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, pluralize
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.read.profile import Profile
    from omnigraph.read.rows import ExportResult
    from omnigraph.write.indexes import IndexReport, IndexSpec


@dataclass(frozen=True, slots=True)
class ExplainedPlan(CommandResult):
    """The plan of a query that did not run."""

    query_name: str
    branch: str
    plan: str

    def to_json(self) -> Mapping[str, Json]:
        """The plan as a text."""
        return {"query_name": self.query_name, "branch": self.branch, "plan": self.plan}

    def draw(self, page: Page) -> None:
        """The plan as it is."""
        page.write(f"{self.plan}\n")


@dataclass(frozen=True, slots=True)
class QueryProfile(CommandResult):
    """The plan of a query that ran, with rows and times."""

    query_name: str
    branch: str
    profile: Profile

    def to_json(self) -> Mapping[str, Json]:
        """The plan as a tree."""
        return {
            "query_name": self.query_name,
            "branch": self.branch,
            **cast("Mapping[str, Json]", self.profile.to_json()),
        }

    def draw(self, page: Page) -> None:
        """The plan with its notes."""
        page.write(f"{self.profile}\n")


@dataclass(frozen=True, slots=True)
class ExportSummary(CommandResult):
    """What an export wrote."""

    result: ExportResult

    def to_json(self) -> Mapping[str, Json]:
        """Every field, the commit as its id."""
        result = self.result
        return {
            "commit": None if result.commit is None else result.commit.id,
            "branch": result.branch,
            "format": result.format,
            "path": result.path,
            "nodes": dict(result.nodes),
            "edges": dict(result.edges),
        }

    def draw(self, page: Page) -> None:
        """One line, and the rows of each type."""
        result = self.result
        nodes, edges = (sum(counts.values()) for counts in (result.nodes, result.edges))
        commit = "" if result.commit is None else f", at commit {result.commit.id}"
        page.print(f"{result.path}: {pluralize(nodes, 'node')}, {pluralize(edges, 'edge')}{commit}")
        kinds = {"node": result.nodes, "edge": result.edges}
        page.print("")
        page.table(
            ("kind", "type", "rows"),
            [(kind, name, count) for kind, counts in kinds.items() for name, count in counts.items()],
        )


@dataclass(frozen=True, slots=True)
class IndexSummary(CommandResult):
    """The state of each index of a branch."""

    branch: str
    report: IndexReport

    def to_json(self) -> Mapping[str, Json]:
        """The commit, and the indexes by outcome."""
        report = self.report
        return {
            "branch": self.branch,
            "commit": None if report.commit is None else report.commit.id,
            "built": [_index_json(each) for each in report.built],
            "present": [_index_json(each) for each in report.present],
            "deferred": [{**_index_json(each.index), "reason": each.reason} for each in report.deferred],
        }

    def draw(self, page: Page) -> None:
        """One line of counts, and the indexes that were built or deferred."""
        report = self.report
        commit = "no commit" if report.commit is None else f"commit {report.commit.id}"
        counts = f"{len(report.built)} built, {len(report.present)} present, {len(report.deferred)} deferred"
        page.print(f"{self.branch}: {counts}, {commit}")
        rows = [(*_index_cells(each), "built") for each in report.built]
        rows += [(*_index_cells(each.index), each.reason) for each in report.deferred]
        if rows:
            page.print("")
            page.table(("kind", "type", "column", "index", "outcome"), rows)


def _index_cells(index: IndexSpec) -> tuple[str, str, str, str | None]:
    return index.table_key.kind, index.table_key.type_name, index.column, index.kind


def _index_json(index: IndexSpec) -> dict[str, Json]:
    return {"table_key": index.table_key, "column": index.column, "kind": index.kind}

"""Results of the commands that read texts: ``lint``, ``fmt``, ``schema`` and ``version``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from omnigraph.cli.render.migration import describe_step
from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, draw_problem, pluralize
from omnigraph.errors import Json, Problem
from omnigraph.language.query import BrokenQuery, LintReport, Severity
from omnigraph.language.schema import MigrationPlan, Tier, UnsupportedChange
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.language.schema import EdgeType, NodeType, Schema
    from omnigraph.write.evolve import SchemaApplied

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
_TIERS = {Tier.METADATA: "green", Tier.REWRITE: "yellow", Tier.VALIDATED: "yellow", Tier.DESTRUCTIVE: "red"}


@dataclass(frozen=True, slots=True)
class LintResults(CommandResult):
    """What the linter found, one report per file."""

    reports: Sequence[LintReport]

    def to_json(self) -> Mapping[str, Json]:
        """One file: its report. Several: the sums, and the reports under ``files``."""
        files = [report.to_json() for report in self.reports]
        if len(files) == 1:
            return files[0]
        sums = {
            "queries_processed": sum(len(report.results) for report in self.reports),
            "errors": sum(report.errors for report in self.reports),
            "warnings": sum(report.warnings for report in self.reports),
            "infos": sum(report.infos for report in self.reports),
        }
        return {"status": _status(sums["errors"]), **sums, "files": files}

    def draw(self, page: Page) -> None:
        """Each problem with its line and a caret; what was checked, on stderr."""
        found = [entry for report in self.reports for entry in report.problems]
        for severity, problem in found:
            page.print(draw_problem(problem, _COLOURS[severity]))
        counts = Counter(severity for severity, _ in found)
        page.say(
            f"{pluralize(sum(len(report.results) for report in self.reports), 'query', 'queries')} in "
            f"{pluralize(len(self.reports), 'file')}: {pluralize(counts[Severity.ERROR], 'error')}, "
            f"{pluralize(counts[Severity.WARNING], 'warning')}"
        )


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """The result of ``schema check`` for one file: problems, or its hash and the number of its declarations."""

    path: str
    problems: tuple[Problem, ...] = ()
    hash: str | None = None
    counts: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Json]:
        """One entry of ``files``."""
        if self.problems:
            problems = [problem.to_json() for problem in self.problems]
            return {"path": self.path, "status": "error", "problems": problems}
        return {"path": self.path, "status": "ok", "hash": self.hash, **(self.counts or {})}


@dataclass(frozen=True, slots=True)
class SchemaChecks(CommandResult):
    """The results of ``schema check``, file by file."""

    files: Sequence[SchemaCheck]

    def to_json(self) -> Mapping[str, Json]:
        """The number of problems, and every file."""
        return {
            "status": _status(self._errors),
            "errors": self._errors,
            "files": [each.to_json() for each in self.files],
        }

    def draw(self, page: Page) -> None:
        """Each problem with its line and a caret; of a good file, what it declares."""
        for each in self.files:
            for problem in each.problems:
                page.print(draw_problem(problem, "red"))
            if each.counts:
                counts = ", ".join(pluralize(number, name[:-1]) for name, number in each.counts.items())
                page.print(Text.assemble((each.path, "bold"), f": {counts}"))
        page.say(f"{pluralize(len(self.files), 'file')}: {pluralize(self._errors, 'error')}")

    @property
    def _errors(self) -> int:
        return sum(len(each.problems) for each in self.files)


@dataclass(frozen=True, slots=True)
class FormatResult:
    """The result of ``fmt`` for one file: problems, or its layout and whether it differs from the file.

    ``is_printed``: the layout is printed, because the text came from stdin and has no file.
    """

    path: str
    problems: tuple[Problem, ...] = ()
    text: str = ""
    is_changed: bool = False
    is_printed: bool = False


@dataclass(frozen=True, slots=True)
class FormatResults(CommandResult):
    """The results of ``fmt``, file by file."""

    files: Sequence[FormatResult]
    is_check: bool

    def to_json(self) -> Mapping[str, Json]:
        """The counts, and every file."""
        return {
            "status": _status(self._errors),
            "errors": self._errors,
            "changed": len(self._changed),
            "files": [self._describe(each) for each in self.files],
        }

    def draw(self, page: Page) -> None:
        """Each problem with its line and a caret; the text of stdin; the files that are changed, or would be."""
        for each in self.files:
            for problem in each.problems:
                page.print(draw_problem(problem, "red"))
            if each.is_printed:
                page.write(each.text)
        verb = "would change" if self.is_check else "changed"
        for each in self._changed:
            if not each.is_printed:
                page.print(f"{verb}: {each.path}")
        page.say(
            f"{pluralize(len(self.files), 'file')}: {len(self._changed)} {verb}, {pluralize(self._errors, 'error')}"
        )

    @staticmethod
    def _describe(each: FormatResult) -> dict[str, Json]:
        if each.problems:
            problems: list[Json] = [problem.to_json() for problem in each.problems]
            return {"path": each.path, "status": "error", "problems": problems}
        text: dict[str, Json] = {"text": each.text} if each.is_printed else {}
        return {"path": each.path, "status": "ok", "changed": each.is_changed, **text}

    @property
    def _changed(self) -> list[FormatResult]:
        return [each for each in self.files if each.is_changed]

    @property
    def _errors(self) -> int:
        return sum(len(each.problems) for each in self.files)


@dataclass(frozen=True, slots=True)
class MigrationPreview(CommandResult):
    """The steps from one schema to another, and the queries that no longer fit, if some were given."""

    plan: MigrationPlan
    breaks: Sequence[BrokenQuery] | None = None

    def to_json(self) -> Mapping[str, Json]:
        """The plan as it is; ``breaks`` only if queries were given."""
        if self.breaks is None:
            return self.plan.to_json()
        return {**self.plan.to_json(), "breaks": [broken.to_json() for broken in self.breaks]}

    def draw(self, page: Page) -> None:
        """One line per step: its tier and what it does. Then each problem of a query that no longer fits."""
        self._draw_steps(page)
        if self.breaks is not None:
            self._draw_breaks(page, self.breaks)

    def _draw_breaks(self, page: Page, breaks: Sequence[BrokenQuery]) -> None:
        for broken in breaks:
            for problem in broken.problems:
                page.print(draw_problem(problem, _COLOURS[Severity.ERROR if broken.is_new else Severity.WARNING]))
        new = [broken.name for broken in breaks if broken.is_new]
        page.say(f"{pluralize(len(new), 'query', 'queries')} would break{_list_names(new)}")
        if before := [broken.name for broken in breaks if not broken.is_new]:
            page.say(f"{pluralize(len(before), 'query', 'queries')} did not fit before either{_list_names(before)}")

    def _draw_steps(self, page: Page) -> None:
        steps = self.plan.steps
        for step in steps:
            tier, colour = (
                ("unsupported", "red") if isinstance(step, UnsupportedChange) else (step.tier, _TIERS[step.tier])
            )
            page.print(Text.assemble((f"{tier:<11}", colour), "  ", describe_step(step)))
        for hint in self.plan.hints:
            page.say(hint)
        if not steps:
            page.say("no steps: the schemas mean the same")
        elif self.plan.supported:
            page.say(f"{pluralize(len(steps), 'step')}, all supported")
        else:
            page.say(f"{pluralize(len(steps), 'step')}, {len(self.plan.unsupported)} not supported")


def _list_names(names: Sequence[str]) -> str:
    return f": {', '.join(names)}" if names else ""


@dataclass(frozen=True, slots=True)
class AppliedMigration(CommandResult):
    """A schema change that was applied."""

    applied: SchemaApplied

    def to_json(self) -> Mapping[str, Json]:
        """Whether anything changed, the commit, and the steps."""
        made = self.applied.commit
        return {
            "applied": self.applied.applied,
            "commit": None if made is None else made.id,
            "steps": [step.to_json() for step in self.applied.steps],
        }

    def draw(self, page: Page) -> None:
        """The commit, and one line per step."""
        made = self.applied.commit
        if made is None:
            page.print("the graph has this schema already")
            return
        for step in self.applied.steps:
            page.print(Text.assemble((f"{step.tier:<11}", _TIERS[step.tier]), "  ", describe_step(step)))
        page.print(f"changed the schema in commit {made.id}")


@dataclass(frozen=True, slots=True)
class SchemaText(CommandResult):
    """The schema of a graph."""

    schema: Schema

    def to_json(self) -> Mapping[str, Json]:
        """Its hash and its text."""
        return {"hash": self.schema.hash, "schema": self.schema.text}

    def draw(self, page: Page) -> None:
        """The text as it was given."""
        page.print(Text(self.schema.text.rstrip("\n")))


@dataclass(frozen=True, slots=True)
class PropertyListing(CommandResult):
    """The properties of one type."""

    type: NodeType | EdgeType

    def to_json(self) -> Mapping[str, Json]:
        """The type of each property by its name."""
        return {name: str(property_.type) for name, property_ in self.type.properties.items()}

    def draw(self, page: Page) -> None:
        """One line for each property."""
        page.table(("property", "type"), [(name, str(each.type)) for name, each in self.type.properties.items()])


@dataclass(frozen=True, slots=True)
class ProposedText(CommandResult):
    """A proposed schema or pipeline, and the file that it was written to, if any."""

    kind: str
    text: str
    file: str | None

    def to_json(self) -> Mapping[str, Json]:
        """The file and the text."""
        return {"file": self.file, self.kind: self.text}

    def draw(self, page: Page) -> None:
        """The text, or the name of the file that has it."""
        page.print(Text(self.text.rstrip("\n") if self.file is None else f"{self.file}: check it before you use it"))


def _status(errors: int) -> str:
    return "error" if errors else "ok"

"""How results look: one abstract output with a form for people and a form for programs.

Results go to stdout. In the form for people, talk and errors go to stderr; in the form for programs, a command
prints one object on stdout, whatever happens.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import typer
from rich.console import Console
from rich.text import Text

from omnigraph.cli.steps import in_words
from omnigraph.errors import Json, OmniGraphError, Problem, QueryError, SchemaError
from omnigraph.language.query.lint_report import LintReport, Severity
from omnigraph.language.schema.steps import MigrationPlan, Tier, UnsupportedChange

MAX_LINE = 160
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
_TIERS = {Tier.METADATA: "green", Tier.REWRITE: "yellow", Tier.VALIDATED: "yellow", Tier.DESTRUCTIVE: "red"}
# A terminal would obey control characters in a source line. Their pictures are as wide as the caret expects.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) != "\t"} | {127: 0x2421}


@dataclass(frozen=True, slots=True)
class CheckedSchema:
    """What ``schema check`` found in one file: problems, or a hash and the numbers of its declarations."""

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


class Output(ABC):
    """Everything that a command may show."""

    @abstractmethod
    def lint(self, reports: Sequence[LintReport]) -> None:
        """What the linter found, one report per file."""

    @abstractmethod
    def schemas(self, checked: Sequence[CheckedSchema]) -> None:
        """What ``schema check`` found, file by file."""

    @abstractmethod
    def migration(self, plan: MigrationPlan) -> None:
        """The steps from one schema to another."""

    @abstractmethod
    def versions(self, versions: Mapping[str, str]) -> None:
        """Releases by name."""

    @abstractmethod
    def error(self, error: OmniGraphError) -> None:
        """Why the command failed."""


def output_of(context: typer.Context) -> Output:
    """The output that the global options chose."""
    return cast(Output, context.obj)


# ------------------------------------------------------------------------------------------------ for programs


class JsonOutput(Output):
    """One JSON object on stdout."""

    def lint(self, reports: Sequence[LintReport]) -> None:
        """One file: its report. Several: the sums, and the reports under ``files``."""
        files = [report.to_json() for report in reports]
        if len(files) == 1:
            return _print_json(files[0])
        sums = {
            "queries_processed": sum(len(report.results) for report in reports),
            "errors": sum(report.errors for report in reports),
            "warnings": sum(report.warnings for report in reports),
            "infos": sum(report.infos for report in reports),
        }
        return _print_json({"status": _status(sums["errors"]), **sums, "files": files})

    def schemas(self, checked: Sequence[CheckedSchema]) -> None:
        """The number of problems, and every file."""
        errors = sum(len(each.problems) for each in checked)
        _print_json({"status": _status(errors), "errors": errors, "files": [each.to_json() for each in checked]})

    def migration(self, plan: MigrationPlan) -> None:
        """The plan as it is."""
        _print_json(plan.to_json())

    def versions(self, versions: Mapping[str, str]) -> None:
        """Releases by name."""
        _print_json(dict(versions))

    def error(self, error: OmniGraphError) -> None:
        """The ``error`` object."""
        _print_json({"error": error.to_json()})


def _print_json(found: Mapping[str, Json]) -> None:
    sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def _status(errors: int) -> str:
    return "error" if errors else "ok"


# ------------------------------------------------------------------------------------------------ for people


class TextOutput(Output):
    """Text, in colour on a terminal. Carets stand under what they mean, so no line is ever wrapped."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._out = Console(soft_wrap=True, markup=False, highlight=False, emoji=False)
        self._err = Console(soft_wrap=True, markup=False, highlight=False, emoji=False, stderr=True)

    def lint(self, reports: Sequence[LintReport]) -> None:
        """Each problem with its line and a caret; what was checked, on stderr."""
        found = [entry for report in reports for entry in report.problems]
        for severity, problem in found:
            self._out.print(_drawn(problem, _COLOURS[severity]))
        counts = Counter(severity for severity, _ in found)
        self._say(
            f"{_many(sum(len(report.results) for report in reports), 'query', 'queries')} in "
            f"{_many(len(reports), 'file')}: {_many(counts[Severity.ERROR], 'error')}, "
            f"{_many(counts[Severity.WARNING], 'warning')}"
        )

    def schemas(self, checked: Sequence[CheckedSchema]) -> None:
        """Each problem with its line and a caret; of a good file, what it declares."""
        for each in checked:
            for problem in each.problems:
                self._out.print(_drawn(problem, "red"))
            if each.counts:
                counts = ", ".join(_many(number, name[:-1]) for name, number in each.counts.items())
                self._out.print(Text.assemble((each.path, "bold"), f": {counts}"))
        self._say(f"{_many(len(checked), 'file')}: {_many(sum(len(each.problems) for each in checked), 'error')}")

    def migration(self, plan: MigrationPlan) -> None:
        """One line per step: its tier and what it does."""
        for step in plan.steps:
            tier, colour = (
                ("unsupported", "red") if isinstance(step, UnsupportedChange) else (step.tier, _TIERS[step.tier])
            )
            self._out.print(Text.assemble((f"{tier:<11}", colour), "  ", in_words(step)))
        if not plan.steps:
            self._say("no steps: the schemas mean the same")
        elif plan.supported:
            self._say(f"{_many(len(plan.steps), 'step')}, all supported")
        else:
            self._say(f"{_many(len(plan.steps), 'step')}, {len(plan.unsupported)} not supported")

    def versions(self, versions: Mapping[str, str]) -> None:
        """One line per name."""
        width = max(map(len, versions))
        for name, release in versions.items():
            self._out.print(f"{name:<{width}}  {release}")

    def error(self, error: OmniGraphError) -> None:
        """The problems of a text as ``lint`` shows them; any other error as a line, and its hint as another."""
        if isinstance(error, SchemaError | QueryError):
            for problem in error.problems:
                self._err.print(_drawn(problem, "red"))
            return
        self._err.print(Text.assemble(("error", "bold red"), ": ", error.message.translate(_PICTURES)))
        if error.hint:
            self._err.print(Text.assemble(("hint", "bold"), ": ", error.hint))

    def _say(self, talk: str) -> None:
        if not self._quiet:
            self._err.print(talk)


def _many(number: int, one: str, more: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def _drawn(problem: Problem, colour: str) -> Text:
    """A problem as it prints itself, with colours."""
    at = problem.position
    place = f"{at.file or '<text>'}:{at.line}:{at.column}".translate(_PICTURES)
    _, line, caret = _tamed(problem).render().rsplit("\n", 2)
    margin, bar, mark = caret.partition("| ")
    return Text("\n").join(
        [
            Text.assemble((place, "bold"), "  ", (problem.code, f"bold {colour}"), f"  {problem.message}"),
            Text(line),
            Text.assemble(margin, bar, (mark, colour)),
        ]
    )


def _tamed(problem: Problem) -> Problem:
    """The same problem, its line without control characters and cut to what a person can look at."""
    at = problem.position
    start = max(0, min(at.column - 1 - MAX_LINE // 2, len(at.text) - MAX_LINE))
    text = at.text[start : start + MAX_LINE].translate(_PICTURES)
    return replace(problem, position=replace(at, column=at.column - start, end_column=at.end_column - start, text=text))

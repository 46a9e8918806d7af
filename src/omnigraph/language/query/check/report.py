"""The problems of one query."""

from __future__ import annotations

from dataclasses import field

from omnigraph.errors import Problem
from omnigraph.language.source import Source, Span
from omnigraph.language.source import list_names as list_names
from omnigraph.language.source import suggest_name as suggest_name
from omnigraph.lazy_dataclass import dataclass


@dataclass(slots=True)
class ProblemReport:
    """Collects the problems of one query."""

    source: Source
    problems: list[Problem] = field(default_factory=list[Problem])

    def add(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Add a problem."""
        self.problems.append(self.source.problem(code, message, span, hint))

    def sort_problems(self) -> list[Problem]:
        """Return all problems, sorted by position."""
        return sorted(self.problems, key=lambda problem: (problem.position.line, problem.position.column))

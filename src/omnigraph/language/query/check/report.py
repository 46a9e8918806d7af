"""The problems of one query, and hints for names that do not exist."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from omnigraph.errors import Problem
from omnigraph.language.source import Source, Span, suggest_similar

_MAX_LISTED = 8


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


def suggest_name(word: str, known: Collection[str], kind: str) -> str:
    """Return a hint with the closest known name, else with a list of them. ``kind`` is their plural, as in "edges"."""
    return suggest_similar(word, known) or list_names(known, kind)


def list_names(names: Collection[str], kind: str) -> str:
    """Return ``the node types are A, B, C``, shortened if there are many."""
    if not names:
        return f"there are no {kind}"
    shown = sorted(names)[:_MAX_LISTED]
    more = ", ..." if len(names) > _MAX_LISTED else ""
    return f"the {kind} are {', '.join(shown)}{more}"

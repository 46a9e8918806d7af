"""The problems of one query, and hints that name what there is when a query names something that is not there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from omnigraph.errors import Problem
from omnigraph.language.source import Source, Span, suggest_similar

_LISTED = 8


@dataclass(slots=True)
class ProblemReport:
    """The problems of one query, as they are found."""

    source: Source
    problems: list[Problem] = field(default_factory=list[Problem])

    def add(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Note a problem."""
        self.problems.append(self.source.problem(code, message, span, hint))

    def in_order(self) -> list[Problem]:
        """All problems, by position."""
        return sorted(self.problems, key=lambda problem: (problem.position.line, problem.position.column))


def suggest_name(word: str, known: Collection[str], kind: str) -> str:
    """The closest known name, else the first of those that there are; ``kind`` says in the plural what they name."""
    return suggest_similar(word, known) or list_names(known, kind)


def list_names(names: Collection[str], kind: str) -> str:
    """``the node types are A, B, C``, as many as can be read."""
    if not names:
        return f"there are no {kind}"
    shown = sorted(names)[:_LISTED]
    more = ", ..." if len(names) > _LISTED else ""
    return f"the {kind} are {', '.join(shown)}{more}"

"""What a check found, before anybody has to read it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from omnigraph.errors import Problem
from omnigraph.language.source import Source, Span, suggest_similar

MAX_PROBLEMS = 100
# One search among 10,000 names takes a tenth of a second.
_MAX_SUGGESTIONS = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule. ``word`` was not among ``known``, where that is what is wrong."""

    code: str
    message: str
    span: Span
    hint: str | None = None
    word: str = ""
    known: Collection[str] = ()


def problems_of(findings: Iterable[Finding], source: Source) -> list[Problem]:
    """The findings as problems, each once, in order of their place; the first hundred of a hopeless text."""
    distinct = {(each.span.start, each.code, each.message): each for each in findings}
    first = [distinct[place] for place in sorted(distinct)][:MAX_PROBLEMS]
    suggestions = _MAX_SUGGESTIONS
    problems: list[Problem] = []
    for each in first:
        hint = each.hint
        if each.known and suggestions > 0:
            hint = suggest_similar(each.word, each.known) or hint
            suggestions -= 1
        problems.append(source.problem(each.code, each.message, each.span, hint))
    return problems

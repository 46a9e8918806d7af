"""What a case states, held against what happened; the difference is the message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from typing import cast

from omnigraph.errors import Json, Problem
from tests.case_files import Row, Section, Step, stated_answer


class Mismatch(Exception):
    """What happened is not what a section of the case states."""

    def __init__(self, section: Section, message: str) -> None:
        super().__init__(message)
        self.section = section


def expect_problems(step: Step, found: Sequence[Problem]) -> None:
    """The problems that a step states, all of them and no other, by position."""
    expected = step.errors
    shown = "\n".join(problem.render() for problem in found) or "no problem"
    stated = [_stated(section) for section in expected]
    happened = [
        _place(problem, expected[number] if number < len(expected) else None) for number, problem in enumerate(found)
    ]
    if stated != happened:
        raise Mismatch(step.action, f"{_diff(stated, happened)}\n\nfound:\n{shown}")
    for section, problem in zip(expected, found, strict=True):
        words = f"{problem.message}\n{problem.hint or ''}"
        for line in section.body.splitlines():
            if line.strip() not in words:
                raise Mismatch(section, f"neither message nor hint has {line.strip()!r}:\n{problem.render()}")


def _stated(section: Section) -> str:
    return " ".join([section.arguments[0], *(f"{name}={value}" for name, value in sorted(section.options.items()))])


def _place(problem: Problem, section: Section | None) -> str:
    """A problem in the words of the section that expects it, or in full."""
    place = {"column": problem.position.column, "line": problem.position.line}
    shown = place if section is None else {name: place.get(name) for name in sorted(section.options)}
    return " ".join([problem.code, *(f"{name}={value}" for name, value in shown.items())])


def expect_text(section: Section, found: str) -> None:
    """The body, to the letter."""
    expect_lines(section, section.body.split("\n"), found.split("\n"))


def expect_lines(section: Section, expected: Iterable[str], found: Iterable[str]) -> None:
    """The same lines in the same order."""
    stated, happened = list(expected), list(found)
    if stated != happened:
        raise Mismatch(section, _diff(stated, happened))


def expect_subset(section: Section, found: Json) -> None:
    """The body is a part of what was found."""
    expected = cast(Json, json.loads(section.body))
    shown = _shown(expected, found)
    if shown != expected:
        raise Mismatch(section, _diff(_pretty(expected), _pretty(shown)))


def expect_table(section: Section, found: Sequence[Row]) -> None:
    """The rows of a type's table, in any order; the case may leave columns out."""
    expected = section.rows()
    columns = set(expected[0]) if expected else set[str]()
    shown = [{name: value for name, value in row.items() if name in columns} for row in found]
    expect_lines(section, sorted(map(line_of, expected)), sorted(map(line_of, shown)))


def expect_answer(section: Section, found: Sequence[Row]) -> None:
    """The rows that a query gave, whole."""
    stated = stated_answer(section)
    lines = list(map(line_of, stated.rows)), list(map(line_of, found))
    expect_lines(section, *(lines if stated.ordered else map(sorted, lines)))


def _shown(expected: Json, found: Json) -> Json:
    """Of what was found, the part that a case speaks of: the same keys in objects, lists whole."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return {key: _shown(value, found[key]) for key, value in expected.items() if key in found}
    return found


def _pretty(value: Json) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n")


def line_of(value: Json) -> str:
    """A value in one line, the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _diff(stated: Sequence[str], happened: Sequence[str]) -> str:
    return "\n".join(unified_diff(stated, happened, "stated", "happened", lineterm=""))

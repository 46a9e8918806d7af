"""The format of case files: a title, then sections, each ``--- word arguments`` with a body below it.

A section that states an outcome (``error``, ``plan``, ``table`` ...) belongs to the section before it that
does something (``schema``, ``mutate`` ...): together they are one :class:`SpineStep`. The steps after the schema count
from 1; ``@2`` in an option is the commit that step 2 made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from omnigraph.errors import Json

CASES = Path(__file__).parent / "cases"
OUTCOMES = frozenset(
    {"error", "plan", "columns", "lint", "steps", "ir", "hash", "affected", "table", "owners", "rows", "unchanged"}
)
Row: TypeAlias = Mapping[str, Json]
_OPTION = re.compile(r"([a-z_]+)=")


class CaseSyntaxError(Exception):
    """A case file is not written as one."""


@dataclass(frozen=True, slots=True)
class Section:
    """``--- word argument key=value`` and the text below it; ``line`` is where it stands in the file."""

    word: str
    arguments: tuple[str, ...]
    options: Mapping[str, str]
    body: str
    line: int

    def rows(self) -> list[Row]:
        """The body as rows: one JSON object per line."""
        lines = enumerate(self.body.split("\n"), start=self.line + 1)
        return [_row(line, number) for number, line in lines if line.strip()]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that a query must give: in this order, or as a bag."""

    rows: tuple[Row, ...]
    ordered: bool


def stated_answer(section: Section) -> Answer:
    """Read a section ``rows`` or ``rows ordered``."""
    if section.arguments not in {(), ("ordered",)} or section.options:
        raise CaseSyntaxError(f"line {section.line}: it is 'rows', or 'rows ordered'")
    return Answer(tuple(section.rows()), bool(section.arguments))


def _row(text: str, number: int) -> Row:
    try:
        row = cast(Json, json.loads(text))
    except ValueError as error:
        raise CaseSyntaxError(f"line {number}: no JSON: {error}") from error
    if not isinstance(row, dict):
        raise CaseSyntaxError(f"line {number}: a row is a JSON object")
    return row


@dataclass(frozen=True, slots=True)
class Step:
    """Something that a case does, and what must come of it."""

    action: Section
    outcomes: tuple[Section, ...]

    @property
    def errors(self) -> list[Section]:
        """The problems that the case expects, in order."""
        return [section for section in self.outcomes if section.word == "error"]


@dataclass(frozen=True, slots=True)
class Case:
    """One behaviour, shown by one file."""

    path: Path
    title: str
    steps: tuple[Step, ...]


def find_cases(folder: str = ".") -> list[Path]:
    """Every case file, or those in a folder of theirs, in order."""
    return sorted((CASES / folder).rglob("*.case"))


def read_case(path: Path) -> Case:
    """Read one case file."""
    # Bytes, because text mode would turn the carriage returns that a case may be about into line feeds.
    title, _, rest = path.read_bytes().decode("utf-8").partition("\n")
    if not title.strip() or title.startswith("---"):
        raise CaseSyntaxError(f"{path}:1: the first line says what the case shows")
    return Case(path, title.strip(), tuple(_steps(path, _sections(path, rest))))


def _sections(path: Path, text: str) -> Iterator[Section]:
    header: tuple[str, int] | None = None
    body: list[str] = []
    for number, line in enumerate(text.split("\n"), start=2):
        if not line.startswith("---"):
            body.append(line)
            continue
        if header:
            yield _section(path, *header, body)
        elif any(body):
            raise CaseSyntaxError(f"{path}:2: text before the first section")
        header, body = (line[3:].strip(), number), []
    if header is None:
        raise CaseSyntaxError(f"{path}: no section")
    yield _section(path, *header, body)


def _section(path: Path, header: str, line: int, body: list[str]) -> Section:
    words: list[str] = []
    options: dict[str, str] = {}
    rest = header
    while rest:
        option = _OPTION.match(rest)
        if option:
            options[option.group(1)], rest = _value(rest[option.end() :])
        else:
            word, rest = _value(rest)
            words.append(word)
    if not words:
        raise CaseSyntaxError(f"{path}:{line}: a section begins with a word")
    while body and not body[-1].strip():
        body.pop()
    return Section(words[0], tuple(words[1:]), options, "\n".join(body), line)


def _value(text: str) -> tuple[str, str]:
    """A JSON object or list, which may hold blanks, or everything up to the next blank; and what follows."""
    end = json.JSONDecoder().raw_decode(text)[1] if text[:1] in {"{", "["} else len(text.split(maxsplit=1)[0])
    return text[:end], text[end:].lstrip()


def _steps(path: Path, sections: Iterator[Section]) -> Iterator[Step]:
    action: Section | None = None
    outcomes: list[Section] = []
    for section in sections:
        if section.word in OUTCOMES:
            if action is None:
                raise CaseSyntaxError(f"{path}:{section.line}: '{section.word}' has nothing before it")
            outcomes.append(section)
            continue
        if action:
            yield Step(action, tuple(outcomes))
        action, outcomes = section, []
    if action:
        yield Step(action, tuple(outcomes))

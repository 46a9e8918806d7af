"""What text is drawn with: lines and tables on stdout, talk on stderr, problems with a caret, times and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from omnigraph.errors import Problem, Violation

Cell: TypeAlias = str | int | None

MAX_LINE = 160
MAX_CELL = 40
MIN_CELL = 4
_GAP = "  "
# A terminal would obey control characters in a text. Their pictures are as wide as a caret expects.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) != "\t"} | {127: 0x2421}


class Page:
    """Where a result is drawn. Carets stand under what they mean, so no line is ever wrapped."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.out = Console(soft_wrap=True, markup=False, highlight=False, emoji=False)
        self.err = Console(soft_wrap=True, markup=False, highlight=False, emoji=False, stderr=True)
        self.now = datetime.now(UTC)

    @property
    def is_watched(self) -> bool:
        """Whether somebody who likes to be talked to sits at a terminal."""
        return not self._quiet and self.err.file.isatty()

    def print(self, line: str | Text) -> None:
        """A line of the result."""
        self.out.print(line)

    def say(self, talk: str) -> None:
        """A line beside the result."""
        if not self._quiet:
            self.err.print(tamed(talk))

    def facts(self, facts: Mapping[str, str | None]) -> None:
        """One line per name and value; what has no value is left out, and further lines stand below the first."""
        width = max(map(len, facts))
        for name, value in facts.items():
            if value is not None:
                first, *more = value.splitlines() or [""]
                self.print(Text.assemble((f"{name:<{width}}", "bold"), _GAP, tamed(first)))
                for line in more:
                    self.print(f"{'':<{width}}{_GAP}{tamed(line)}")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Aligned columns, numbers to the right. On a terminal what does not fit is cut; elsewhere nothing is."""
        longest = MAX_CELL if self.out.is_terminal else None
        shown = [[_cell_text(cell, longest) for cell in row] for row in rows]
        numbers = [all(isinstance(row[column], int) for row in rows) for column in range(len(header))]
        self._lines(header, shown, numbers, _widths(header, shown))

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> None:
        """A table of texts on one line each. On a terminal the widest columns give way, so that all can be seen."""
        widths = _widths(header, rows)
        if self.out.is_terminal:
            widths = fitted(widths, self.out.width - len(_GAP) * (len(header) - 1))
        self._lines(header, rows, numbers, widths)

    def _lines(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool], widths: Sequence[int]
    ) -> None:
        for cells, style in ((header, "bold"), *((row, "") for row in rows)):
            aligned = zip(cells, widths, numbers, strict=True)
            line = Text(_GAP.join(_aligned(_cut_to(cell, width), width, number) for cell, width, number in aligned))
            line.stylize(style)
            line.rstrip()
            if self.out.is_terminal:
                line.truncate(self.out.width, overflow="ellipsis")
            self.print(line)

    def write(self, text: str) -> None:
        """A part of the result that is meant for programs: as it is, without the cost of drawing it."""
        self.out.file.write(text)

    def moment(self, instant: datetime) -> str:
        """When something was, as a person says it: how long ago if that is less than a day, else the date."""
        return _ago(self.now - instant) or f"{instant:%Y-%m-%d %H:%MZ}"

    def exact_moment(self, instant: datetime) -> str:
        """When something was, to the second, and how long ago if that is less than a day."""
        ago = _ago(self.now - instant)
        return f"{instant:%Y-%m-%d %H:%M:%SZ}" + (f" ({ago})" if ago else "")


def many(number: int, one: str, more: str | None = None) -> str:
    """A number of things."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def tamed(text: str) -> str:
    """A text whose control characters no terminal obeys."""
    return "\n".join(line.translate(_PICTURES) for line in text.split("\n"))


def in_one_line(text: str) -> str:
    """A text whose control characters, line ends among them, no terminal obeys."""
    return text.replace("\t", " ").translate(_PICTURES)


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Widths that fit into a room: narrow columns keep theirs, the others share what is left."""
    found = list(widths)
    columns = sorted(range(len(widths)), key=lambda column: widths[column])
    for place, column in enumerate(columns):
        share = max(MIN_CELL, room // (len(columns) - place))
        found[column] = min(widths[column], share)
        room -= found[column]
    return found


def draw_problem(problem: Problem, colour: str) -> Text:
    """A problem as it prints itself, with colours."""
    at = problem.position
    place = f"{at.file or '<text>'}:{at.line}:{at.column}".translate(_PICTURES)
    _, line, caret = _cut(problem).render().rsplit("\n", 2)
    margin, bar, mark = caret.partition("| ")
    return Text("\n").join(
        [
            Text.assemble((place, "bold"), _GAP, (problem.code, f"bold {colour}"), f"{_GAP}{problem.message}"),
            Text(line),
            Text.assemble(margin, bar, (mark, colour)),
        ]
    )


def draw_violations(violations: Sequence[Violation]) -> Text:
    """Records that break rules, one on a line, in the order in which a person goes through the files."""
    files = {file: at for at, file in enumerate(dict.fromkeys(violation.file for violation in violations))}
    ordered = sorted(violations, key=lambda violation: (files[violation.file], violation.line or 0))
    return Text("\n").join(map(_draw_violation, ordered))


def _draw_violation(violation: Violation) -> Text:
    """One record that breaks a rule, on one line: where it stands, the rule, what is wrong."""
    known = violation.line is not None
    place = f"{violation.file or 'record'}:{violation.line}{_GAP}" if known else ""
    # Most messages begin with the rule, so that they can stand alone.
    message = violation.message.removeprefix(violation.rule).lstrip(": ")
    place, rule, message = (text.translate(_PICTURES) for text in (place, violation.rule, message))
    return Text.assemble((place, "bold"), (rule, "bold red"), f"{_GAP}{message}")


def _cut(problem: Problem) -> Problem:
    """The same problem, its line without control characters and cut to what a person can look at."""
    at = problem.position
    start = max(0, min(at.column - 1 - MAX_LINE // 2, len(at.text) - MAX_LINE))
    text = at.text[start : start + MAX_LINE].translate(_PICTURES)
    return replace(problem, position=replace(at, column=at.column - start, end_column=at.end_column - start, text=text))


def _cell_text(cell: Cell, longest: int | None) -> str:
    """A cell on one line; a text of several shows its first."""
    if isinstance(cell, int):
        return f"{cell:,}"
    text = tamed(next(iter((cell or "").splitlines()), ""))
    return text if longest is None else _cut_to(text, longest)


def _cut_to(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]


def _aligned(cell: str, width: int, number: bool) -> str:  # noqa: FBT001  how a column stands, not a switch
    blank = " " * (width - cell_len(cell))
    return blank + cell if number else cell + blank


def _ago(age: timedelta) -> str | None:
    minutes = age // timedelta(minutes=1)
    # A clock that is ahead of ours makes things of the future: those have a date, and no age.
    if not 0 <= minutes < 24 * 60:
        return None
    if minutes == 0:
        return "just now"
    return f"{many(minutes, 'minute')} ago" if minutes < 60 else f"{many(minutes // 60, 'hour')} ago"

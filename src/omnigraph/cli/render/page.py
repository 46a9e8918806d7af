"""Drawing text: lines and tables on stdout, messages on stderr, problems with a caret, times and counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, TypeAlias, cast

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from omnigraph.errors import Problem, Violation
from omnigraph.violation_groups import ViolationGroup, render_groups

Cell: TypeAlias = str | int | None

MAX_LINE = 160
MAX_CELL = 40
MIN_CELL = 4
_GAP = "  "
_BYTE_UNITS = ("bytes", "KB", "MB", "GB", "TB")
# A terminal would obey control characters in a text. Their pictures are as wide as a caret expects.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) != "\t"} | {127: 0x2421}


class Page:
    """Where a result is drawn. Lines are never wrapped, so that carets stay under what they point to."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        # By itself rich drops colours alone, and keeps what is bold.
        colours = None if os.environ.get("NO_COLOR") else "auto"
        self.out = Console(color_system=colours, soft_wrap=True, markup=False, highlight=False, emoji=False)
        self.err = Console(
            color_system=colours, soft_wrap=True, markup=False, highlight=False, emoji=False, stderr=True
        )
        self.now = datetime.now(UTC)

    @property
    def is_watched(self) -> bool:
        """Whether messages are wanted and a terminal shows them."""
        return not self._quiet and self.err.file.isatty()

    def print(self, line: str | Text) -> None:
        """Print a line of the result."""
        self.out.print(line)

    def say(self, talk: str) -> None:
        """Print a message beside the result."""
        if not self._quiet:
            self.err.print(escape_controls(talk))

    def facts(self, facts: Mapping[str, str | None]) -> None:
        """Print one line per name and value. None is left out; further lines of a value go below the first."""
        width = max(map(len, facts))
        for name, value in facts.items():
            if value is not None:
                first, *more = value.splitlines() or [""]
                self.print(Text.assemble((f"{name:<{width}}", "bold"), _GAP, escape_controls(first)))
                for line in more:
                    self.print(f"{'':<{width}}{_GAP}{escape_controls(line)}")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Print aligned columns, numbers to the right. On a terminal what does not fit is cut; elsewhere nothing is."""
        watched = self.out.is_terminal
        shown = [[_cell_text(cell, watched=watched) for cell in row] for row in rows]
        numbers = [all(isinstance(row[column], int) for row in rows) for column in range(len(header))]
        self._lines(header, shown, numbers, _measure_columns(header, shown))

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> None:
        """Print a table of one-line texts. On a terminal the widest columns shrink, so that all columns fit."""
        widths = _measure_columns(header, rows)
        if self.out.is_terminal:
            widths = fit_widths(widths, self.out.width - len(_GAP) * (len(header) - 1))
        self._lines(header, rows, numbers, widths)

    def _lines(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool], widths: Sequence[int]
    ) -> None:
        for cells, style in ((header, "bold"), *((row, "") for row in rows)):
            aligned = zip(cells, widths, numbers, strict=True)
            line = Text(_GAP.join(_align(_cut_to(cell, width), width, number) for cell, width, number in aligned))
            line.stylize(style)
            line.rstrip()
            if self.out.is_terminal:
                line.truncate(self.out.width, overflow="ellipsis")
            self.print(line)

    def binary(self) -> BinaryIO:
        """Return stdout for bytes."""
        self.out.file.flush()
        return cast("BinaryIO", sys.stdout.buffer)

    def write(self, text: str) -> None:
        """Write a part of the result for programs as it is, without the cost of drawing."""
        self.out.file.write(text)

    def moment(self, instant: datetime) -> str:
        """Format a time: the age if less than a day, else the date."""
        return _age_text(self.now - instant) or f"{instant:%Y-%m-%d %H:%MZ}"

    def exact_moment(self, instant: datetime) -> str:
        """Format a time to the second, with the age if less than a day."""
        ago = _age_text(self.now - instant)
        return f"{instant:%Y-%m-%d %H:%M:%SZ}" + (f" ({ago})" if ago else "")


def pluralize(number: int, one: str, more: str | None = None) -> str:
    """Format a count with its noun: ``1 node``, ``2 nodes``."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def size_text(count: int) -> str:
    """Format a number of bytes."""
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count:,} {_BYTE_UNITS[0]}" if unit == 0 else f"{size:.1f} {_BYTE_UNITS[unit]}"


def escape_controls(text: str) -> str:
    """Replace control characters, so that a text cannot control the terminal. Line ends stay."""
    return "\n".join(line.translate(_PICTURES) for line in text.split("\n"))


def to_one_line(text: str) -> str:
    """Replace control characters and line ends, so that a text stays on one line."""
    return text.replace("\t", " ").translate(_PICTURES)


def fit_widths(widths: Sequence[int], room: int) -> list[int]:
    """Shrink column widths to a total: narrow columns keep their width, the others share the rest."""
    found = list(widths)
    columns = sorted(range(len(widths)), key=lambda column: widths[column])
    for place, column in enumerate(columns):
        share = max(MIN_CELL, room // (len(columns) - place))
        found[column] = min(widths[column], share)
        room -= found[column]
    return found


def draw_problem(problem: Problem, colour: str) -> Text:
    """Draw a problem with its line and caret, in colour."""
    at = problem.position
    place = f"{at.file or '<text>'}:{at.line}:{at.column}".translate(_PICTURES)
    _, line, caret = _cut_line(problem).render().rsplit("\n", 2)
    margin, bar, mark = caret.partition("| ")
    return Text("\n").join(
        [
            Text.assemble((place, "bold"), _GAP, (problem.code, f"bold {colour}"), f"{_GAP}{problem.message}"),
            Text(line),
            Text.assemble(margin, bar, (mark, colour)),
        ]
    )


_MAX_SINGLE_VIOLATIONS = 12


def draw_violations(violations: Sequence[Violation], groups: Sequence[ViolationGroup]) -> Text:
    """Draw groups of violations; or, of a few, each on a line, in the order of files and lines."""
    if sum(each.count for each in groups) > _MAX_SINGLE_VIOLATIONS:
        return Text("\n").join(Text(line.translate(_PICTURES)) for line in render_groups(groups))
    files = {file: at for at, file in enumerate(dict.fromkeys(violation.file for violation in violations))}
    ordered = sorted(violations, key=lambda violation: (files[violation.file], violation.line or 0))
    return Text("\n").join(map(_draw_violation, ordered))


def _draw_violation(violation: Violation) -> Text:
    """Draw one violation on a line: place, rule, message."""
    lines = "" if violation.line is None else f":{violation.line}"
    file = violation.file or ("record" if lines else "")
    place = f"{file}{lines}{_GAP}" if file else ""
    # Most messages begin with the rule, so that they can stand alone.
    message = violation.message.removeprefix(violation.rule).lstrip(": ")
    place, rule, message = (text.translate(_PICTURES) for text in (place, violation.rule, message))
    return Text.assemble((place, "bold"), (rule, "bold red"), f"{_GAP}{message}")


def _cut_line(problem: Problem) -> Problem:
    """Cut the source line of a problem to a readable length, without control characters."""
    at = problem.position
    start = max(0, min(at.column - 1 - MAX_LINE // 2, len(at.text) - MAX_LINE))
    text = at.text[start : start + MAX_LINE].translate(_PICTURES)
    return replace(problem, position=replace(at, column=at.column - start, end_column=at.end_column - start, text=text))


def _cell_text(cell: Cell, *, watched: bool) -> str:
    """Format a cell on one line; of a text with several lines, the first. Programs read numbers without separators."""
    if isinstance(cell, int):
        return f"{cell:,}" if watched else str(cell)
    text = escape_controls(next(iter((cell or "").splitlines()), ""))
    return _cut_to(text, MAX_CELL) if watched else text


def _cut_to(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _measure_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]


def _align(cell: str, width: int, number: bool) -> str:  # noqa: FBT001  how a column stands, not a switch
    blank = " " * (width - cell_len(cell))
    return blank + cell if number else cell + blank


def _age_text(age: timedelta) -> str | None:
    minutes = age // timedelta(minutes=1)
    # Another clock may be ahead of ours: a time in the future has no age.
    if not 0 <= minutes < 24 * 60:
        return None
    if minutes == 0:
        return "just now"
    return f"{pluralize(minutes, 'minute')} ago" if minutes < 60 else f"{pluralize(minutes // 60, 'hour')} ago"

"""The two forms of everything that a command says.

Results go to stdout. In the form for people, talk and errors go to stderr; in the form for programs, a command
prints one object on stdout, whatever happens.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, TypeAlias

from rich.text import Text

from omnigraph.cli.render.conflicts import draw_conflicts
from omnigraph.cli.render.page import Page, draw_problem, draw_violations, many, tamed
from omnigraph.cli.render.progress import byte_bar
from omnigraph.errors import (
    Json,
    MergeConflicts,
    OmniGraphError,
    PipelineError,
    QueryError,
    SchemaError,
    ValidationError,
)

Progress: TypeAlias = AbstractContextManager[Callable[[int], None]]


class Result(ABC):
    """What a command found, in its two forms."""

    @abstractmethod
    def to_json(self) -> Mapping[str, Json]:
        """The one object that ``--json`` prints."""

    @abstractmethod
    def draw(self, page: Page) -> None:
        """The result as a person reads it."""


class Output(ABC):
    """Everything that a command may say."""

    is_json: ClassVar[bool]
    """Whether stdout is for one object and nothing else."""

    @abstractmethod
    def show(self, result: Result) -> None:
        """What the command found or made."""

    @abstractmethod
    def say(self, talk: str) -> None:
        """What a person may like to know meanwhile."""

    @abstractmethod
    def confirm(self, question: str) -> bool:
        """Whether to go on. Only a person at a terminal is asked; for anybody else the command was the answer."""

    @abstractmethod
    def progress(self, total: int | None) -> Progress:
        """How far the reading of so many bytes has come. What is entered is told about each part of them."""

    @abstractmethod
    def error(self, error: OmniGraphError) -> None:
        """Why the command failed."""


class JsonOutput(Output):
    """One JSON object on stdout."""

    is_json = True

    def show(self, result: Result) -> None:
        """The object of the result."""
        _print_json(result.to_json())

    def say(self, talk: str) -> None:
        """Programs are not talked to."""

    def confirm(self, question: str) -> bool:  # noqa: ARG002  there is nobody to ask
        """Programs are not asked."""
        return True

    def progress(self, total: int | None) -> Progress:  # noqa: ARG002  nobody watches
        """Programs can wait."""
        return nullcontext(_ignore)

    def error(self, error: OmniGraphError) -> None:
        """The ``error`` object."""
        _print_json({"error": error.to_json()})


class TextOutput(Output):
    """Text, in colour on a terminal."""

    is_json = False

    def __init__(self, *, quiet: bool = False) -> None:
        self._page = Page(quiet=quiet)

    def show(self, result: Result) -> None:
        """The result as it draws itself."""
        result.draw(self._page)

    def say(self, talk: str) -> None:
        """A line on stderr."""
        self._page.say(talk)

    def confirm(self, question: str) -> bool:
        """A question on stderr, answered on stdin; anything but a yes is a no."""
        if not (sys.stdin.isatty() and self._page.err.is_terminal):
            return True
        self._page.err.print(f"{question} [y/N] ", end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def progress(self, total: int | None) -> Progress:
        """A bar for who watches a terminal."""
        return byte_bar(self._page.err, total) if self._page.is_watched else nullcontext(_ignore)

    def error(self, error: OmniGraphError) -> None:
        """The problems of a text as ``lint`` shows them; any other error as a line, and its hint as another.

        The violations of records stand above that line, which counts them, and so do the conflicts of a merge.
        """
        err = self._page.err
        if isinstance(error, SchemaError | QueryError | PipelineError):
            for problem in error.problems:
                err.print(draw_problem(problem, "red"))
            return
        message = error.message
        if isinstance(error, ValidationError) and error.violations:
            err.print(draw_violations(error.violations))
            more = " or more" if error.details.get("more") else ""
            message = f"{many(len(error.violations), 'violation')}{more}"
        if isinstance(error, MergeConflicts) and error.conflicts:
            err.print(draw_conflicts(error.conflicts))
        err.print(Text.assemble(("error", "bold red"), ": ", tamed(message)))
        if error.hint:
            err.print(Text.assemble(("hint", "bold"), ": ", tamed(error.hint)))


def _ignore(count: int) -> None:
    """Nobody wants to know."""


def json_text(found: Mapping[str, Json]) -> str:
    """One object, as a command prints it."""
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _print_json(found: Mapping[str, Json]) -> None:
    sys.stdout.write(json_text(found))

"""The two forms of output: text and JSON.

Results go to stdout. As text, messages and errors go to stderr. As JSON, a command prints one object on stdout, also
when it fails.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import ClassVar, TypeAlias, cast

from rich.text import Text

from omnigraph.cli.hints import speak_flags
from omnigraph.cli.render.conflicts import draw_conflicts
from omnigraph.cli.render.page import Page, draw_problem, draw_violations, escape_controls, pluralize
from omnigraph.cli.render.progress import byte_bar, step_bar
from omnigraph.errors import (
    ConfigError,
    Json,
    MergeConflicts,
    OmniGraphError,
    PipelineError,
    QueryError,
    SchemaError,
    ValidationError,
)
from omnigraph.progress import Watcher

Progress: TypeAlias = AbstractContextManager[Callable[[int], None]]


class CommandResult(ABC):
    """The result of a command, as text and as JSON."""

    @abstractmethod
    def to_json(self) -> Mapping[str, Json]:
        """The one object that ``--json`` prints."""

    @abstractmethod
    def draw(self, page: Page) -> None:
        """Draw the result as text."""


class Output(ABC):
    """Where a command writes results, messages, questions and errors."""

    is_json: ClassVar[bool]
    """Whether stdout is for one object and nothing else."""

    @abstractmethod
    def show(self, result: CommandResult) -> None:
        """Print the result."""

    @abstractmethod
    def say(self, talk: str) -> None:
        """Print a message beside the result."""

    @property
    @abstractmethod
    def can_ask(self) -> bool:
        """Whether somebody at a terminal can answer a question."""

    @abstractmethod
    def ask(self, question: str) -> bool:
        """Ask a question at the terminal."""

    @abstractmethod
    def progress(self, total: int | None) -> Progress:
        """Show progress over ``total`` bytes. The context gives a function to report bytes to."""

    @abstractmethod
    def watch(self) -> AbstractContextManager[Watcher]:
        """Show the steps of a long call. The context gives the function to tell them to."""

    @abstractmethod
    def error(self, error: OmniGraphError) -> None:
        """Print an error."""


class JsonOutput(Output):
    """One JSON object on stdout."""

    is_json = True

    def show(self, result: CommandResult) -> None:
        """Print the JSON object of the result."""
        _print_json(result.to_json())

    def say(self, talk: str) -> None:
        """Print nothing: messages are for people."""

    @property
    def can_ask(self) -> bool:
        """Never: stdout is for programs."""
        return False

    def ask(self, question: str) -> bool:  # noqa: ARG002  there is nobody to ask
        """Never ask."""
        return False

    def progress(self, total: int | None) -> Progress:  # noqa: ARG002  nobody watches
        """Show no progress."""
        return nullcontext(_ignore)

    def watch(self) -> AbstractContextManager[Watcher]:
        """Show no steps."""
        return nullcontext(_ignore)

    def error(self, error: OmniGraphError) -> None:
        """Print the ``error`` object."""
        hint = {} if error.hint is None else {"hint": speak_flags(error.hint)}
        _print_json({"error": {**error.to_json(), **hint}})


class TextOutput(Output):
    """Text, in colour on a terminal."""

    is_json = False

    def __init__(self, *, quiet: bool = False) -> None:
        self._page = Page(quiet=quiet)

    def show(self, result: CommandResult) -> None:
        """Draw the result. Ages are those of this moment: a shell shows many results."""
        self._page.now = datetime.now(UTC)
        result.draw(self._page)

    def say(self, talk: str) -> None:
        """Print a line on stderr."""
        self._page.say(talk)

    @property
    def can_ask(self) -> bool:
        """Whether stdin and stderr are a terminal."""
        return sys.stdin.isatty() and self._page.err.is_terminal

    def ask(self, question: str) -> bool:
        """Ask on stderr and read the answer from stdin; anything but yes is no."""
        self._page.err.print(f"{question} [y/N] ", end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def progress(self, total: int | None) -> Progress:
        """Show a bar on a terminal."""
        return byte_bar(self._page.err, total) if self._page.is_watched else nullcontext(_ignore)

    def watch(self) -> AbstractContextManager[Watcher]:
        """Show a bar on a terminal."""
        return step_bar(self._page.err) if self._page.is_watched else nullcontext(_ignore)

    def error(self, error: OmniGraphError) -> None:
        """Print the problems of a text as ``lint`` does; any other error on one line, and its hint on another.

        Violations and conflicts are listed above that line.
        """
        err = self._page.err
        if isinstance(error, SchemaError | QueryError | PipelineError | ConfigError):
            for problem in error.problems:
                err.print(draw_problem(problem, "red"))
            return
        message = error.message
        if isinstance(error, ValidationError) and error.violations:
            err.print(draw_violations(error.violations, error.groups))
            count = error.details["count"]
            message = pluralize(count if isinstance(count, int) else len(error.violations), "violation")
        if isinstance(error, MergeConflicts) and error.conflicts:
            err.print(draw_conflicts(error.conflicts))
        err.print(Text.assemble(("error", "bold red"), ": ", escape_controls(message)))
        if error.hint:
            err.print(Text.assemble(("hint", "bold"), ": ", escape_controls(speak_flags(error.hint))))


def _ignore(progress: object) -> None:
    """Ignore progress."""


def json_text(found: Mapping[str, Json]) -> str:
    """Format an object as a command prints it."""
    # As json.dumps, which recurses: the profile of a long match is nested deeply.
    text: list[str] = []
    pending: list[str | tuple[Json, str]] = [(cast("Json", found), "\n")]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            text.append(item)
            continue
        value, newline = item
        if not isinstance(value, dict | list) or not value:
            text.append(json.dumps(value, ensure_ascii=False))
            continue
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        pending.append(newline + closing)
        for number, (prefix, each) in reversed(list(enumerate(_items(value)))):
            pending += [(each, newline + "  "), ("," if number else opening) + newline + "  " + prefix]
    return "".join([*text, "\n"])


def _items(value: dict[str, Json] | list[Json]) -> list[tuple[str, Json]]:
    if isinstance(value, list):
        return [("", each) for each in value]
    return [(f"{json.dumps(key, ensure_ascii=False)}: ", each) for key, each in value.items()]


def _print_json(found: Mapping[str, Json]) -> None:
    sys.stdout.write(json_text(found))

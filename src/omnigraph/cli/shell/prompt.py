"""The prompt: it reads lines, keeps their history between sessions, and completes words."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from omnigraph.lazy_dataclass import dataclass

_HISTORY_LENGTH: Final = 2_000
_DELIMITERS: Final = " \t\n{}()[],:;<>=!+*/"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Lines from a terminal, or from a pipe, which is asked nothing."""

    is_watched: bool

    def read(self, label: str) -> str | None:
        """Return the next line; None at the end of the input."""
        if not self.is_watched:
            line = sys.stdin.readline()
            return line.rstrip("\n") if line else None
        try:
            return input(label)
        except EOFError:
            sys.stdout.write("\n")
            return None


@contextmanager
def open_prompt(complete: Callable[[str], Iterable[str]]) -> Generator[Prompt]:
    """Open the prompt. ``complete`` returns the words that may stand for what was begun."""
    if not sys.stdin.isatty():
        yield Prompt(is_watched=False)
        return
    try:
        import readline
    except ImportError:
        # Python may be built without it: then lines are typed without history.
        yield Prompt(is_watched=True)
        return
    history = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "omnigraph" / "history"
    history.parent.mkdir(parents=True, exist_ok=True)
    if history.is_file():
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LENGTH)
    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(lambda text, number: _nth(complete(text), number))
    readline.parse_and_bind("tab: complete")
    try:
        yield Prompt(is_watched=True)
    finally:
        readline.write_history_file(history)


def _nth(words: Iterable[str], number: int) -> str | None:
    return next((word for place, word in enumerate(words) if place == number), None)

"""The words of a command line: global options are found wherever they stand, and moved to the front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import typer

VERBOSE_FLAGS = frozenset({"--verbose", "-v"})
GLOBAL_FLAGS = frozenset({"--json", "--quiet", "-q", "--yes"}) | VERBOSE_FLAGS
GLOBAL_OPTIONS = frozenset({"--graph", "--as", "--storage-option"})
_GRAPH = "-g"
# There `--graph` alone asks for a drawing; the graph is named by -g, by --graph=URI, or before the command.
_DRAWS = ["commit", "list"]


def asks_for_json(words: Sequence[str]) -> bool:
    """Whether a command line, right or wrong, wants its answer as JSON."""
    return "--json" in words[: _end(words)]


def split_globals(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The global options of a command line, each as one word, and the rest; after ``--`` nothing is an option."""
    end = _end(words)
    found: list[str] = []
    rest: list[str] = []
    waiting = iter(words[:end])
    for word in waiting:
        option, value = _option(word)
        if word in GLOBAL_FLAGS:
            found.append(word)
        elif option is None or (word == "--graph" and rest[:2] == _DRAWS):
            rest.append(word)
        else:
            found.append(f"{option}={_next(word, waiting) if value is None else value}")
    return found, [*rest, *words[end:]]


def _end(words: Sequence[str]) -> int:
    return words.index("--") if "--" in words else len(words)


def _option(word: str) -> tuple[str | None, str | None]:
    """The global option that a word is, and the value in the same word: ``--graph=x``, ``-g=x``, ``-gx``."""
    if word.startswith(_GRAPH):
        value = word.removeprefix(_GRAPH)
        return "--graph", value.removeprefix("=") if value else None
    name, equals, value = word.partition("=")
    return (name if name in GLOBAL_OPTIONS else None), (value if equals else None)


def _next(option: str, waiting: Iterator[str]) -> str:
    value = next(waiting, None)
    if value is None or value.startswith("-"):
        raise typer.TyperException(f"Option '{option}' needs a value; one that begins with '-' is written {option}=-x")
    return value

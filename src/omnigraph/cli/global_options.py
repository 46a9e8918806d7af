"""Global options may stand anywhere on a command line: this module moves them to the front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import typer

VERBOSE_FLAGS = frozenset({"--verbose", "-v"})
GLOBAL_FLAGS = frozenset({"--json", "--quiet", "-q", "--yes", "--version", "-V"}) | VERBOSE_FLAGS
GLOBAL_OPTIONS = frozenset({"--graph", "--as", "--storage-option", "--durability", "--timeout", "--memory"})
_GRAPH = "-g"
# After `commit list`, a bare `--graph` asked for a drawing in release 0.1, which is --dag now.
_DRAWS = ["commit", "list"]


def wants_json(words: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, even if the rest of it is wrong."""
    return "--json" in words[: _options_end(words)]


def split_globals(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line into global options, each as one word, and the rest. After ``--`` nothing is an option."""
    end = _options_end(words)
    found: list[str] = []
    rest: list[str] = []
    waiting = iter(words[:end])
    for word in waiting:
        option, value = _parse_option(word)
        if word in GLOBAL_FLAGS:
            found.append(word)
        elif option is None or (word == "--graph" and rest[:2] == _DRAWS):
            rest.append(word)
        else:
            found.append(f"{option}={_take_value(word, waiting) if value is None else value}")
    return found, [*rest, *words[end:]]


def _options_end(words: Sequence[str]) -> int:
    return words.index("--") if "--" in words else len(words)


def _parse_option(word: str) -> tuple[str | None, str | None]:
    """Return the global option that a word is, and a value in the same word: ``--graph=x``, ``-g=x``, ``-gx``."""
    if word.startswith(_GRAPH):
        value = word.removeprefix(_GRAPH)
        return "--graph", value.removeprefix("=") if value else None
    name, equals, value = word.partition("=")
    return (name if name in GLOBAL_OPTIONS else None), (value if equals else None)


def _take_value(option: str, waiting: Iterator[str]) -> str:
    value = next(waiting, None)
    if value is None or value.startswith("-"):
        raise typer.TyperException(f"Option '{option}' needs a value; one that begins with '-' is written {option}=-x")
    return value

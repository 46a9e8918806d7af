"""Files named on the command line: ``-`` is stdin, and every file that cannot be read is named at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from omnigraph.errors import InputError, NotFound, OmniGraphError, ParameterError, Problem
from omnigraph.language.source import MAX_SOURCE_BYTES, Source, read_source, source_of

STDIN = "-"


def read_all(names: Sequence[str]) -> list[Source | Problem]:
    """The texts of all files. What is no text comes back as a problem; what cannot be read at all is an error."""
    if names.count(STDIN) > 1:
        raise typer.BadParameter("'-' (stdin) can be read only once")
    texts: list[Source | Problem] = []
    failures: list[OmniGraphError] = []
    for name in names:
        try:
            texts.append(_read(name))
        except (InputError, NotFound) as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ParameterError("\n".join(error.message for error in failures))
    return texts


def _read(name: str) -> Source | Problem:
    if name == STDIN:
        return source_of(sys.stdin.buffer.read(MAX_SOURCE_BYTES + 1), "<stdin>")
    path = Path(name)
    return read_source(path, path.suffix)

"""A command run as a user who may write nowhere."""

from __future__ import annotations

import os
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from omnigraph.cli.app import main
from tests.cli.conftest import Answer

SCHEMA = "node Person { name: String @key }"


def as_nobody(words: tuple[str, ...]) -> Answer:
    """Give up all rights, then run a command. To be called in a child process."""
    with TemporaryDirectory() as folder:
        _import_what_is_imported_late(Path(folder))
    if os.geteuid() == 0:
        os.setuid(65534)
    return _run(*words)


def _run(*words: str) -> Answer:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(words)
    return Answer(code, out.getvalue(), err.getvalue())


def _import_what_is_imported_late(folder: Path) -> None:
    # Without rights even the standard library may be out of reach.
    schema, graph = folder / "s.pg", str(folder / "brain.og")
    schema.write_text(SCHEMA)
    for words in (
        ["init", graph, "--schema", str(schema)],
        ["branch", "create", "x", "-g", graph, "--json"],
        ["branch", "list", "-g", graph],
        ["branch", "delete", "y", "--yes", "-g", graph],
    ):
        _run(*words)

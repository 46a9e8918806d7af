"""``omnigraph load``: files of records, as one commit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from omnigraph.cli.arguments import STDIN
from omnigraph.cli.render.page import pluralize
from omnigraph.cli.render.write import LoadSummary
from omnigraph.cli.session import session_of
from omnigraph.errors import NotFound

# As the library names them; importing them from there would bring Lance along.
Mode: TypeAlias = Literal["append", "merge", "overwrite"]
OnError: TypeAlias = Literal["fail", "quarantine"]
Engine: TypeAlias = Literal["auto", "local", "spark"]


def load(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(help="Files of records (JSONL, also gzip or zstd); - is stdin.", show_default=False),
    ],
    *,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode",
            help="Existing rows: append refuses their ids, merge replaces them, overwrite replaces the whole table.",
        ),
    ] = "append",
    branch: Annotated[str, typer.Option("--branch", help="The branch to load into.")] = "main",
    origin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="REF", help="Create the branch from here if it does not exist.", show_default=False
        ),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option("--on-error", help="On a bad record: load nothing, or set it aside and load the others.")
    ] = "fail",
    rejects: Annotated[
        str | None,
        typer.Option(
            "--rejects",
            metavar="FILE",
            help="The file for the records that were set aside.",
            show_default="next to the graph",
        ),
    ] = None,
    txn: Annotated[
        str | None,
        typer.Option(
            "--txn",
            metavar="APP:N",
            help="Load at most once: a repeated load of the same APP:N does nothing.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option("--engine", help="Where the load runs.")] = "auto",
    check: Annotated[bool, typer.Option("--check", help="Report every problem and write nothing.")] = False,
    message: Annotated[
        str | None, typer.Option("-m", metavar="MESSAGE", help="The commit message.", show_default=False)
    ] = None,
) -> int:
    """Load files of records as one commit, all or nothing.

    Exits with 1 if a record breaks a rule of the schema, and lists up to a hundred problems.

    \b
    Example:
      omnigraph load evidence.jsonl --mode merge --branch import/june --from main
    """
    session = session_of(context)
    if rejects is not None and on_error != "quarantine":
        raise typer.TyperException("--rejects goes with --on-error quarantine")
    transaction = None if txn is None else read_txn(txn)
    _check_files_exist(files)
    doing = "checking {} for" if check else "loading {} into"
    session.output.say(f"{doing.format(pluralize(len(files), 'file'))} branch {branch} in {session.target()}")
    with ExitStack() as stack:
        graph = stack.enter_context(session.open("ro" if check else "rw"))
        advance = stack.enter_context(session.output.progress(_total_bytes(files)))
        result = graph.load(
            [_StandardInput() if name == STDIN else name for name in files],
            mode=mode,
            branch=branch,
            from_branch=origin,
            on_error=on_error,
            rejects=rejects,
            txn=transaction,
            engine=engine,
            message=message,
            check=check,
            progress=advance,
        )
    session.output.show(LoadSummary(result, checked=check))
    return 0


def read_txn(text: str) -> tuple[str, int]:
    """Parse ``APP:N`` into the application and the number."""
    app, _, number = text.rpartition(":")
    if not (app and number.isdecimal()):
        raise typer.TyperException(f"--txn takes APP:N, for example import:7, not '{text}'")
    return app, int(number)


def _check_files_exist(files: Sequence[str]) -> None:
    if files.count(STDIN) > 1:
        raise typer.TyperException("'-' (stdin) can be read only once")
    missing = [name for name in files if name != STDIN and not Path(name).exists()]
    if missing:
        raise NotFound(f"no such file: {', '.join(missing)}")


def _total_bytes(files: Sequence[str]) -> int | None:
    """How much there is to read, where that is known beforehand."""
    if all(name != STDIN and Path(name).is_file() for name in files):
        return sum(Path(name).stat().st_size for name in files)
    return None


class _StandardInput:
    """Standard input with the name that messages show."""

    name = "<stdin>"

    def read(self, size: int = -1, /) -> bytes:
        """Up to so many bytes; nothing at the end."""
        return sys.stdin.buffer.read(size)

"""``omnigraph changes`` and ``diff``: follow a branch commit by commit, and compare two points in history."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from omnigraph.cli.arguments import SvgFile, Types
from omnigraph.cli.render.changes import ChangeFeed, ChangesFormat
from omnigraph.cli.render.diff import DiffCounts, DiffDetails, DiffFormat
from omnigraph.cli.render.graph import MAIN
from omnigraph.cli.render.picture import write_picture
from omnigraph.cli.session import Session, session_of
from omnigraph.errors import NotFound, ParameterError, ReadOnly

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.read.changes import ChangeBlock

app = typer.Typer(help="Follow the changes of a branch, commit by commit.", rich_markup_mode=None)

Branch: TypeAlias = Annotated[str, typer.Option("--branch", help="The branch to follow.")]
Form: TypeAlias = Annotated[ChangesFormat | None, typer.Option("--format", help="Output format.", show_default="text")]


@app.command()
def poll(
    context: typer.Context,
    cursor: Annotated[
        str | None,
        typer.Option(
            "--cursor",
            metavar="FILE|TEXT",
            help="Where to continue: a cursor, or a file that holds one. The file is created if it is missing, "
            "and updated once everything was printed.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="now|beginning|after:REF",
            help="Where to start if there is no cursor yet.",
            show_default="now",
        ),
    ] = None,
    branch: Branch = MAIN,
    types: Types = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="At most this many commits.", show_default=False)
    ] = None,
    form: Form = None,
) -> int:
    """Show what each commit since the cursor changed, oldest first.

    A commit is shown whole or not at all; an interrupted one is shown again the next time. A cursor belongs to one
    graph, one branch and one choice of types.

    \b
    Examples:
      omnigraph changes poll --cursor state.cursor --start beginning --format jsonl
      omnigraph changes poll --cursor state.cursor --type Paper --limit 10
    """
    session = session_of(context)
    text, file = _read_cursor(cursor)
    if start is not None and cursor is not None and file is None:
        raise typer.TyperException("--start cannot be used with a cursor: both say where to start")
    with session.open("ro") as graph:
        found = graph.changes(start if text is None else None, text, branch=branch, types=types or None)
        _show(session, branch, islice(found, limit and min(limit, sys.maxsize)), found.cursor, form, file)
    return 0


@app.command()
def baseline(
    context: typer.Context,
    reference: Annotated[
        str | None,
        typer.Argument(
            metavar="[REF]", help="A commit of the branch: its id, a version, a time, or a tag.", show_default="newest"
        ),
    ] = None,
    cursor: Annotated[
        str | None,
        typer.Option(
            "--cursor", metavar="FILE", help="A file to write the cursor after that commit to.", show_default=False
        ),
    ] = None,
    branch: Branch = MAIN,
    types: Types = None,
    form: Form = None,
) -> int:
    """Show the state at a commit as inserts, and the cursor after it: to start following, or to restart after a gap.

    \b
    Examples:
      omnigraph changes baseline --cursor state.cursor --format jsonl
      omnigraph changes baseline --cursor state.cursor --branch review/june --type Paper
    """
    session = session_of(context)
    if cursor is not None and _is_cursor(cursor):
        raise typer.TyperException("a baseline does not start at a cursor; --cursor names a file for the new one")
    file = None if cursor is None else _cursor_file(cursor)
    with session.open("ro") as graph:
        block = graph.baseline(reference, branch=branch, types=types or None)
        _show(session, branch, [block], block.cursor, form, file)
    return 0


def _show(
    session: Session,
    branch: str,
    blocks: Iterable[ChangeBlock],
    cursor: str,
    form: ChangesFormat | None,
    file: Path | None,
) -> None:
    if session.output.is_json and form is not None:
        raise typer.TyperException(f"--json and --format {form} cannot be used together")
    followed = ChangeFeed(branch, blocks, cursor, form or "text", shows_cursor=file is None)
    session.output.show(followed)
    if file is not None:
        _store_cursor(file, followed.cursor)


def _is_cursor(text: str) -> bool:
    """Whether a text is a cursor and not a file name."""
    # A late import: it loads Lance.
    from omnigraph.read.changes import CURSOR_PREFIX

    return text.startswith(CURSOR_PREFIX)


def _read_cursor(given: str | None) -> tuple[str | None, Path | None]:
    """Return the given cursor and the file it is kept in, if any."""
    if given is None or _is_cursor(given):
        return given, None
    file = _cursor_file(given)
    try:
        return file.read_text("utf-8").strip() or None, file
    except FileNotFoundError:
        return None, file
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"the cursor cannot be read from {file}: {error}") from error


def _cursor_file(name: str) -> Path:
    """Check that a cursor file can be written, before anything is printed."""
    file = Path(name)
    folder = file.absolute().parent
    if not folder.is_dir():
        raise NotFound(f"there is no folder '{file.parent}' for the cursor", hint="create it first")
    if not os.access(folder, os.W_OK):
        raise ReadOnly(f"the cursor cannot be kept in '{file.parent}': permission denied")
    return file


def _store_cursor(file: Path, cursor: str) -> None:
    """Write the cursor, after flushing the output that it covers."""
    # A late import: it loads Arrow.
    from omnigraph.read.rows import create_file

    sys.stdout.flush()
    with create_file(file) as stream:
        stream.write(f"{cursor}\n".encode())
        stream.flush()
        os.fsync(stream.fileno())


def diff(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A branch, a commit id, a tag, a version like v12, or a time.")],
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="The same kind of reference. Shows the changes from A to B.")
    ] = None,
    types: Types = None,
    branch: Annotated[str, typer.Option("--branch", help="The branch that versions and times refer to.")] = "main",
    *,
    tips: Annotated[
        bool, typer.Option("--tips", help="Compare a branch with the head of main, not with where it left main.")
    ] = False,
    stat: Annotated[bool, typer.Option("--stat", help="Show only the counts per type.")] = False,
    form: Annotated[DiffFormat | None, typer.Option("--format", help="Output format.", show_default="text")] = None,
    svg: SvgFile = None,
) -> int:
    """Show what changed from A to B: counts per type, and every changed entity before and after.

    A branch alone shows what was changed on it, since it left main or last merged main. Any other reference alone is
    compared with the current state of the branch.
    Entities that were rewritten with the same values, and compactions, do not show.

    \b
    Examples:
      omnigraph diff review/june
      omnigraph diff 2026-05-01 --stat
      omnigraph diff v12 v15 --type Trial --format jsonl
      omnigraph diff review/june --svg june.svg
    """
    session = session_of(context)
    if session.output.is_json and form is not None:
        raise typer.TyperException(f"--json and --format {form} cannot be used together")
    if svg is not None and (stat or form is not None):
        raise typer.TyperException("--svg draws the entities; it takes neither --stat nor --format")
    with session.open("ro") as graph:
        found = graph.diff(a, b, types=types or None, branch=branch, tips=tips)
        if svg is not None:
            session.output.show(write_picture(svg, found.to_svg()))
            return 0
        session.output.show(DiffCounts(found, form or "text") if stat else DiffDetails(found, form or "text"))
    return 0

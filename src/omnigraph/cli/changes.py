"""``omnigraph changes``: follow a branch commit by commit, and begin, or begin anew, with all that it shows."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from omnigraph.cli.render.changes import ChangesFormat, Followed
from omnigraph.cli.render.graph import MAIN
from omnigraph.cli.session import Session, session_of
from omnigraph.errors import NotFound, ParameterError, ReadOnly

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.read.changes import ChangeBlock

app = typer.Typer(help="Follow what is changed, commit by commit.", rich_markup_mode=None)

Branch: TypeAlias = Annotated[str, typer.Option("--branch", help="The branch that is followed.")]
Types: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="T", help="Only this type. May be repeated.", show_default=False),
]
Form: TypeAlias = Annotated[
    ChangesFormat | None, typer.Option("--format", help="How changes are written.", show_default="text")
]


@app.command()
def poll(
    context: typer.Context,
    cursor: Annotated[
        str | None,
        typer.Option(
            "--cursor",
            metavar="FILE|TEXT",
            help="Where to go on: a cursor, or a file that holds one. The file is made if it is not there, "
            "and says where to go on next time when everything was written.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="now|beginning|after:REF",
            help="Where to begin while there is no cursor.",
            show_default="now",
        ),
    ] = None,
    branch: Branch = MAIN,
    types: Types = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="At most so many commits.", show_default=False)
    ] = None,
    form: Form = None,
) -> int:
    """Show what each commit changed since the cursor, the oldest first.

    A commit is shown as a whole or not at all; one whose showing was interrupted is shown again the next time. A
    cursor is good for one graph, one branch and one choice of types.

    \b
    Example:
      omnigraph changes poll --cursor state.cursor --start beginning --format jsonl
    """
    session = session_of(context)
    text, file = _read_cursor(cursor)
    if start is not None and cursor is not None and file is None:
        raise typer.TyperException("--start and a cursor both say where to begin")
    with session.open("ro") as graph:
        found = graph.changes(start if text is None else None, text, branch=branch, types=types or None)
        _show(session, branch, islice(found, limit), found.cursor, form, file)
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
        typer.Option("--cursor", metavar="FILE", help="A file for the cursor after that commit.", show_default=False),
    ] = None,
    branch: Branch = MAIN,
    types: Types = None,
    form: Form = None,
) -> int:
    """Show all that a commit shows, as inserts, and the cursor after it: how to begin, or to begin anew after a gap.

    \b
    Example:
      omnigraph changes baseline --cursor state.cursor --format jsonl
    """
    session = session_of(context)
    if cursor is not None and _is_cursor(cursor):
        raise typer.TyperException("a baseline does not begin at a cursor: --cursor is a file for the new one")
    file = None if cursor is None else _file(cursor)
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
    followed = Followed(branch, blocks, cursor, form or "text", shows_cursor=file is None)
    session.output.show(followed)
    if file is not None:
        _keep(file, followed.cursor)


def _is_cursor(text: str) -> bool:
    """Whether a text is a cursor, and not the name of a file. Imported late: commands start without the graph."""
    from omnigraph.read.changes import PREFIX

    return text.startswith(PREFIX)


def _read_cursor(given: str | None) -> tuple[str | None, Path | None]:
    """The cursor that is given, and the file that it is in."""
    if given is None or _is_cursor(given):
        return given, None
    file = _file(given)
    try:
        return file.read_text("utf-8").strip() or None, file
    except FileNotFoundError:
        return None, file
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"the cursor cannot be read from {file}: {error}") from error


def _file(name: str) -> Path:
    """A file for a cursor. That it can be written is known before anything is shown, so that a failure comes alone."""
    file = Path(name)
    folder = file.absolute().parent
    if not folder.is_dir():
        raise NotFound(f"there is no folder '{file.parent}' for the cursor", hint="make it first")
    if not os.access(folder, os.W_OK):
        raise ReadOnly(f"the cursor cannot be kept in '{file.parent}': permission denied")
    return file


def _keep(file: Path, cursor: str) -> None:
    """Write the cursor after all that it stands behind: whoever reads stdout has it by then, or dies with us."""
    # Imported here, because it brings Arrow along.
    from omnigraph.read.rows import new_file

    sys.stdout.flush()
    with new_file(file) as stream:
        stream.write(f"{cursor}\n".encode())
        stream.flush()
        os.fsync(stream.fileno())

"""``omnigraph diff``: what changed between two moments of the graph."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.render.diff import Counted, DiffFormat, Told
from omnigraph.cli.session import session_of


def diff(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A branch, a commit id, a tag, a version like v12, or a time.")],
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="The same; what changed from A to B is shown.")] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T", help="Only this type. May be repeated.", show_default=False),
    ] = None,
    branch: Annotated[str, typer.Option("--branch", help="The branch that versions and times mean.")] = "main",
    *,
    stat: Annotated[bool, typer.Option("--stat", help="Show only how many changed of each type.")] = False,
    form: Annotated[
        DiffFormat | None, typer.Option("--format", help="How changes are written.", show_default="text")
    ] = None,
) -> int:
    """Show what changed from A to B: how many of each type, and every entity before and after.

    A branch alone is compared with main: what it has that main has not, and what it lacks. Anything else alone is
    compared with the branch as it is now: what happened since. Entities that were written again as they were, and
    tables that were compacted, do not show.

    \b
    Examples:
      omnigraph diff review/june
      omnigraph diff 2026-05-01 --stat
      omnigraph diff v12 v15 --type Trial --format jsonl
    """
    session = session_of(context)
    if session.output.is_json and form is not None:
        raise typer.TyperException(f"--json and --format {form} cannot be used together")
    with session.open("ro") as graph:
        found = graph.diff(a, b, types=types or None, branch=branch)
        session.output.show(Counted(found, form or "text") if stat else Told(found, form or "text"))
    return 0

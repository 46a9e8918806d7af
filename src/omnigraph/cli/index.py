"""``omnigraph index``: build the indexes that the schema declares."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.render.read import Indexed
from omnigraph.cli.session import session_of


def index(
    context: typer.Context,
    branch: Annotated[str, typer.Option("--branch", help="The branch whose tables are indexed.")] = "main",
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T", help="Only this type. May be repeated.", show_default=False),
    ] = None,
) -> int:
    """Build the indexes that the schema declares, where they are missing or do not cover all rows.

    They make reads quicker and never change what is read. What cannot be built now is named, with the reason.

    \b
    Example:
      omnigraph index --type Paper
    """
    session = session_of(context)
    session.output.say(f"indexing branch {branch} in {session.target()}")
    with session.open("rw") as graph:
        session.output.show(Indexed(branch, graph.ensure_indexes(branch, types or None)))
    return 0

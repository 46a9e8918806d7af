"""``omnigraph init``, ``info`` and ``snapshot``: make a graph, and look at it as a whole."""

from __future__ import annotations

from typing import Annotated

import typer

import omnigraph
from omnigraph.cli.files import read_all
from omnigraph.cli.render.graph import Described, Made, Shown
from omnigraph.cli.schema import schema_text
from omnigraph.cli.session import session_of


def init(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(help="Where: a folder, s3://bucket/prefix or s3+ddb://...", show_default=False)],
    schema: Annotated[str, typer.Option("--schema", help="The schema file (.pg); - is stdin.", show_default=False)],
) -> int:
    """Make a new, empty graph with a schema.

    If an earlier init of the same schema was interrupted there, it is finished.

    \b
    Example:
      omnigraph init brain.og --schema evidence.pg
    """
    session = session_of(context)
    if session.graph is not None:
        raise typer.TyperException("'init' takes its graph as URI, not as -g")
    source = schema_text(*read_all([schema]))
    session.output.say(f"making a graph at {uri}")
    with omnigraph.init(uri, source, actor=session.actor, storage_options=session.storage_options) as graph:
        session.output.show(Made(graph.info()))
    return 0


def info(context: typer.Context) -> int:
    """Show where a graph is, what is in it and where it stands.

    \b
    Example:
      omnigraph info -g brain.og
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(Described(graph.info()))
    return 0


def snapshot(
    context: typer.Context,
    branch: Annotated[str, typer.Option("--branch", help="The branch to look at.")] = "main",
    at: Annotated[
        str | None, typer.Option("--at", help="A commit id, a version like v12, a time, or a tag.", show_default="now")
    ] = None,
) -> int:
    """Show which version of every table belongs to the graph, now or at a moment of its history.

    \b
    Example:
      omnigraph snapshot --branch review/june --at v12
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(Shown(graph.snapshot(branch, at)))
    return 0

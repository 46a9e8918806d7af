"""``omnigraph init``, ``info``, ``settings``, ``snapshot`` and ``version``: create a graph, look at it as a whole."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as release_of
from typing import Annotated

import typer

import omnigraph
from omnigraph.cli.arguments import At, ReadBranch, read_texts
from omnigraph.cli.render.graph import GraphDescription, NewGraph, SettingsListing, SnapshotTables, VersionListing
from omnigraph.cli.session import session_of

Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="AGE",
        help="Remove history older than this automatically, such as 30d; off never does.",
        show_default=False,
    ),
]


def init(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(help="A folder, s3://bucket/prefix or s3+ddb://...", show_default=False)],
    schema: Annotated[str, typer.Option("--schema", help="The schema file (.pg); - is stdin.", show_default=False)],
    keep: Keep = None,
) -> int:
    """Create an empty graph with a schema.

    An interrupted init with the same schema is completed.

    \b
    Examples:
      omnigraph init brain.og --schema evidence.pg
      omnigraph init s3://bucket/brain.og --schema evidence.pg --keep 30d
    """
    from omnigraph.cli.schema_texts import require_text  # brings the schema language along, which others do not need

    session = session_of(context)
    if session.graph is not None:
        raise typer.TyperException("'init' takes its graph as URI, not as -g")
    source = require_text(*read_texts([schema]))
    session.output.say(f"creating a graph at {uri}")
    with omnigraph.init(
        uri,
        source,
        actor=session.actor,
        storage_options=session.storage_options,
        durability=session.durability,
        keep=keep,
    ) as graph:
        session.output.show(NewGraph(graph.info()))
    return 0


def info(context: typer.Context) -> int:
    """Show the location, contents and newest commit of a graph.

    \b
    Examples:
      omnigraph info -g brain.og
      omnigraph info -g s3://bucket/brain.og --json
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(GraphDescription(graph.info()))
    return 0


def settings(context: typer.Context, keep: Keep = None) -> int:
    """Show the settings that a graph keeps, or change them.

    History is removed automatically only if --keep names an age. Branch heads, tags, merge bases and the last hour of
    history always stay.

    \b
    Examples:
      omnigraph settings --keep 30d
      omnigraph settings --keep off
    """
    session = session_of(context)
    with session.open("ro" if keep is None else "rw") as graph:
        session.output.show(SettingsListing(graph.settings() if keep is None else graph.change_settings(keep=keep)))
    return 0


def snapshot(
    context: typer.Context,
    branch: ReadBranch = "main",
    at: At = None,
) -> int:
    """Show the version of every table that belongs to the graph, now or at a point in its history.

    \b
    Examples:
      omnigraph snapshot --branch review/june --at v12
      omnigraph snapshot --at 2026-05-01 --json
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(SnapshotTables(graph.snapshot(branch, at)))
    return 0


LIBRARIES = ("datafusion", "lark", "numpy", "obstore", "pandas", "pyarrow", "pylance", "pyspark")


def version(context: typer.Context) -> int:
    """Print the versions of omnigraph, Python and the libraries it uses.

    \b
    Examples:
      omnigraph version --json
      omnigraph version
    """
    libraries = {name: _find_release(name) for name in LIBRARIES}
    releases = {"omnigraph": release_of("omnigraph"), "python": platform.python_version(), **libraries}
    session_of(context).output.show(VersionListing(releases))
    return 0


def _find_release(name: str) -> str | None:
    """Return the release of a library; None if it belongs to an extra that is not installed.

    It is read from the metadata of the package, because importing the libraries would take seconds.
    """
    try:
        return release_of(name)
    except PackageNotFoundError:
        return None

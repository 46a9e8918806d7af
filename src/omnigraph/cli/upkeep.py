"""``omnigraph optimize``, ``cleanup``, ``repair`` and ``verify``: keeping a graph quick, small and sound."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.render.upkeep import CleanedUp, OptimizedGraph, RepairedGraph, VerifiedGraph
from omnigraph.cli.session import session_of

Confirm = Annotated[bool, typer.Option("--confirm", help="Do it; without this nothing is changed.")]


def optimize(
    context: typer.Context,
    branch: Annotated[str, typer.Option("--branch", help="The branch whose tables are optimized.")] = "main",
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T", help="Only this type. May be repeated.", show_default=False),
    ] = None,
) -> int:
    """Merge small files, build the indexes that the schema means, and compact the manifest.

    What the graph shows stays the same, and writers go on meanwhile. A table that is too busy is left, with the reason.

    \b
    Example:
      omnigraph optimize
    """
    session = session_of(context)
    session.output.say(f"optimizing branch {branch} in {session.target()}")
    with session.open("rw") as graph:
        session.output.show(OptimizedGraph(graph.optimize(branch, types or None)))
    return 0


def cleanup(
    context: typer.Context,
    *,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", help="How many of the newest commits of each branch stay.", min=1),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Only what is older goes, such as 12h or 7d.", show_default=False
        ),
    ] = None,
    confirm: Confirm = False,
) -> int:
    """Drop old history and files that nobody needs, or show what would go.

    Heads of branches, tags, and what was the newest commit within the last hour always stay. With both options a commit
    stays if either of them keeps it; with none, the newest 10 of each branch stay.

    \b
    Example:
      omnigraph cleanup --keep 100 --older-than 7d --confirm
    """
    session = session_of(context)
    session.output.say(f"cleaning up {session.target()}" if confirm else f"looking at {session.target()}")
    with session.open("rw") as graph:
        if keep is None and older_than is None:
            result = graph.cleanup(confirm=confirm)
        else:
            result = graph.cleanup(keep, older_than, confirm=confirm)
        session.output.show(CleanedUp(result))
    return 0


def repair(
    context: typer.Context,
    *,
    confirm: Confirm = False,
    force: Annotated[bool, typer.Option("--force", help="Publish also what other programs did to the tables.")] = False,
) -> int:
    """Show tables that were changed without the graph knowing, and end that.

    Confirmed, compactions and index builds are published, and what a dead writer left is taken back. What changed rows
    needs --force as well: look at it first, and run verify afterwards. A graph that was moved or copied is made to
    stand alone.

    \b
    Example:
      omnigraph repair --confirm
    """
    session = session_of(context)
    session.output.say(f"repairing {session.target()}" if confirm else f"looking at {session.target()}")
    with session.open("rw") as graph:
        session.output.show(RepairedGraph(graph.repair(confirm=confirm, force=force)))
    return 0


def verify(context: typer.Context) -> int:
    """Read the whole graph and prove it: every row, every rule, every commit, every file.

    Exits with 1 if anything is wrong; each finding says where, and what to do.

    \b
    Example:
      omnigraph verify
    """
    session = session_of(context)
    session.output.say(f"reading all of {session.target()}")
    with session.open("ro") as graph:
        found = graph.verify()
    session.output.show(VerifiedGraph(found))
    return 0 if found.is_sound else 1

"""``omnigraph optimize``, ``index``, ``cleanup``, ``repair`` and ``verify``: maintenance."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.render.read import IndexSummary
from omnigraph.cli.render.upkeep import CleanupSummary, OptimizeSummary, RepairSummary, VerifySummary
from omnigraph.cli.session import session_of

Confirm = Annotated[bool, typer.Option("--confirm", help="Carry it out. Without this option nothing is changed.")]


def optimize(
    context: typer.Context,
    branch: Annotated[str, typer.Option("--branch", help="The branch whose tables to optimize.")] = "main",
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T", help="Only this type. Repeatable.", show_default=False),
    ] = None,
) -> int:
    """Compact small files, build the declared indexes, and compact the manifest.

    The contents stay the same, and writers are not blocked. A table that is too busy is skipped, with the reason.

    \b
    Example:
      omnigraph optimize
    """
    session = session_of(context)
    session.output.say(f"optimizing branch {branch} in {session.target()}")
    with session.open("rw") as graph:
        session.output.show(OptimizeSummary(graph.optimize(branch, types or None)))
    return 0


def cleanup(
    context: typer.Context,
    *,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", help="Keep this many of the newest commits of each branch.", min=1),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Delete only what is older than this, such as 12h or 7d.",
            show_default=False,
        ),
    ] = None,
    confirm: Confirm = False,
) -> int:
    """Delete old history and unneeded files, or show what would be deleted.

    Branch heads, tags and the last hour of history are always kept. With both options, a commit is kept if either of
    them keeps it. Without options, the newest 10 commits of each branch are kept.

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
        session.output.show(CleanupSummary(result))
    return 0


def repair(
    context: typer.Context,
    *,
    confirm: Confirm = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also publish changes that other programs made to the tables.")
    ] = False,
) -> int:
    """Show tables that were changed outside the graph (drift), and repair them.

    With --confirm, compactions and index builds are published, and what a dead writer left is rolled back. Changes of
    rows need --force too: look at them first, and run verify afterwards. A graph that was moved or copied gets its
    branches corrected.

    \b
    Example:
      omnigraph repair --confirm
    """
    session = session_of(context)
    session.output.say(f"repairing {session.target()}" if confirm else f"looking at {session.target()}")
    with session.open("rw") as graph:
        session.output.show(RepairSummary(graph.repair(confirm=confirm, force=force)))
    return 0


def verify(context: typer.Context) -> int:
    """Read the whole graph and check every row, rule, commit and file.

    Exits with 1 if anything is wrong. Each finding says where it is and what to do.

    \b
    Example:
      omnigraph verify
    """
    session = session_of(context)
    session.output.say(f"reading all of {session.target()}")
    with session.open("ro") as graph:
        found = graph.verify()
    session.output.show(VerifySummary(found))
    return 0 if found.is_sound else 1


def index(
    context: typer.Context,
    branch: Annotated[str, typer.Option("--branch", help="The branch whose tables to index.")] = "main",
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="T", help="Only this type. Repeatable.", show_default=False),
    ] = None,
) -> int:
    """Build the indexes that the schema declares, where they are missing or do not cover all rows.

    Indexes speed up reads and never change results. An index that cannot be built now is listed with the reason.

    \b
    Example:
      omnigraph index --type Paper
    """
    session = session_of(context)
    session.output.say(f"indexing branch {branch} in {session.target()}")
    with session.open("rw") as graph:
        session.output.show(IndexSummary(branch, graph.ensure_indexes(branch, types or None)))
    return 0

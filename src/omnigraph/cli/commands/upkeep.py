"""``omnigraph optimize``, ``index``, ``cleanup``, ``repair`` and ``verify``: maintenance."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from omnigraph.cli.arguments import Types
from omnigraph.cli.render.read import IndexSummary
from omnigraph.cli.render.upkeep import CleanupSummary, OptimizeSummary, RepairSummary, VerifySummary
from omnigraph.cli.session import NOTHING_CHANGED, Session, session_of
from omnigraph.cli.spark_engine import Engine, choose_engine

# The name of --yes in release 0.1.
Confirm = Annotated[bool, typer.Option("--confirm", hidden=True)]


def optimize(
    context: typer.Context,
    branch: Annotated[str, typer.Option("--branch", help="The branch whose tables to optimize.")] = "main",
    types: Types = None,
    engine: Engine = "local",
) -> int:
    """Compact small files, build the declared indexes, and compact the manifest.

    The contents stay the same, and writers are not blocked. A table that is too busy is skipped, with the reason.

    \b
    Examples:
      omnigraph optimize
      omnigraph optimize --type Cites --engine spark
    """
    session = session_of(context)
    session.output.say(f"optimizing branch {branch} in {session.target()}")
    with session.open("rw") as graph:
        with session.watch():
            optimized = choose_engine(graph, engine).optimize(branch, types or None)
        session.output.show(OptimizeSummary(optimized))
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
    staged_older_than: Annotated[
        str | None,
        typer.Option(
            "--staged-older-than",
            metavar="AGE",
            help="Delete files of writes that never committed once they are older than this, instead of 7d.",
            show_default=False,
        ),
    ] = None,
    confirm: Confirm = False,
) -> int:
    """Show what old history and unneeded files would be deleted, and delete them after a question, or with --yes.

    Branch heads, tags and the last hour of history are always kept. With both options, a commit is kept if either of
    them keeps it. Without options, the newest 10 commits of each branch are kept.

    \b
    Examples:
      omnigraph cleanup --keep 100 --older-than 7d --yes
      omnigraph cleanup --older-than 30d
      omnigraph cleanup --staged-older-than 1d
    """
    session = session_of(context)
    confirmed = confirm or session.assume_yes
    session.output.say(f"cleaning up {session.target()}" if confirmed else f"looking at {session.target()}")
    with session.open("rw") as graph:
        clean_up = graph.cleanup if keep is older_than is None else partial(graph.cleanup, keep, older_than)
        with session.watch():
            result = clean_up(staged_older_than=staged_older_than, confirm=confirmed)
        session.output.show(CleanupSummary(result))
        if not confirmed and (result.reclaimed or result.commits_gone) and _is_wanted(session, "Delete them?"):
            with session.watch():
                result = clean_up(staged_older_than=staged_older_than, confirm=True)
            session.output.show(CleanupSummary(result))
    return 0


def _is_wanted(session: Session, question: str) -> bool:
    """Ask after a preview, where somebody can be asked."""
    if session.output.can_ask:
        return session.confirm(question)
    session.output.say(f"{NOTHING_CHANGED}; --yes does it")
    return False


def repair(
    context: typer.Context,
    *,
    confirm: Confirm = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also publish changes that other programs made to the tables.")
    ] = False,
) -> int:
    """Show tables that were changed outside the graph (drift), and repair them.

    It shows them first, and repairs after a question, or with --yes: compactions and index builds are published, and
    what a dead writer left is rolled back. Changes of rows need --force too: look at them first, and run verify
    afterwards. A graph that was moved or copied gets its branches corrected.

    \b
    Examples:
      omnigraph repair --yes
      omnigraph repair --force
    """
    session = session_of(context)
    confirmed = confirm or session.assume_yes
    session.output.say(f"repairing {session.target()}" if confirmed else f"looking at {session.target()}")
    with session.open("rw") as graph:
        result = graph.repair(confirm=confirmed, force=force)
        session.output.show(RepairSummary(result))
        if not confirmed and (result.drifts or result.moved) and _is_wanted(session, "Repair this?"):
            session.output.show(RepairSummary(graph.repair(confirm=True, force=force)))
    return 0


def verify(context: typer.Context) -> int:
    """Read the whole graph and check every row, rule, commit and file.

    Exits with 1 if anything is wrong. Each finding says where it is and what to do.

    \b
    Examples:
      omnigraph verify
      omnigraph verify --json
    """
    session = session_of(context)
    session.output.say(f"reading all of {session.target()}")
    with session.open("ro") as graph, session.watch():
        found = graph.verify()
    session.output.show(VerifySummary(found))
    return 0 if found.is_sound else 1


def index(
    context: typer.Context,
    branch: Annotated[str, typer.Option("--branch", help="The branch whose tables to index.")] = "main",
    types: Types = None,
    engine: Engine = "local",
) -> int:
    """Build the indexes that the schema declares, where they are missing or do not cover all rows.

    Indexes speed up reads and never change results. An index that cannot be built now is listed with the reason.

    \b
    Examples:
      omnigraph index --type Paper
      omnigraph index --branch review/june --engine spark
    """
    session = session_of(context)
    session.output.say(f"indexing branch {branch} in {session.target()}")
    with session.open("rw") as graph, session.watch():
        built = choose_engine(graph, engine).ensure_indexes(branch, types or None)
    session.output.show(IndexSummary(branch, built))
    return 0

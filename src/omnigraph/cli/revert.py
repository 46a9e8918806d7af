"""``omnigraph revert``: take back what a commit did, as a new commit."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.merge import (
    CONFLICTS,
    By,
    DryRun,
    Message,
    Ours,
    Out,
    Resolve,
    Theirs,
    check_decisions,
    write_conflicts,
)
from omnigraph.cli.render.merge import Joined
from omnigraph.cli.session import session_of


def revert(
    context: typer.Context,
    reference: Annotated[
        str,
        typer.Argument(metavar="REF", help="A commit id, a tag, a version like v12, or a time.", show_default=False),
    ],
    branch: Annotated[str, typer.Option("--branch", help="The branch to change.")] = "main",
    side: Annotated[
        int | None,
        typer.Option("--side", min=1, max=2, help="Of a merge: which parent to go back to.", show_default=False),
    ] = None,
    by: By = "row",
    *,
    dry_run: DryRun = False,
    out: Out = None,
    ours: Ours = False,
    theirs: Theirs = False,
    resolve: Resolve = None,
    message: Message = None,
) -> int:
    """Take back what a commit did. The commit stays in the history; a new one undoes it.

    What was changed again since is a conflict, as in a merge: theirs is what was there before the commit. Exits with 3
    then.

    \b
    Example:
      omnigraph revert 01JZ8V6N3T9E4M5K2Q7R1W0XYA
    """
    session = session_of(context)
    prefer = check_decisions(dry_run=dry_run, out=out, ours=ours, theirs=theirs, resolve=resolve)
    doing = "trying to revert" if dry_run else "reverting"
    session.output.say(f"{doing} {reference} on branch {branch} in {session.target()}")
    with session.open("ro" if dry_run else "rw") as graph:
        result = graph.revert(
            reference,
            branch=branch,
            side=side,
            by=by,
            dry_run=dry_run,
            prefer=prefer,
            resolve=resolve,
            message=message,
        )
        write_conflicts(graph, result, by, out, resolve)
        session.output.show(Joined(result, branch, dry_run, out))
    return CONFLICTS if result.conflicts else 0

"""``omnigraph status``: where a branch stands, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from omnigraph.cli.arguments import ReadBranch
from omnigraph.cli.render.graph import MAIN
from omnigraph.cli.render.status import BranchStatus
from omnigraph.cli.session import session_of

if TYPE_CHECKING:
    from omnigraph.graph import Graph


def status(context: typer.Context, branch: ReadBranch = MAIN) -> int:
    """Show the newest commit of a branch, what main lacks of it, its upkeep, and what to do next.

    A graph has no uncommitted changes: every command that writes makes a commit, or changes nothing. Nothing is read
    but metadata.

    \b
    Examples:
      omnigraph status
      omnigraph status --branch review/june
    """
    session = session_of(context)
    with session.open("ro") as graph:
        head = graph.snapshot(branch).commit
        session.output.show(
            BranchStatus(graph.uri, branch, head, _count_ahead(graph, branch), graph.health(branch), graph.branches())
        )
    return 0


def _count_ahead(graph: Graph, branch: str) -> int:
    """Count the commits of a branch that main does not have."""
    if branch == MAIN:
        return 0
    merged = {commit.id for commit in graph.ancestry(MAIN)}
    return sum(commit.id not in merged for commit in graph.commits(branch))

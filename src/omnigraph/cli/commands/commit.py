"""``omnigraph commit``: the history of a branch, single commits, and recoveries."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from omnigraph.cli.arguments import SvgFile
from omnigraph.cli.render.graph import MAIN, CommitDetails, CommitListing
from omnigraph.cli.render.history import HistoryDrawing
from omnigraph.cli.render.picture import write_picture
from omnigraph.cli.render.write import RecoveryListing
from omnigraph.cli.session import session_of
from omnigraph.language.values import parse_instant

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.manifest.history import Commit

FILTERS = ("actor", "branch", "since", "until")

HistoryBranch: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--branch",
        help="The branch whose history to list. Default: that of --filter branch=B.",
        show_default="main",
    ),
]
WithUpkeep: TypeAlias = Annotated[
    bool, typer.Option("--upkeep", help="List commits too that changed no row: index builds and compactions.")
]

app = typer.Typer(help="Show the history of the graph.", rich_markup_mode=None)


@app.command("list")
def list_(
    context: typer.Context,
    branch: HistoryBranch = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many.")] = 20,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="KEY=VALUE",
            help="Only commits by actor=A, made on branch=B, or since=T or until=T. Repeatable.",
            show_default=False,
        ),
    ] = None,
    *,
    drawn: Annotated[
        bool,
        typer.Option("--dag", help="Draw the commit graph of all branches, or of the ancestors of --branch."),
    ] = False,
    drawn_before: Annotated[bool, typer.Option("--graph", hidden=True)] = False,
    svg: SvgFile = None,
    upkeep: WithUpkeep = False,
    recoveries: Annotated[
        bool,
        typer.Option(
            "--recoveries", help="List the recoveries instead: operations finished or undone for writers that died."
        ),
    ] = False,
) -> int:
    """List the commits of a branch, newest first.

    \b
    Examples:
      omnigraph commit list --branch review/june --filter actor=act-ann --filter since=2026-05-01
      omnigraph commit list --svg history.svg
    """
    session = session_of(context)
    if drawn_before:
        session.output.say("--graph is the name of a graph everywhere else: draw with --dag")
        drawn = True
    wanted = read_filters(filters or ())
    if recoveries and (branch is not None or wanted or upkeep):
        raise typer.TyperException("--recoveries covers all branches; it takes no --branch, --filter or --upkeep")
    if drawn and (recoveries or wanted):
        raise typer.TyperException("--dag draws the whole history; it takes neither --filter nor --recoveries")
    if svg is not None and (recoveries or wanted):
        raise typer.TyperException("--svg draws the whole history; it takes neither --filter nor --recoveries")
    with session.open("ro") as graph:
        if drawn or svg is not None:
            newest = graph.ancestry(branch, limit + 1, upkeep=upkeep)
            drawing = HistoryDrawing(newest[:limit], len(newest) > limit, graph.branches(), graph.tags())
            session.output.show(drawing if svg is None else write_picture(svg, drawing.to_svg()))
            return 0
        if recoveries:
            audited = graph.recoveries()
            session.output.show(RecoveryListing(audited[:limit], more=len(audited) > limit))
            return 0
        # One more than is shown, to know whether there are more.
        found = _find_commits(graph, branch or wanted.get("branch", MAIN), limit + 1, wanted, upkeep=upkeep)
        session.output.show(CommitListing(found[:limit], more=len(found) > limit))
    return 0


def log(
    context: typer.Context,
    branch: HistoryBranch = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 20,
    *,
    upkeep: WithUpkeep = False,
) -> int:
    """List the newest commits: on a terminal as a graph of all branches, or of the ancestors of --branch.

    It is 'commit list', which has more options.

    \b
    Examples:
      omnigraph log
      omnigraph log --branch review/june -n 5
    """
    watched = sys.stdout.isatty() and not session_of(context).output.is_json
    return list_(context, branch, limit, drawn=watched, upkeep=upkeep)


@app.command()
def show(
    context: typer.Context,
    commit: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A commit id or a tag; or a version like v12 or a time on main.", show_default=False
        ),
    ],
) -> int:
    """Show one commit.

    \b
    Examples:
      omnigraph commit show v12
      omnigraph commit show main~1 --json
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(CommitDetails(graph.commit(commit)))
    return 0


def read_filters(pairs: Sequence[str]) -> dict[str, str]:
    """Parse the filters of the command line, by key."""
    filters: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if key not in FILTERS or not equals:
            raise typer.TyperException(f"--filter takes {'=, '.join(FILTERS)}=, not '{pair}'")
        if key in filters:
            raise typer.TyperException(f"--filter {key}= is given twice")
        filters[key] = value
    return filters


def _find_commits(graph: Graph, branch: str, limit: int, filters: dict[str, str], *, upkeep: bool) -> list[Commit]:
    since, until = (parse_instant(filters[key]) if key in filters else None for key in ("since", "until"))
    made_on = filters.get("branch")
    asked = limit if made_on is None else None
    commits = graph.commits(branch, asked, filters.get("actor"), since, until, upkeep=upkeep)
    return list(islice((commit for commit in commits if made_on in (None, commit.branch)), min(limit, sys.maxsize)))

"""``omnigraph branch``: create, list and delete branches of the whole graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.render.graph import BranchChange, BranchListing
from omnigraph.cli.session import session_of

if TYPE_CHECKING:
    from omnigraph.graph import Graph

app = typer.Typer(help="Create, list and delete branches of the whole graph.", rich_markup_mode=None)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new branch, for example review/june.", show_default=False)],
    origin: Annotated[
        str,
        typer.Option("--from", help="Where it starts: a branch, a commit id, a version like v12, a time, or a tag."),
    ] = "main",
) -> int:
    """Create a branch. Nothing is copied, whatever the size of the graph.

    \b
    Examples:
      omnigraph branch create review/june --from main
      omnigraph branch create before-june --from v12
    """
    session = session_of(context)
    session.output.say(f"creating branch {name} from {origin} in {session.target()}")
    with session.open("rw") as graph:
        graph.create_branch(name, origin)
        session.output.show(BranchChange("created", name, _head(graph, name)))
    return 0


@app.command("list")
def list_(context: typer.Context) -> int:
    """List all branches with their newest commits.

    \b
    Examples:
      omnigraph branch list
      omnigraph branch list --json
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(BranchListing(graph.branches()))
    return 0


@app.command()
def delete(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The branch to delete.", show_default=False)],
) -> int:
    """Delete a branch and the data that only it has. On a terminal this asks first, unless --yes is given.

    \b
    Examples:
      omnigraph branch delete review/june
      omnigraph branch delete review/june --yes
    """
    session = session_of(context)
    session.output.say(f"deleting branch {name} in {session.target()}")
    with session.open("rw") as graph:
        head = _head(graph, name)
        if not session.confirm(f"Delete branch {name} and what only it has?"):
            return 1
        graph.delete_branch(name)
        session.output.show(BranchChange("deleted", name, head))
    return 0


def _head(graph: Graph, branch: str) -> str | None:
    commit = graph.snapshot(branch).commit
    return None if commit is None else commit.id

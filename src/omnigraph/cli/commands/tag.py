"""``omnigraph tag``: create, list and delete names for commits."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.render.graph import MAIN
from omnigraph.cli.render.history import DeletedTag, NewTag, TagListing
from omnigraph.cli.session import session_of

app = typer.Typer(help="Create, list and delete names for commits.", rich_markup_mode=None)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new tag, for example release/1.", show_default=False)],
    reference: Annotated[
        str | None,
        typer.Argument(
            metavar="[REF]",
            help="The commit: a branch (its newest commit), a commit id, a version like v12, a time, or another tag.",
            show_default="the newest commit of --branch",
        ),
    ] = None,
    branch: Annotated[str, typer.Option("--branch", help="The branch that a version or a time refers to.")] = MAIN,
) -> int:
    """Name a commit. A tag can be used wherever a commit can, and cleanup keeps what it refers to.

    \b
    Examples:
      omnigraph tag create release/1 2026-05-01
      omnigraph tag create before-june main~3
    """
    session = session_of(context)
    session.output.say(f"creating tag {name} in {session.target()}")
    with session.open("rw") as graph:
        session.output.show(NewTag(graph.create_tag(name, branch if reference is None else reference, branch=branch)))
    return 0


@app.command("list")
def list_(context: typer.Context) -> int:
    """List all tags with their commits.

    \b
    Examples:
      omnigraph tag list
      omnigraph tag list --json
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(TagListing(graph.tags()))
    return 0


@app.command()
def delete(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The tag to delete.", show_default=False)],
) -> int:
    """Delete a tag. The commit stays, but cleanup no longer keeps it because of the tag.

    \b
    Examples:
      omnigraph tag delete release/1
      omnigraph tag delete release/1 --yes
    """
    session = session_of(context)
    session.output.say(f"deleting tag {name} in {session.target()}")
    with session.open("rw") as graph:
        if not session.confirm(f"Delete tag {name}?"):
            return 1
        graph.delete_tag(name)
        session.output.show(DeletedTag(name))
    return 0

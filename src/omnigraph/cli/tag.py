"""``omnigraph tag``: give names to commits, list them, and take them away."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.render.graph import MAIN
from omnigraph.cli.render.history import TagDeleted, TagMade, Tags
from omnigraph.cli.session import session_of

app = typer.Typer(help="Make, list and delete names for commits.", rich_markup_mode=None)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new tag, for example release/1.", show_default=False)],
    reference: Annotated[
        str | None,
        typer.Argument(
            metavar="[REF]",
            help="What it names: a branch's newest commit, a commit id, a version like v12, a time, or another tag.",
            show_default="the newest commit of --branch",
        ),
    ] = None,
    branch: Annotated[str, typer.Option("--branch", help="The branch of a version or a time.")] = MAIN,
) -> int:
    """Give a name to a commit. The name can be used wherever a commit can, and cleanup keeps what it shows.

    \b
    Example:
      omnigraph tag create release/1 2026-05-01
    """
    session = session_of(context)
    session.output.say(f"making tag {name} in {session.target()}")
    with session.open("rw") as graph:
        session.output.show(TagMade(graph.create_tag(name, branch if reference is None else reference, branch=branch)))
    return 0


@app.command("list")
def list_(context: typer.Context) -> int:
    """List all tags, each with its commit.

    \b
    Example:
      omnigraph tag list
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(Tags(graph.tags()))
    return 0


@app.command()
def delete(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The tag to delete.", show_default=False)],
) -> int:
    """Take a name away. The commit stays; cleanup no longer keeps it for the tag's sake.

    \b
    Example:
      omnigraph tag delete release/1
    """
    session = session_of(context)
    session.output.say(f"deleting tag {name} in {session.target()}")
    with session.open("rw") as graph:
        if not session.confirm(f"Delete tag {name}?"):
            session.output.say("nothing was changed")
            return 1
        graph.delete_tag(name)
        session.output.show(TagDeleted(name))
    return 0

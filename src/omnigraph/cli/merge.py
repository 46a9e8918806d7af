"""``omnigraph merge``: bring a branch, a commit or a tag into a branch, as one commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from omnigraph.cli.render.merge import Joined
from omnigraph.cli.session import session_of
from omnigraph.errors import AlreadyExists

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.write.merge import MergeResult

# As the library names them; importing them from there would bring Lance along.
Granularity: TypeAlias = Literal["row", "property"]
Prefer: TypeAlias = Literal["ours", "theirs"]

By: TypeAlias = Annotated[
    Granularity, typer.Option("--by", help="What both sides may not change: an entity, or one property of it.")
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Find all conflicts, and write nothing.")]
Out: TypeAlias = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="Of a dry run: where to decide the conflicts.", show_default=False),
]
Ours: TypeAlias = Annotated[bool, typer.Option("--ours", help="The branch itself is right wherever both are at odds.")]
Theirs: TypeAlias = Annotated[bool, typer.Option("--theirs", help="The other side is right wherever both are at odds.")]
Resolve: TypeAlias = Annotated[
    str | None,
    typer.Option("--resolve", metavar="FILE", help="The decisions, in a file that --out wrote.", show_default=False),
]
Message: TypeAlias = Annotated[
    str | None, typer.Option("-m", metavar="MESSAGE", help="What the commit says.", show_default=False)
]

CONFLICTS = 3


def merge(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SRC", help="A branch, a commit id or a tag.", show_default=False)],
    into: Annotated[str, typer.Option("--into", metavar="DST", help="The branch to merge into.")] = "main",
    by: By = "row",
    *,
    dry_run: DryRun = False,
    out: Out = None,
    ours: Ours = False,
    theirs: Theirs = False,
    resolve: Resolve = None,
    delete_branch: Annotated[bool, typer.Option("--delete-branch", help="Delete the branch that was merged.")] = False,
    if_commit: Annotated[
        str | None,
        typer.Option("--if-commit", metavar="ID", help="Only if DST stands at this commit.", show_default=False),
    ] = None,
    message: Message = None,
) -> int:
    """Merge what SRC changed since the two met into DST: one commit with two parents, or nothing.

    Exits with 3 if both sides changed the same things, or break a rule together; every conflict is listed. A dry run
    writes them to a file in which each can be decided.

    \b
    Examples:
      omnigraph merge review/june --delete-branch
      omnigraph merge review/june --dry-run --out june.yaml
      omnigraph merge review/june --resolve june.yaml
    """
    session = session_of(context)
    prefer = check_decisions(dry_run=dry_run, out=out, ours=ours, theirs=theirs, resolve=resolve)
    doing = "trying to merge" if dry_run else "merging"
    session.output.say(f"{doing} {source} into branch {into} in {session.target()}")
    with session.open("ro" if dry_run else "rw") as graph:
        result = graph.merge(
            source,
            into,
            by=by,
            dry_run=dry_run,
            prefer=prefer,
            resolve=resolve,
            message=message,
            delete_branch=delete_branch,
            if_commit=if_commit,
        )
        write_conflicts(graph, result, by, out, resolve)
        session.output.show(Joined(result, into, dry_run, out))
    return CONFLICTS if result.conflicts else 0


def check_decisions(*, dry_run: bool, out: str | None, ours: bool, theirs: bool, resolve: str | None) -> Prefer | None:
    """Who decides what a file does not; options that cannot stand together are refused."""
    if ours and theirs:
        raise typer.TyperException("--ours and --theirs cannot be used together")
    if out is not None and not dry_run:
        raise typer.TyperException("--out goes with --dry-run")
    if out is not None and out != resolve and Path(out).exists():
        raise AlreadyExists(f"there is a file {out} already", hint="it may hold decisions; choose another name")
    return "ours" if ours else "theirs" if theirs else None


def write_conflicts(graph: Graph, result: MergeResult, by: Granularity, out: str | None, resolve: str | None) -> None:
    """Write the file in which conflicts are decided; what was decided already stays in it."""
    if out is None:
        return
    from omnigraph.write.merge import read_resolution, write_resolution

    known = None if resolve is None else read_resolution(resolve)
    with Path(out).open("w", encoding="utf-8") as file:
        write_resolution(file, graph.uri, result.source, result.target, by, result.conflicts, known)

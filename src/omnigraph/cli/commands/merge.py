"""``omnigraph merge`` and ``revert``: merge a branch, or undo a commit, as one new commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from omnigraph.cli.arguments import Message
from omnigraph.cli.render.merge import MergeSummary
from omnigraph.cli.session import session_of
from omnigraph.cli.spark_engine import Engine, choose_engine
from omnigraph.errors import AlreadyExists

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.write.merge import MergeResult

# The same names as in the library; importing them would load Lance.
Granularity: TypeAlias = Literal["row", "property"]
Prefer: TypeAlias = Literal["ours", "theirs"]

By: TypeAlias = Annotated[
    Granularity,
    typer.Option(
        "--by", help="What counts as a conflict: both sides changed the same row, or the same property of it."
    ),
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="List all conflicts and write nothing.")]
Out: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="With --dry-run: write the conflicts to this file, to be resolved there.",
        show_default=False,
    ),
]
Ours: TypeAlias = Annotated[bool, typer.Option("--ours", help="Resolve every conflict in favour of the target branch.")]
Theirs: TypeAlias = Annotated[bool, typer.Option("--theirs", help="Resolve every conflict in favour of the source.")]
Resolve: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--resolve",
        metavar="FILE",
        help="Resolve conflicts as decided in this file, written by --out.",
        show_default=False,
    ),
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
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source branch after the merge.")
    ] = False,
    if_commit: Annotated[
        str | None,
        typer.Option(
            "--if-commit", metavar="ID", help="Only if the newest commit of DST is this one.", show_default=False
        ),
    ] = None,
    engine: Engine = "local",
    message: Message = None,
) -> int:
    """Merge the changes of SRC since the common ancestor into DST: one commit with two parents, or nothing.

    Exits with 3 on conflicts: both sides changed the same thing, or together they break a rule. All are listed. A dry
    run can write them to a file in which to resolve them.

    \b
    Examples:
      omnigraph merge review/june --delete-branch
      omnigraph merge review/june --dry-run --out june.yaml
      omnigraph merge review/june --resolve june.yaml
      omnigraph merge import/june --engine spark
    """
    session = session_of(context)
    prefer = check_decisions(dry_run=dry_run, out=out, ours=ours, theirs=theirs, resolve=resolve)
    doing = "trying to merge" if dry_run else "merging"
    session.output.say(f"{doing} {source} into branch {into} in {session.target()}")
    with session.open("ro" if dry_run else "rw") as graph:
        with session.watch():
            result = choose_engine(graph, engine).merge(
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
        session.output.show(MergeSummary(result, into, dry_run, out))
    return CONFLICTS if result.conflicts else 0


def check_decisions(*, dry_run: bool, out: str | None, ours: bool, theirs: bool, resolve: str | None) -> Prefer | None:
    """Return the preferred side. Refuse options that contradict each other."""
    if ours and theirs:
        raise typer.TyperException("--ours and --theirs cannot be used together")
    if out is not None and not dry_run:
        raise typer.TyperException("--out goes with --dry-run")
    if out is not None and out != resolve and Path(out).exists():
        raise AlreadyExists(f"there is a file {out} already", hint="it may hold decisions; choose another file name")
    return "ours" if ours else "theirs" if theirs else None


def write_conflicts(graph: Graph, result: MergeResult, by: Granularity, out: str | None, resolve: str | None) -> None:
    """Write the conflicts to the resolution file, keeping the decisions that are already in it."""
    if out is None:
        return
    from omnigraph.write.merge import read_resolution, write_resolution

    known = None if resolve is None else read_resolution(resolve)
    with Path(out).open("w", encoding="utf-8") as file:
        write_resolution(file, graph.uri, result.source, result.target, by, result.conflicts, known)


def revert(
    context: typer.Context,
    reference: Annotated[
        str,
        typer.Argument(metavar="REF", help="A commit id, a tag, a version like v12, or a time.", show_default=False),
    ],
    branch: Annotated[str, typer.Option("--branch", help="The branch to change.")] = "main",
    side: Annotated[
        int | None,
        typer.Option("--side", min=1, max=2, help="For a merge commit: the parent to go back to.", show_default=False),
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
    """Undo a commit with a new commit. The old one stays in the history.

    What changed again since is a conflict, as in a merge; "theirs" is the state before the commit. Exits with 3 then.

    \b
    Examples:
      omnigraph revert 01JZ8V6N3T9E4M5K2Q7R1W0XYA
      omnigraph revert main~1 --dry-run --out conflicts.json
    """
    session = session_of(context)
    prefer = check_decisions(dry_run=dry_run, out=out, ours=ours, theirs=theirs, resolve=resolve)
    doing = "trying to revert" if dry_run else "reverting"
    session.output.say(f"{doing} {reference} on branch {branch} in {session.target()}")
    with session.open("ro" if dry_run else "rw") as graph:
        with session.watch():
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
        session.output.show(MergeSummary(result, branch, dry_run, out))
    return CONFLICTS if result.conflicts else 0

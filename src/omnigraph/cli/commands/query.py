"""``omnigraph query`` and ``mutate``: run one query or one mutation of a ``.gq`` text."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.arguments import At, Pairs, Params, ParamsFile, QueryFile, QueryName, QueryText, read_query
from omnigraph.cli.render.read import ExplainedPlan, Format, QueryProfile, QueryRows
from omnigraph.cli.render.write import MutationSummary
from omnigraph.cli.session import session_of
from omnigraph.language.query import compile_query, find_query


def query(
    context: typer.Context,
    file: QueryFile = None,
    text: QueryText = None,
    name: QueryName = None,
    pairs: Pairs = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Annotated[str, typer.Option("--branch", help="The branch to read.")] = "main",
    at: At = None,
    *,
    form: Annotated[
        Format | None, typer.Option("--format", help="Output format of the rows.", show_default="table")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the plan and read nothing.")] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Run it, and show the rows and the time of each step.")
    ] = False,
) -> int:
    """Run a query on one snapshot of the graph.

    On a terminal a table is fitted to its width and stops at 200 rows. Elsewhere, and in other formats, nothing is cut.

    \b
    Example:
      omnigraph query questions.gq --name trials_of -p compound=cmp-001 --at 2026-05-01 --format csv
    """
    session = session_of(context)
    if explain and profile:
        raise typer.TyperException("--explain and --profile cannot be used together")
    if form is not None and (explain or profile):
        raise typer.TyperException("--format is for rows; --explain and --profile show none")
    if session.output.is_json and form not in (None, "json"):
        raise typer.TyperException(f"--json and --format {form} cannot be used together")
    source, given = read_query("query", file, text, pairs, params, params_file)
    asked = find_query(source, name)
    values = given.for_types({each.name: each.type for each in asked.parameters})
    with session.open("ro") as graph:
        if explain:
            plan = graph.explain(source, asked.name, values, branch=branch, at=at)
            session.output.show(ExplainedPlan(asked.name, branch, plan))
        elif profile:
            session.output.show(
                QueryProfile(asked.name, branch, graph.profile(source, asked.name, values, branch=branch, at=at))
            )
        else:
            result = graph.query(source, asked.name, values, branch=branch, at=at)
            session.output.show(QueryRows(result, form or "table"))
    return 0


def mutate(
    context: typer.Context,
    file: QueryFile = None,
    text: QueryText = None,
    name: QueryName = None,
    pairs: Pairs = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Annotated[str, typer.Option("--branch", help="The branch to change.")] = "main",
    if_commit: Annotated[
        str | None,
        typer.Option(
            "--if-commit", metavar="ID", help="Only if the newest commit of the branch is this one.", show_default=False
        ),
    ] = None,
    message: Annotated[
        str | None, typer.Option("-m", metavar="MESSAGE", help="The commit message.", show_default=False)
    ] = None,
) -> int:
    """Run an insert, update or delete as one commit. If nothing matches, no commit is made.

    Exits with 3 if another writer was first, and with 4 if --if-commit is not the newest commit.

    \b
    Example:
      omnigraph mutate curation.gq --name review_trial -p trial=tri-104 -p curator=ines --as act-ines
    """
    session = session_of(context)
    source, given = read_query("mutate", file, text, pairs, params, params_file)
    session.output.say(f"changing branch {branch} in {session.target()}")
    with session.open("rw") as graph:
        query = compile_query(source, graph.schema.catalog, name)
        parameters = given.for_types(query.typed.parameters)
        result = graph.mutate(source, query.name, parameters, branch=branch, if_commit=if_commit, message=message)
        # Of a graph on a server the actor is that of the token.
        actor = session.actor if result.commit is None else result.commit.actor
        session.output.show(MutationSummary(query.name, branch, actor, result))
    return 0

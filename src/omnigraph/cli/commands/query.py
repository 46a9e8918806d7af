"""``omnigraph query`` and ``mutate``: run one query or one mutation of a ``.gq`` text."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.arguments import (
    STDOUT,
    At,
    Message,
    Pairs,
    Params,
    ParamsFile,
    QueryFile,
    QueryName,
    QueryText,
    ReadBranch,
    read_query,
)
from omnigraph.cli.render.query_rows import Format, QueryRows, choose_format, write_rows
from omnigraph.cli.render.read import ExplainedPlan, QueryProfile
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
    branch: ReadBranch = "main",
    at: At = None,
    *,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Output format of the rows.", show_default="table, or by the ending of -o"),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option("-o", metavar="FILE", help="Write the rows to this file; - is stdout.", show_default="stdout"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="At most this many rows.", show_default=False)
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the plan and read nothing.")] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Run it, and show the rows and the time of each step.")
    ] = False,
) -> int:
    """Run a query on one snapshot of the graph.

    On a terminal a table is fitted to its width and stops at 200 rows. Elsewhere, and in other formats, nothing is cut.

    \b
    Examples:
      omnigraph query questions.gq --name trials_of -p compound=cmp-001 --at 2026-05-01
      omnigraph query -e 'query q() { match { $t: Trial } return { $t.* } }' -o trials.parquet
    """
    session = session_of(context)
    if path == STDOUT:
        path = None
    if explain and profile:
        raise typer.TyperException("--explain and --profile cannot be used together")
    if (explain or profile) and not (form is path is limit is None):
        raise typer.TyperException("--format, -o and --limit are for rows; --explain and --profile show none")
    chosen = (form or "table") if path is None else choose_format(path, form)
    if session.output.is_json and path is None and form not in (None, "json"):
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
            wanted = result if limit is None else result.head(limit)
            session.output.show(QueryRows(wanted, chosen) if path is None else write_rows(wanted, path, chosen))
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
    message: Message = None,
) -> int:
    """Run an insert, update or delete as one commit. If nothing matches, no commit is made.

    Exits with 3 if another writer was first, and with 4 if --if-commit is not the newest commit.

    \b
    Examples:
      omnigraph mutate curation.gq --name review_trial -p trial=tri-104 -p curator=ines --as act-ines
      omnigraph mutate -e 'delete Paper where code = "pap-7"' --branch review/june -m "withdrawn"
    """
    session = session_of(context)
    source, given = read_query("mutate", file, text, pairs, params, params_file)
    session.output.say(f"changing branch {branch} in {session.target()}")
    with session.open("rw") as graph:
        query = compile_query(source, graph.schema.catalog, name)
        parameters = given.for_types(query.typed.parameters)
        note = message or f"mutation {query.name}"
        result = graph.mutate(source, query.name, parameters, branch=branch, if_commit=if_commit, message=note)
        # Of a graph on a server the actor is that of the token.
        actor = session.actor if result.commit is None else result.commit.actor
        session.output.show(MutationSummary(query.name, branch, actor, result))
    return 0

"""``omnigraph query``: one read of a ``.gq`` text, its rows in the form that is asked for."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.options import At, Pairs, Params, ParamsFile, QueryFile, QueryName, QueryText, read_query
from omnigraph.cli.render.read import Answered, Explained, Format, Profiled
from omnigraph.cli.session import session_of
from omnigraph.language.query import find_query


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
    form: Annotated[Format | None, typer.Option("--format", help="How rows are written.", show_default="table")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the plan, and read nothing.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show what each step gave and took.")] = False,
) -> int:
    """Ask a query, on one snapshot of the graph.

    A table on a terminal fits it and stops at 200 rows; anywhere else, and in the other formats, nothing is cut.

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
            session.output.show(Explained(asked.name, branch, plan))
        elif profile:
            session.output.show(
                Profiled(asked.name, branch, graph.profile(source, asked.name, values, branch=branch, at=at))
            )
        else:
            result = graph.query(source, asked.name, values, branch=branch, at=at)
            session.output.show(Answered(result, form or "table"))
    return 0

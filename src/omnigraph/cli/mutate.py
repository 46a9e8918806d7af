"""``omnigraph mutate``: one mutation of a ``.gq`` text, as one commit."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.options import Pairs, Params, ParamsFile, QueryFile, QueryName, QueryText, read_query
from omnigraph.cli.render.write import Mutated
from omnigraph.cli.session import session_of
from omnigraph.language.query import compile_query


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
        typer.Option("--if-commit", metavar="ID", help="Only if the branch stands at this commit.", show_default=False),
    ] = None,
    message: Annotated[
        str | None, typer.Option("-m", metavar="MESSAGE", help="What the commit says.", show_default=False)
    ] = None,
) -> int:
    """Run an insert, update or delete as one commit. What matches nothing makes no commit.

    Exits with 3 if another writer was first, and with 4 if the branch does not stand at --if-commit.

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
        session.output.show(Mutated(query.name, branch, session.actor, result))
    return 0

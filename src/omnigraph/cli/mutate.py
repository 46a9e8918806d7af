"""``omnigraph mutate``: one mutation of a ``.gq`` text, as one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from omnigraph.cli.files import STDIN, read_all
from omnigraph.cli.parameters import read_parameters
from omnigraph.cli.render.write import Mutated
from omnigraph.cli.session import session_of
from omnigraph.errors import Problem, QueryError
from omnigraph.language.query import compile_query
from omnigraph.language.query.parser import SYNTAX_CODE
from omnigraph.language.source import Source, source_of


def mutate(
    context: typer.Context,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The query file (.gq); - is stdin.", show_default=False)
    ] = None,
    text: Annotated[str | None, typer.Option("-e", metavar="SRC", help="The text itself.", show_default=False)] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Which query, where the text has several.", show_default=False),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            metavar="NAME=VALUE",
            help="A parameter: JSON, unless it is declared as String. May be repeated.",
            show_default=False,
        ),
    ] = None,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help="Parameters as an object.", show_default=False)
    ] = None,
    params_file: Annotated[
        str | None,
        typer.Option("--params-file", metavar="FILE", help="A file of such an object; - is stdin.", show_default=False),
    ] = None,
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
    if file == params_file == STDIN:
        raise typer.TyperException("'-' (stdin) can be read only once")
    source = _source(file, text)
    given = read_parameters(pairs or (), params, params_file)
    session.output.say(f"changing branch {branch} in {session.target()}")
    with session.open("rw") as graph:
        query = compile_query(source, graph.schema.catalog, name)
        parameters = given.for_types(query.typed.parameters)
        result = graph.mutate(source, query.name, parameters, branch=branch, if_commit=if_commit, message=message)
        session.output.show(Mutated(query.name, branch, session.actor, result))
    return 0


def _source(file: str | None, text: str | None) -> Source:
    if (file is None) == (text is None):
        raise typer.TyperException("'mutate' takes either a FILE or -e SRC")
    found = source_of((text or "").encode("utf-8", "surrogateescape"), "-e") if file is None else read_all([file])[0]
    if isinstance(found, Problem):
        raise QueryError([replace(found, code=SYNTAX_CODE)])
    return found

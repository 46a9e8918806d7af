"""What several commands are told: which query of which text, with which parameters, and at which moment."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypeAlias

import typer

from omnigraph.cli.files import STDIN, read_all
from omnigraph.cli.parameters import GivenParameters, read_parameters
from omnigraph.errors import Problem, QueryError
from omnigraph.language.query import SYNTAX_CODE
from omnigraph.language.source import Source, source_of

QueryFile: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="FILE", help="The query file (.gq); - is stdin.", show_default=False)
]
QueryText: TypeAlias = Annotated[
    str | None, typer.Option("-e", metavar="SRC", help="The text itself.", show_default=False)
]
QueryName: TypeAlias = Annotated[
    str | None, typer.Option("--name", help="Which query, where the text has several.", show_default=False)
]
Pairs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        metavar="NAME=VALUE",
        help="A parameter: JSON, unless it is declared as String. May be repeated.",
        show_default=False,
    ),
]
Params: TypeAlias = Annotated[
    str | None, typer.Option("--params", metavar="JSON", help="Parameters as an object.", show_default=False)
]
ParamsFile: TypeAlias = Annotated[
    str | None,
    typer.Option("--params-file", metavar="FILE", help="A file of such an object; - is stdin.", show_default=False),
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option("--at", metavar="REF", help="A commit id, a version like v12, a time, or a tag.", show_default="now"),
]


def read_query(
    command: str,
    file: str | None,
    text: str | None,
    pairs: list[str] | None,
    params: str | None,
    params_file: str | None,
) -> tuple[Source, GivenParameters]:
    """The text of a query and what is given for its parameters."""
    if file == params_file == STDIN:
        raise typer.TyperException("'-' (stdin) can be read only once")
    return _source(command, file, text), read_parameters(pairs or (), params, params_file)


def _source(command: str, file: str | None, text: str | None) -> Source:
    if (file is None) == (text is None):
        raise typer.TyperException(f"'{command}' takes either a FILE or -e SRC")
    found = source_of((text or "").encode("utf-8", "surrogateescape"), "-e") if file is None else read_all([file])[0]
    if isinstance(found, Problem):
        raise QueryError([replace(found, code=SYNTAX_CODE)])
    return found

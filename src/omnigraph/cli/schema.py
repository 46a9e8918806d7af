"""``omnigraph schema``: check schema files, and compare two of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from omnigraph.cli.files import read_all
from omnigraph.cli.render.language import CheckedSchema, CheckedSchemas, Migration
from omnigraph.cli.session import session_of
from omnigraph.errors import Problem, SchemaError
from omnigraph.language.schema import Schema, parse_schema, plan_migration
from omnigraph.language.schema.codes import SYNTAX
from omnigraph.language.source import Source

app = typer.Typer(help="Check schema files, and compare two of them.", rich_markup_mode=None)


@app.command()
def check(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help="Schema files (.pg); - is stdin.", show_default=False)],
) -> int:
    """Check schema files, and report every problem of every file.

    \b
    Example:
      omnigraph schema check evidence.pg
    """
    checked = [_checked(name, text) for name, text in zip(files, read_all(files), strict=True)]
    session_of(context).output.show(CheckedSchemas(checked))
    return 1 if any(each.problems for each in checked) else 0


@app.command()
def diff(
    context: typer.Context,
    old: Annotated[str, typer.Argument(help="The schema as it is (.pg); - is stdin.", show_default=False)],
    new: Annotated[str, typer.Argument(help="The schema as it shall be (.pg); - is stdin.", show_default=False)],
    *,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Plan drops that also remove what older versions hold.")
    ] = False,
) -> int:
    """Show the steps from one schema to another, and what each of them costs.

    It is a preview, so it exits with 0 also when a step is not supported.

    \b
    Example:
      omnigraph schema diff evidence.pg evidence_v2.pg
    """
    before, after = parsed(*read_all([old, new]))
    plan = plan_migration(before.ir, after.ir, allow_data_loss=allow_data_loss)
    session_of(context).output.show(Migration(plan))
    return 0


def parsed(*texts: Source | Problem) -> list[Schema]:
    """The schemas of several texts; the problems of all of them are one error."""
    schemas: list[Schema] = []
    problems: list[Problem] = []
    for text in texts:
        try:
            schemas.append(parse_schema(schema_text(text)))
        except SchemaError as error:
            problems += error.problems
    if problems:
        raise SchemaError(problems)
    return schemas


def schema_text(text: Source | Problem) -> Source:
    """The text of a schema file; one that is no text is a schema with a problem."""
    if isinstance(text, Problem):
        raise SchemaError([replace(text, code=SYNTAX)])
    return text


def _checked(name: str, text: Source | Problem) -> CheckedSchema:
    try:
        schema = parse_schema(schema_text(text))
    except SchemaError as error:
        return CheckedSchema(name, error.problems)
    catalog = schema.catalog
    counts = {"nodes": len(catalog.nodes), "edges": len(catalog.edges), "interfaces": len(catalog.interfaces)}
    return CheckedSchema(name, hash=schema.hash, counts=counts)

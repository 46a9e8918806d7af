"""``omnigraph schema``: check and compare schema files, and show, plan and change the schema of a graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypeAlias

import typer

from omnigraph.cli.files import read_all
from omnigraph.cli.options import At
from omnigraph.cli.render.language import Applied, CheckedSchema, CheckedSchemas, Migration, ShownSchema
from omnigraph.cli.session import session_of
from omnigraph.errors import Problem, SchemaError
from omnigraph.language.schema import SYNTAX, Schema, parse_schema, plan_migration
from omnigraph.language.source import Source

app = typer.Typer(help="Check and compare schema files; show and change the schema of a graph.", rich_markup_mode=None)

NewSchema: TypeAlias = Annotated[
    str, typer.Argument(metavar="NEW", help="The schema as it shall be (.pg); - is stdin.", show_default=False)
]
AllowDataLoss: TypeAlias = Annotated[
    bool, typer.Option("--allow-data-loss", help="Drops also remove what older versions hold.")
]


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


@app.command()
def plan(context: typer.Context, new: NewSchema, *, allow_data_loss: AllowDataLoss = False) -> int:
    """Show the steps from the schema of the graph to another one. Nothing is changed.

    It is a preview, so it exits with 0 also when a step is not supported.

    \b
    Example:
      omnigraph schema plan evidence_v2.pg
    """
    session = session_of(context)
    with session.open("ro") as graph:
        found = graph.plan_schema(schema_text(*read_all([new])), allow_data_loss=allow_data_loss)
    session.output.show(Migration(found))
    return 0


@app.command()
def apply(
    context: typer.Context,
    new: NewSchema,
    *,
    allow_data_loss: AllowDataLoss = False,
    rewrite_ids: Annotated[
        bool, typer.Option("--rewrite-ids", help="Write ids of the form of an older release in the form they have now.")
    ] = False,
    message: Annotated[
        str | None, typer.Option("-m", metavar="MESSAGE", help="What the commit says.", show_default=False)
    ] = None,
) -> int:
    """Give the graph another schema, as one commit on main, or change nothing.

    Rows that break a new rule are listed. What is dropped stays readable in older versions unless data loss is allowed.

    \b
    Example:
      omnigraph schema apply evidence_v2.pg
    """
    session = session_of(context)
    text = schema_text(*read_all([new]))
    session.output.say(f"changing the schema of {session.target()}")
    if allow_data_loss and not session.confirm("Older versions of what is dropped will be gone for good. Go on?"):
        return 1
    with session.open("rw") as graph:
        applied = graph.apply_schema(text, allow_data_loss=allow_data_loss, rewrite_ids=rewrite_ids, message=message)
    session.output.show(Applied(applied))
    return 0


@app.command()
def show(context: typer.Context, at: At = None) -> int:
    """Show the schema that the graph has, or had.

    \b
    Example:
      omnigraph schema show --at june
    """
    session = session_of(context)
    with session.open("ro") as graph:
        session.output.show(ShownSchema(graph.schema if at is None else graph.schema_at(at)))
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

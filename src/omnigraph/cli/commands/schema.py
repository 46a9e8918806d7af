"""``omnigraph schema``: check and compare schema files; show, plan and change the schema of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from omnigraph.cli.arguments import At, FileOptionPairs, Message, SvgFile, read_options, read_texts
from omnigraph.cli.render.language import (
    AppliedMigration,
    MigrationPreview,
    ProposedText,
    SchemaCheck,
    SchemaChecks,
    SchemaText,
)
from omnigraph.cli.render.picture import write_picture
from omnigraph.cli.schema_texts import parse_schemas, require_text
from omnigraph.cli.session import session_of
from omnigraph.errors import Problem, QueryError, SchemaError
from omnigraph.language.query import SYNTAX_CODE, BrokenQuery, find_broken_queries
from omnigraph.language.schema import Schema, parse_schema, plan_migration
from omnigraph.language.source import Source

app = typer.Typer(help="Check and compare schema files; show and change the schema of a graph.", rich_markup_mode=None)

NewSchema: TypeAlias = Annotated[
    str, typer.Argument(metavar="NEW", help="The new schema (.pg); - is stdin.", show_default=False)
]
AllowDataLoss: TypeAlias = Annotated[
    bool, typer.Option("--allow-data-loss", help="Drops also delete the dropped data from older versions.")
]

Queries: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--queries",
        metavar="FILE",
        help="Say which queries of this file (.gq) would break, and exit with 1 if one does; may be repeated.",
        show_default=False,
    ),
]


@app.command()
def check(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help="Schema files (.pg); - is stdin.", show_default=False)],
) -> int:
    """Check schema files and report every problem.

    \b
    Examples:
      omnigraph schema check evidence.pg
      omnigraph schema check evidence.pg --json
    """
    checked = [_check_file(name, text) for name, text in zip(files, read_texts(files), strict=True)]
    session_of(context).output.show(SchemaChecks(checked))
    return 1 if any(each.problems for each in checked) else 0


@app.command()
def infer(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(help="Tables: CSV, Parquet, Arrow or JSON lines; also patterns.", show_default=False),
    ],
    *,
    output: Annotated[
        str | None, typer.Option("-o", metavar="FILE", help="Write the schema to this new file.", show_default=False)
    ] = None,
    option: FileOptionPairs = None,
) -> int:
    """Propose a schema for tables, or for a dump of Neo4j, with a comment on each guess.

    Types, empty values, keys and edges are guessed from the first rows of each table. No graph is needed.

    \b
    Examples:
      omnigraph schema infer people.csv knows.csv -o people.pg
      omnigraph schema infer people.csv --option sep=";"
    """
    # A late import: it brings Arrow along.
    from omnigraph.pipeline.proposals import infer_schema, save_proposal

    text = infer_schema(files, read_options(option or ()))
    if output is not None:
        save_proposal(Path(output), text)
    session_of(context).output.show(ProposedText("schema", text, output))
    return 0


@app.command()
def diff(
    context: typer.Context,
    old: Annotated[str, typer.Argument(help="The old schema (.pg); - is stdin.", show_default=False)],
    new: Annotated[str, typer.Argument(help="The new schema (.pg); - is stdin.", show_default=False)],
    *,
    allow_data_loss: Annotated[
        bool,
        typer.Option("--allow-data-loss", help="Plan drops that also delete the dropped data from older versions."),
    ] = False,
    queries: Queries = None,
) -> int:
    """Show the migration steps from one schema to another, and what each costs.

    This is a preview: it exits with 0 even if a step is not supported.

    \b
    Examples:
      omnigraph schema diff evidence.pg evidence_v2.pg --queries questions.gq
      omnigraph schema diff evidence.pg evidence_v2.pg --json
    """
    old_text, new_text, *query_texts = read_texts([old, new, *(queries or ())])
    before, after = parse_schemas(old_text, new_text)
    plan = plan_migration(before.ir, after.ir, allow_data_loss=allow_data_loss)
    breaks = None if queries is None else _find_broken(query_texts, before, after)
    session_of(context).output.show(MigrationPreview(plan, breaks))
    return _exit_code_of(breaks)


@app.command()
def plan(
    context: typer.Context, new: NewSchema, *, allow_data_loss: AllowDataLoss = False, queries: Queries = None
) -> int:
    """Show the migration steps from the current schema to a new one. Nothing is changed.

    This is a preview: it exits with 0 even if a step is not supported.

    \b
    Examples:
      omnigraph schema plan evidence_v2.pg --queries questions.gq
      omnigraph schema plan evidence_v2.pg --allow-data-loss
    """
    session = session_of(context)
    new_text, *query_texts = read_texts([new, *(queries or ())])
    (after,) = parse_schemas(new_text)
    with session.open("ro") as graph:
        found = graph.plan_schema(require_text(new_text), allow_data_loss=allow_data_loss)
        breaks = None if queries is None else _find_broken(query_texts, graph.schema, after)
    session.output.show(MigrationPreview(found, breaks))
    return _exit_code_of(breaks)


@app.command()
def apply(
    context: typer.Context,
    new: NewSchema,
    *,
    allow_data_loss: AllowDataLoss = False,
    rewrite_ids: Annotated[
        bool, typer.Option("--rewrite-ids", help="Rewrite ids that an older release wrote in its own form.")
    ] = False,
    message: Message = None,
) -> int:
    """Change the schema of the graph as one commit on main, or change nothing.

    Rows that break a new rule are listed. Dropped data stays readable in older versions, unless --allow-data-loss is
    given.

    \b
    Examples:
      omnigraph schema apply evidence_v2.pg
      omnigraph schema apply evidence_v2.pg -m "trials have a phase" --yes
    """
    session = session_of(context)
    text = require_text(*read_texts([new]))
    session.output.say(f"changing the schema of {session.target()}")
    if allow_data_loss and not session.confirm("The dropped data will also be deleted from older versions. Continue?"):
        return 1
    with session.open("rw") as graph, session.watch():
        applied = graph.apply_schema(text, allow_data_loss=allow_data_loss, rewrite_ids=rewrite_ids, message=message)
    session.output.show(AppliedMigration(applied))
    return 0


@app.command()
def show(context: typer.Context, at: At = None, svg: SvgFile = None) -> int:
    """Show the schema of the graph, now or at a point in its history.

    \b
    Examples:
      omnigraph schema show --at june
      omnigraph schema show --svg schema.svg
    """
    session = session_of(context)
    with session.open("ro") as graph:
        schema = graph.schema if at is None else graph.schema_at(at)
        session.output.show(SchemaText(schema) if svg is None else write_picture(svg, schema.to_svg()))
    return 0


def _find_broken(texts: Iterable[Source | Problem], old: Schema, new: Schema) -> list[BrokenQuery]:
    """Return the queries that do not fit the new schema; one error lists all texts that cannot be parsed."""
    broken: list[BrokenQuery] = []
    problems: list[Problem] = []
    for text in texts:
        if isinstance(text, Problem):
            problems.append(replace(text, code=SYNTAX_CODE))
            continue
        try:
            broken += find_broken_queries(text, old.catalog, new.catalog)
        except QueryError as error:
            problems += error.problems
    if problems:
        raise QueryError(problems)
    return broken


def _exit_code_of(breaks: Sequence[BrokenQuery] | None) -> int:
    return 1 if any(broken.is_new for broken in breaks or ()) else 0


def _check_file(name: str, text: Source | Problem) -> SchemaCheck:
    try:
        schema = parse_schema(require_text(text))
    except SchemaError as error:
        return SchemaCheck(name, error.problems)
    catalog = schema.catalog
    counts = {"nodes": len(catalog.nodes), "edges": len(catalog.edges), "interfaces": len(catalog.interfaces)}
    return SchemaCheck(name, hash=schema.hash, counts=counts)

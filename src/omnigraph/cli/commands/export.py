"""``omnigraph export``: write the graph as records that ``load`` reads back, or as tables."""

from __future__ import annotations

import sys
from typing import Annotated, Literal, TypeAlias

import typer

from omnigraph.cli.arguments import STDOUT, At, ReadBranch, Types
from omnigraph.cli.render.read import ExportSummary
from omnigraph.cli.session import session_of

# The same names as in the library; importing them would load Lance.
ExportFormat: TypeAlias = Literal["jsonl", "parquet", "csv"]


def export(
    context: typer.Context,
    types: Types = None,
    branch: ReadBranch = "main",
    at: At = None,
    form: Annotated[
        ExportFormat | None,
        typer.Option("--format", help="Output format.", show_default="jsonl, or by the ending of -o"),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            "-o", metavar="PATH", help="The output file, or folder for tables; - is stdout.", show_default="stdout"
        ),
    ] = None,
) -> int:
    """Export the graph, or some of its types, as JSONL that 'load' reads back, or as tables: Parquet or CSV.

    A file appears under its name only when it is complete. Tables go into a new folder, even if its name ends in .csv:
    node/Trial.csv, or node/Trial/00000.parquet.

    \b
    Examples:
      omnigraph export --format csv -o tables
      omnigraph export --type Trial --type Tests --at v12 -o trials.jsonl
    """
    session = session_of(context)
    if path == STDOUT:
        path = None
    if path is None and form in ("parquet", "csv"):
        raise typer.TyperException(f"--format {form} needs -o PATH")
    if path is None and session.output.is_json:
        raise typer.TyperException("--json needs -o PATH, since stdout cannot hold the records too")
    with session.open("ro") as graph:
        if path is None:
            sys.stdout.flush()
            graph.export(sys.stdout.buffer, types or None, branch, at)
        else:
            with session.watch():
                exported = graph.export(path, types or None, branch, at, form)
            session.output.show(ExportSummary(exported))
    return 0

"""``omnigraph analyze``: run an algorithm over a part of the graph."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from omnigraph.cli.arguments import At, Pairs, read_parameters
from omnigraph.cli.render.analytics import AlgorithmListing
from omnigraph.cli.render.read import Format, QueryRows
from omnigraph.cli.session import session_of

_LIST: Final = "list"
_NODES: Final = ("source", "personalize")
"""Parameters that name nodes: a text is an id, even if it looks like a number."""


def analyze(
    context: typer.Context,
    algorithm: Annotated[
        str, typer.Argument(metavar="ALGORITHM", help=f"Its name; '{_LIST}' lists all of them.", show_default=False)
    ],
    nodes: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="TYPE", help="A node type. Repeatable.", show_default="ends of the edges"),
    ] = None,
    edges: Annotated[
        list[str] | None,
        typer.Option("--edge", metavar="TYPE", help="An edge type. Repeatable.", show_default="between the nodes"),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option("--weight", metavar="PROPERTY", help="The weight of an edge.", show_default=False),
    ] = None,
    direction: Annotated[str, typer.Option("--direction", help="How edges are followed: out, in or both.")] = "out",
    branch: Annotated[str, typer.Option("--branch", help="The branch to read.")] = "main",
    at: At = None,
    pairs: Pairs = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=0, help="Only the N largest values.", show_default=False),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Output format of the rows.", show_default="table")
    ] = None,
) -> int:
    """Run an algorithm over one snapshot of the graph. Nothing is written.

    \b
    Examples:
      omnigraph analyze pagerank --node Port --edge CallsAt -p iterations=30 --top 20
      omnigraph analyze list
    """
    session = session_of(context)
    if algorithm == _LIST:
        session.output.show(AlgorithmListing())
        return 0
    if session.output.is_json and form not in (None, "json"):
        raise typer.TyperException(f"--json and --format {form} cannot be used together")
    # Imported here, because it brings Arrow along.
    from omnigraph.analytics import run_algorithm

    given = read_parameters(pairs or (), None, None).texts
    parameters = {name: _parse_value(name, text) for name, text in given.items()}
    with session.open("ro") as graph:
        projection = graph.analytics.project(nodes, edges, weight=weight, direction=direction, branch=branch, at=at)
        result = run_algorithm(projection, algorithm, parameters)
        session.output.show(QueryRows(result if top is None else result.top(top), form or "table"))
    return 0


def _parse_value(name: str, text: str) -> object:
    """Parse a parameter: JSON, or else a text."""
    if name in _NODES and not text.startswith(("[", "{", '"')):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

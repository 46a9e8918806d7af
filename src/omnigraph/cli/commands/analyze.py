"""``omnigraph analyze``: run an algorithm over a part of the graph, and write the result back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import typer

from omnigraph.cli.arguments import At, Message, Pairs, ReadBranch, read_parameters
from omnigraph.cli.render.analytics import AlgorithmListing, AnalysisListing, WrittenResult
from omnigraph.cli.render.query_rows import Format, QueryRows
from omnigraph.cli.session import session_of
from omnigraph.cli.spark_engine import start_spark

if TYPE_CHECKING:
    from omnigraph.analytics import GraphProjection
    from omnigraph.read.rows import Filter

_LIST: Final = "list"
_STATUS: Final = "status"
_WORDS: Final = f"Its name; '{_LIST}' lists all of them, and '{_STATUS}' what was written on a branch."
_NODES: Final = ("source", "personalize", "pairs")
"""Parameters that name nodes: a text is an id, even if it looks like a number."""


def analyze(
    context: typer.Context,
    algorithm: Annotated[str, typer.Argument(metavar="ALGORITHM", help=_WORDS, show_default=False)],
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
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="TYPE=JSON",
            help='Leave out what does not meet a condition, such as \'Leg=[["km", ">", 0]]\'. Repeatable.',
            show_default=False,
        ),
    ] = None,
    direction: Annotated[str, typer.Option("--direction", help="How edges are followed: out, in or both.")] = "out",
    branch: ReadBranch = "main",
    at: At = None,
    pairs: Pairs = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=0, help="Show only the N largest values.", show_default=False),
    ] = None,
    property_: Annotated[
        str | None,
        typer.Option(
            "--write",
            metavar="PROPERTY",
            help="Write the values into this property, as one commit.",
            show_default=False,
        ),
    ] = None,
    edge_type: Annotated[
        str | None,
        typer.Option("--write-edge", metavar="TYPE", help="Write pairs of nodes as edges.", show_default=False),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--column", help="The column to write.", show_default="the first with values"),
    ] = None,
    target: Annotated[str, typer.Option("--to", metavar="BRANCH", help="The branch to write to.")] = "main",
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="REF", help="Create the branch from there.", show_default=False),
    ] = None,
    message: Message = None,
    engine: Annotated[
        Literal["auto", "local", "spark"],
        typer.Option("--engine", help="Where the algorithm runs: in this process, or on Spark."),
    ] = "auto",
    *,
    create: Annotated[bool, typer.Option("--create", help="Add the property to the schema if it is missing.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace values that people edited.")] = False,
    form: Annotated[
        Format | None, typer.Option("--format", help="Output format of the rows.", show_default="table")
    ] = None,
) -> int:
    """Run an algorithm over one snapshot of the graph, and show the values or write them into a property.

    \b
    Examples:
      omnigraph analyze pagerank --node Port --edge CallsAt -p iterations=30 --top 20
      omnigraph analyze pagerank --edge CallsAt --write rank --create --to rank/june --from main
      omnigraph analyze wcc --filter 'Port={"country": "NL"}' --format csv
      omnigraph analyze wcc --engine spark --format csv
      omnigraph analyze status --branch rank/june
    """
    session = session_of(context)
    if algorithm == _LIST:
        session.output.show(AlgorithmListing())
        return 0
    if algorithm == _STATUS:
        with session.open("ro") as graph:
            session.output.show(AnalysisListing(branch, graph.analyses(branch)))
        return 0
    is_written = property_ is not None or edge_type is not None
    if not is_written and (create or overwrite or column or from_ or message or target != "main"):
        raise typer.TyperException("--column, --to, --from, --create, --overwrite and -m need --write or --write-edge")
    if is_written and form is not None:
        raise typer.TyperException("--format is for rows alone; after --write, --top shows some as a table")
    if session.output.is_json and form not in (None, "json"):
        raise typer.TyperException(f"--json and --format {form} cannot be used together")
    # Imported here, because it brings Arrow along.
    from omnigraph.analytics import run_algorithm

    given = read_parameters(pairs or (), None, None).texts
    parameters = {name: _parse_value(name, text) for name, text in given.items()}
    filters = _parse_filters(conditions or ())
    if is_written:
        session.output.say(f"writing {property_ or edge_type} on branch {target} in {session.target()}")
    with ExitStack() as stack:
        graph = stack.enter_context(session.open("rw" if is_written else "ro"))

        def project(every: GraphProjection) -> GraphProjection:
            return every.project(
                nodes, edges, weight=weight, direction=direction, filters=filters, branch=branch, at=at
            )

        projection = project(graph.analytics)
        if _runs_on_spark(projection, engine):
            projection = project(stack.enter_context(start_spark(graph)).analytics)
        result = run_algorithm(projection, algorithm, parameters)
        largest = None if top is None else result.top(top, by=column)
        if not is_written:
            session.output.show(QueryRows(result if largest is None else largest, form or "table"))
            return 0
        loaded = result.write(
            property_,
            edge=edge_type,
            column=column,
            branch=target,
            from_=from_,
            create=create,
            overwrite=overwrite,
            message=message,
        )
        session.output.show(WrittenResult(loaded, largest))
    return 0


def _runs_on_spark(projection: GraphProjection, engine: str) -> bool:
    if engine != "auto":
        return engine == "spark"
    from omnigraph.spark.engine_choice import is_spark_better

    return is_spark_better(projection.count_stored_edges())


def _parse_filters(given: Iterable[str]) -> dict[str, Filter]:
    """Parse the conditions of each type."""
    found: dict[str, Filter] = {}
    for text in given:
        type_name, equals, condition = text.partition("=")
        if type_name in found:
            raise typer.TyperException(f"--filter {type_name}= is given twice; a list holds several conditions")
        try:
            parsed = cast("object", json.loads(condition)) if equals else None
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict | list):
            raise typer.TyperException(f"--filter takes TYPE=JSON, such as 'Port={{\"size\": 3}}', not '{text}'")
        found[type_name] = cast("Filter", parsed)
    return found


def _parse_value(name: str, text: str) -> object:
    """Parse a parameter: JSON, or else a text."""
    if name in _NODES and not text.startswith(("[", "{", '"')):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

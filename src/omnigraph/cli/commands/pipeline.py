"""``omnigraph pipeline``: plan, check and run pipeline files."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from omnigraph.cli.arguments import FileOptionPairs, read_options
from omnigraph.cli.render.language import ProposedText
from omnigraph.cli.render.output import Output
from omnigraph.cli.render.page import pluralize
from omnigraph.cli.render.pipeline import PipelineCheckSummary, PipelinePreview, PipelineRunSummary
from omnigraph.cli.session import Session, session_of
from omnigraph.cli.spark_engine import start_spark
from omnigraph.errors import NotFound, PipelineError
from omnigraph.storage.location import has_scheme

if TYPE_CHECKING:
    from omnigraph.graph import Graph, Mode
    from omnigraph.pipeline.file import PipelineFile
    from omnigraph.pipeline.planner import PipelinePlan
    from omnigraph.spark.pipeline import PipelineStep

PipelineName: TypeAlias = Annotated[
    str, typer.Argument(metavar="FILE", help="The pipeline file (.pipeline.yaml).", show_default=False)
]

app = typer.Typer(help="Build a graph from tables: plan, check and run pipeline files.", rich_markup_mode=None)


@app.command("init")
def init_file(
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(help="Tables: CSV, Parquet or JSON lines; also patterns.", show_default=False)
    ],
    *,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="S.pg", help="The schema of the graph.", show_default="the inferred one"),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", metavar="FILE", help="Write the pipeline to this new file.", show_default=False),
    ] = None,
    option: FileOptionPairs = None,
) -> int:
    """Propose a pipeline file that loads tables. -g is the graph that it names.

    \b
    Examples:
      omnigraph pipeline init people.csv knows.csv --schema people.pg -g people.og -o people.pipeline.yaml
      omnigraph pipeline init people.csv --option sep=";"
    """
    from omnigraph.pipeline.proposals import DEFAULT_GRAPH, propose_pipeline, save_proposal

    session = session_of(context)
    path = None if output is None else Path(output)
    folder = Path() if path is None else path.parent
    graph = DEFAULT_GRAPH if session.graph is None else relate_graph(session.graph, folder)
    schema_path = None if schema is None else Path(schema)
    text = propose_pipeline(files, schema=schema_path, graph=graph, folder=folder, options=read_options(option or ()))
    if path is not None:
        save_proposal(path, text)
    session.output.show(ProposedText("pipeline", text, output))
    return 0


def relate_graph(graph: str, folder: Path) -> str:
    """Return the location of a graph as a file in a folder names it: relative, unless it is absolute or a URI."""
    return graph if has_scheme(graph) or Path(graph).is_absolute() else os.path.relpath(graph, folder)


@app.command()
def plan(context: typer.Context, file: PipelineName) -> int:
    """Show what the pipeline reads, maps and writes. Does not start Spark.

    Every mapping is checked against the schema. Types that only Spark knows are marked; check and run look at them.

    \b
    Examples:
      omnigraph pipeline plan june.pipeline.yaml
      omnigraph pipeline plan june.pipeline.yaml --json
    """
    session = session_of(context)
    with _open_plan(session, file, "ro") as (found, _, place):
        session.output.show(PipelinePreview(found, place))
    return 0


@app.command()
def check(context: typer.Context, file: PipelineName) -> int:
    """Read everything, report every problem, and write nothing.

    Exits with 1 if a row breaks a rule of the schema.

    \b
    Examples:
      omnigraph pipeline check june.pipeline.yaml
      omnigraph pipeline check june.pipeline.yaml --json
    """
    from omnigraph.spark.inputs import require_pyspark

    session = session_of(context)
    with _open_plan(session, file, "ro") as (found, graph, place):
        # A late import: it loads PySpark.
        require_pyspark()
        from omnigraph.spark.pipeline import check_pipeline

        session.output.say(f"checking {file} for branch {found.file.load.branch} in {place}")
        session.output.show(
            PipelineCheckSummary(check_pipeline(found, partial(start_spark, graph), StepReporter(session.output)))
        )
    return 0


@app.command()
def run(context: typer.Context, file: PipelineName) -> int:
    """Load everything as one commit on a branch, then run the checks.

    Exits with 1 if a check finds rows. The branch is kept for inspection.

    \b
    Examples:
      omnigraph pipeline run june.pipeline.yaml
      omnigraph pipeline run june.pipeline.yaml --json
    """
    from omnigraph.spark.inputs import require_pyspark

    session = session_of(context)
    with _open_plan(session, file, "rw") as (found, graph, place):
        require_pyspark()
        from omnigraph.spark.pipeline import run_pipeline

        session.output.say(f"loading {file} into branch {found.file.load.branch} in {place}")
        result = run_pipeline(found, partial(start_spark, graph), StepReporter(session.output))
        session.output.show(PipelineRunSummary(result, place))
    return 0 if result.passed else 1


@contextmanager
def _open_plan(session: Session, name: str, mode: Mode) -> Generator[tuple[PipelinePlan, Graph, str]]:
    """Yield the plan of a file, its graph, and the name of that graph. ``-g`` overrides the graph in the file."""
    from omnigraph.pipeline.file import read_pipeline
    from omnigraph.pipeline.planner import plan_pipeline

    file = read_pipeline(Path(name))
    with file.redactor.redact_errors(), _graph(session, file, mode) as graph:
        place = session.graph or (file.display_path(file.graph) if file.graph is not None else "")
        yield plan_pipeline(file, graph), graph, place


def _graph(session: Session, file: PipelineFile, mode: Mode) -> Graph:
    if session.graph is not None:
        return session.open(mode)
    uri = file.graph_uri()
    if uri is None or file.graph is None:
        raise PipelineError(file.problems)
    from omnigraph.pipeline.codes import NO_GRAPH

    try:
        return replace(session, graph=uri).open(mode)
    except NotFound as missing:
        hint = "create it first: omnigraph init URI --schema S.pg"
        problem = file.problem(NO_GRAPH, file.redactor.redact(missing.message), file.graph.span, hint)
        raise PipelineError(sorted([*file.problems, problem], key=lambda each: each.position.line)) from None


class StepReporter:
    """Prints a line after each step of a run, and one before the slow ones."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def on_start(self, step: PipelineStep) -> None:
        """Announce a slow step."""
        if step.kind == "spark":
            self._output.say("starting Spark")
        elif step.kind == "load":
            self._output.say(f"reading, checking and writing rows for branch {step.name}")

    def on_end(self, step: PipelineStep) -> None:
        """Print what was done, its rows and its time."""
        what = "Spark started" if step.kind == "spark" else f"{step.kind} {step.name}"
        rows = "" if step.rows is None else f": {pluralize(step.rows, 'row')}"
        self._output.say(f"{what}{rows} ({step.seconds:.1f} s)")

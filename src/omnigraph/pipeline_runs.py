"""Plan, check and run pipeline files from Python: the public functions of ``omnigraph.pipeline``."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.errors import NotFound, PipelineError
from omnigraph.graph import Graph, Mode
from omnigraph.graph import open as open_graph
from omnigraph.pipeline.codes import NO_GRAPH
from omnigraph.pipeline.file import PipelineFile, read_pipeline
from omnigraph.pipeline.planner import PipelinePlan, plan_pipeline
from omnigraph.spark.inputs import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.spark.pipeline import PipelineResult, PipelineStep

GraphOrUri: TypeAlias = "Graph | str | os.PathLike[str]"
Progress: TypeAlias = "Callable[[PipelineStep], object]"


def plan(path: str | os.PathLike[str], *, graph: GraphOrUri | None = None) -> PipelinePlan:
    """Check a pipeline file against its graph, without Spark. :class:`PipelineError` lists all problems.

    ``graph`` is used instead of the one that the file names.
    """
    with _open_plan(path, graph, "ro") as (found, _):
        return found


def check(
    path: str | os.PathLike[str],
    *,
    graph: GraphOrUri | None = None,
    session: SparkSession | None = None,
    progress: Progress | None = None,
) -> PipelineResult:
    """Read everything on Spark, and raise every problem; write nothing. ``progress`` is called after each step."""
    require_pyspark()
    from omnigraph.spark.pipeline import check_pipeline

    with _open_plan(path, graph, "ro") as (found, opened):
        return check_pipeline(found, partial(opened.spark, session), _StepCaller(progress))


def run(
    path: str | os.PathLike[str],
    *,
    graph: GraphOrUri | None = None,
    session: SparkSession | None = None,
    progress: Progress | None = None,
) -> PipelineResult:
    """Load everything as one commit, run the checks, and merge if they pass and the file says so.

    ``PipelineResult.passed`` says whether all checks passed. ``progress`` is called after each step.
    """
    require_pyspark()
    from omnigraph.spark.pipeline import run_pipeline

    with _open_plan(path, graph, "rw") as (found, opened):
        return run_pipeline(found, partial(opened.spark, session), _StepCaller(progress))


class _StepCaller:
    """Calls a function after each step."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def on_start(self, step: PipelineStep) -> None:
        """Nothing is done yet."""

    def on_end(self, step: PipelineStep) -> None:
        """Report the step."""
        if self._progress is not None:
            self._progress(step)


@contextmanager
def _open_plan(
    path: str | os.PathLike[str], graph: GraphOrUri | None, mode: Mode
) -> Generator[tuple[PipelinePlan, Graph]]:
    file = read_pipeline(Path(path))
    with file.redactor.redact_errors():
        if isinstance(graph, Graph):
            yield plan_pipeline(file, graph), graph
            return
        with _open_graph(file, graph, mode) as opened:
            yield plan_pipeline(file, opened), opened


def _open_graph(file: PipelineFile, graph: str | os.PathLike[str] | None, mode: Mode) -> Graph:
    if graph is not None:
        return open_graph(os.fspath(graph), mode)
    uri = file.graph_uri()
    if uri is None or file.graph is None:
        raise PipelineError(file.problems)
    try:
        return open_graph(uri, mode)
    except NotFound as missing:
        hint = "create it first: omnigraph init URI --schema S.pg"
        problem = file.problem(NO_GRAPH, file.redactor.redact(missing.message), file.graph.span, hint)
        raise PipelineError(sorted([*file.problems, problem], key=lambda each: each.position.line)) from None

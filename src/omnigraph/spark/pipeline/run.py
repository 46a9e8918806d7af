"""Pipelines: what a file describes, done.

Sources become views, views become rows of types, and all rows become one commit on a branch. Queries that must find
nothing look at it there, and if they find nothing it is merged where the file says. What the file, the graph and Spark
can be asked beforehand is asked before a row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.errors import Json
from omnigraph.pipeline.plan import PipelinePlan, PlannedCheck
from omnigraph.pipeline.yaml_reader import TemplateText
from omnigraph.read import query
from omnigraph.read.rows import to_json_rows
from omnigraph.spark.graph import SparkGraph
from omnigraph.spark.pipeline.dataframes import PipelineFrames, build_frames
from omnigraph.spark.pipeline.problems import translate_step_errors
from omnigraph.spark.pipeline.progress import PipelineStep, StepObserver, StepRecorder
from omnigraph.write.load import LoadResult
from omnigraph.write.merge import MergeResult

SAMPLE_ROWS: Final = 5
"""So many rows of a failed check are shown; the query itself gives the others."""
_INSTANT: Final = 1e-9


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found; it passed if that is nothing."""

    check: PlannedCheck
    rows: int
    sample: tuple[Mapping[str, Json], ...]

    @property
    def passed(self) -> bool:
        """Whether it found nothing."""
        return self.rows == 0


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What a run did, and what its checks say of it."""

    plan: PipelinePlan
    load: LoadResult
    checks: tuple[CheckResult, ...]
    steps: tuple[PipelineStep, ...]
    merged: MergeResult | None = None

    @property
    def passed(self) -> bool:
        """Whether no check found anything."""
        return all(check.passed for check in self.checks)

    @property
    def rows(self) -> int:
        """How many rows were loaded."""
        return _count_rows(self.load)

    @property
    def seconds(self) -> float:
        """How long all steps took."""
        return sum(step.seconds for step in self.steps)

    @property
    def load_seconds(self) -> float:
        """How long the load took, without the start of Spark and the checks."""
        return sum(step.seconds for step in self.steps if step.kind == "load")

    @property
    def rows_per_second(self) -> float:
        """Rows by the time that the load took."""
        return self.rows / max(self.load_seconds, _INSTANT)


def check_pipeline(plan: PipelinePlan, start: Callable[[], SparkGraph], observer: StepObserver) -> PipelineResult:
    """Find everything that is wrong with the rows, and write nothing: so there is nothing to ask the checks of."""
    steps = StepRecorder(observer)
    with translate_step_errors(plan):
        _, result = _load_pipeline(plan, start, steps, check=True)
    return PipelineResult(plan, result, (), tuple(steps.done))


def run_pipeline(plan: PipelinePlan, start: Callable[[], SparkGraph], observer: StepObserver) -> PipelineResult:
    """Load all rows as one commit, ask the checks, and merge if they find nothing. The branch stays in any case."""
    steps = StepRecorder(observer)
    with translate_step_errors(plan):
        graph, result = _load_pipeline(plan, start, steps, check=False)
        checks = tuple(_run_check(graph, result, each, steps) for each in plan.checks)
        into = plan.file.load.merge_into if all(check.passed for check in checks) else None
        merged = None if into is None else _merge_branch(plan, graph, result, into, steps)
    return PipelineResult(plan, result, checks, tuple(steps.done), merged)


def _load_pipeline(
    plan: PipelinePlan, start: Callable[[], SparkGraph], steps: StepRecorder, *, check: bool
) -> tuple[SparkGraph, LoadResult]:
    with steps.record("spark", "Spark"):
        graph = start()
    with build_frames(plan, graph.session, steps) as frames, steps.record("load", plan.file.load.branch.written):
        result = _load_frames(plan, graph, frames, check=check)
        steps.set_rows(_count_rows(result))
    return graph, result


def _load_frames(plan: PipelinePlan, graph: SparkGraph, frames: PipelineFrames, *, check: bool) -> LoadResult:
    to = plan.file.load
    return graph.load(
        nodes=frames.nodes,
        edges=frames.edges,
        mode=to.mode,
        branch=to.branch.value,
        from_branch=None if to.origin is None else to.origin.value,
        on_error=to.on_error,
        message=_message(plan),
        check=check,
    )


def _run_check(graph: SparkGraph, loaded: LoadResult, planned: PlannedCheck, steps: StepRecorder) -> CheckResult:
    """Ask a check of exactly what was loaded: others may write to the branch meanwhile."""
    at = None if loaded.commit is None else loaded.commit.id
    rows, sample = 0, list[Mapping[str, Json]]()
    with steps.record("check", planned.name):
        question = query.QueryRequest(planned.path, planned.name, planned.check.params)
        for batch in query.run_query(graph.manifest, question, loaded.branch, at).batches():
            sample += to_json_rows(batch.slice(0, SAMPLE_ROWS - len(sample)))
            rows += batch.num_rows
        steps.set_rows(rows)
    return CheckResult(planned, rows, tuple(sample))


def _merge_branch(
    plan: PipelinePlan, graph: SparkGraph, loaded: LoadResult, into: TemplateText, steps: StepRecorder
) -> MergeResult:
    """Merge exactly what was checked: others may write to the branch meanwhile."""
    with steps.record("merge", into.written):
        source = loaded.branch if loaded.commit is None else loaded.commit.id
        result = graph.merge(source, into.value, message=f"{_message(plan)}: merge {plan.file.load.branch}")
        counts = (*result.nodes.values(), *result.edges.values())
        steps.set_rows(sum(each.inserted + each.updated + each.deleted for each in counts))
    return result


def _message(plan: PipelinePlan) -> str:
    return f"pipeline {Path(plan.file.name).name}"


def _count_rows(loaded: LoadResult) -> int:
    return sum(loaded.nodes.values()) + sum(loaded.edges.values())

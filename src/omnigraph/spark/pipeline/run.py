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
from omnigraph.pipeline.plan import Plan, PlannedCheck
from omnigraph.pipeline.yaml_reader import Text
from omnigraph.read import query
from omnigraph.read.rows import to_json_rows
from omnigraph.spark.graph import SparkGraph
from omnigraph.spark.pipeline.dataframes import Frames, frames_of
from omnigraph.spark.pipeline.problems import told
from omnigraph.spark.pipeline.progress import Step, Steps, Watch
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

    plan: Plan
    load: LoadResult
    checks: tuple[CheckResult, ...]
    steps: tuple[Step, ...]
    merged: MergeResult | None = None

    @property
    def passed(self) -> bool:
        """Whether no check found anything."""
        return all(check.passed for check in self.checks)

    @property
    def rows(self) -> int:
        """How many rows were loaded."""
        return _rows(self.load)

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


def check_pipeline(plan: Plan, start: Callable[[], SparkGraph], watch: Watch) -> PipelineResult:
    """Find everything that is wrong with the rows, and write nothing: so there is nothing to ask the checks of."""
    steps = Steps(watch)
    with told(plan):
        _, result = _loaded(plan, start, steps, check=True)
    return PipelineResult(plan, result, (), tuple(steps.done))


def run_pipeline(plan: Plan, start: Callable[[], SparkGraph], watch: Watch) -> PipelineResult:
    """Load all rows as one commit, ask the checks, and merge if they find nothing. The branch stays in any case."""
    steps = Steps(watch)
    with told(plan):
        graph, result = _loaded(plan, start, steps, check=False)
        checks = tuple(_checked(graph, result, each, steps) for each in plan.checks)
        into = plan.file.load.merge_into if all(check.passed for check in checks) else None
        merged = None if into is None else _merged(plan, graph, result, into, steps)
    return PipelineResult(plan, result, checks, tuple(steps.done), merged)


def _loaded(plan: Plan, start: Callable[[], SparkGraph], steps: Steps, *, check: bool) -> tuple[SparkGraph, LoadResult]:
    with steps.step("spark", "Spark"):
        graph = start()
    with frames_of(plan, graph.session, steps) as frames, steps.step("load", plan.file.load.branch.written):
        result = _load(plan, graph, frames, check=check)
        steps.count(_rows(result))
    return graph, result


def _load(plan: Plan, graph: SparkGraph, frames: Frames, *, check: bool) -> LoadResult:
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


def _checked(graph: SparkGraph, loaded: LoadResult, planned: PlannedCheck, steps: Steps) -> CheckResult:
    """Ask a check of exactly what was loaded: others may write to the branch meanwhile."""
    at = None if loaded.commit is None else loaded.commit.id
    rows, sample = 0, list[Mapping[str, Json]]()
    with steps.step("check", planned.name):
        question = query.QueryRequest(planned.path, planned.name, planned.check.params)
        for batch in query.run_query(graph.manifest, question, loaded.branch, at).batches():
            sample += to_json_rows(batch.slice(0, SAMPLE_ROWS - len(sample)))
            rows += batch.num_rows
        steps.count(rows)
    return CheckResult(planned, rows, tuple(sample))


def _merged(plan: Plan, graph: SparkGraph, loaded: LoadResult, into: Text, steps: Steps) -> MergeResult:
    """Merge exactly what was checked: others may write to the branch meanwhile."""
    with steps.step("merge", into.written):
        source = loaded.branch if loaded.commit is None else loaded.commit.id
        result = graph.merge(source, into.value, message=f"{_message(plan)}: merge {plan.file.load.branch}")
        counts = (*result.nodes.values(), *result.edges.values())
        steps.count(sum(each.inserted + each.updated + each.deleted for each in counts))
    return result


def _message(plan: Plan) -> str:
    return f"pipeline {Path(plan.file.name).name}"


def _rows(loaded: LoadResult) -> int:
    return sum(loaded.nodes.values()) + sum(loaded.edges.values())

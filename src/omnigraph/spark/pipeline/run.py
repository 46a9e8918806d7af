"""Run or check a pipeline.

Sources become views, views become rows of types, and all rows become one commit on a branch. The checks then query the
branch, and if all of them pass it is merged, if the file says so. Everything that can be checked in the file, the graph
and Spark's analysis is checked before a row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

import pyarrow as pa

from omnigraph.errors import Json, ReadOnly
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_current_schema
from omnigraph.manifest.history import to_commit
from omnigraph.pipeline.planner import PipelinePlan, PlannedCheck
from omnigraph.pipeline.yaml_reader import TemplateText
from omnigraph.read import query
from omnigraph.read.rows import to_json_rows
from omnigraph.spark.graph import SparkGraph
from omnigraph.spark.load import load
from omnigraph.spark.pipeline.dataframes import PipelineTables, build_tables
from omnigraph.spark.pipeline.problems import translate_step_errors
from omnigraph.spark.pipeline.step_recorder import PipelineStep, StepObserver, StepRecorder
from omnigraph.spark.query import SparkQueryOptions, run_query
from omnigraph.storage.columns import column_of
from omnigraph.write.commit import CommitOptions, find_written
from omnigraph.write.load import LoadInput, LoadOptions, LoadResult
from omnigraph.write.merge import MergeResult

SAMPLE_ROWS: Final = 5
"""The number of rows of a failed check that are shown."""
_INSTANT: Final = 1e-9


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The rows that a check found; it passes if there are none."""

    check: PlannedCheck
    rows: int
    sample: tuple[Mapping[str, Json], ...]

    @property
    def passed(self) -> bool:
        """Whether the check found no rows."""
        return self.rows == 0


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The result of a run: the load, the checks and the merge."""

    plan: PipelinePlan
    load: LoadResult
    checks: tuple[CheckResult, ...]
    steps: tuple[PipelineStep, ...]
    merged: MergeResult | None = None

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(check.passed for check in self.checks)

    @property
    def rows(self) -> int:
        """The number of rows loaded."""
        return _count_rows(self.load)

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        return sum(step.seconds for step in self.steps)

    @property
    def load_seconds(self) -> float:
        """The time of the load, without starting Spark and the checks."""
        return sum(step.seconds for step in self.steps if step.kind == "load")

    @property
    def rows_per_second(self) -> float:
        """The number of rows loaded per second."""
        return self.rows / max(self.load_seconds, _INSTANT)


def check_pipeline(plan: PipelinePlan, start: Callable[[], SparkGraph], observer: StepObserver) -> PipelineResult:
    """Find all violations of the rows without a commit; the checks do not run."""
    recorder = StepRecorder(observer)
    with translate_step_errors(plan):
        _, result = _load_pipeline(plan, start, recorder, check=True)
    return PipelineResult(plan, result, (), tuple(recorder.done))


def run_pipeline(plan: PipelinePlan, start: Callable[[], SparkGraph], observer: StepObserver) -> PipelineResult:
    """Load all rows as one commit, run the checks, and merge if they pass. The branch is kept in any case.

    With ``merge_into`` the branch is a new one at every run. A run whose ``txn`` the target has already reads nothing.
    """
    recorder = StepRecorder(observer)
    into = plan.file.load.merge_into
    with translate_step_errors(plan):
        graph, result = _load_pipeline(plan, start, recorder, check=False)
        if into is not None and result.branch == into.value:
            # An earlier run passed the checks and merged the rows.
            return PipelineResult(plan, result, (), tuple(recorder.done))
        checks = tuple(_run_check(graph, result, each, recorder) for each in plan.checks)
        merged = None
        if into is not None and all(check.passed for check in checks):
            merged = _merge_branch(plan, graph, result, into, recorder)
    return PipelineResult(plan, result, checks, tuple(recorder.done), merged)


def _load_pipeline(
    plan: PipelinePlan, start: Callable[[], SparkGraph], recorder: StepRecorder, *, check: bool
) -> tuple[SparkGraph, LoadResult]:
    with recorder.record("spark", "Spark"):
        graph = start()
    earlier = _find_earlier_run(plan, graph, can_heal=not check)
    if earlier is not None:
        return graph, earlier
    with build_tables(plan, graph.session, recorder) as tables, recorder.record("load", plan.file.load.branch.written):
        result = _load_tables(plan, graph, tables, check=check)
        recorder.set_rows(_count_rows(result))
    return graph, result


def _find_earlier_run(plan: PipelinePlan, graph: SparkGraph, *, can_heal: bool) -> LoadResult | None:
    """Return the result of an earlier run with the same ``txn``; None if the target has no such commit."""
    to = plan.file.load
    if to.txn is None or (plan.creates_branch and to.merge_into is None):
        return None
    commit = find_written(graph.manifest, to.target.value, to.txn, None, None, can_heal=can_heal)
    if commit is None:
        return None
    return LoadResult(to_commit(commit), to.target.value, to.mode, "spark", {}, {}, 0, None, replayed=True)


def _load_tables(plan: PipelinePlan, graph: SparkGraph, tables: PipelineTables, *, check: bool) -> LoadResult:
    to = plan.file.load
    if not check and not graph.writable:
        raise ReadOnly(f"{graph.manifest.location} was opened read-only", hint='open it with mode="rw"')
    options = {"format": "parquet"} if tables.columns else {}
    return load(
        graph.session,
        graph.manifest,
        load_current_schema(graph.manifest),
        LoadInput(
            None, tables.nodes, tables.edges, tables.columns, tables.ignored, options, allow_empty=to.allow_empty
        ),
        LoadOptions(
            to.mode,
            to.on_error,
            engine="spark",
            check=check,
            from_branch=None if to.start is None else to.start.value,
            identity={each.type_name: each.columns for each in to.identities},
            allow_missing_blobs=to.allow_missing_blobs,
            replaced_head=plan.replaced_head,
        ),
        CommitOptions(to.branch.value, actor=graph.actor, message=plan.file.message, txn=to.txn),
    )


def _run_check(graph: SparkGraph, loaded: LoadResult, planned: PlannedCheck, recorder: StepRecorder) -> CheckResult:
    """Run a check on the loaded commit: others may have written to the branch meanwhile.

    Executors compute and count its rows, unless it reads little; only those that are shown come here.
    """
    at = None if loaded.commit is None else loaded.commit.id
    question = query.QueryRequest(planned.path, planned.name, planned.check.params)
    with recorder.record("check", planned.name), ExitStack() as files:
        options = SparkQueryOptions(graph.embedding, "auto")
        found = run_query(graph.manifest, graph.snapshot(loaded.branch, at), question, options, files.enter_context)
        sample = found.limit(SAMPLE_ROWS).toArrow()
        rows = found.count() if sample.num_rows == SAMPLE_ROWS else sample.num_rows
        shown = query.run_query(graph.manifest, question, loaded.branch, at).schema
        recorder.set_rows(rows)
    return CheckResult(planned, rows, tuple(_to_json(sample, shown)))


def _to_json(rows: pa.Table, shown: pa.Schema) -> list[dict[str, Json]]:
    """Return rows of Spark as a query of this process shows them."""
    types = zip(shown.names, shown.types, strict=True)
    columns = [column_of(rows, name).cast(type_) for name, type_ in types]
    return to_json_rows(pa.RecordBatch.from_arrays(columns, schema=shown))


def _merge_branch(
    plan: PipelinePlan, graph: SparkGraph, loaded: LoadResult, into: TemplateText, recorder: StepRecorder
) -> MergeResult:
    """Merge the checked commit: others may have written to the branch meanwhile."""
    to = plan.file.load
    with recorder.record("merge", into.written):
        source = loaded.branch if loaded.commit is None else loaded.commit.id
        result = graph.merge(source, into.value, message=f"{plan.file.message}: merge {to.branch}", txn=to.txn)
        counts = (*result.nodes.values(), *result.edges.values())
        recorder.set_rows(sum(each.inserted + each.updated + each.deleted for each in counts))
    return result


def _count_rows(loaded: LoadResult) -> int:
    return sum(loaded.nodes.values()) + sum(loaded.edges.values())

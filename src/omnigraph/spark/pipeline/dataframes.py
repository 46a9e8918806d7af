"""The sources, views and mappings of a pipeline as DataFrames; Spark looks at all of them before a row is read."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from omnigraph.errors import PipelineError, Problem
from omnigraph.pipeline import codes
from omnigraph.pipeline.file import PipelineFile, PipelineSource
from omnigraph.pipeline.plan import PipelinePlan, PlannedColumn, PlannedMapping, type_mismatch_problem
from omnigraph.spark.pipeline.problems import (
    SPARK_FAILURES,
    SparkFailure,
    column_problem,
    is_name_taken,
    missing_view_of,
    sql_problem,
)
from omnigraph.spark.pipeline.progress import StepRecorder


@dataclass(frozen=True, slots=True)
class PipelineFrames:
    """The rows of each type, not read yet, with columns as a load takes them."""

    nodes: dict[str, DataFrame] = field(default_factory=dict[str, DataFrame])
    edges: dict[str, DataFrame] = field(default_factory=dict[str, DataFrame])


@contextmanager
def build_frames(plan: PipelinePlan, session: SparkSession, steps: StepRecorder) -> Generator[PipelineFrames]:
    """The frames of a plan, while the views that they are made from are there.

    :class:`PipelineError` lists every source, view and mapping that Spark does not take.
    """
    made = _FrameBuilder(plan.file, session, steps)
    try:
        made.register_sources()
        made.register_views()
        frames = made.map_types(plan)
        made.raise_problems()
        yield frames
    finally:
        for name in made.registered:
            session.catalog.dropTempView(name)


class _FrameBuilder:
    """The views made so far, and the problems met on the way. What needs something that failed is not blamed too."""

    def __init__(self, file: PipelineFile, session: SparkSession, steps: StepRecorder) -> None:
        self.registered: list[str] = []
        self.problems: list[Problem] = []
        self._file = file
        self._session = session
        self._steps = steps
        self._failed: set[str] = set()

    def register_sources(self) -> None:
        """Make a view of each source."""
        for each in self._file.sources:
            try:
                with self._steps.record("source", each.name):
                    _read_source(self._file, each, self._session).createTempView(each.name)
            except SPARK_FAILURES as error:
                what = f"source '{each.name}'"
                self._add_failure(
                    each.name, error, sql_problem(self._file, error, what, each.error_span, codes.NO_SOURCE)
                )
            else:
                self.registered.append(each.name)

    def register_views(self) -> None:
        """Make the views, in order: each may be made from those above it."""
        for view in self._file.views:
            try:
                with self._steps.record("view", view.name):
                    self._session.sql(view.sql.value).createTempView(view.name)
            except SPARK_FAILURES as error:
                self._add_failure(
                    view.name, error, sql_problem(self._file, error, f"view '{view.name}'", view.sql.span)
                )
            else:
                self.registered.append(view.name)

    def map_types(self, plan: PipelinePlan) -> PipelineFrames:
        """The frames of all types whose view is there and whose expressions are right."""
        frames = PipelineFrames()
        for target in plan.mappings:
            if target.view.value.lower() in self._failed:
                continue
            with self._steps.record("map", target.type.name):
                view = self._session.table(target.view.value)
                wrong = list(_check_columns(self._file, target, view))
            self.problems += wrong
            if not wrong:
                kept = frames.edges if target.kind == "edge" else frames.nodes
                kept[target.type.name] = view.select(*_select_columns(target.columns))
        return frames

    def raise_problems(self) -> None:
        """Raise all problems, if there are any."""
        if self.problems:
            raise PipelineError(sorted(self.problems, key=lambda each: (each.position.line, each.position.column)))

    def _add_failure(self, name: str, error: SparkFailure, problem: Problem) -> None:
        missing = missing_view_of(error)
        if missing is None or missing.lower() not in self._failed:
            self.problems.append(problem)
        self._failed.add(name.lower())
        if is_name_taken(error):
            # What is made from it would be made from something else.
            self.raise_problems()


def _read_source(file: PipelineFile, source: PipelineSource, session: SparkSession) -> DataFrame:
    if source.sql is not None:
        return session.sql(source.sql.value)
    assert source.format is not None
    reader = session.read.format(source.format.value)
    for name, option in source.options.items():
        reader = reader.option(name, option.value)
    return reader.load() if source.path is None else reader.load(file.spark_path(source.path))


# --------------------------------------------------------------------------------------------- mappings


def _check_columns(file: PipelineFile, target: PlannedMapping, view: DataFrame) -> Iterator[Problem]:
    try:
        together = view.select(*(sql.expr(each.expression.value).alias(each.name) for each in target.columns))
        types = [each.dataType for each in together.schema.fields]
    except SPARK_FAILURES as error:
        alone = list(_check_each_expression(file, target, view))
        yield from alone or [sql_problem(file, error, f"view '{target.view}'", target.view.span)]
        return
    for column, found in zip(target.columns, types, strict=True):
        arrow = _to_arrow(found)
        if arrow is None or not column.accepts(arrow):
            yield type_mismatch_problem(file, target.type, column, arrow or found.simpleString())


def _check_each_expression(file: PipelineFile, target: PlannedMapping, view: DataFrame) -> Iterator[Problem]:
    """Each expression by itself, so that one that is wrong does not hide another."""
    for column in target.columns:
        text = column.expression
        try:
            fields = view.select(sql.expr(text.value)).schema.fields
        except SPARK_FAILURES as error:
            yield column_problem(file, error, target.view, view.columns, text)
            continue
        if len(fields) != 1:
            yield file.problem(codes.BAD_SQL, f"'{text}' gives {len(fields)} columns", text.span, "give one")


def _select_columns(columns: Sequence[PlannedColumn]) -> list[SparkColumn]:
    """The columns of a frame; an end that is given by the parts of a key is one struct of them."""
    ends: dict[str, list[SparkColumn]] = {}
    found: list[SparkColumn] = []
    for each in columns:
        end, dot, part = each.name.partition(".")
        value = sql.expr(each.expression.value)
        if dot:
            ends.setdefault(end, []).append(value.alias(part))
        else:
            found.append(value.alias(each.name))
    return [*(sql.struct(*parts).alias(name) for name, parts in ends.items()), *found]


def _to_arrow(found: DataType) -> pa.DataType | None:
    try:
        return to_arrow_type(found, timezone="UTC")
    except PySparkException:
        return None

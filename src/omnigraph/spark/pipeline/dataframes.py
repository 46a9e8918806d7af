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
from omnigraph.pipeline.file import Input, PipelineFile
from omnigraph.pipeline.plan import Mapped, Plan, PlannedTarget, mismatch
from omnigraph.spark.pipeline.problems import (
    SPARK_FAILURES,
    SparkFailure,
    column_problem,
    is_taken,
    missing_view,
    sql_problem,
)
from omnigraph.spark.pipeline.progress import Steps


@dataclass(frozen=True, slots=True)
class Frames:
    """The rows of each type, not read yet, with columns as a load takes them."""

    nodes: dict[str, DataFrame] = field(default_factory=dict[str, DataFrame])
    edges: dict[str, DataFrame] = field(default_factory=dict[str, DataFrame])


@contextmanager
def frames_of(plan: Plan, session: SparkSession, steps: Steps) -> Generator[Frames]:
    """The frames of a plan, while the views that they are made from are there.

    :class:`PipelineError` lists every source, view and mapping that Spark does not take.
    """
    made = _Made(plan.file, session, steps)
    try:
        made.register_inputs()
        made.register_views()
        frames = made.mapped(plan)
        made.refuse()
        yield frames
    finally:
        for name in made.registered:
            session.catalog.dropTempView(name)


class _Made:
    """The views made so far, and the problems met on the way. What needs something that failed is not blamed too."""

    def __init__(self, file: PipelineFile, session: SparkSession, steps: Steps) -> None:
        self.registered: list[str] = []
        self.problems: list[Problem] = []
        self._file = file
        self._session = session
        self._steps = steps
        self._failed: set[str] = set()

    def register_inputs(self) -> None:
        """Make a view of each source."""
        for each in self._file.inputs:
            try:
                with self._steps.step("source", each.name):
                    _read(self._file, each, self._session).createTempView(each.name)
            except SPARK_FAILURES as error:
                what = f"source '{each.name}'"
                self._fail(each.name, error, sql_problem(self._file, error, what, each.place, codes.NO_SOURCE))
            else:
                self.registered.append(each.name)

    def register_views(self) -> None:
        """Make the views, in order: each may be made from those above it."""
        for view in self._file.views:
            try:
                with self._steps.step("view", view.name):
                    self._session.sql(view.sql.value).createTempView(view.name)
            except SPARK_FAILURES as error:
                self._fail(view.name, error, sql_problem(self._file, error, f"view '{view.name}'", view.sql.span))
            else:
                self.registered.append(view.name)

    def mapped(self, plan: Plan) -> Frames:
        """The frames of all types whose view is there and whose expressions are right."""
        frames = Frames()
        for target in plan.targets:
            if target.view.value.lower() in self._failed:
                continue
            with self._steps.step("map", target.type.name):
                view = self._session.table(target.view.value)
                wrong = list(_column_problems(self._file, target, view))
            self.problems += wrong
            if not wrong:
                kept = frames.edges if target.kind == "edge" else frames.nodes
                kept[target.type.name] = view.select(*_columns(target.columns))
        return frames

    def refuse(self) -> None:
        """Raise all problems, if there are any."""
        if self.problems:
            raise PipelineError(sorted(self.problems, key=lambda each: (each.position.line, each.position.column)))

    def _fail(self, name: str, error: SparkFailure, problem: Problem) -> None:
        missing = missing_view(error)
        if missing is None or missing.lower() not in self._failed:
            self.problems.append(problem)
        self._failed.add(name.lower())
        if is_taken(error):
            # What is made from it would be made from something else.
            self.refuse()


def _read(file: PipelineFile, source: Input, session: SparkSession) -> DataFrame:
    if source.sql is not None:
        return session.sql(source.sql.value)
    assert source.format is not None
    reader = session.read.format(source.format.value)
    for name, option in source.options.items():
        reader = reader.option(name, option.value)
    return reader.load() if source.path is None else reader.load(file.address(source.path))


# --------------------------------------------------------------------------------------------- mappings


def _column_problems(file: PipelineFile, target: PlannedTarget, view: DataFrame) -> Iterator[Problem]:
    try:
        together = view.select(*(sql.expr(each.expression.value).alias(each.name) for each in target.columns))
        types = [each.dataType for each in together.schema.fields]
    except SPARK_FAILURES as error:
        alone = list(_alone(file, target, view))
        yield from alone or [sql_problem(file, error, f"view '{target.view}'", target.view.span)]
        return
    for column, found in zip(target.columns, types, strict=True):
        arrow = _arrow(found)
        if arrow is None or not column.accepts(arrow):
            yield mismatch(file, target.type, column, arrow or found.simpleString())


def _alone(file: PipelineFile, target: PlannedTarget, view: DataFrame) -> Iterator[Problem]:
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


def _columns(columns: Sequence[Mapped]) -> list[SparkColumn]:
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


def _arrow(found: DataType) -> pa.DataType | None:
    try:
        return to_arrow_type(found, timezone="UTC")
    except PySparkException:
        return None

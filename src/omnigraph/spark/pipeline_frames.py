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
from omnigraph.spark import pipeline_codes as codes
from omnigraph.spark.pipeline_failures import SPARK_FAILURES, column_problem, sql_problem
from omnigraph.spark.pipeline_file import Input, PipelineFile
from omnigraph.spark.pipeline_plan import Mapped, Plan, PlannedTarget, mismatch
from omnigraph.spark.pipeline_steps import Steps


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
    registered: list[str] = []
    try:
        _register_inputs(plan.file, session, steps, registered)
        _register_views(plan.file, session, steps, registered)
        yield _mapped(plan, session, steps)
    finally:
        for name in registered:
            session.catalog.dropTempView(name)


def _register_inputs(file: PipelineFile, session: SparkSession, steps: Steps, registered: list[str]) -> None:
    """Make a view of each source; all that cannot be read are reported together."""
    problems: list[Problem] = []
    for each in file.inputs:
        try:
            with steps.step("source", each.name):
                _read(file, each, session).createTempView(each.name)
        except SPARK_FAILURES as error:
            problems.append(sql_problem(file, error, f"source '{each.name}'", each.place, codes.NO_SOURCE))
        else:
            registered.append(each.name)
    _refuse(problems)


def _register_views(file: PipelineFile, session: SparkSession, steps: Steps, registered: list[str]) -> None:
    """Make the views, in order: each may be made from those above it, so the first that is wrong is the last one."""
    for view in file.views:
        try:
            with steps.step("view", view.name):
                session.sql(view.sql.value).createTempView(view.name)
        except SPARK_FAILURES as error:
            _refuse([sql_problem(file, error, f"view '{view.name}'", view.sql.span)])
        registered.append(view.name)


def _read(file: PipelineFile, source: Input, session: SparkSession) -> DataFrame:
    if source.sql is not None:
        return session.sql(source.sql.value)
    assert source.format is not None
    reader = session.read.format(source.format.value)
    for name, option in source.options.items():
        reader = reader.option(name, option.value)
    return reader.load() if source.path is None else reader.load(file.address(source.path))


# --------------------------------------------------------------------------------------------- mappings


def _mapped(plan: Plan, session: SparkSession, steps: Steps) -> Frames:
    frames = Frames()
    problems: list[Problem] = []
    for target in plan.targets:
        with steps.step("map", target.type.name):
            view = session.table(target.view.value)
            wrong = list(_column_problems(plan.file, target, view))
        problems += wrong
        if not wrong:
            kept = frames.edges if target.kind == "edge" else frames.nodes
            kept[target.type.name] = view.select(*_columns(target.columns))
    _refuse(problems)
    return frames


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


def _refuse(problems: Sequence[Problem]) -> None:
    if problems:
        raise PipelineError(sorted(problems, key=lambda each: (each.position.line, each.position.column)))

"""Build what a pipeline loads: sources, views and mappings. Spark analyzes all of them before a row is read."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from omnigraph.errors import PipelineError, Problem
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline import codes
from omnigraph.pipeline.file import PipelineFile, PipelineSource
from omnigraph.pipeline.imports import GRAPHAR
from omnigraph.pipeline.planner import PipelinePlan, PlannedColumn, PlannedMapping, type_mismatch_problem
from omnigraph.spark.pipeline.graphar_source import read_graphar_rows
from omnigraph.spark.pipeline.mapped_files import MappedFiles, find_mapped_files
from omnigraph.spark.pipeline.problems import (
    SPARK_FAILURES,
    SparkFailure,
    column_problem,
    is_name_taken,
    missing_view_of,
    sql_problem,
)
from omnigraph.spark.pipeline.rdf_source import RDF, read_triples
from omnigraph.spark.pipeline.step_recorder import StepRecorder
from omnigraph.spark.pipeline.text_function import offer_split_text
from omnigraph.write.load import ArrowStream, TableInput


@dataclass(frozen=True, slots=True)
class PipelineTables:
    """The rows of each type: a DataFrame with the columns that a load expects, or Parquet files and their columns."""

    nodes: dict[str, TableInput] = field(default_factory=dict[str, TableInput])
    edges: dict[str, TableInput] = field(default_factory=dict[str, TableInput])
    columns: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    ignored: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def add(self, mapping: PlannedMapping, rows: DataFrame | MappedFiles) -> None:
        """Add the rows of a type."""
        name = mapping.type.name
        kept = self.edges if mapping.kind == "edge" else self.nodes
        if isinstance(rows, MappedFiles):
            kept[name], self.columns[name], self.ignored[name] = rows.paths, rows.columns, rows.ignored
        else:
            kept[name] = cast("ArrowStream", rows)


@contextmanager
def build_tables(plan: PipelinePlan, session: SparkSession, recorder: StepRecorder) -> Generator[PipelineTables]:
    """Build what a plan loads; the temporary views that it uses exist until the end of the block.

    :class:`PipelineError` lists every source, view and mapping that Spark rejects.
    """
    builder = _TableBuilder(plan.file, session, recorder)
    with offer_split_text(plan.file, session):
        try:
            builder.register_sources()
            builder.register_views()
            tables = builder.map_types(plan)
            builder.raise_problems()
            yield tables
        finally:
            for name in builder.registered:
                session.catalog.dropTempView(name)


class _TableBuilder:
    """Registers views and collects problems. What depends on a failed source or view is not reported as well."""

    def __init__(self, file: PipelineFile, session: SparkSession, recorder: StepRecorder) -> None:
        self.registered: list[str] = []
        self.problems: list[Problem] = []
        self._file = file
        self._session = session
        self._recorder = recorder
        self._failed: set[str] = set()

    def register_sources(self) -> None:
        """Register a view of each source."""
        for each in self._file.sources:
            try:
                with self._recorder.record("source", each.name):
                    _read_source(self._file, each, self._session).createTempView(each.name)
            except SPARK_FAILURES as error:
                what = f"source '{each.name}'"
                self._add_failure(
                    each.name, error, sql_problem(self._file, error, what, each.error_span, codes.NO_SOURCE)
                )
            else:
                self.registered.append(each.name)

    def register_views(self) -> None:
        """Register the views in order: each may use those above it."""
        for view in self._file.views:
            try:
                with self._recorder.record("view", view.name):
                    self._session.sql(view.sql.value).createTempView(view.name)
            except SPARK_FAILURES as error:
                self._add_failure(
                    view.name, error, sql_problem(self._file, error, f"view '{view.name}'", view.sql.span)
                )
            else:
                self.registered.append(view.name)

    def map_types(self, plan: PipelinePlan) -> PipelineTables:
        """Return the rows of all types whose view exists and whose expressions are valid."""
        tables = PipelineTables()
        for mapping in plan.mappings:
            if mapping.view.value.lower() in self._failed:
                continue
            with self._recorder.record("map", mapping.type.name):
                view = self._session.table(mapping.view.value)
                wrong = list(_check_columns(self._file, mapping, view))
            self.problems += wrong
            if not wrong:
                files = find_mapped_files(plan, mapping)
                tables.add(mapping, files or view.select(*_select_columns(mapping.columns)))
        return tables

    def raise_problems(self) -> None:
        """Raise the problems, if there are any."""
        if self.problems:
            raise PipelineError(sorted(self.problems, key=lambda each: (each.position.line, each.position.column)))

    def _add_failure(self, name: str, error: SparkFailure, problem: Problem) -> None:
        missing = missing_view_of(error)
        if missing is None or missing.lower() not in self._failed:
            self.problems.append(problem)
        self._failed.add(name.lower())
        if is_name_taken(error):
            # Everything that uses the name would read another view.
            self.raise_problems()


def _read_source(file: PipelineFile, source: PipelineSource, session: SparkSession) -> DataFrame:
    if source.sql is not None:
        return session.sql(source.sql.value)
    assert source.format is not None
    if source.format.value.lower() == RDF and source.path is not None:
        return read_triples(session, file.spark_path(source.path))
    if source.format.value.lower() == GRAPHAR and source.path is not None:
        options = {name: str(option.value) for name, option in source.options.items()}
        return read_graphar_rows(session, file.spark_path(source.path), options)
    reader = session.read.format(source.format.value)
    for name, option in source.options.items():
        reader = reader.option(name, option.value)
    return reader.load() if source.path is None else reader.load(file.spark_path(source.path))


# --------------------------------------------------------------------------------------------- mappings


def _check_columns(file: PipelineFile, mapping: PlannedMapping, view: DataFrame) -> Iterator[Problem]:
    try:
        together = view.select(*(sql.expr(each.expression.value).alias(each.name) for each in mapping.columns))
        types = [each.dataType for each in together.schema.fields]
    except SPARK_FAILURES as error:
        alone = list(_check_each_expression(file, mapping, view))
        yield from alone or [sql_problem(file, error, f"view '{mapping.view}'", mapping.view.span)]
        return
    for column, found in zip(mapping.columns, types, strict=True):
        arrow = _to_arrow(found)
        if arrow is None or not column.accepts(arrow):
            yield type_mismatch_problem(file, mapping.type, column, arrow or found.simpleString())


def _check_each_expression(file: PipelineFile, mapping: PlannedMapping, view: DataFrame) -> Iterator[Problem]:
    """Check each expression by itself, so that one problem does not hide another."""
    for column in mapping.columns:
        text = column.expression
        try:
            fields = view.select(sql.expr(text.value)).schema.fields
        except SPARK_FAILURES as error:
            yield column_problem(file, error, mapping.view, view.columns, text)
            continue
        if len(fields) != 1:
            yield file.problem(codes.BAD_SQL, f"'{text}' has {len(fields)} columns", text.span, "give one column")


def _select_columns(columns: Sequence[PlannedColumn]) -> list[SparkColumn]:
    """Return the columns to select; an end that is mapped by parts of a key becomes a struct."""
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

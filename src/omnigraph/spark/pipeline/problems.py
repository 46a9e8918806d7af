"""What Spark says when a step of a pipeline fails, as a problem at the place of the file that it is about.

Spark repeats what it was given, so the values of variables are taken out of everything that it says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias, cast
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from omnigraph.errors import OmniGraphError, PipelineError, Problem
from omnigraph.language.source import Span, suggest_similar
from omnigraph.pipeline import codes
from omnigraph.pipeline.column_types import find_local_files
from omnigraph.pipeline.file import PipelineFile
from omnigraph.pipeline.plan import PipelinePlan
from omnigraph.pipeline.yaml_reader import TemplateText

SparkFailure: TypeAlias = PySparkException | Py4JJavaError
SPARK_FAILURES: Final = (PySparkException, Py4JJavaError)
LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Where PySpark logs what it raises."""

_log = logging.getLogger("omnigraph")
_MESSAGE_PREFIX: Final = re.compile(r"^(?:(?:[a-z]\w*\.)+\w+: )?(?:\[[A-Z0-9_.]+\] )?")
_NO_DRIVER: Final = re.compile(r"No suitable driver|^java\.lang\.ClassNotFoundException: ")
_MESSAGE_SUFFIX: Final = re.compile(r"\s+SQLSTATE: .*|\n.*", re.DOTALL)
_FILE: Final = re.compile(r"\bfile:/+(?P<path>\S+?)\.?(?=\s|$)")


def message_of(error: SparkFailure) -> str:
    """What is wrong, in one line."""
    return _MESSAGE_SUFFIX.sub("", _MESSAGE_PREFIX.sub("", _text_of(error)))


def sql_problem(file: PipelineFile, error: SparkFailure, what: str, place: Span, code: str = codes.BAD_SQL) -> Problem:
    """The problem of a source, a view or an expression that Spark does not take."""
    _log.debug("%s: %s", what, file.redactor.redact(_text_of(error)))
    lacks_driver = _NO_DRIVER.search(_text_of(error)) is not None
    hint = (
        "give Spark the jar of the driver, with spark.jars, and its class as the option driver"
        if lacks_driver
        else None
    )
    return file.problem(code, f"{what}: {file.redactor.redact(message_of(error))}", place, hint)


def column_problem(
    file: PipelineFile, error: SparkFailure, view: TemplateText, columns: list[str], place: TemplateText
) -> Problem:
    """The problem of an expression over a view; a column that is not there is named like in a plan."""
    missing = _message_parameter(error, "UNRESOLVED_COLUMN", "objectName")
    if missing is None:
        return sql_problem(file, error, f"'{place}'", place.span)
    hide = file.redactor.redact
    hint = suggest_similar(missing, columns) or f"the columns are {', '.join(columns)}"
    return file.problem(codes.UNKNOWN_COLUMN, f"'{view}' has no column '{hide(missing)}'", place.span, hide(hint))


def is_name_taken(error: SparkFailure) -> bool:
    """Whether the session has a view of that name already."""
    return _message_parameter(error, "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS", "relationName") is not None


def missing_view_of(error: SparkFailure) -> str | None:
    """The table or view that SQL names in vain."""
    return _message_parameter(error, "TABLE_OR_VIEW_NOT_FOUND", "relationName")


@contextmanager
def translate_step_errors(plan: PipelinePlan) -> Generator[None]:
    """What fails inside is told without the values of variables; what the file is to blame for, at its place there."""
    with plan.file.redactor.redact_errors(), _silence_loggers():
        try:
            yield
        except OmniGraphError as error:
            cause = error.__cause__
            problem = _locate_problem(plan, cause) if isinstance(cause, SPARK_FAILURES) else None
            if problem is None:
                raise
            raise PipelineError([problem]) from None


@contextmanager
def _silence_loggers() -> Generator[None]:
    """PySpark logs each error that it raises, with everything that it was given; here they are told once, as ours."""
    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _locate_problem(plan: PipelinePlan, error: SparkFailure) -> Problem | None:
    """The problem of a file that cannot be read, or of SQL that fails on some row; None if it is neither."""
    file = plan.file
    for path in _find_files(_text_of(error)):
        for each in file.sources:
            if each.path is not None and path in (
                found.absolute() for found in find_local_files(file, each.path) or ()
            ):
                return sql_problem(file, error, f"source '{each.name}'", each.error_span, codes.NO_SOURCE)
    fragments = _sql_fragments_of(error)
    for what, text in _list_sql_texts(plan):
        if any(fragment in text.value for fragment in fragments):
            return sql_problem(file, error, what, text.span, codes.STEP_FAILED)
    return None


def _list_sql_texts(plan: PipelinePlan) -> Iterator[tuple[str, TemplateText]]:
    for target in plan.mappings:
        yield from ((f"{target.type.name}.{column.name}", column.expression) for column in target.columns)
    yield from ((f"view '{view.name}'", view.sql) for view in plan.file.views)
    yield from ((f"source '{each.name}'", each.sql) for each in plan.file.sources if each.sql is not None)


def _text_of(error: SparkFailure) -> str:
    if isinstance(error, PySparkException):
        return str(error).strip()
    return str(cast(object, error.java_exception))


def _message_parameter(error: SparkFailure, condition: str, parameter: str) -> str | None:
    """What Spark fills into its message of a condition."""
    if not isinstance(error, PySparkException) or not (error.getCondition() or "").startswith(condition):
        return None
    name = (error.getMessageParameters() or {}).get(parameter)
    return None if name is None else name.replace("`", "")


def _sql_fragments_of(error: SparkFailure) -> list[str]:
    """The parts of SQL that Spark points at."""
    if not isinstance(error, PySparkException):
        return []
    return [fragment for context in error.getQueryContext() or () if (fragment := context.fragment())]


def _find_files(text: str) -> list[Path]:
    return [Path(f"/{unquote(match['path'])}") for match in _FILE.finditer(text)]

"""Translate errors of Spark in a pipeline to problems at places of the pipeline file.

Messages of Spark repeat their input, so the values of environment variables are redacted in all of them.
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
from omnigraph.pipeline.file import PipelineFile, PipelineSource
from omnigraph.pipeline.planner import PipelinePlan
from omnigraph.pipeline.yaml_reader import TemplateText

SparkFailure: TypeAlias = PySparkException | Py4JJavaError
SPARK_FAILURES: Final = (PySparkException, Py4JJavaError)
LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""The loggers to which PySpark writes the errors that it raises."""

_log = logging.getLogger("omnigraph")
_MESSAGE_PREFIX: Final = re.compile(r"^(?:(?:[a-z]\w*\.)+\w+: )?(?:\[[A-Z0-9_.]+\] )?")
_NO_DRIVER: Final = re.compile(r"No suitable driver|^java\.lang\.ClassNotFoundException: ")
_MESSAGE_SUFFIX: Final = re.compile(r"\s+SQLSTATE: .*|\n.*", re.DOTALL)
_UNREADABLE: Final = re.compile(r"(?:^|: )(?P<path>/.+?) cannot be read: ")
_MALFORMED: Final = re.compile(r"Malformed CSV record: (?P<record>.*?) SQLSTATE: ", re.DOTALL)
_FILE: Final = re.compile(r"\bfile:/+(?P<path>\S+?)\.?(?=\s|$)")


def message_of(error: SparkFailure) -> str:
    """The message of an error, in one line."""
    return _MESSAGE_SUFFIX.sub("", _MESSAGE_PREFIX.sub("", _text_of(error)))


def sql_problem(file: PipelineFile, error: SparkFailure, what: str, place: Span, code: str = codes.BAD_SQL) -> Problem:
    """Return the problem of a source, a view or an expression that Spark rejects."""
    _log.debug("%s: %s", what, file.redactor.redact(_text_of(error)))
    lacks_driver = _NO_DRIVER.search(_text_of(error)) is not None
    hint = (
        "give Spark the jar of the driver with spark.jars, and its class as the option driver" if lacks_driver else None
    )
    return file.problem(code, f"{what}: {file.redactor.redact(message_of(error))}", place, hint)


def column_problem(
    file: PipelineFile, error: SparkFailure, view: TemplateText, columns: list[str], place: TemplateText
) -> Problem:
    """Return the problem of an expression over a view; an unknown column has the same message as in planning."""
    missing = _message_parameter(error, "UNRESOLVED_COLUMN", "objectName")
    if missing is None:
        return sql_problem(file, error, f"'{place}'", place.span)
    hide = file.redactor.redact
    hint = suggest_similar(missing, columns) or f"the columns are {', '.join(columns)}"
    return file.problem(codes.UNKNOWN_COLUMN, f"'{view}' has no column '{hide(missing)}'", place.span, hide(hint))


def is_name_taken(error: SparkFailure) -> bool:
    """Return whether the session already has a view of that name."""
    return _message_parameter(error, "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS", "relationName") is not None


def missing_view_of(error: SparkFailure) -> str | None:
    """The table or view that an SQL text uses and that does not exist."""
    return _message_parameter(error, "TABLE_OR_VIEW_NOT_FOUND", "relationName")


@contextmanager
def translate_step_errors(plan: PipelinePlan) -> Generator[None]:
    """Redact errors that leave the block, and raise those that the file causes as problems at their places in it."""
    with plan.file.redactor.redact_errors(), _silence_loggers():
        try:
            yield
        except OmniGraphError as error:
            cause = error.__cause__
            problem = _locate_unreadable(plan.file, error)
            if problem is None and isinstance(cause, SPARK_FAILURES):
                problem = _locate_problem(plan, cause)
            if problem is None:
                raise
            raise PipelineError([problem]) from None


@contextmanager
def _silence_loggers() -> Generator[None]:
    """Turn off the logs of PySpark, which would show each error with its unredacted input."""
    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _locate_unreadable(file: PipelineFile, error: OmniGraphError) -> Problem | None:
    """Return the problem of a file that a task or this process cannot read; None for any other error."""
    named = _UNREADABLE.search(error.message)
    source = None if named is None else _find_source(file, Path(named["path"]))
    if named is None or source is None:
        return None
    message = file.redactor.redact(error.message[named.start("path") :])
    return file.problem(codes.NO_SOURCE, f"source '{source.name}': {message}", source.error_span)


def _find_source(file: PipelineFile, path: Path) -> PipelineSource | None:
    """Return the source that a file of this machine belongs to."""
    for each in file.sources:
        if each.path is not None and path in (found.absolute() for found in find_local_files(file, each.path) or ()):
            return each
    return None


def _locate_problem(plan: PipelinePlan, error: SparkFailure) -> Problem | None:
    """Return the problem of a file that Spark cannot read, or of SQL that fails on a row; None for any other error."""
    file = plan.file
    for path in _find_files(_text_of(error)):
        source = _find_source(file, path)
        malformed = _MALFORMED.search(str(error))
        if source is not None and malformed is not None:
            told = file.redactor.redact(
                f"{path} has a record with more or fewer values than columns: {malformed['record']}"
            )
            hint = "correct it; if a value of the file has several lines, add multiLine: true to the options"
            return file.problem(codes.NO_SOURCE, f"source '{source.name}': {told}", source.error_span, hint)
        if source is not None:
            return sql_problem(file, error, f"source '{source.name}'", source.error_span, codes.NO_SOURCE)
    fragments = _sql_fragments_of(error)
    for what, text in _list_sql_texts(plan):
        if any(fragment in text.value for fragment in fragments):
            return sql_problem(file, error, what, text.span, codes.STEP_FAILED)
    return None


def _list_sql_texts(plan: PipelinePlan) -> Iterator[tuple[str, TemplateText]]:
    for mapping in plan.mappings:
        yield from ((f"{mapping.type.name}.{column.name}", column.expression) for column in mapping.columns)
    yield from ((f"view '{view.name}'", view.sql) for view in plan.file.views)
    yield from ((f"source '{each.name}'", each.sql) for each in plan.file.sources if each.sql is not None)


def _text_of(error: SparkFailure) -> str:
    if isinstance(error, PySparkException):
        return str(error).strip()
    return str(cast(object, error.java_exception))


def _message_parameter(error: SparkFailure, condition: str, parameter: str) -> str | None:
    """Return a parameter of the message, if the error has this condition."""
    if not isinstance(error, PySparkException) or not (error.getCondition() or "").startswith(condition):
        return None
    name = (error.getMessageParameters() or {}).get(parameter)
    return None if name is None else name.replace("`", "")


def _sql_fragments_of(error: SparkFailure) -> list[str]:
    """The fragments of SQL that the error refers to."""
    if not isinstance(error, PySparkException):
        return []
    return [fragment for context in error.getQueryContext() or () if (fragment := context.fragment())]


def _find_files(text: str) -> list[Path]:
    return [Path(f"/{unquote(match['path'])}") for match in _FILE.finditer(text)]

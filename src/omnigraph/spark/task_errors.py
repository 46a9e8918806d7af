"""Bring errors of tasks to this process as they are. Spark returns the text of an exception only.

A task that fails with an error of this package raises another one, whose message ends with the error as JSON.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import orjson
import pyarrow as pa

from omnigraph.error_json import error_from_json
from omnigraph.errors import Json, OmniGraphError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BatchTask: TypeAlias = "Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]"

_REPORT: Final = "omnigraph-task-error:"
_REPORTED: Final = re.compile(f"{_REPORT}([A-Za-z0-9+/=]+)")


class TaskError(Exception):
    """A task failed. The message is that of its error, and the error as JSON."""

    def __init__(self, error: OmniGraphError) -> None:
        body = base64.b64encode(orjson.dumps(error.to_json(), default=str)).decode()
        super().__init__(f"{error}\n{_REPORT}{body}")


def map_batches(frame: DataFrame, task: BatchTask, schema: str | StructType) -> DataFrame:
    """Run a task on each partition of a frame, when the result is evaluated; its batches become the rows."""
    return frame.mapInArrow(partial(_report_error, task), schema)


def _report_error(task: BatchTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from task(batches)
    except OmniGraphError as error:
        raise TaskError(error) from error


def find_task_error(text: str) -> OmniGraphError | None:
    """Return the error of a task from the message of Spark; None if no task of this package raised one."""
    bodies = _REPORTED.findall(text)
    if not bodies:
        return None
    try:
        return error_from_json(cast("Mapping[str, Json]", orjson.loads(base64.b64decode(bodies[-1]))))
    except ValueError:
        # Spark cut the text.
        return None

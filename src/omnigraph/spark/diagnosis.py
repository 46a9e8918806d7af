"""Explain failures of Spark: errors name the cause that Spark hides in a stack trace, and the way out.

All jobs of this package run inside :func:`translate_spark_errors`. Spark reports what happens on executors as text, so
the causes are found by the words of Spark 4.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from omnigraph.error_json import ERROR_CLASSES, make_error
from omnigraph.errors import NotFound, OmniGraphError, SparkUnavailable, StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.task_errors import find_task_error

_MISSING_PATH: Final = "PATH_NOT_FOUND"
_OWN_ERROR: Final = re.compile(r"^omnigraph\.errors\.(\w+): (.+)$", re.MULTILINE)
_PYTHON_ERROR: Final = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception|Interrupt|Exit): .+$", re.MULTILINE)
_RAISED: Final = "An exception was thrown from the Python worker"
_PREFIX: Final = re.compile(
    r"^(?:An error occurred while calling \S+|:|\d+\. \w+:|(?:[a-z]\w*\.)+\w+:|\[[A-Z0-9_.]+\])\s*"
)
_SUFFIX: Final = re.compile(r"(?: SQLSTATE: \w+)+$")
_SEVERAL: Final = re.compile(r"^Multiple failures \(\d+\) in stage materialization:$")
"""A list of what went wrong at once follows; each line has a number."""
_UNCHANGED: Final = "nothing was changed"
_SAME_PYTHON: Final = (
    "let PYSPARK_PYTHON or spark.pyspark.python name a Python {version} with omnigraph installed, at the same path on "
    "every machine, or ship one with spark.archives (docs: run on a cluster)"
)

SLOW_START: Final = re.compile(
    r"Python worker failed to connect back|Timed out while waiting for the Python worker|"
    r"STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE"
)
"""Spark waits ten seconds for a Python process that its daemon does not fork, such as that of a stream over Connect."""


@dataclass(frozen=True, slots=True)
class _Cause:
    """A cause of failures: the words by which Spark tells it, what it means, and what helps.

    ``reason`` may use the groups of the pattern.
    """

    pattern: re.Pattern[str]
    reason: str
    hint: str
    error: Callable[..., OmniGraphError] = StorageError

    def explain(self, activity: str, text: str) -> OmniGraphError | None:
        """Return the error of this cause, if the text tells it."""
        found = self.pattern.search(text)
        if found is None:
            return None
        words = {name: value or "" for name, value in found.groupdict().items()}
        return self.error(f"{activity} failed on Spark: {self.reason.format(**words)}", hint=self.hint)


def _this_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


# The first that matches is told. Those whose words appear in the stack traces of others come later.
_CAUSES: Final = (
    _Cause(
        re.compile(
            r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: (?P<worker>[\d.]+)"
            r" than that in driver: (?P<driver>[\d.]+)"
        ),
        "its executors run Python {worker}, and this process Python {driver}",
        _SAME_PYTHON.format(version=_this_python()),
        SparkUnavailable,
    ),
    _Cause(
        re.compile(r"ModuleNotFoundError: No module named '(?P<module>[^']+)'"),
        "the Python of its executors has no module '{module}'",
        _SAME_PYTHON.format(version=_this_python()),
        SparkUnavailable,
    ),
    _Cause(
        re.compile(r"DATA_SOURCE_NOT_FOUND\] Failed to find the data source: omnigraph"),
        "the Python of its driver has no omnigraph",
        _SAME_PYTHON.format(version=_this_python()),
        SparkUnavailable,
    ),
    _Cause(
        re.compile(r'Cannot run program "(?P<program>[^"]+)"'),
        "its executors cannot start '{program}'",
        _SAME_PYTHON.format(version=_this_python()),
        SparkUnavailable,
    ),
    _Cause(
        re.compile(r"bigger than spark\.driver\.maxResultSize (?P<limit>\([^)]*\))"),
        "the results of its tasks exceed spark.driver.maxResultSize {limit}",
        f"raise spark.driver.maxResultSize, and spark.driver.memory with it; {_UNCHANGED}",
    ),
    _Cause(
        re.compile(r"Not enough memory to build and broadcast"),
        "the driver has too little memory for a broadcast",
        f"raise spark.driver.memory; {_UNCHANGED}",
    ),
    _Cause(
        re.compile(r"(?:ArrowMemoryError|^MemoryError|\bMemoryError:)", re.MULTILINE),
        "a Python process of an executor ran out of memory",
        "raise spark.executor.memoryOverhead, and leave spark.executor.pyspark.memory unset; or use fewer cores for "
        f"each executor; {_UNCHANGED}",
    ),
    _Cause(
        re.compile(r"executor (?P<executor>\d+)\): [^\n]*OutOfMemoryError"),
        "executor {executor} ran out of heap memory",
        f"raise spark.executor.memory, or use fewer cores for each executor; {_UNCHANGED}",
    ),
    _Cause(
        re.compile(r"OutOfMemoryError"),
        "the driver ran out of heap memory",
        f"raise spark.driver.memory before Spark starts; {_UNCHANGED}",
    ),
    _Cause(
        re.compile(r"No space left on device"),
        "a disk is full",
        f"let spark.local.dir name a disk with more space, or free some; {_UNCHANGED}",
    ),
    _Cause(
        re.compile(
            r"ExecutorLostFailure \((?P<which>executor \S+)[^)]*\)(?: Reason: (?P<why>[^\n]*))?|"
            r"(?P<fetch>FetchFailed|MetadataFetchFailed)"
        ),
        "it lost executors too often: {which}{fetch} {why}",
        "an executor that is killed has usually used too much memory: raise spark.executor.memoryOverhead; if machines "
        f"come and go, raise spark.task.maxFailures; {_UNCHANGED}",
    ),
    _Cause(
        re.compile(r"Python worker exited unexpectedly \(crashed\)"),
        "a Python process of an executor died",
        "usually the system killed it for its memory: raise spark.executor.memoryOverhead; "
        f"spark.python.worker.faulthandler.enabled=true tells where it died otherwise; {_UNCHANGED}",
    ),
    _Cause(
        SLOW_START,
        "a Python process of Spark did not start in time",
        "the machine is too busy, or the start of Python too slow: try again; spark.python.authenticate.socketTimeout "
        f"bounds a part of it; {_UNCHANGED}",
    ),
    _Cause(
        re.compile(
            r"SparkContext was shut down|Cannot call methods on a stopped SparkContext|Connection refused|"
            r"Answer from Java side is empty|Error while sending or receiving|Connection reset"
        ),
        "the Java process of the driver has ended",
        "see its last messages; if it ran out of memory, raise spark.driver.memory before Spark starts",
    ),
    _Cause(
        re.compile(r"StatusCode\.UNAVAILABLE"),
        "the server of Spark Connect does not answer",
        "see the log of the server; start it again, and open a new session",
        SparkUnavailable,
    ),
)


@contextmanager
def translate_spark_errors(activity: str) -> Generator[None]:
    """Raise errors of Spark from the block as errors of OmniGraph. ``activity`` says what failed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if error.getCondition() == _MISSING_PATH:
            path = (error.getMessageParameters() or {}).get("path", "")
            raise NotFound(f"there is no file '{path.removeprefix('file:')}'") from error
        raise explain_failure(activity, str(error)) from error
    except (Py4JError, ConnectionError) as error:
        raise explain_failure(activity, str(error)) from error


def explain_failure(activity: str, text: str) -> OmniGraphError:
    """Return the error for a failure that Spark tells with this text."""
    return find_cause(activity, text) or _explain_other(activity, _find_reason(text))


def find_cause(activity: str, text: str) -> OmniGraphError | None:
    """Return the error if the cause is known: a task raised an error of this package, or the message is a known one."""
    own = find_task_error(text) or _find_own_error(text)
    if own is not None:
        # The error is complete, except that an error of the storage does not name the activity.
        return _explain_other(activity, own.message, own) if type(own) is StorageError else own
    return next((found for cause in _CAUSES if (found := cause.explain(activity, text)) is not None), None)


def _explain_other(activity: str, reason: str, error: StorageError | None = None) -> StorageError:
    hint = None if error is None else error.hint
    details = None if error is None else error.details
    hint = hint or f"see the log of Spark; {_UNCHANGED}"
    return StorageError(f"{activity} failed on Spark: {reason}", hint=hint, details=details)


def _find_own_error(text: str) -> OmniGraphError | None:
    """Return the last error of this package in a traceback of Python. Its hint is part of its message."""
    found = _OWN_ERROR.findall(text)
    if not found:
        return None
    name, message = found[-1]
    kind = next((each for each in ERROR_CLASSES.values() if each.__name__ == name), OmniGraphError)
    return make_error(kind, message, None, None)


def _find_reason(text: str) -> str:
    """Return the line that says most: what Python raised last, or else the first one without its prefixes."""
    raised = _PYTHON_ERROR.findall(text)
    if _RAISED in text and raised:
        return raised[-1]
    lines = (_strip_line(line.strip()) for line in text.splitlines())
    return next((line for line in lines if line and not _SEVERAL.search(line)), "it gave no reason")


def _strip_line(line: str) -> str:
    line = _SUFFIX.sub("", line)
    while (shorter := _PREFIX.sub("", line, count=1)) != line:
        line = shorter
    return line.rstrip(".")

"""Errors of executors name their cause and the way out. The texts were told by a real Spark, which slow tests ask."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pytest

import omnigraph
from omnigraph.errors import (
    ExpectedVersionMismatch,
    NotFound,
    OmniGraphError,
    ParameterError,
    SchemaError,
    SparkUnavailable,
    StorageError,
    ValidationError,
    Violation,
)
from omnigraph.language.schema import check_schema
from omnigraph.language.source import Source
from omnigraph.spark.diagnosis import explain_failure
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.task_errors import TaskError
from tests.spark import spark_failures
from tests.spark.test_spark_session import clean_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ABORTED = (
    "An error occurred while calling o51.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage "
    "failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 2) "
)
RAISED = (
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x, line 4174, in f\n"
)
PYTHON = "PYSPARK_PYTHON"
CASES: dict[str, tuple[str, type[OmniGraphError], str, str]] = {
    "no omnigraph": (
        f"{RAISED}ModuleNotFoundError: No module named 'omnigraph'",
        SparkUnavailable,
        "the Python of its executors has no module 'omnigraph'",
        "spark.archives",
    ),
    "no pyspark": (
        f"{ABORTED}(localhost executor driver): org.apache.spark.SparkException: \nError from python worker:\n  /p: "
        "Error while finding module specification for 'pyspark.daemon' (ModuleNotFoundError: No module named 'pyspark')"
        "\nPYTHONPATH was:\n  /x",
        SparkUnavailable,
        "no module 'pyspark'",
        PYTHON,
    ),
    "no Python": (
        f'{ABORTED}(h executor 1): java.io.IOException: Cannot run program "/no/python": error=2, No such file',
        SparkUnavailable,
        "its executors cannot start '/no/python'",
        PYTHON,
    ),
    "no source": (
        "org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: "
        "omnigraph. Make sure the provider name is correct",
        SparkUnavailable,
        "the Python of its driver has no omnigraph",
        PYTHON,
    ),
    "a slow start": (
        "org.apache.spark.SparkException: Python worker failed to connect back.",
        StorageError,
        "a Python process of Spark did not start in time",
        "try again",
    ),
    "another Python": (
        f"{RAISED}pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
        "different version: 3.10 than that in driver: 3.11, PySpark cannot run with different minor versions.\nPlease",
        SparkUnavailable,
        "its executors run Python 3.10, and this process Python 3.11",
        PYTHON,
    ),
    "results": (
        "An error occurred while calling o53.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to "
        "stage failure: Total size of serialized results of 1 tasks (3.0 MiB) is bigger than "
        "spark.driver.maxResultSize (1024.0 KiB)",
        StorageError,
        "exceed spark.driver.maxResultSize (1024.0 KiB)",
        "raise spark.driver.maxResultSize",
    ),
    "heap of an executor": (
        f"{ABORTED}(127.0.0.1 executor 2): java.lang.OutOfMemoryError: Java heap space\n\tat x",
        StorageError,
        "executor 2 ran out of heap memory",
        "raise spark.executor.memory,",
    ),
    "heap of the driver": (
        "An error occurred while calling o5.load.\n: java.lang.OutOfMemoryError: GC overhead limit exceeded",
        StorageError,
        "the driver ran out of heap memory",
        "raise spark.driver.memory",
    ),
    "broadcast": (
        "org.apache.spark.SparkException: Not enough memory to build and broadcast the table to all worker nodes. As",
        StorageError,
        "too little memory for a broadcast",
        "raise spark.driver.memory",
    ),
    "memory of Python": (
        f"{RAISED}pyarrow.lib.ArrowMemoryError: malloc of size 1125899906842624 failed",
        StorageError,
        "a Python process of an executor ran out of memory",
        "spark.executor.memoryOverhead",
    ),
    "a lost executor": (
        f"{ABORTED}(h executor 3): ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: "
        "Command exited with code 137\nDriver stacktrace:",
        StorageError,
        "it lost executors too often: executor 3 Command exited with code 137",
        "spark.executor.memoryOverhead",
    ),
    "a dead worker": (
        f"{ABORTED}(h executor 0): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). "
        "Consider setting 'spark.python.worker.faulthandler.enabled'\nCaused by: java.io.EOFException",
        StorageError,
        "a Python process of an executor died",
        "spark.executor.memoryOverhead",
    ),
    "a full disk": (
        f"{ABORTED}(h executor 0): java.io.IOException: No space left on device",
        StorageError,
        "a disk is full",
        "spark.local.dir",
    ),
    "no driver": ("[Errno 111] Connection refused", StorageError, "the Java process of the driver has ended", "memory"),
    "no server": (
        '<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "x">',
        SparkUnavailable,
        "the server of Spark Connect does not answer",
        "the log of the server",
    ),
    "our own error of storage": (
        f"{RAISED}omnigraph.errors.StorageError: no disk",
        StorageError,
        "loading failed on Spark: no disk",
        "nothing was changed",
    ),
    "any error of Python": (
        f"{RAISED}ValueError: bad",
        StorageError,
        "loading failed on Spark: ValueError: bad",
        "log",
    ),
    "any error of Java": (
        "An error occurred while calling o5.load.\n: org.apache.spark.SparkException: [SOME_CODE] it is late.\n\tat x",
        StorageError,
        "loading failed on Spark: it is late",
        "log",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_cause_and_the_way_out_are_told(case: str) -> None:
    text, kind, reason, way_out = CASES[case]
    found = explain_failure("loading", text)
    assert type(found) is kind
    assert found.message.startswith("loading failed on Spark: ")
    assert reason in found.message
    assert way_out in (found.hint or "")


ERRORS: Final[list[OmniGraphError]] = [
    NotFound("there is no ship", hint="look again", details={"type": "Ship"}),
    ParameterError("line 7: ° is no number"),
    ExpectedVersionMismatch("node:Ship", 3, 4),
    ValidationError("bad", [Violation("Ship", "@key(code)", "'a' is there twice", "f.csv", 7, "a", "code", "a")]),
    SchemaError(check_schema(Source("node Ship { code: Strng }", "ships.pg"))),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_error_of_a_task_is_what_it_was(error: OmniGraphError) -> None:
    text = (
        f"{RAISED}omnigraph.spark.task_errors.TaskError: {TaskError(error)}\n\tat org.apache.spark.Some(Some.scala:1)"
    )
    found = explain_failure("loading", text)
    assert (type(found), found.to_json(), str(found)) == (type(error), error.to_json(), str(error))
    if isinstance(error, ValidationError | SchemaError):
        assert found.__dict__.get("violations") == error.__dict__.get("violations")
        assert found.__dict__.get("problems") == error.__dict__.get("problems")


def test_an_error_that_spark_cut_keeps_its_class() -> None:
    text = f"{RAISED}omnigraph.errors.NotFound: there is no ship\nomnigraph-task-error:eyJjb2Rl"
    found = explain_failure("loading", text)
    assert (type(found), found.code, found.message) == (NotFound, "not_found", "there is no ship")


def test_every_task_reports_its_errors() -> None:
    folder = Path(omnigraph.__file__).parent
    found = [file.name for file in folder.rglob("*.py") if ".mapInArrow(" in file.read_text("utf-8")]
    assert found == ["task_errors.py"], "map_batches is the one way to run a task"


RAISED_BY_SQL = "[USER_RAISED_EXCEPTION] none of the first rows has the label Ship SQLSTATE: P0001"


@pytest.mark.parametrize(
    "text",
    [
        RAISED_BY_SQL,
        "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: "
        "[STAGE_MATERIALIZATION_MULTIPLE_FAILURES] Multiple failures (2) in stage materialization: \n"
        f"  1. SparkRuntimeException: {RAISED_BY_SQL}\n  2. SparkRuntimeException: {RAISED_BY_SQL} SQLSTATE: XX000\n"
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.several(QueryExecutionErrors.scala:2043)",
    ],
    ids=["alone", "several at once"],
)
def test_what_a_query_raises_is_told_alone(text: str) -> None:
    found = explain_failure("loading", text)
    assert found.message == "loading failed on Spark: none of the first rows has the label Ship"


# --------------------------------------------------------------------------------------------- a real Spark


def told(kind: str, folder: Path, python: str = sys.executable) -> tuple[str, str]:
    """What a load in a process of its own says, whose executors run a Python."""
    done = subprocess.run(
        [sys.executable, spark_failures.__file__, kind, str(folder)],
        env=clean_environment(PYSPARK_PYTHON=python, SPARK_LOCAL_IP="127.0.0.1"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1:]
    assert last, done.stderr
    error = cast("dict[str, str]", json.loads(last[0]))
    return error["message"], error["hint"]


def python_without_omnigraph(folder: Path) -> str:
    """A Python that has what Spark needs, and nothing of ours."""
    packages = folder / "packages"
    packages.mkdir()
    for name in ("pyarrow", "pandas", "numpy", "dateutil", "six", "pytz", "tzdata"):
        found = Path(cast("str", __import__(name).__file__))
        found = found.parent if found.name == "__init__.py" else found
        (packages / found.name).symlink_to(found)
        for libraries in found.parent.glob(f"{name}.libs"):
            (packages / libraries.name).symlink_to(libraries)
    script = folder / "python"
    # Without its site-packages, but with what Spark itself adds.
    script.write_text(f'#!/bin/sh\nPYTHONPATH=$PYTHONPATH:{packages} exec {sys.executable} -S "$@"\n', "utf-8")
    script.chmod(0o755)
    return str(script)


def test_a_python_process_that_is_killed_is_told(spark: SparkSession) -> None:
    with pytest.raises(StorageError, match="working failed on Spark: a Python process of an executor died") as error:
        SparkExecutor(spark, "working").run(spark_failures.die, [1])
    assert "spark.executor.memoryOverhead" in (error.value.hint or "")


@pytest.mark.slow
def test_executors_without_omnigraph_are_told_from_others(tmp_path: Path) -> None:
    message, hint = told("load", tmp_path, python_without_omnigraph(tmp_path))
    assert message == "reading a load failed on Spark: the Python of its executors has no module 'omnigraph'"
    assert "PYSPARK_PYTHON" in hint
    assert "spark.archives" in hint


@pytest.mark.slow
def test_executors_of_another_python_are_told_from_others(tmp_path: Path) -> None:
    own = f"python3.{sys.version_info.minor}"
    # Those of the system, and those beside this one where a version manager keeps them.
    others = [*Path("/usr/bin").glob("python3.*[0-9]"), *Path(sys.base_prefix).parent.glob("*/bin/python3.*[0-9]")]
    found = [str(python) for python in others if python.name != own and python.name > "python3.10"]
    if not found:
        pytest.skip("there is no other Python here")
    message, hint = told("load", tmp_path, found[0])
    assert "reading a load failed on Spark: its executors run Python 3." in message
    assert "PYSPARK_PYTHON" in hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "reason", "way_out"),
    [
        ("killed", "a Python process of an executor died", "spark.executor.memoryOverhead"),
        ("lost", "it lost executors too often: executor 0", "spark.executor.memoryOverhead"),
        ("memory", "a Python process of an executor ran out of memory", "spark.executor.memoryOverhead"),
        ("results", "exceed spark.driver.maxResultSize (1024.0 KiB)", "raise spark.driver.maxResultSize"),
        ("heap", "ran out of heap memory", "raise spark.executor.memory"),
    ],
)
def test_what_a_real_spark_says_is_understood(tmp_path: Path, kind: str, reason: str, way_out: str) -> None:
    message, hint = told(kind, tmp_path)
    assert message.startswith("working failed on Spark: ")
    assert reason in message
    assert way_out in hint

"""Find or start the Spark session to work in: the caller's, the active one, or a new one.

The master and the settings come from the usual places: ``spark-submit``, ``spark-defaults.conf`` and the environment.
Without a master, Spark runs locally; only then does this module add settings, without which a local Spark fails or
returns wrong values. A cluster is configured by whoever runs it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from omnigraph.errors import SparkUnavailable

_MIN_JAVA: Final = 17
_INSTALL: Final = f"install Java {_MIN_JAVA} or newer, and let JAVA_HOME or PATH point to it"
_LOCAL_MASTER: Final = re.compile(r"local(\[.*])?")
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

# Environment variables for a local Spark; those that are set already are kept.
_LOCAL_ENVIRONMENT: Final = {
    # Workers must see the packages of this Python.
    "PYSPARK_PYTHON": sys.executable,
    # The host name may resolve to an address that cannot be reached.
    "SPARK_LOCAL_IP": "127.0.0.1",
    # Spark's default is 1 GB. A setting in spark-defaults.conf has precedence.
    "SPARK_DRIVER_MEMORY": "2g",
}
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def get_session(given: SparkSession | None) -> SparkSession:
    """Return the given session, else the active one, else a new one."""
    return given or _active_session() or _create_session()


def _active_session() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _create_session() -> SparkSession:
    if _is_local():
        for name, value in _LOCAL_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    session = _start_session()
    configured = session.conf.getAll
    for name, value in _SETTINGS.items():
        if name not in configured:
            session.conf.set(name, value)
    return session


def _start_session() -> SparkSession:
    try:
        with warnings.catch_warnings():
            # Java starts with fork and exec; Lance is not used in between.
            warnings.filterwarnings("ignore", "lance is not fork-safe")
            return SparkSession.builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        message, hint = _explain_java_failure()
        raise SparkUnavailable(message, hint=hint) from error


# --------------------------------------------------------------------------------------------- where Spark runs


def _is_local() -> bool:
    """Return whether tasks will run on this machine. Under ``spark-submit`` only the JVM knows, and it runs already."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    master = _configured_master()
    return master is None or _LOCAL_MASTER.fullmatch(master) is not None


def _configured_master() -> str | None:
    """Return the master that is configured, looking in the same places and order as Spark; None if there is none."""
    named = os.environ.get("SPARK_REMOTE") or _submitted_master() or _read_spark_default("spark.master")
    return named or os.environ.get("MASTER")


def _submitted_master() -> str | None:
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for word, following in pairwise([*words, ""]):
        option, _, value = word.partition("=")
        if option == "--master":
            return value or following
        if option in ("--conf", "-c"):
            name, _, given = (value or following).partition("=")
            if name == "spark.master":
                return given
    return None


def _read_spark_default(setting: str) -> str | None:
    """Return the value of a setting in ``spark-defaults.conf``."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-defaults.conf")
    try:
        text = file.read_text("utf-8", errors="replace")
    except OSError:
        # The file is optional.
        return None
    found = re.search(rf"^[^\S\n]*{re.escape(setting)}(?:[^\S\n]*[=:][^\S\n]*|[^\S\n]+)(\S+)", text, re.MULTILINE)
    return found and found[1]


# --------------------------------------------------------------------------------------------- Java


def _explain_java_failure() -> tuple[str, str]:
    """Return what is wrong with Java, and what to do about it."""
    java = _find_java()
    if java is None:
        return "Spark needs Java, which is not installed", _INSTALL
    version = _read_java_version(java)
    if version is None:
        return f"Spark needs Java, but {java} does not run", _INSTALL
    if version < _MIN_JAVA:
        return f"Spark needs Java {_MIN_JAVA}, but {java} is Java {version}", _INSTALL
    return f"Spark did not start on Java {version}", "see its messages above for the reason"


def _find_java() -> str | None:
    """Return the Java that Spark starts: the one of JAVA_HOME if it is set, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def _read_java_version(java: str) -> int | None:
    try:
        # The path comes from the environment of this process, like everything that Spark starts.
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return None
    found = _JAVA_VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None

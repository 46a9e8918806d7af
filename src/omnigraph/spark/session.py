"""The Spark session that work runs in: the caller's, the one that runs already, or one made here.

Where Spark runs is never decided here: master and settings come from the usual places, ``spark-submit``,
``spark-defaults.conf`` and the environment. Where none of them names a master Spark is local. A local one gets the
settings without which it fails or lies; what executors elsewhere need, those who set them up know.
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

_LEAST_JAVA: Final = 17
_INSTALL: Final = f"install Java {_LEAST_JAVA} or newer, and let JAVA_HOME or PATH lead to it"
_LOCAL_MASTER: Final = re.compile(r"local(\[.*])?")
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

# What a local Spark finds in its environment; whoever has set one of them has decided.
_LOCAL_ENVIRONMENT: Final = {
    # Workers are to find the packages that are installed here.
    "PYSPARK_PYTHON": sys.executable,
    # The name of this machine may lead to an address at which it cannot be reached.
    "SPARK_LOCAL_IP": "127.0.0.1",
    # Spark's own default is one gigabyte. A memory in spark-defaults.conf comes before this one.
    "SPARK_DRIVER_MEMORY": "2g",
}
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def get_session(given: SparkSession | None) -> SparkSession:
    """The session that was given, else the running one, else a new one."""
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
    settled = session.sparkContext.getConf()
    for name, value in _SETTINGS.items():
        if not settled.contains(name):
            session.conf.set(name, value)
    return session


def _start_session() -> SparkSession:
    try:
        with warnings.catch_warnings():
            # Java is started through a fork that is followed by exec at once: Lance is not used in between.
            warnings.filterwarnings("ignore", "lance is not fork-safe")
            return SparkSession.builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        message, hint = _explain_java_failure()
        raise SparkUnavailable(message, hint=hint) from error


# --------------------------------------------------------------------------------------------- where Spark runs


def _is_local() -> bool:
    """Whether tasks will run in this machine. Of a program of ``spark-submit`` only its Java knows: it runs already."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    master = _configured_master()
    return master is None or _LOCAL_MASTER.fullmatch(master) is not None


def _configured_master() -> str | None:
    """Where the usual places say that Spark runs, in the order in which Spark asks them; None if they do not."""
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
    """What ``spark-defaults.conf`` says of a setting."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-defaults.conf")
    try:
        text = file.read_text("utf-8", errors="replace")
    except OSError:
        # Without such a file nothing is set in it.
        return None
    found = re.search(rf"^[^\S\n]*{re.escape(setting)}(?:[^\S\n]*[=:][^\S\n]*|[^\S\n]+)(\S+)", text, re.MULTILINE)
    return found and found[1]


# --------------------------------------------------------------------------------------------- Java


def _explain_java_failure() -> tuple[str, str]:
    """What is wrong with Java, and what to do about it."""
    java = _find_java()
    if java is None:
        return "Spark needs Java, and there is none here", _INSTALL
    version = _read_java_version(java)
    if version is None:
        return f"Spark needs Java, and {java} does not run", _INSTALL
    if version < _LEAST_JAVA:
        return f"Spark needs Java {_LEAST_JAVA}, and {java} is Java {version}", _INSTALL
    return f"Spark did not start on Java {version}", "its own messages, printed before this one, say why"


def _find_java() -> str | None:
    """The Java that Spark starts: that of JAVA_HOME if there is one, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def _read_java_version(java: str) -> int | None:
    try:
        # Whoever starts this process chooses the Java of Spark too.
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return None
    found = _JAVA_VERSION.search(asked.stderr + asked.stdout)
    return int(found[1]) if found else None

"""The Spark session that work runs in: the caller's, the one that runs already, or one made here.

Where Spark runs is never decided here: master and settings come from the usual places, ``spark-submit``,
``spark-defaults.conf`` and the environment. Only where none of them names a master is Spark local, and then it gets
the settings without which it fails or lies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Final

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from omnigraph.errors import SparkUnavailable

_LEAST_JAVA: Final = 17
_INSTALL: Final = f"install Java {_LEAST_JAVA} or newer, and let JAVA_HOME or PATH lead to it"
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

# What a local Spark finds in its environment; whoever has set one of them has decided.
_LOCAL: Final = {
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


def session_for(given: SparkSession | None) -> SparkSession:
    """The session that was given, else the running one, else a new one."""
    return given or _running() or _made()


def _running() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _made() -> SparkSession:
    if not _master_is_named():
        for name, value in _LOCAL.items():
            os.environ.setdefault(name, value)
    session = _started()
    settled = session.sparkContext.getConf()
    for name, value in _SETTINGS.items():
        if not settled.contains(name):
            session.conf.set(name, value)
    return session


def _started() -> SparkSession:
    try:
        with warnings.catch_warnings():
            # Java is started through a fork that is followed by exec at once: Lance is not used in between.
            warnings.filterwarnings("ignore", "lance is not fork-safe")
            return SparkSession.builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        message, hint = _why_java_ended()
        raise SparkUnavailable(message, hint=hint) from error


# --------------------------------------------------------------------------------------------- where Spark runs


def _master_is_named() -> bool:
    """Whether one of the usual places says where Spark runs; ``spark-submit`` has a gateway open already."""
    named = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "MASTER")
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    return (
        any(name in os.environ for name in named)
        or "--master" in arguments
        or "spark.master" in arguments
        or _is_in_defaults("spark.master")
    )


def _is_in_defaults(setting: str) -> bool:
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-defaults.conf")
    try:
        lines = file.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        # Without such a file nothing is set in it.
        return False
    return any(re.match(rf"\s*{re.escape(setting)}[\s=:]", line) for line in lines)


# --------------------------------------------------------------------------------------------- Java


def _why_java_ended() -> tuple[str, str]:
    """What is wrong with Java, and what to do about it."""
    java = _java()
    if java is None:
        return "Spark needs Java, and there is none here", _INSTALL
    version = _java_version(java)
    if version is None:
        return f"Spark needs Java, and {java} does not run", _INSTALL
    if version < _LEAST_JAVA:
        return f"Spark needs Java {_LEAST_JAVA}, and {java} is Java {version}", _INSTALL
    return f"Spark did not start on Java {version}", "its own messages, printed before this one, say why"


def _java() -> str | None:
    """The Java that Spark starts: that of JAVA_HOME if there is one, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        # Whoever starts this process chooses the Java of Spark too.
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return None
    found = _JAVA_VERSION.search(asked.stderr + asked.stdout)
    return int(found[1]) if found else None

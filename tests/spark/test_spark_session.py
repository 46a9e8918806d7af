"""Where Spark comes from: the caller, what runs already, or a new one; and what is said when there is no Java."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.spark import session as sessions
from omnigraph.spark.session import get_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTERS = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "MASTER", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")
SETTINGS = ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_DRIVER_MEMORY")

REFUSED = """
from omnigraph.errors import SparkUnavailable
from omnigraph.spark.session import get_session
try:
    get_session(None)
except SparkUnavailable as error:
    print(error)
"""
STARTED = """
import json, os, sys
import omnigraph
graph = omnigraph.init(sys.argv[1], "node Ship { name: String @key }")
graph.load([{"type": "Ship", "data": {"name": "Aurora"}}])
there = graph.spark()
names = ["spark.driver.memory", "spark.sql.session.timeZone", "spark.sql.execution.arrow.pyspark.enabled"]
print(json.dumps({
    "master": there.session.sparkContext.master,
    "again": graph.spark().session is there.session,
    "python": os.environ["PYSPARK_PYTHON"] == sys.executable,
    "rows": [row["name"] for row in there.nodes("Ship").collect()],
    **{name: there.session.conf.get(name) for name in names},
}))
there.session.stop()
"""


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (*MASTERS, *SETTINGS, "JAVA_HOME")}
    return {**kept, **more}


def child(code: str, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


# --------------------------------------------------------------------------------------------- which session


def test_a_given_session_is_used_as_it_is(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert get_session(other) is other
    assert other.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


def test_a_running_session_is_found(spark: SparkSession) -> None:
    assert get_session(None).sparkContext is spark.sparkContext


@pytest.mark.slow
def test_a_new_session_is_local_and_what_is_set_elsewhere_stays(tmp_path: Path) -> None:
    there = "spark.master local[1]\nspark.sql.session.timeZone Asia/Tokyo\nspark.ui.enabled false\n"
    (tmp_path / "spark-defaults.conf").write_text(there)
    found = child(STARTED, clean_environment(SPARK_CONF_DIR=str(tmp_path)), str(tmp_path / "ships.og"))
    assert json.loads(found) == {
        "master": "local[1]",
        "again": True,
        "python": True,
        "rows": ["Aurora"],
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


# --------------------------------------------------------------------------------------------- where it runs


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in MASTERS:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_nobody_named_a_master(unset: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert sessions._configured_master() is None
    (tmp_path / "spark-defaults.conf").write_text("# spark.master yarn\nspark.master.rest.enabled true\n")
    unset.setenv("SPARK_CONF_DIR", str(tmp_path))
    unset.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 3g --conf spark.ui.enabled=false pyspark-shell")
    assert sessions._configured_master() is None
    assert sessions._is_local()


@pytest.mark.parametrize(
    ("name", "value", "master"),
    [
        ("SPARK_REMOTE", "sc://host", "sc://host"),
        ("MASTER", "spark://host:7077", "spark://host:7077"),
        ("MASTER", "local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell", "yarn"),
        ("PYSPARK_SUBMIT_ARGS", "--verbose --master=yarn pyspark-shell", "yarn"),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.ui.enabled=false --conf spark.master=yarn pyspark-shell", "yarn"),
        ("PYSPARK_SUBMIT_ARGS", "--conf=spark.master=k8s://https://host:443 pyspark-shell", "k8s://https://host:443"),
    ],
)
def test_the_environment_names_a_master(unset: pytest.MonkeyPatch, name: str, value: str, master: str) -> None:
    unset.setenv(name, value)
    assert sessions._configured_master() == master
    assert not sessions._is_local()


@pytest.mark.parametrize(
    "line", ["spark.master yarn", "  spark.master=yarn", "spark.master\tyarn", "spark.master : yarn"]
)
def test_the_defaults_of_spark_name_a_master(unset: pytest.MonkeyPatch, tmp_path: Path, line: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"# ours\n{line}\n")
    unset.setenv("SPARK_HOME", str(tmp_path))
    assert sessions._configured_master() == "yarn"
    assert not sessions._is_local()


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*, 3]"])
def test_a_master_may_be_this_machine(unset: pytest.MonkeyPatch, master: str) -> None:
    unset.setenv("PYSPARK_SUBMIT_ARGS", f"--master '{master}' pyspark-shell")
    assert sessions._configured_master() == master
    assert sessions._is_local()
    unset.setenv("PYSPARK_GATEWAY_PORT", "7000")
    assert not sessions._is_local()


# --------------------------------------------------------------------------------------------- Java


def java_home(folder: Path, version: str) -> str:
    """A Java that tells its version, and ends when it is to run anything."""
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f'#!/bin/sh\necho \'openjdk version "{version}" 2019-04-16\' >&2\n[ "$1" = -version ]\n')
    java.chmod(0o755)
    return str(folder)


def test_java_is_missing(tmp_path: Path) -> None:
    for tool in ("bash", "env", "dirname", "sh", "python3"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or sys.executable)
    assert child(REFUSED, clean_environment(PATH=str(tmp_path))) == (
        "Spark needs Java, which is not installed (install Java 17 or newer, and let JAVA_HOME or PATH point to it)"
    )


def test_java_home_leads_nowhere(tmp_path: Path) -> None:
    found = child(REFUSED, clean_environment(JAVA_HOME=str(tmp_path)))
    assert found.startswith(f"Spark needs Java, but {tmp_path}/bin/java does not run (install Java 17")


@pytest.mark.parametrize(("version", "shown"), [("1.8.0_392", "8"), ("11.0.2", "11")])
def test_java_is_too_old(tmp_path: Path, version: str, shown: str) -> None:
    home = java_home(tmp_path, version)
    found = child(REFUSED, clean_environment(JAVA_HOME=home))
    assert found.startswith(f"Spark needs Java 17, but {home}/bin/java is Java {shown} (install Java 17")


def test_java_is_right_and_spark_does_not_start(tmp_path: Path) -> None:
    found = child(REFUSED, clean_environment(JAVA_HOME=java_home(tmp_path, "21.0.1")))
    assert found.startswith("Spark did not start on Java 21")

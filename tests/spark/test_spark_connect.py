"""Spark Connect: what the package uses of Spark exists there too, and every verb works over it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import omnigraph
from tests.spark.test_spark_session import clean_environment

VERBS: Final = Path(__file__).with_name("connect_verbs.py")
MISSING: Final = re.compile(
    r"sparkContext|\b_jvm\b|\b_jsc\b|_jsparkSession|\b_jdf\b|\.rdd\b|localCheckpoint|setCheckpointDir|\.checkpoint\("
)
"""What a session over Spark Connect does not have, or what is lost with an executor."""


def test_nothing_is_used_that_spark_connect_lacks() -> None:
    folder = Path(omnigraph.__file__).parent
    found = [
        f"{file.relative_to(folder)}: {line.strip()}"
        for file in sorted(folder.rglob("*.py"))
        for line in file.read_text("utf-8").splitlines()
        if MISSING.search(line)
    ]
    # Not asked of a session over Spark Connect.
    assert found == ['cli/spark_engine.py: started.session.sparkContext.setLogLevel("ERROR")']


@pytest.mark.slow
def test_every_verb_works_over_spark_connect(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(VERBS), str(tmp_path)],
        env=clean_environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", SPARK_DRIVER_MEMORY="1g"),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.stdout.endswith("all verbs work\n"), done.stderr[-4_000:]

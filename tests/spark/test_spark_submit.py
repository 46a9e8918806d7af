"""A program under ``spark-submit``: it runs in the session that was asked for, and its exit code is that of all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.pipeline.pipelines import make_project, write_pipeline
from tests.spark.cluster import environment

PROGRAM = Path(__file__).parents[2] / "examples" / "pipeline" / "submit.py"
# The names tell which session they come from.
TOLD = """
version: 1
graph: brain.og
load: {branch: load/june, from: main}
sources:
  people: {format: csv, path: raw/people/*.csv, options: {header: true}}
nodes:
  Person: {view: people, columns: {name: "concat(full_name, ' in ', current_timezone())", age: cast(age AS int)}}
checks:
  - {file: checks.gq, name: old, params: {limit: 40}}
"""


@pytest.mark.slow
def test_a_pipeline_runs_where_it_is_submitted_to(tmp_path: Path) -> None:
    make_project(tmp_path)
    write_pipeline(tmp_path, TOLD)
    tools = Path(sys.executable).parent
    settings = ["spark.ui.enabled=false", "spark.sql.session.timeZone=Asia/Tokyo"]
    done = subprocess.run(
        [
            *(
                tools / "spark-submit",
                "--master",
                "local[2]",
                *(word for each in settings for word in ("--conf", each)),
            ),
            *(PROGRAM, "pipeline", "run", "june.pipeline.yaml", "--json"),
        ],
        cwd=tmp_path,
        env={**environment(), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    # A check that finds something is no success.
    assert done.returncode == 1, done.stderr
    told = cast("dict[str, list[dict[str, object]]]", json.loads(done.stdout))
    assert told["checks"][0]["sample"] == [{"p.name": "cas in Asia/Tokyo", "p.age": 44}]

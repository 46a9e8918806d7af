"""``omnigraph pipeline``: what it prints, as text and as JSON, and what it exits with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from omnigraph.errors import Json
from omnigraph.spark.merge import run as merge
from tests.cli.conftest import Command, error_of
from tests.pipeline.pipelines import changed, make_project, write_pipeline
from tests.spark.merge.test_spark_merge import NOBODY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "june.pipeline.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a project."""
    make_project(tmp_path)
    write_pipeline(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plan_as_text(folder: Path, omnigraph: Command) -> None:
    write_pipeline(folder, changed("SELECT * FROM people WHERE cast(age AS int) >= 18", "SELECT * FROM people, links"))
    answer = omnigraph("pipeline", "plan", FILE)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "graph   brain.og",
        "branch  load/june, made from main",
        "load    merge, on_error fail",
        "checks  young",
        "",
        "source  format   reads              size",
        "people  csv      raw/people/*.csv   2 files, 49 bytes",
        f"links   parquet  raw/links.parquet  1 file, {(folder / 'raw' / 'links.parquet').stat().st_size} bytes",
        "",
        "view    sql",
        "adults  SELECT * FROM people, links",
        "",
        "type    column  wants        expression        gives           view",
        "Person  name    String       full_name         known to Spark  adults",
        "Person  age     I32?         cast(age AS int)  int32           adults",
        "Knows   from    Person.name  a                 string          links",
        "Knows   to      Person.name  b                 string          links",
        "Knows   since   I32?         since             int32           links",
    ]


def test_a_plan_as_json_shows_variables_by_name_only(
    folder: Path, omnigraph: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE_TOKEN", "xyzzy")
    text = changed("options: {header: true}", "options: {header: true, token: '${PEOPLE_TOKEN}'}")
    text = text.replace("from: main", "from: main, allow_missing_blobs: true")
    write_pipeline(folder, text)
    answer = omnigraph("pipeline", "plan", FILE, "--json")
    assert answer.code == 0
    assert "xyzzy" not in answer.out
    load = {"mode": "merge", "branch": "load/june", "from": "main", "on_error": "fail", "merge_into": None}
    assert answer.json["load"] == {**load, "identity": {}, "allow_empty": False, "allow_missing_blobs": True}
    people = cast("Sequence[Mapping[str, Json]]", answer.json["sources"])[0]
    assert people["options"] == {"header": "true", "token": "${PEOPLE_TOKEN}"}
    assert cast("Sequence[Mapping[str, Json]]", answer.json["targets"])[1] == {
        "kind": "edge",
        "type": "Knows",
        "view": "links",
        "columns": [
            {"name": "from", "wants": "Person.name", "expression": "a", "gives": "string"},
            {"name": "to", "wants": "Person.name", "expression": "b", "gives": "string"},
            {"name": "since", "wants": "I32?", "expression": "since", "gives": "int32"},
        ],
    }


def test_every_problem_is_shown_with_its_line(folder: Path, omnigraph: Command) -> None:
    write_pipeline(folder, changed("since: since", "sinc: since", changed("mode: merge", "mode: mrge")))
    answer = omnigraph("pipeline", "plan", FILE)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines() == [
        f"{FILE}:3:14  P105  load.mode is 'mrge'",
        "  3 | load: {mode: mrge, branch: load/june, from: main}",
        "    |              ^^^^ did you mean 'merge'?",
        f"{FILE}:12:50  P202  Knows has no property 'sinc'",
        " 12 |   Knows: {view: links, from: a, to: b, columns: {sinc: since}}",
        "    |                                                  ^^^^ did you mean 'since'?",
    ]
    error = error_of(omnigraph("pipeline", "run", FILE, "--json"))
    assert error["code"] == "pipeline_error"
    assert cast("Mapping[str, Json]", error["position"])["line"] == 3
    assert len(cast("Sequence[Json]", cast("Mapping[str, Json]", error["details"])["problems"])) == 2


def test_a_graph_that_is_not_there_is_told_with_the_other_problems_and_without_its_value(
    folder: Path, omnigraph: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "nowhere/xyzzy")
    write_pipeline(folder, changed("graph: brain.og", "graph: '${PLACE}.og'", changed("mode: merge", "mode: mrge")))
    answer = omnigraph("pipeline", "plan", FILE)
    assert answer.code == 1
    assert f"{FILE}:2:8  P301" in answer.err
    assert f"{FILE}:3:14  P105" in answer.err
    assert "xyzzy" not in answer.err


def test_the_graph_of_the_command_line_comes_before_that_of_the_file(folder: Path, omnigraph: Command) -> None:
    write_pipeline(folder, changed("graph: brain.og", "graph: other.og"))
    assert omnigraph("pipeline", "plan", FILE).code == 1
    answer = omnigraph("pipeline", "plan", FILE, "-g", "brain.og", "--json")
    assert (answer.code, answer.json["graph"]) == (0, "brain.og")


def test_a_missing_file(folder: Path, omnigraph: Command) -> None:
    assert folder == Path.cwd()
    assert error_of(omnigraph("pipeline", "run", "none.yaml", "--json"))["code"] == "not_found"


def test_a_plan_never_imports_spark(folder: Path) -> None:
    code = f"""
import sys
from omnigraph.cli.app import main
assert main(["pipeline", "plan", "{FILE}"]) == 0
assert not {{"pyspark", "py4j"}} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_whose_checks_pass(folder: Path, omnigraph: Command, spark: SparkSession) -> None:
    assert spark.catalog.currentDatabase() == "default"
    answer = omnigraph("pipeline", "run", FILE)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("load/june: 2 nodes, 1 edge loaded, commit ")
    assert lines[2:5] == ["kind  type    rows", "node  Person     2", "edge  Knows      1"]
    assert lines[6].startswith("3 rows in ")
    assert lines[6].endswith(" s in all")
    assert lines[7:] == [
        "check young: passed",
        "branch load/june is kept; to look at it:",
        "  omnigraph snapshot --branch load/june -g brain.og",
        "  omnigraph branch delete load/june --yes -g brain.og",
    ]
    talk = [line.partition(" (")[0] for line in answer.err.splitlines()]
    assert talk == [
        f"loading {FILE} into branch load/june in brain.og",
        "starting Spark",
        "Spark started",
        "source people",
        "source links",
        "view adults",
        "map Person",
        "map Knows",
        "reading, checking and writing rows for branch load/june",
        "load load/june: 3 rows",
        "check young: 0 rows",
    ]
    for line in lines[-2:]:
        assert omnigraph(*line.split()[1:]).code == 0
    assert not (folder / "brain.og.rejects").exists()


def test_a_run_whose_check_fails_says_how_to_look(folder: Path, omnigraph: Command, spark: SparkSession) -> None:
    assert spark.catalog.currentDatabase() == "default"
    write_pipeline(folder, changed("name: young, params: {limit: 18}", "name: old, params: {limit: 35}"))
    answer = omnigraph("pipeline", "run", FILE, "--json")
    assert answer.code == 1
    found = answer.json
    assert (found["passed"], found["rows"], found["branch"], found["engine"]) == (False, 3, "load/june", "spark")
    assert found["checks"] == [
        {
            "name": "old",
            "file": "checks.gq",
            "rows": 1,
            "passed": False,
            "sample": [{"p.name": "cas", "p.age": 44}],
        }
    ]
    look = cast("Sequence[str]", found["look"])
    assert look[0] == """omnigraph query checks.gq --name old --params '{"limit": 35}' --branch load/june -g brain.og"""
    shown = omnigraph(
        "query", "checks.gq", "--name", "old", "--params", '{"limit": 35}', "--branch", "load/june", "-g", "brain.og"
    )
    assert "cas" in shown.out
    again = omnigraph("pipeline", "run", FILE)
    assert again.code == 1
    assert 'check old: 1 row found\n  {"p.name": "cas", "p.age": 44}\n' in again.out


def test_a_run_is_merged_when_its_checks_pass(
    folder: Path, omnigraph: Command, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.catalog.currentDatabase() == "default"
    # However few the rows are, executors merge them.
    monkeypatch.setattr(merge, "LOCAL_MERGE_ROWS", 0)
    monkeypatch.setattr(merge, "LOCAL_MERGE_ENGINE", NOBODY)
    text = changed("from: main", "from: main, on_error: quarantine, merge_into: main")
    write_pipeline(folder, changed("name: young, params: {limit: 18}", "name: old, params: {limit: 35}", text))
    failed = omnigraph("pipeline", "run", FILE)
    assert failed.code == 1
    assert "branch load/june is kept and not merged; to look at it:" in failed.out
    assert (
        omnigraph("query", "checks.gq", "--name", "old", "-p", "limit=0", "-g", "brain.og", "--json").json["rows"] == []
    )
    (folder / "raw" / "people" / "three.csv").write_text("full_name,age\n,50\n")
    write_pipeline(folder, text)
    passed = omnigraph("pipeline", "run", FILE)
    assert passed.code == 0
    (line,) = (line for line in passed.out.splitlines() if line.startswith("merged into main: "))
    head = omnigraph("commit", "show", line.rpartition(" ")[2], "-g", "brain.og", "--json").json
    assert len(cast("Sequence[Json]", head["parents"])) == 2
    assert head["message"] == f"pipeline {FILE}: merge load/june"
    assert (folder / "brain.og.rejects").is_dir()
    assert "1 record rejected, see " in passed.out
    shown = omnigraph("query", "checks.gq", "--name", "old", "-p", "limit=0", "-g", "brain.og", "--json")
    assert len(cast("Sequence[Json]", shown.json["rows"])) == 2


@pytest.mark.slow
def test_a_check_of_the_rows(folder: Path, omnigraph: Command, spark: SparkSession) -> None:
    assert spark.catalog.currentDatabase() == "default"
    (folder / "raw" / "people" / "three.csv").write_text("full_name,age\nann,31\n")
    answer = omnigraph("pipeline", "check", FILE, "--json")
    assert answer.code == 1
    error = error_of(answer)
    assert error["code"] == "validation_error"
    assert "'ann'" in str(error["violations"])
    (folder / "raw" / "people" / "three.csv").unlink()
    answer = omnigraph("pipeline", "check", FILE)
    assert answer.code == 0
    assert "2 nodes, 1 edge" in answer.out
    assert "load/june" not in omnigraph("branch", "list", "-g", "brain.og").out

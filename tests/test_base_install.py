"""The base install has neither PySpark nor pandas: everything but Spark works, and Spark says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Stands in for an environment without these packages.
BLOCKED = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
hidden = {"pyspark", "py4j", "pandas"}
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in hidden else find(name, *more)
import omnigraph as og
from pathlib import Path
from omnigraph.cli.app import main
from omnigraph.errors import SparkUnavailable, Unsupported
from omnigraph.spark import engine_choice
"""
LIFE = """
graph = og.init("g.og", "node Person { name: String @key  age: I32? }\\nedge Knows: Person -> Person")
Path("people.csv").write_text("name,age\\nann,4\\nbob,\\n")
graph.load(nodes={"Person": "people.csv"})
graph.load([{"edge": "Knows", "from": "ann", "to": "bob"}], branch="b", from_branch="main")
graph.mutate('query q() { update Person set { age: 5 } where name = "bob" }')
assert graph.merge("b").commit is not None
rows = graph.query("query q() { match { $p: Person $p knows $q } return { $p.name as n, $q.age as a } }").rows
assert rows == [{"n": "ann", "a": 5}], rows
graph.optimize()
assert graph.verify().is_sound
assert main(["-g", "g.og", "info", "--quiet"]) == 0
"""
SPARK = """
graph = og.init("h.og", "node Person { name: String @key }")
Path("more.jsonl").write_text('{"type": "Person", "data": {"name": "eve"}}\\n')
for call in (graph.spark, lambda: graph.load("more.jsonl", engine="spark")):
    try:
        call()
    except SparkUnavailable as error:
        assert 'pip install "omnigraph[spark]"' in str(error), error
    else:
        raise AssertionError("there is no Spark")
engine_choice.SPARK_MIN_BYTES = 1
assert graph.load("more.jsonl").engine == "local"
try:
    graph.nodes("Person").to_pandas()
except Unsupported as error:
    assert "pip install pandas" in str(error)
Path("p.pipeline.yaml").write_text(
    "version: 1\\ngraph: h.og\\nsources: {p: {format: json, path: more.jsonl}}\\n"
    "nodes: {Person: {view: p, columns: {name: name}}}\\n"
)
assert main(["pipeline", "run", "p.pipeline.yaml"]) == 1
"""


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_graph_lives_without_spark_and_pandas(tmp_path: Path) -> None:
    run(LIFE, tmp_path)


def test_what_needs_spark_names_the_extra(tmp_path: Path) -> None:
    assert "omnigraph[spark]" in run(SPARK, tmp_path)

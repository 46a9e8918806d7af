"""Pipeline files, raw files and a graph for them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og
from omnigraph.errors import PipelineError, Problem
from omnigraph.graph import Graph
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.planner import PipelinePlan, plan_pipeline

SCHEMA = """
node Person { name: String @key  age: I32?  joined: Date? }
node Leg { line: String  seq: I32  @key(line, seq) }
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
edge Rides: Person -> Leg
"""

GOOD = """
version: 1
graph: brain.og
load: {mode: merge, branch: load/june, from: main}
sources:
  people: {format: csv, path: raw/people/*.csv, options: {header: true}}
  links: {format: parquet, path: raw/links.parquet}
views:
  adults: SELECT * FROM people WHERE cast(age AS int) >= 18
nodes:
  Person: {view: adults, columns: {name: full_name, age: cast(age AS int)}}
edges:
  Knows: {view: links, from: a, to: b, columns: {since: since}}
checks:
  - {file: checks.gq, name: young, params: {limit: 18}}
"""

CHECKS = """
query young($limit: I32) {
  match { $p: Person  $p.age < $limit }
  return { $p.name }
}
query old($limit: I32) {
  match { $p: Person  $p.age > $limit }
  return { $p.name, $p.age }
}
query add($name: String) { insert Person { name: $name } }
"""


def make_project(folder: Path) -> Graph:
    """A graph without rows, and the raw files of ``GOOD``, in a folder."""
    (folder / "raw" / "people").mkdir(parents=True)
    (folder / "raw" / "people" / "one.csv").write_text("full_name,age\nann,30\nbob,12\n")
    (folder / "raw" / "people" / "two.csv").write_text("full_name,age\ncas,44\n")
    links = {"a": ["ann"], "b": ["cas"], "since": pa.array([2019], pa.int32())}
    pq.write_table(pa.table(links), folder / "raw" / "links.parquet")
    (folder / "checks.gq").write_text(CHECKS)
    return og.init(folder / "brain.og", SCHEMA)


def write_pipeline(folder: Path, text: str = GOOD, name: str = "june.pipeline.yaml") -> Path:
    """A pipeline file in a folder; its first line is line 1."""
    path = folder / name
    path.write_text(dedent(text).lstrip("\n"))
    return path


def changed(old: str, new: str, text: str = GOOD) -> str:
    """A file with one part changed, which must be there."""
    assert old in text
    return text.replace(old, new, 1)


def planned(graph: Graph, folder: Path, text: str, environment: dict[str, str] | None = None) -> PipelinePlan:
    """The plan of a text for a graph."""
    return plan_pipeline(read_pipeline(write_pipeline(folder, text), environment or {}), graph)


def problems_of(graph: Graph, folder: Path, text: str, environment: dict[str, str] | None = None) -> list[Problem]:
    """Everything that is wrong with a text."""
    try:
        planned(graph, folder, text, environment)
    except PipelineError as error:
        return list(error.problems)
    return []


def places(problems: list[Problem]) -> list[tuple[str, int, int]]:
    """Which problems stand where."""
    return [(each.code, each.position.line, each.position.column) for each in problems]

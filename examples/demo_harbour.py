"""The first part of the demo: raw files become a graph on Spark.

CSV and Parquet files go through a pipeline onto a branch, where checks look at them. A second run of the pipeline
changes nothing. Questions are asked here and on Spark and get the same answers. A second delivery that does not fit is
refused with all that is wrong with it. What was loaded can be seen as it was, whatever happens to it later. In the end
ports and vessels are ranked; the ranks are reviewed on a branch like any other change.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from demo_page import Clock, table
from pipeline.make_raw import Sizes, write_more, write_raw

import omnigraph as og
from omnigraph.errors import SparkUnavailable, ValidationError
from omnigraph.graph import Graph
from omnigraph.spark.pipeline import PipelineResult, PipelineStep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.manifest.history import Commit

PROJECT = Path(__file__).parent / "pipeline"
BRANCH = "load/june"
RANKS = "rank/june"
QUESTIONS: Mapping[str, Mapping[str, object]] = {
    "busiest_ports": {},
    "sister_ports": {"port": "p03", "least": 9.0},
    "strangers": {"port": "p00"},
}


@contextmanager
def local_spark(log: Path, clock: Clock) -> Generator[SparkSession]:
    """A Spark in this process, as ``graph.spark()`` would start it. What Java says while it starts goes into a file."""
    with clock.step("Spark starts"):
        from omnigraph.spark.session import get_session

        try:
            with errors_into(log):
                session = get_session(None)
        except SparkUnavailable:
            print(log.read_text("utf-8", errors="replace"))
            raise
        session.sparkContext.setLogLevel("ERROR")
        # As many parts as there is to do on one machine; Spark's own default is for many.
        session.conf.set("spark.sql.shuffle.partitions", "4")
        print(f"  Spark {session.version}, {session.sparkContext.master}")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def errors_into(log: Path) -> Generator[None]:
    """Lead the error output of this process into a file; processes that it starts meanwhile keep that for good."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def tour(folder: Path, session: SparkSession, sizes: Sizes, clock: Clock) -> None:
    """All steps; the files and the graph are made in a folder."""
    project = folder / "pipeline"
    with clock.step("Raw files: CSV and Parquet"):
        make_files(project, sizes)
    with og.init(folder / "harbour.og", project / "harbour.pg", actor="act-harbour") as graph:
        with clock.step("The pipeline: june.pipeline.yaml, all rows as one commit on a branch"):
            loaded = run(graph, session, project / "june.pipeline.yaml")
            show_run(graph, loaded)
        with clock.step("The same pipeline again: nothing changes"):
            show_second_run(graph, run(graph, session, project / "june.pipeline.yaml"))
        with clock.step("Questions, answered here and on Spark"):
            show_answers(graph, session, project / "questions.gq")
        with clock.step("A second delivery that does not fit: july.pipeline.yaml"):
            show_refusal(graph, session, project / "july.pipeline.yaml")
        with clock.step("Time travel"):
            assert loaded.load.commit is not None
            show_travel(graph, project / "questions.gq", loaded.load.commit)
        with clock.step("Ports ranked on a branch of their own, looked at and merged"):
            show_ranks(graph)


def make_files(project: Path, sizes: Sizes) -> None:
    """A copy of the example project, with many raw files."""
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("raw", "__pycache__", "*.py"))
    write_raw(project / "raw", sizes)
    write_more(project / "raw")
    for path in sorted(path for path in (project / "raw").rglob("*") if path.is_file()):
        print(f"  {path.relative_to(project)!s:<24} {path.stat().st_size / 1024:>10,.0f} KB")


# --------------------------------------------------------------------------------------------- the load


def run(graph: Graph, session: SparkSession, file: Path) -> PipelineResult:
    """What ``omnigraph pipeline run FILE`` does."""
    return og.pipeline.run(file, graph=graph, session=session, progress=show_step)


def show_step(step: PipelineStep) -> None:
    """What was done, and how long it took."""
    rows = "" if step.rows is None else f"{step.rows:,} rows"
    print(f"  {step.kind:<7} {step.name:<12} {rows:>14}  {step.seconds:5.1f} s")


def show_run(graph: Graph, result: PipelineResult) -> None:
    """What a run did to the graph."""
    print(f"\n  {result.rows:,} rows loaded, {result.rows_per_second:,.0f} rows/s; the checks have found nothing")
    for branch in graph.branches():
        rows = sum(pin.row_count for pin in graph.snapshot(branch.name).pins.values())
        print(f"  branch {branch.name:<10} {rows:>9,} rows  head {branch.head}")


def show_second_run(graph: Graph, result: PipelineResult) -> None:
    """A merge gives the graph what the files have. It has all of it already, so there is no commit."""
    assert result.load.commit is None
    rows = sum(pin.row_count for pin in graph.snapshot(BRANCH).pins.values())
    print(f"\n  {result.rows:,} rows compared, none of them new: no commit, and still {rows:,} rows on {BRANCH}")


# --------------------------------------------------------------------------------------------- questions


def show_answers(graph: Graph, session: SparkSession, queries: Path) -> None:
    """The same query, the same plan, two executors, one answer."""
    on_spark = graph.spark(session)
    for name, parameters in QUESTIONS.items():
        begun = perf_counter()
        here = graph.query(queries, name, parameters, branch=BRANCH).rows
        between = perf_counter()
        there = [
            row.asDict() for row in on_spark.query(queries, name, parameters, branch=BRANCH, engine="spark").collect()
        ]
        ended = perf_counter()
        same = "the same rows" if there == here else f"OTHER ROWS: {there}"
        print(f"\n  {name}: {between - begun:.2f} s here; {ended - between:.1f} s on Spark, {same}")
        table(here)


# --------------------------------------------------------------------------------------------- what is refused


def show_refusal(graph: Graph, session: SparkSession, file: Path) -> None:
    """Every row that breaks a rule is named with its file, and nothing is loaded."""
    head = graph.commits(BRANCH)[0]
    try:
        run(graph, session, file)
    except ValidationError as error:
        print()
        for violation in error.violations:
            source = Path(violation.file).name if violation.file else "-"
            print(f"  {source:<12} {violation.message}")
        print(f"  {error.hint}")
    unchanged = graph.commits(BRANCH)[0] == head
    print(f"  the head of {BRANCH} is {'what it was' if unchanged else 'ANOTHER ONE'}: {head.id}")


# --------------------------------------------------------------------------------------------- time


def show_travel(graph: Graph, queries: Path, loaded: Commit) -> None:
    """A change, and the graph before it."""
    result = graph.mutate(queries, "lay_up", {"code": "v003"}, branch=BRANCH, message="v003 is laid up")
    print(f"  v003 is laid up: {result.affected_nodes} vessel and {result.affected_edges} calls deleted")
    pattern = '$v: Vessel { code: "v003" } $v $c: callsAt $p'
    question = f"query calls() {{ match {{ {pattern} }} return {{ count($c.day) as calls }} }}"
    for name, at in (("now", None), (f"at commit {loaded.id}", loaded.id)):
        (row,) = graph.query(question, branch=BRANCH, at=at).rows
        print(f"  calls of v003 {name}: {row['calls']}")
    for commit in graph.commits(BRANCH):
        print(
            f"  commit {commit.id}  {commit.created_at:%H:%M:%SZ}  {commit.branch:<9}  {commit.message or 'the schema'}"
        )


# --------------------------------------------------------------------------------------------- ranks


def show_ranks(graph: Graph) -> None:
    """PageRank over the calls, written to a branch as one commit that says where it comes from, and merged."""
    calls = graph.analytics.project(["Vessel", "Port"], ["CallsAt"], direction="both", branch=BRANCH)
    calls.pagerank().write("rank", branch=RANKS, from_=BRANCH, create=True)
    for change in graph.diff(BRANCH, RANKS).summary():
        print(f"  {change.type:<8} {change.updated:>9,} rows have a rank on {RANKS}")
    (analysis,) = graph.analyses(RANKS)
    print(f"  {', '.join(analysis.written)}: {analysis.provenance.algorithm} of commit {analysis.source}")
    graph.merge(RANKS, into=BRANCH, delete_branch=True)
    returned = "$p.name as port, $p.rank * 1000 as rank"
    best = f"query best() {{ match {{ $p: Port }} return {{ {returned} }} order {{ rank desc }} limit 3 }}"
    table(graph.query(best, branch=BRANCH).rows)

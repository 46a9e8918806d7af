"""Every verb of ``SparkGraph`` over Spark Connect, as a program: ``python connect_verbs.py FOLDER``.

It starts a server from the jars of the package, and asserts what each verb comes to.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import omnigraph
from omnigraph.cli.app import main as run_command
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from omnigraph.maintain.optimize import Optimized
from omnigraph.spark import sized_frames, spool
from omnigraph.spark.analytics import projections
from omnigraph.spark.graph import SparkGraph
from omnigraph.spark.load import incoming_rows
from omnigraph.spark.merge import run as merge

SCHEMA: Final = """
node Ship { code: String @key  name: String  crew: I32?  @unique(name) }
edge Tows: Ship -> Ship
"""
EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "pipeline"
WALK: Final = (
    'query q() { match { $a: Ship { code: "s0" }  $a tows{1,3} $b } return { $b.code as code } order { code } }'
)


def main(folder: str) -> None:
    """Run all verbs."""
    thresholds = (
        (incoming_rows, "LOCAL_LOAD_ROWS"),
        (merge, "LOCAL_MERGE_ROWS"),
        (projections, "SPARK_MIN_EDGES"),
    )
    for module, name in thresholds:
        # Few rows are handled like many.
        setattr(cast("Any", module), name, 0)
    # On a busy machine the first import of the package takes longer than Spark would wait.
    builder = SparkSession.builder.config("spark.python.authenticate.socketTimeout", "120s")
    session = builder.remote("local[2]").getOrCreate()
    assert type(session).__module__.startswith("pyspark.sql.connect."), "a session over Spark Connect"
    graph = omnigraph.init(Path(folder, "ships.og"), SCHEMA)
    sg = graph.spark(session)
    load(sg, Path(folder))
    read(graph, sg)
    analyze(graph, sg)
    write(graph, sg)
    compare_and_merge(graph, sg)
    stream(graph, sg, Path(folder))
    maintain(graph, sg)
    run_pipeline(graph, Path(folder))
    run_example(Path(folder))
    session.stop()
    sys.stdout.write("all verbs work\n")


def analyze(graph: Graph, sg: SparkGraph) -> None:
    """Run algorithms in supersteps, one of them a program of this module."""

    def count(step: int, state: Any, messages: Any) -> Any:
        return {"heard": messages}, None if step else state["degree"]

    found, known = (each.analytics.pagerank(iterations=3) for each in (sg, graph))
    assert found.provenance.engine == "spark"
    assert [row["rank"] for row in found.rows] == pytest.approx([row["rank"] for row in known.rows])
    assert found.df.count() == len(known)
    assert sg.analytics.wcc().rows == graph.analytics.wcc().rows
    assert sg.analytics.pregel(count).rows == graph.analytics.pregel(count).rows


def run_pipeline(graph: Graph, folder: Path) -> None:
    """Run a pipeline by its command, which takes the session that is active."""
    Path(folder, "more.csv").write_text("code,name\np1,one\np2,two\n", "utf-8")
    mapping = "nodes: {Ship: {view: ships, columns: {code: code, name: name}}}"
    source = "sources: {ships: {format: csv, path: more.csv, options: {header: true}}}"
    target = "load: {mode: merge, branch: load/more, from: main, merge_into: main}"
    file = Path(folder, "more.yaml")
    file.write_text(f"version: 1\ngraph: ships.og\n{target}\n{source}\n{mapping}\n", "utf-8")
    assert run_command(["pipeline", "run", str(file)]) == 0
    assert len(graph.query('query q() { match { $s: Ship { name: "two" } } return { $s.code } }').rows) == 1


def run_example(folder: Path) -> None:
    """Run the pipeline of the examples, whose edges come from two files at once."""
    project = folder / "harbour"
    shutil.copytree(EXAMPLE, project / "pipeline")
    subprocess.run([sys.executable, project / "pipeline" / "make_raw.py"], check=True)
    graph = omnigraph.init(project / "harbour.og", EXAMPLE / "harbour.pg")
    assert run_command(["pipeline", "run", str(project / "pipeline" / "june.pipeline.yaml")]) == 0
    assert graph.edges("CallsAt", branch="load/june").to_arrow().num_rows == 540


def load(sg: SparkGraph, folder: Path) -> None:
    """Load frames and files; merge what is there already; refuse what breaks a rule."""
    session = sg.session
    ships = session.range(200).selectExpr("concat('s', id) as code", "concat('ship ', id) as name")
    tows = session.range(199).selectExpr("concat('s', id) as `from`", "concat('s', id + 1) as `to`")
    assert sg.load(nodes={"Ship": ships}, edges={"Tows": tows}).nodes == {"Ship": 200}
    more = session.range(150, 250).selectExpr("concat('s', id) as code", "concat('again ', id) as name")
    assert sg.load(nodes={"Ship": more}, mode="merge").commit is not None
    crews = session.range(0, 250, 5, 3).selectExpr("concat('s', id) as code", "cast(id as int) as crew")
    updated = sg.load(nodes={"Ship": crews}, mode="update")
    assert (updated.nodes, updated.commit is not None) == ({"Ship": 50}, True)
    assert sg.load(nodes={"Ship": crews}, mode="update").commit is None, "nothing is new"
    assert sg.nodes("Ship", filter=[("crew", "=", 155)]).select("name").collect()[0]["name"] == "again 155"
    twice = str(folder / "twice.parquet")
    pq.write_table(pa.table({"code": ["v", "x", "y"], "name": ["new", "ship 2", "ship 1"]}), twice, row_group_size=1)
    with pytest.raises(ValidationError) as error:
        sg.load(nodes={"Ship": twice})
    found = {(each.rule, each.file, each.line) for each in error.value.violations}
    assert found == {("@unique(name)", twice, 2), ("@unique(name)", twice, 3)}


def read(graph: Graph, sg: SparkGraph) -> None:
    """Read rows, views, queries and the source."""
    session = sg.session
    assert sg.nodes("Ship").count() == 250
    assert sg.edges("Tows", ["from"], filter={"from": "s7"}).count() == 1
    sg.create_views()
    assert session.sql("select count(*) as n from Ship where name like 'again%'").collect()[0]["n"] == 100
    assert codes(sg.query(WALK, engine="spark")) == ["s1", "s2", "s3"]
    assert codes(sg.query(WALK)) == ["s1", "s2", "s3"], "in this process"
    before = spool.MAX_BROADCAST_BYTES
    for module in (sized_frames, spool):
        cast("Any", module).MAX_BROADCAST_BYTES = 0
    with graph.spark(session) as other:
        assert codes(other.query(WALK, engine="spark")) == ["s1", "s2", "s3"]
    for module in (sized_frames, spool):
        cast("Any", module).MAX_BROADCAST_BYTES = before
    assert sg.sql("select count(*) as n from Ship").collect()[0]["n"] == 250
    first = graph.commits()[-2].manifest_version
    then = sg.sql(f"select max(name) as name from Ship version as of {first} where code = :code", {"code": "s160"})  # noqa: S608
    assert then.collect()[0]["name"] == "ship 160"
    path = graph.uri
    assert session.read.format("omnigraph").option("type", "Ship").option("columns", "code").load(path).count() == 250


def write(graph: Graph, sg: SparkGraph) -> None:
    """Write a DataFrame, and refuse to overwrite nodes alone."""
    ships = sg.session.range(300, 320).selectExpr("concat('w', id) as code", "concat('written ', id) as name")
    ships.write.format("omnigraph").option("type", "Ship").mode("append").save(graph.uri)
    assert sg.nodes("Ship", filter=[("code", ">=", "w")]).count() == 20
    with pytest.raises(PySparkException, match="Ship cannot be overwritten alone"):
        ships.write.format("omnigraph").option("type", "Ship").mode("overwrite").save(graph.uri)
    graph.mutate('query q() { delete Ship where code >= "w" }')


def codes(frame: DataFrame) -> list[str]:
    """The codes of rows, in order."""
    return [row["code"] for row in frame.collect()]


def compare_and_merge(graph: Graph, sg: SparkGraph) -> None:
    """Diff, merge and revert."""
    graph.create_branch("dev")
    changed = sg.session.range(20).selectExpr("concat('s', id) as code", "concat('new ', id) as name")
    sg.load(nodes={"Ship": changed}, mode="merge", branch="dev")
    assert sg.diff("main", "dev").count() == 20
    merged = sg.merge("dev")
    assert merged.nodes["Ship"].updated == 20
    assert merged.commit is not None
    assert sg.revert(merged.commit.id, side=1).nodes["Ship"].updated == 20
    assert sg.diff("main", "dev").count() == 20


def stream(graph: Graph, sg: SparkGraph, folder: Path) -> None:
    """Stream into the graph, and read its changes as a stream."""
    session, given = sg.session, folder / "in"
    given.mkdir()
    begun = graph.commits()[0].id
    lines = [json.dumps({"code": f"t{at}", "name": f"streamed {at}"}) for at in range(10)]
    (given / "one.json").write_text("\n".join(lines), "utf-8")
    frame = session.readStream.schema("code string, name string").json(str(given))
    query = sg.stream(frame, node="Ship", checkpoint=folder / "checkpoint", trigger="availableNow")
    query.awaitTermination()
    assert query.exception() is None
    assert sg.nodes("Ship", filter=[("code", ">=", "t")]).count() == 10
    # The checkpoint knows what was loaded.
    again = sg.stream(frame, node="Ship", checkpoint=folder / "checkpoint", trigger="availableNow")
    again.awaitTermination()
    assert len([commit for commit in graph.commits() if commit.id > begun]) == 1
    changes = (
        session.readStream.format("omnigraph").option("changes", "true").option("start", "beginning").load(graph.uri)
    )
    written = changes.writeStream.format("parquet").option("checkpointLocation", str(folder / "followed"))
    written.option("path", str(folder / "changes")).trigger(availableNow=True).start().awaitTermination()
    assert session.read.parquet(str(folder / "changes")).where("id like 't%'").count() == 10


def maintain(graph: Graph, sg: SparkGraph) -> None:
    """Indexes, compaction and schema changes."""
    assert sg.ensure_indexes().commit is not None
    assert isinstance(sg.optimize(), Optimized)
    # Rows are checked and rewritten.
    applied = sg.apply_schema(SCHEMA.replace("crew: I32?", "crew: I64? @unique"))
    assert applied.commit is not None
    assert sg.nodes("Ship").schema["crew"].dataType.simpleString() == "bigint"
    assert graph.verify().findings == ()


if __name__ == "__main__":
    main(*sys.argv[1:])

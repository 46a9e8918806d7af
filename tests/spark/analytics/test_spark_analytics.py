"""Algorithms on Spark: the same as in one process, with several blocks, and what a session leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.analytics import ALGORITHMS, AnalyticsResult, GraphProjection, run_algorithm
from omnigraph.analytics.projection import projected_graph
from omnigraph.cli.app import main
from omnigraph.errors import Cancelled, DeadlineExceeded, OmniGraphError, ParameterError, Unsupported
from omnigraph.graph import Graph
from omnigraph.manifest.references import take_snapshot
from omnigraph.spark import engine_choice, sized_frames
from omnigraph.spark.analytics import projections
from omnigraph.spark.graph import SparkGraph
from omnigraph.storage import tables
from tests.analytics.counted_deadline import CountedDeadline
from tests.analytics.programs import find_distance, find_smallest, rank
from tests.selection import daily

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Port { code: String @key  size: I32? }
node Vessel { name: String @key }
edge Leg: Port -> Port { km: F64? }
edge CallsAt: Vessel -> Port
"""
IN_SUPERSTEPS = ["degree", "pagerank", "wcc", "label_propagation"]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = og.init(tmp_path_factory.mktemp("analytics") / "ports.og", SCHEMA)
    chance = np.random.default_rng(3)
    for part in range(2):
        # Two fragments, with parallel edges, loops and ports that nothing leads to.
        legs = (chance.random((120, 2)) ** 2 * 60).astype(int).tolist()
        made.load(
            [
                *({"type": "Port", "data": {"code": f"p{n:03}", "size": n % 7}} for n in range(part, 80, 2)),
                *({"type": "Vessel", "data": {"name": f"v{n}"}} for n in range(part, 9, 2)),
            ]
        )
        if part:
            for half in (legs[:70], legs[70:]):
                made.load(
                    [
                        *(
                            {"edge": "Leg", "from": f"p{a:03}", "to": f"p{b:03}", "data": {"km": (a + 2 * b) / 8}}
                            for a, b in half
                        ),
                        *({"edge": "CallsAt", "from": f"v{n}", "to": f"p{n:03}"} for n in range(0, 9, 4)),
                    ],
                    mode="append",
                )
    return made


@pytest.fixture
def on_spark(graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Generator[SparkGraph]:
    monkeypatch.setattr(projections, "SPARK_MIN_EDGES", 0)
    with graph.spark(spark) as opened:
        yield opened


def assert_same(found: AnalyticsResult, known: AnalyticsResult, engine: str = "spark") -> None:
    assert found.provenance.engine == engine
    assert found.columns == known.columns
    for mine, theirs in zip(found.rows, known.rows, strict=True):
        assert mine == {
            name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            for name, value in theirs.items()
        }


def parameters_of(name: str) -> dict[str, object]:
    given: dict[str, object] = {"bfs": {"source": "p001"}, "shortest_paths": {"source": ["p001", "p002"]}}
    given |= {"louvain": {"library": "networkit"}, "leiden": {"library": "networkit"}}
    given |= {"pagerank": {"iterations": 3}, "label_propagation": {"iterations": 3}}
    given |= {"link_scores": {"pairs": [("p001", "p002")]}, "embed_fastrp": {"dimension": 4}}
    given |= {"embed_node2vec": {"dimension": 4, "walks": 2, "length": 3}, "betweenness": {"samples": 9}}
    return given.get(name, {})  # pyright: ignore[reportReturnType]  mappings of names


@pytest.mark.parametrize("name", daily(IN_SUPERSTEPS, ["pagerank", "wcc"]))
def test_supersteps_on_executors_give_what_one_process_gives(graph: Graph, on_spark: SparkGraph, name: str) -> None:
    def project(given: GraphProjection) -> GraphProjection:
        return given.project(edges={"Leg": "both", "CallsAt": "in"})

    assert_same(run_algorithm(project(on_spark.analytics), name, {}), run_algorithm(project(graph.analytics), name, {}))


@pytest.mark.parametrize("name", daily([name for name in ALGORITHMS if name not in IN_SUPERSTEPS], ["bfs", "leiden"]))
def test_other_kernels_run_in_the_driver_over_edges_from_executors(
    graph: Graph, on_spark: SparkGraph, name: str
) -> None:
    found, known = (
        run_algorithm(each.project(["Port"], ["Leg"]), name, parameters_of(name))
        for each in (on_spark.analytics, graph.analytics)
    )
    assert_same(found, known)


def test_weights_and_filters_are_those_of_one_process(graph: Graph, on_spark: SparkGraph) -> None:
    filters = {"Port": [("size", ">", 1)], "Leg": [("km", ">=", 1.5)]}
    found, known = (
        each.project(["Port"], ["Leg"], weight="km", filters=filters).pagerank(iterations=4)
        for each in (on_spark.analytics, graph.analytics)
    )
    assert_same(found, known)
    assert 0 < len(found.rows) < 80
    assert found.df.count() == len(found.rows)


@pytest.mark.parametrize(
    ("program", "combine", "along"),
    daily(
        [(find_smallest, "min", "copy"), (rank, "sum", "copy"), (find_distance, "min", "plus_weight")],
        [(find_distance, "min", "plus_weight")],
        lambda each: cast("Any", each)[0].__name__,
    ),
)
def test_a_program_runs_unchanged(graph: Graph, on_spark: SparkGraph, program: Any, combine: str, along: str) -> None:
    found, known = (
        each.project(["Port"], ["Leg"], weight="km").pregel(program, combine=combine, along=along)
        for each in (on_spark.analytics, graph.analytics)
    )
    assert_same(found, known)


def test_what_a_program_does_wrong_is_told_as_in_one_process(on_spark: SparkGraph) -> None:
    with pytest.raises(ParameterError, match="x of shape"):
        on_spark.analytics.project(["Port"], ["Leg"]).pregel(lambda *_: ({"x": np.zeros(1)}, None))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


def test_blocks_are_used_again_and_gone_when_the_session_is_closed(
    graph: Graph, spark: SparkSession, on_spark: SparkGraph
) -> None:
    scratch = Path(f"{graph.uri}.loading")

    def files() -> set[str]:
        return {path.name for path in scratch.rglob("*") if path.is_file() and path.parent.name != "users"}

    ports = on_spark.analytics.project(["Port"], ["Leg"])
    ports.pagerank(iterations=2)
    first = files()
    assert {"edges.json", "incoming.json"} <= first
    # Only what rounds need is built, and no state is left.
    assert "outgoing.json" not in first
    assert not any(name.startswith(("state", "values")) for name in first)
    ports.pagerank(iterations=3)
    with graph.spark(spark) as other:
        other.analytics.project(["Port"], ["Leg"]).pagerank(iterations=1)
        assert files() == first
    # The other session has left; this one still reads the blocks.
    assert files() == first
    ports.degree()
    on_spark.close()
    assert not files()


def test_a_superstep_on_executors_looks_at_the_deadline(graph: Graph, on_spark: SparkGraph) -> None:
    cancelled = og.Deadline()

    class Stopping(float):
        """A damping that cancels the call when the first round uses it."""

        def __rsub__(self, other: float) -> float:
            cancelled.cancel()
            return other - float(self)

    ports = on_spark.analytics.project(["Port"], ["Leg"])
    with pytest.raises(Cancelled):
        ports.pagerank(damping=Stopping(0.5), iterations=10**9, timeout=cancelled)
    assert not list(Path(f"{graph.uri}.loading").rglob("state-*"))
    with pytest.raises(DeadlineExceeded):
        ports.pagerank(timeout=1e-9)
    assert_same(ports.pagerank(iterations=1), graph.analytics.project(["Port"], ["Leg"]).pagerank(iterations=1))


@pytest.mark.parametrize("name", daily(["pagerank", "label_propagation"], ["pagerank"]))
def test_every_superstep_on_executors_looks_at_the_deadline(graph: Graph, on_spark: SparkGraph, name: str) -> None:
    ports = on_spark.analytics.project(["Port"], ["Leg"])

    def count(rounds: int, most: int | None = None) -> int:
        deadline = CountedDeadline(most)
        getattr(ports, name)(iterations=rounds, timeout=deadline)
        return deadline.checks

    count(1)  # the blocks are there
    first, total = count(1), count(3)
    assert total - first >= 2
    for most in range(first, total, 3):
        with pytest.raises(Cancelled):
            count(3, most)
        assert not list(Path(f"{graph.uri}.loading").rglob("state-*"))
    assert_same(
        getattr(ports, name)(iterations=3), getattr(graph.analytics.project(["Port"], ["Leg"]), name)(iterations=3)
    )


BAD_INPUT: dict[str, Callable[[GraphProjection], object]] = {
    "no node type 'Prot' in this snapshot; no edge type 'Lge'": lambda of: of.project(["Prot"], ["Lge"]).degree(),
    "the projection has no edge types": lambda of: of.project(["Vessel"]).degree(),
    "Leg has no property 'kms'": lambda of: of.project(edges=["Leg"], weight="kms").degree(),
    "source: the projection has no Port 'x'": lambda of: of.project(["Port"], ["Leg"]).bfs("x"),
    "iterations is -1": lambda of: of.pagerank(iterations=-1),
    "Port.size has values that no analysis wrote": lambda of: of.project(["Port"], ["Leg"]).degree().write("size"),
    "Port.code is part of its key": lambda of: of.project(["Port"], ["Leg"]).degree().write("code"),
    "Port has no property 'rank'": lambda of: of.project(["Port"], ["Leg"]).pagerank(iterations=1).write("rank"),
}


def test_bad_input_is_refused_as_in_one_process(
    graph: Graph, on_spark: SparkGraph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compare(words: str, call: Callable[[GraphProjection], object]) -> None:
        problems: list[tuple[type, str, str | None]] = []
        for analytics in (graph.analytics, on_spark.analytics):
            with pytest.raises(OmniGraphError, match=words) as caught:
                call(analytics)
            problems.append((type(caught.value), caught.value.message, caught.value.hint))
        assert problems[0] == problems[1]

    before = graph.commits()
    for words, call in BAD_INPUT.items():
        compare(words, call)
    for most, words in (
        (79, "the projection has 80 nodes; at most 79"),
        (119, "the projection has 120 edges; at most"),
    ):
        monkeypatch.setattr(projected_graph, "LARGEST", most)
        # A filter, so that no arrays are found in the cache.
        compare(words, lambda of: of.project(["Port"], ["Leg"], filters={"Leg": [("km", ">=", 0)]}).degree())
    assert graph.commits() == before
    assert main(["analyze", "wcc", "--engine", "spark", "--node", "Prot", "-g", graph.uri]) == 1
    assert "no node type 'Prot'" in capsys.readouterr().err


def test_a_projection_with_no_edge_on_executors_is_that_of_one_process(graph: Graph, on_spark: SparkGraph) -> None:
    for name in ("degree", "pagerank", "wcc"):
        found, known = (
            run_algorithm(each.project(["Port"], ["Leg"], filters={"Leg": [("km", "<", 0)]}), name, {})
            for each in (on_spark.analytics, graph.analytics)
        )
        assert_same(found, known)
        assert len(found) == 80


def test_a_small_projection_runs_in_the_driver_and_says_so(
    graph: Graph, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="omnigraph")
    with graph.spark(spark) as opened:
        assert_same(opened.analytics.wcc(), graph.analytics.wcc(), "spark-driver")
    assert "runs in the driver's process" in caplog.text


def test_a_projection_of_many_nodes_runs_on_executors_however_few_edges_it_has(
    graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "SPARK_MIN_NODES", 0)
    with graph.spark(spark) as opened:
        assert_same(opened.analytics.wcc(), graph.analytics.wcc(), "spark")


@pytest.mark.parametrize("engine", daily(["spark", "auto"], ["auto"]))
@pytest.mark.usefixtures("on_spark")
def test_a_command_runs_where_it_is_told_or_where_many_edges_belong(
    graph: Graph, engine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> dict[str, object]:
        assert main(["analyze", "wcc", "--json", "-g", graph.uri, *words]) == 0
        return json.loads(capsys.readouterr().out)

    here = run()
    assert (here["engine"], here == run("--engine", "local")) == ("local", True)
    monkeypatch.setattr(engine_choice, "SPARK_MIN_STORED_EDGES", graph.analytics.count_stored_edges() - 1)
    there = run("--engine", engine)
    assert (there["engine"], there["rows"]) == ("spark", here["rows"])
    monkeypatch.setattr(engine_choice, "SPARK_MIN_STORED_EDGES", graph.analytics.count_stored_edges())
    assert run()["engine"] == "local"


def test_ids_that_do_not_fit_a_task_are_numbered_by_joins(
    graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "SPARK_MIN_EDGES", 0)
    monkeypatch.setattr(projections, "MAX_TASK_NODES", 10)
    # Both sides are shuffled to several partitions, as with many rows.
    monkeypatch.setattr(sized_frames, "MAX_BROADCAST_BYTES", -1)
    monkeypatch.setattr(sized_frames, "MIN_PARTITION_BYTES", 1)
    ranks: list[AnalyticsResult] = []
    for _ in range(2):
        with graph.spark(spark) as opened:
            found, known = (
                each.project(["Port"], {"Leg": "both"}, weight="km", filters={"Port": [("size", ">", 1)]}).pagerank(
                    iterations=3
                )
                for each in (opened.analytics, graph.analytics)
            )
            assert_same(found, known)
            ranks.append(found)
            if len(ranks) == 1:
                assert_same(opened.analytics.degree(), graph.analytics.degree())
    # Cut anew, it is the same bit by bit.
    assert ranks[0].rows == ranks[1].rows


def test_ends_that_are_stored_as_numbers_are_used(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "SPARK_MIN_EDGES", 0)
    made = og.init(tmp_path / "ports.og", SCHEMA)
    codes = [f"p{number:03}" for number in range(100)]
    sources = codes * 120
    made.load(
        nodes={"Port": pa.table({"code": codes})},
        edges={"Leg": pa.table({"from": sources, "to": sorted(sources), "km": [1.0] * len(sources)})},
    )
    made.ensure_indexes()
    made.mutate('query q() { delete Port where code = "p007" }')

    def project(given: GraphProjection) -> GraphProjection:
        return given.project(["Port"], ["Leg"], weight="km")

    with made.spark(spark) as opened:
        assert_same(project(opened.analytics).pagerank(iterations=2), project(made.analytics).pagerank(iterations=2))
        known = project(made.analytics).degree()
        assert_same(project(opened.analytics).degree(), known)
    # A file that does not tell the truth shows that it is read.
    legs = take_snapshot(made._manifest, "main").table("edge:Leg")
    for fragment in tables.list_fragments(legs):
        ends = tables.read_end_file(legs, fragment)
        assert ends is not None
        tables.write_end_file(legs, fragment, replace(ends, destinations=np.zeros_like(ends.destinations)))
    with made.spark(spark) as opened:
        found = project(opened.analytics).degree().rows
    # All of them end at one port, which has as many edges as there are.
    assert {row["in_degree"] for row in found} == {0, made.analytics.project(["Port"], ["Leg"]).count_stored_edges()}


def test_frames_have_the_shape_of_graphframes(graph: Graph, spark: SparkSession) -> None:
    with graph.spark(spark) as opened:
        vertices, edges = opened.to_graphframes()
        assert (vertices.columns, edges.columns) == (["id", "type"], ["src", "dst", "relationship"])
        ids = {row.id for row in vertices.collect()}
        assert {"Port/p001", "Vessel/v0"} <= ids
        assert len(ids) == vertices.count() == 89
        assert {end for row in edges.collect() for end in (row.src, row.dst)} <= ids
        assert edges.count() == graph.analytics.count_stored_edges()
        ports, legs = opened.to_graphframes(["Port"], ["Leg"])
        assert (ports.columns, legs.columns) == (["id", "type", "code", "size"], ["src", "dst", "relationship", "km"])
        assert ports.where("id = 'p008'").first() == ("p008", "Port", "p008", 1)
        with pytest.raises(ParameterError, match="edges of CallsAt end at types"):
            opened.to_graphframes(["Port"], ["CallsAt"])


def test_a_result_of_spark_is_written_with_its_engine(tmp_path: Path, spark: SparkSession) -> None:
    made = og.init(tmp_path / "ports.og", SCHEMA)
    made.load(
        [
            *({"type": "Port", "data": {"code": code}} for code in "ab"),
            {"edge": "Leg", "from": "a", "to": "b", "data": {"km": None}},
        ]
    )
    with made.spark(spark) as opened:
        ports = opened.analytics.project(["Port"], ["Leg"])
        ports.degree().write("degree", create=True, branch="ranks", from_="main")
        assert made.analyses("ranks")[0].provenance.engine == "spark-driver"
        with pytest.raises(Unsupported, match="without Spark"):
            _ = made.analytics.degree().df


@pytest.mark.parametrize("most", daily([20_000_000, 1], [1]))
def test_weights_that_are_none_are_refused_with_their_edges(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(projections, "SPARK_MIN_EDGES", 0)
    monkeypatch.setattr(projections, "MAX_TASK_NODES", most)
    made = og.init(tmp_path / "ports.og", SCHEMA)
    made.load([{"type": "Port", "data": {"code": code}} for code in "ab"])
    for km in (-1.0, None, 2.0):
        made.load([{"edge": "Leg", "from": "a", "to": "b", "data": {"km": km}}], mode="append")
    problems: list[tuple[str, object]] = []
    with made.spark(spark) as opened:
        for each in (made.analytics, opened.analytics):
            with pytest.raises(ParameterError, match="no weight for 2 edges") as caught:
                each.project(["Port"], ["Leg"], weight="km").pagerank()
            problems.append((caught.value.message, caught.value.hint))
    assert problems[0] == problems[1]

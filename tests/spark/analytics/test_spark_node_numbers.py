"""Nodes that executors number, and results whose ids are in files: as in one process, and never in the driver."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.analytics import AnalyticsResult, GraphProjection, number_nodes, run_algorithm
from omnigraph.analytics.projection import make_spec, plan_projection
from omnigraph.errors import Cancelled
from omnigraph.graph import Graph
from omnigraph.read.frames import shared_cache
from omnigraph.spark.analytics import node_numbers, projections, ranged_rows
from omnigraph.spark.analytics.id_files import IDS, IdFile, keep_between, write_id_file
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.graph import SparkGraph
from omnigraph.spark.scratch import ScratchFolder, use_named_folder
from omnigraph.storage.columns import to_list
from omnigraph.storage.location import locate
from tests import crash
from tests.analytics.counted_deadline import CountedDeadline
from tests.selection import daily
from tests.spark.drivers import Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Port { code: String @key  size: I32?  draft: F64? }
node Vessel { name: String @key }
node Empty { name: String @key }
edge Leg: Port -> Port
edge CallsAt: Vessel -> Port
edge Never: Empty -> Port
"""
LETTERS = "aZ0é ~\x7f\uffff\U0001f600\U0010fffd"
"""Beyond the first plane, UTF-16 has another order than UTF-8."""
CHANCE = Random(5)  # noqa: S311  no secret
CODES = sorted(
    {"".join(CHANCE.choices(LETTERS, k=CHANCE.randint(1, 5))) for _ in range(50)}
    | {"common/prefix/" * 40 + f"{number:02}" for number in range(20)}
    | {"e" + "\u0301" * number for number in range(1, 10)}
)
FILTERS: dict[str, Mapping[str, Any] | None] = {
    "all": None,
    "some": {"Port": [("size", ">", 1), ("draft", "!=", None)]},
    "one type": {"Vessel": [("name", "=", "v3")]},
    "none": {"Port": [("size", ">", 100)]},
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Several fragments in an order that says nothing about ids, rows that were deleted, and a type without nodes."""
    made = og.init(tmp_path_factory.mktemp("numbers") / "ports.og", SCHEMA)
    codes = CODES.copy()
    CHANCE.shuffle(codes)
    for part in range(5):
        own = codes[part::5]
        made.load(
            [
                *(
                    {"type": "Port", "data": {"code": code, "size": at % 5, "draft": at / 4 if at % 3 else None}}
                    for at, code in enumerate(own)
                ),
                *({"type": "Vessel", "data": {"name": f"v{part}{each}"}} for each in range(3)),
                *({"edge": "Leg", "from": code, "to": CHANCE.choice(own)} for code in own),
                *({"edge": "CallsAt", "from": f"v{part}{each}", "to": own[each]} for each in range(3)),
            ]
        )
    made.load([{"type": "Vessel", "data": {"name": "v3"}}])
    for code in codes[3:8]:
        made.mutate("query q($c: String) { delete Port where code = $c }", params={"c": code})
    return made


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tasks, ranges and pieces for few nodes."""
    monkeypatch.setattr(projections, "SPARK_MIN_EDGES", 0)
    monkeypatch.setattr(node_numbers, "PIECE_IDS", 3)
    monkeypatch.setattr(node_numbers, "RANGE_NODES", 11)
    monkeypatch.setattr(node_numbers, "MAX_TASK_ROWS", 20)
    monkeypatch.setattr(ranged_rows, "BATCH_ROWS", 4)


@pytest.fixture
def on_spark(graph: Graph, spark: SparkSession, in_pieces: None) -> Generator[SparkGraph]:  # noqa: ARG001  before it
    with graph.spark(spark) as opened:
        yield opened


def list_files(graph: Graph) -> list[str]:
    return sorted(path.name for path in Path(f"{graph.uri}.loading").rglob("*") if path.is_file())


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.usefixtures("in_pieces")
def test_numbers_are_those_of_one_process(graph: Graph, spark: SparkSession, name: str) -> None:
    snapshot = graph.snapshot()
    spec = make_spec(["Empty", "Port", "Vessel"], None, None, "out", FILTERS[name], "main", None)
    plan = plan_projection(spec, snapshot.catalog())
    use = use_named_folder(graph._manifest, b"numbers of one process")
    executor = SparkExecutor(spark, "testing")
    counts: dict[str, list[int]] = {}
    for _ in range(2):
        # The second time they are found.
        found = node_numbers.number_stored_nodes(executor, use, snapshot, plan)
        counts = {each.type.name: [len(file) for file in each.ranges] for each in found}
        for mine, known in zip(found, number_nodes(snapshot, plan), strict=True):
            assert (mine.type, mine.first, len(mine)) == (known.type, known.first, len(known))
            assert to_list(mine.load_ids()) == to_list(known.load_ids())
            assert np.frombuffer(use.folder.get(mine.path), np.int32).tolist() == known.number_rows().tolist()
            for property_ in ("size", "draft", "code", "other"):
                np.testing.assert_array_equal(mine.read_numbers(property_), known.read_numbers(property_))
            asked = pa.array([*CODES, "", "v3", "v99", "\U0010ffff"], pa.string())
            assert mine.locate(asked).tolist() == known.locate(asked).tolist()
            places = np.random.default_rng(1).integers(0, len(mine), 40 if len(mine) else 0)
            assert to_list(mine.take_ids(places)) == to_list(known.take_ids(places))
    if name == "all":
        assert len(counts["Port"]) >= 5
        assert max(counts["Port"]) < 3 * node_numbers.RANGE_NODES
    # What was sorted by groups of fragments, and where rows are, is needed no more.
    kinds = [name.partition("-")[0] for name in list_files(graph)]
    assert kinds.count("rows") == 0
    assert kinds.count("ids") == sum(map(len, counts.values()))


def test_each_id_is_in_one_range_whatever_the_bounds_are(tmp_path: Path) -> None:
    folder = ScratchFolder(locate(tmp_path), "ids")
    chance = Random(7)  # noqa: S311  no secret
    for count, shared, piece, most in (
        (60, 0, 1, 5),
        (60, 0, 7, 5),
        (60, 60, 3, 7),
        (9, 9, 4, 1),
        (1, 0, 1, 1),
        (40, 0, 9, 99),
    ):
        ids = [f"{'s' * (number % 4)}{number:03}" for number in range(count)]
        chance.shuffle(ids)
        parts = [sorted(ids[at::4]) for at in range(4)]
        # Ids that are in all files make samples that are equal.
        parts += [sorted(ids[:shared])] * 2
        files = [_write(folder, part, piece) for part in parts if part]
        plans = node_numbers.plan_ranges(files, most)
        found: list[str] = []
        for plan in plans:
            rows = [
                keep_between(file.read(folder, IDS, (0, len(file.lows))), plan.low, plan.high) for file in plan.files
            ]
            own = sorted(cast("list[str]", pa.concat_tables(rows)["id"].to_pylist()))
            assert own, "a range without ids"
            found += own
        assert found == sorted(each for part in parts for each in part)
    assert node_numbers.plan_ranges([], 5) == []


def _write(folder: ScratchFolder, ids: list[str], piece: int) -> IdFile:
    return write_id_file(folder, pa.table({"id": pa.array(ids, pa.large_string())}), piece)


def project(of: GraphProjection, name: str = "all") -> GraphProjection:
    return of.project(["Port", "Vessel", "Empty"], ["Leg", "CallsAt", "Never"], direction="both", filters=FILTERS[name])


RUNS: dict[str, dict[str, object]] = {
    "degree": {},
    "wcc": {},
    "label_propagation": {"iterations": 2},
    "bfs": {"source": ["Port", CODES[-1]]},
    "link_scores": {"pairs": [[("Port", CODES[-1]), ("Vessel", "v3")]]},
    "similarity": {"top_k": 2},
    "random_walks": {"length": 3},
    "embed_fastrp": {"dimension": 4},
}


def to_rows(frame: Any) -> list[dict[str, object]]:
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: (row["type"], row["id"], str(row)))


@pytest.mark.parametrize("name", daily(list(RUNS), ["wcc", "bfs"]))
def test_results_have_the_rows_of_one_process(graph: Graph, on_spark: SparkGraph, name: str) -> None:
    found, known = (run_algorithm(project(each), name, RUNS[name]) for each in (on_spark.analytics, graph.analytics))
    assert found.provenance.engine == "spark"
    assert len(found) == len(known)
    assert found.schema == known.schema
    assert [row for batch in found.batches(7) for row in batch.to_pylist()] == known.rows
    assert to_rows(found.df) == sorted(known.rows, key=lambda row: (row["type"], row["id"], str(row)))
    assert found.head(3).rows == known.rows[:3]
    assert found.page(20, 5).rows.to_pylist() == known.rows[20:25]
    for column in found.values:
        if not pa.types.is_nested(found.schema.types[found.columns.index(column)]):
            assert found.top(4, by=column).rows == known.top(4, by=column).rows
    assert found.to_arrow() == known.to_arrow()


@pytest.mark.parametrize("name", daily(FILTERS, ["none"]))
def test_filters_are_those_of_one_process(graph: Graph, on_spark: SparkGraph, name: str) -> None:
    found, known = (project(each, name).wcc() for each in (on_spark.analytics, graph.analytics))
    assert found.rows == known.rows
    assert to_rows(found.df) == known.rows
    assert found.top(3).rows == known.top(3).rows


@pytest.mark.usefixtures("in_pieces")
def test_another_commit_and_a_branch_have_their_own_numbers(tmp_path: Path, spark: SparkSession) -> None:
    made = og.init(tmp_path / "ports.og", SCHEMA)
    made.load([{"type": "Port", "data": {"code": code}} for code in "adg"])
    made.load([{"edge": "Leg", "from": "a", "to": "g"}])
    (before, *_) = made.commits()
    made.create_branch("other")
    made.load([{"type": "Port", "data": {"code": code}} for code in "be"], branch="other")
    made.load([{"type": "Port", "data": {"code": code}} for code in "ch"])
    with made.spark(spark) as opened:
        for branch, at in (("main", None), ("other", None), ("main", before.id)):
            found, known = (
                each.project(["Port"], ["Leg"], branch=branch, at=at).wcc().rows
                for each in (opened.analytics, made.analytics)
            )
            assert found == known
    assert not list_files(made)


def test_other_tools_get_the_nodes_of_one_process(graph: Graph, on_spark: SparkGraph) -> None:
    found, known = project(on_spark.analytics), project(graph.analytics)
    assert found.nodes() == known.nodes()
    assert sorted(map(str, found.edges().to_pylist())) == sorted(map(str, known.edges().to_pylist()))


def test_ranks_start_from_a_property(graph: Graph, on_spark: SparkGraph) -> None:
    found, known = (
        project(each).pagerank(tolerance=1e-6, start="draft").rows for each in (on_spark.analytics, graph.analytics)
    )
    assert [row["rank"] for row in found] == pytest.approx([row["rank"] for row in known], rel=1e-9)


def test_a_second_session_finds_numbers_and_ids(graph: Graph, spark: SparkSession, on_spark: SparkGraph) -> None:
    first = project(on_spark.analytics).wcc()
    rows = first.rows
    files = list_files(graph)
    with graph.spark(spark) as other:
        again = project(other.analytics).wcc()
        assert again.rows == rows
        # No ids were sorted again; names of groups belong to a result.
        assert [name for name in list_files(graph) if name.startswith(("ids", "numbers", "edges"))] == [
            name for name in files if name.startswith(("ids", "numbers", "edges"))
        ]


def test_a_result_keeps_the_files_that_it_reads(graph: Graph, spark: SparkSession, on_spark: SparkGraph) -> None:
    result = project(on_spark.analytics).wcc()
    on_spark.close()
    assert list_files(graph)
    known = project(graph.analytics).wcc()
    assert [row for batch in result.batches(10) for row in batch.to_pylist()] == known.rows
    with graph.spark(spark) as other:
        assert project(other.analytics).wcc().rows == known.rows
    assert list_files(graph)
    del result
    gc.collect()
    assert not list_files(graph)


def test_numbering_and_naming_look_at_the_deadline(graph: Graph, on_spark: SparkGraph, spark: SparkSession) -> None:
    deadline = CountedDeadline()
    known = project(on_spark.analytics).wcc(timeout=deadline)
    on_spark.close()
    del known
    for most in range(0, deadline.checks, max(1, deadline.checks // 6)):
        with graph.spark(spark) as opened, pytest.raises(Cancelled):
            project(opened.analytics).wcc(timeout=CountedDeadline(most))
        gc.collect()
        assert not list_files(graph)
    with graph.spark(spark) as opened:
        assert project(opened.analytics).wcc().rows == project(graph.analytics).wcc().rows


# --------------------------------------------------------------------------------------------- writing


@pytest.fixture
def written(tmp_path: Path, in_pieces: None) -> Graph:  # noqa: ARG001  before it
    made = og.init(tmp_path / "ports.og", SCHEMA)
    names = [f"n{number}" for number in range(40)]
    made.load(
        [
            *({"type": "Port", "data": {"code": name}} for name in names),
            *({"type": "Vessel", "data": {"name": name}} for name in names[:9]),
            *({"edge": "Leg", "from": name, "to": names[at // 2]} for at, name in enumerate(names)),
            *({"edge": "CallsAt", "from": name, "to": name} for name in names[:9]),
        ]
    )
    return made


WRITES: dict[str, Callable[[GraphProjection], AnalyticsResult]] = {
    "rank": lambda of: of.pagerank(iterations=2),
    "component_id": lambda of: of.wcc(),
    "distance": lambda of: of.bfs(("Port", "n3")),
    "vector": lambda of: of.embed_fastrp(dimension=3),
}


@pytest.mark.parametrize("column", daily(list(WRITES), ["component_id"]))
def test_a_result_is_written_as_in_one_process(written: Graph, spark: SparkSession, column: str) -> None:
    def read(branch: str) -> list[dict[str, object]]:
        return [
            row for type_ in ("Port", "Vessel") for row in written.nodes(type_, branch=branch).to_arrow().to_pylist()
        ]

    with written.spark(spark) as opened:
        found = WRITES[column](opened.analytics.project(["Port", "Vessel"], ["Leg", "CallsAt"]))
        known = WRITES[column](written.analytics.project(["Port", "Vessel"], ["Leg", "CallsAt"]))
        done = found.write("value", column=column, branch="there", from_="main", create=True)
        known.write("value", column=column, branch="here", from_="main")
        assert done.nodes == {"Port": 40, "Vessel": 9}
        assert read("there") == [
            {**row, "value": pytest.approx(row["value"], rel=1e-9)} if column == "rank" else row for row in read("here")
        ]
        # The same values are there; after another commit took their place they are written again.
        assert found.write("value", column=column, branch="there").replayed
        written.load([{"type": "Port", "data": {"code": "n3", "value": None}}], mode="update", branch="there")
        changed = read("there")
        assert not found.write("value", column=column, branch="there").replayed
        assert [row["code"] for row, old in zip(read("there"), changed, strict=True) if row != old] == ["n3"]
        assert found.write("value", column=column, branch="there").replayed


# --------------------------------------------------------------------------------------------- memory


def list_loaded_ids() -> list[object]:
    """What the driver has of ids of nodes: columns, their order and their ranks."""
    return [
        key
        for key in shared_cache().all_keys()
        if getattr(key, "column", "") == "id"
        or (isinstance(key, tuple) and cast("tuple[object, ...]", key)[1:] in (("order",), ("ranks of ids",)))
    ]


def test_the_driver_never_loads_the_ids(written: Graph, spark: SparkSession) -> None:
    written.analytics.project(["Port"], ["Leg"]).wcc()
    assert list_loaded_ids(), "else this shows nothing"
    with written.spark(spark) as opened:
        shared_cache().clear()
        found = opened.analytics.project(
            ["Port", "Vessel"], ["Leg", "CallsAt"], filters={"Port": [("code", "!=", "n7")]}
        )
        result = found.wcc()
        found.bfs(("Port", "n3")).top(3)
        assert sum(batch.num_rows for batch in result.batches()) == len(result) == 48
        assert result.df.count() == 48
        assert not list_loaded_ids()
        result.write("component", column="component_id", create=True)
        assert not list_loaded_ids()


LONG = 400
NODES = 300_000


def rank_and_watch(java: Java, uri: str) -> tuple[int, int]:
    """How many rows a result has, and how much memory it took at most to compute and to read it."""
    projections.SPARK_MIN_EDGES = 0  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]  in a process of its own
    # Else all rows of so few nodes would be made at once.
    node_numbers.PIECE_IDS = 2_000  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]
    node_numbers.RANGE_NODES = 20_000  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]
    ranged_rows.BATCH_ROWS = 4_000  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]
    with og.open(uri).spark(java.session()) as opened:
        # What is imported late is there, and connections are made.
        few = opened.analytics.project(["Few"], ["Between"]).wcc()
        assert few.df.count() == len(few.rows)
        start, peak, done = _private_memory(), 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.01):
                peak = max(peak, _private_memory())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            result = opened.analytics.project(["Page"], ["Link"]).wcc()
            assert result.df.count() == NODES
            assert len(result.top(10).rows) == 10
            count = sum(batch.num_rows for batch in result.batches(4_000))
        finally:
            done.set()
            watcher.join()
        return count, peak - start


def _private_memory() -> int:
    """The memory of this process that no file stands for."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


@pytest.mark.slow
def test_the_memory_of_the_driver_does_not_grow_with_the_ids(tmp_path: Path, java: Java) -> None:
    made = og.init(
        tmp_path / "pages.og",
        "node Page { url: String @key }\nnode Few { name: String @key }\n"
        "edge Link: Page -> Page\nedge Between: Few -> Few",
    )
    urls = [f"{number * 7919 % NODES:0{LONG}}" for number in range(NODES)]
    links = pa.table({"from": urls[:1000], "to": urls[1:1001]})
    made.load(
        nodes={"Page": pa.table({"url": urls}), "Few": pa.table({"name": ["a", "b"]})},
        edges={"Link": links, "Between": pa.table({"from": ["a"], "to": ["b"]})},
    )
    made.close()
    count, peak = crash.run(rank_and_watch, java, str(tmp_path / "pages.og"))
    assert count == NODES
    # So many bytes have the ids; to sort them takes several times as much. Pieces and what Arrow keeps take half.
    assert peak < NODES * LONG

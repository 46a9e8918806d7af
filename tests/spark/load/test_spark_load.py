"""Loads on Spark: the same graphs and the same problems as loads in this process, and nothing seen of what fails."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.logger import PySparkLogger

import omnigraph
from omnigraph.errors import (
    ExpectedVersionMismatch,
    KeyConflict,
    NotFound,
    ParameterError,
    ReadOnly,
    StorageError,
    ValidationError,
)
from omnigraph.graph import Graph
from omnigraph.spark import engine_choice
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.rules import set_rules
from omnigraph.storage.filters import MAX_LISTED_VALUES
from omnigraph.storage.tables import Table
from omnigraph.write.commit.section import HANDOFF_MESSAGE
from omnigraph.write.load import LoadMode, StagedRows
from omnigraph.write.load.rows import row_admission
from omnigraph.write.load.run import Engine
from tests.graphs import rows_of, written
from tests.selection import daily
from tests.spark.load.spark_loads import FIRST, codes, content, file_of, new_graph, problems, ship, tow
from tests.write.mutation.interleaving import meanwhile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES: tuple[LoadMode, ...] = ("append", "merge", "overwrite")
INSERT = 'query q() { insert Ship { code: "other", name: "o" } }'


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of a few records that nobody writes to."""
    folder = tmp_path_factory.mktemp("ships") / "ships.og"
    new_graph(folder, FIRST)
    return folder


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    return omnigraph.open(shutil.copytree(template, tmp_path / "ships.og"))


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are handled like many."""
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Generator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    yield
    spark.conf.set(name, cast(str, before))


def leftovers(graph: Graph) -> list[str]:
    """What lies beside the graph."""
    return sorted(path.name for path in Path(graph.uri).parent.iterdir() if path.name != Path(graph.uri).name)


# --------------------------------------------------------------------------------------------- the same graph


@pytest.mark.usefixtures("spark")
def test_files_give_the_same_graph_as_in_this_process(tmp_path: Path) -> None:
    here, there = new_graph(tmp_path / "here.og"), new_graph(tmp_path / "there.og")
    files = [file_of(tmp_path / "a [1] b.jsonl", FIRST[:3]), file_of(tmp_path / "c.jsonl", ["", *FIRST[3:], ""])]
    local, result = here.load(files), there.load(files, engine="spark")
    assert content(there) == content(here)
    assert (
        (result.nodes, result.edges) == (local.nodes, local.edges) == ({"Note": 2, "Ship": 3}, {"About": 1, "Tows": 1})
    )
    assert (local.engine, result.engine) == ("local", "spark")
    assert there.commits()[0] == result.commit
    assert there.query('query q() { match { $s: Ship { code: "a" } } return { $s.hull } }').rows == [
        {"s.hull": 2**64 - 1}
    ]


SECOND: Mapping[LoadMode, Iterable[Mapping[str, object]]] = {
    "append": (ship("d"), tow("d", "a"), {"type": "Note", "data": {"text": "three"}}),
    "merge": (ship("a", "Anna"), ship("d"), tow("d", "a"), {"type": "Note", "data": {"id": "n2", "text": "three"}}),
    "overwrite": (ship("a", "Anna"), ship("b", "name of a"), tow("a", "b")),
}


@pytest.mark.usefixtures("spark", "many")
@pytest.mark.parametrize("mode", daily(MODES, ["merge"]))
def test_a_second_load_gives_the_same_graph(template: Path, tmp_path: Path, mode: LoadMode) -> None:
    here = omnigraph.open(shutil.copytree(template, tmp_path / "here.og"))
    there = omnigraph.open(shutil.copytree(template, tmp_path / "there.og"))
    file = file_of(tmp_path / "second.jsonl", SECOND[mode])
    here.load(file, mode=mode)
    assert there.load(file, mode=mode, engine="spark").mode == mode
    assert content(there) == content(here) != content(omnigraph.open(template))


def test_frames_of_spark_and_of_others(spark: SparkSession, graph: Graph) -> None:
    columns = "code string, name string, hull decimal(20,0), seen timestamp, tags array<string>, shape array<float>"
    ships = spark.createDataFrame([("e", "E", None, None, ["x"], [1.0, 2.0])], columns)
    ends = spark.createDataFrame([("e", "a"), ("a", "e")], "`from` string, `to` string")
    notes = pa.table({"id": ["n9"], "text": ["nine"]})
    result = graph.spark(spark).load(
        nodes={"Ship": ships, "Note": notes}, edges={"tows": ends}, actor="ann", message="m"
    )
    assert (result.nodes, result.edges) == ({"Note": 1, "Ship": 1}, {"Tows": 2})
    assert result.commit is not None
    assert (result.commit.actor, result.commit.message) == ("ann", "m")
    found = next(row for row in rows_of(graph, "Ship") if row["code"] == "e")
    assert (found["tags"], found["shape"], found["hull"]) == (["x"], [1.0, 2.0], None)
    assert {(row["src"], row["dst"]) for row in rows_of(graph, "Tows")} == {("b", "a"), ("e", "a"), ("a", "e")}


@pytest.mark.slow
def test_what_spark_reads_of_a_graph_can_be_loaded_into_another(
    spark: SparkSession, graph: Graph, tmp_path: Path
) -> None:
    other = new_graph(tmp_path / "other.og")
    columns = ["code", "name", "kind", "hull", "crew", "built", "seen", "tags", "shape"]
    there = graph.spark(spark)
    result = other.load(
        nodes={"Ship": there.nodes("Ship", columns)}, edges={"Tows": there.edges("Tows", ["from", "to"])}
    )
    assert result.engine == "spark"
    without = [{**row, "photo": None} for row in content(graph)["Ship"]]
    assert content(other)["Ship"] == without
    assert content(other)["Tows"] == content(graph)["Tows"]


# --------------------------------------------------------------------------------------------- the same problems

WRONG: tuple[Mapping[str, object] | str, ...] = (
    ship("x", crew=100),
    ship("a"),
    "{not json",
    ship("y", "name of b"),
    tow("a", "nowhere"),
    tow("x", "a"),
    ship("z"),
    tow("b", "z"),
    {"type": "Shipp", "data": {}},
)


def done_here(*_: object, **__: object) -> None:
    """What is not to be done in this process."""
    raise AssertionError("the executors were not asked")


def refused(graph: Graph, file: Path, engine: Engine, *, check: bool = False) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        graph.load(file, engine=engine, check=check)
    return caught.value


@pytest.mark.usefixtures("many")
def test_problems_are_the_same_with_their_lines(
    spark: SparkSession, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One more edge is one too many: of two incoming ones, that with the greater id would be shown, and ids are drawn.
    graph.load(file_of(tmp_path / "right.jsonl", [tow("b", "c")]))
    file, before = file_of(tmp_path / "wrong.jsonl", WRONG), written(graph)
    files = leftovers(graph)
    # Every line is read by another task.
    with setting(spark, "spark.sql.files.maxPartitionBytes", "60"), monkeypatch.context() as driver:
        # The rows of violations are looked for by executors.
        driver.setattr(Table, "scan", done_here)
        there = refused(graph, file, "spark")
        checked = refused(graph, file, "spark", check=True)
    assert problems(there) == problems(checked) == problems(refused(graph, file, "local"))
    assert {each.line for each in there.violations} == {1, 2, 3, 4, 5, 8, 9}
    assert (written(graph), leftovers(graph)) == (before, files)


@pytest.mark.slow
@pytest.mark.usefixtures("spark", "many")
def test_all_violations_are_counted_and_some_are_shown(graph: Graph, tmp_path: Path) -> None:
    file = file_of(tmp_path / "many.jsonl", [tow("a", f"x{number}") for number in range(150)])
    found = refused(graph, file, "spark")
    assert len(found.violations) == 100
    counts = {each.rule: 0 for each in found.groups}
    for each in found.groups:
        counts[each.rule] += each.count
    assert counts == {"edge Tows: Ship -> Ship": 150, "@card(0..2)": 1}
    assert len(refused(graph, file, "spark", check=True).violations) == 151


@pytest.mark.usefixtures("spark", "many")
def test_of_very_many_records_a_violation_names_a_few(graph: Graph, tmp_path: Path) -> None:
    file = file_of(tmp_path / "many.jsonl", [*(ship("k") for _ in range(150)), *(tow("a", "b") for _ in range(150))])
    there, here = refused(graph, file, "spark"), refused(graph, file, "local")
    by_rule = {each.rule: each for each in there.violations}
    assert f"is given 150 times, first in {file}:1, {file}:2, {file}:3 and 146 more" in by_rule["@key(code)"].message
    named = {"@key(code)": 100, "@unique(name)": 100, "@card(0..2)": 100}
    assert [{each.rule: len(each.ids) for each in found.violations} for found in (there, here)] == [named, named]


@pytest.mark.usefixtures("many")
def test_a_key_twice_in_two_partitions(spark: SparkSession, graph: Graph) -> None:
    one = spark.createDataFrame([("k", "one")], "code string, name string")
    two = spark.createDataFrame([("k", "two")], "code string, name string")
    with pytest.raises(ValidationError, match=r"@key\(code\) on Ship: 'k' is given 2 times"):
        graph.load(nodes={"Ship": one.union(two)}, mode="merge")
    with pytest.raises(KeyConflict, match="'a' exists already"):
        graph.load(nodes={"Ship": spark.createDataFrame([("a", "one")], "code string, name string")})
    assert "k" not in codes(graph)


def test_a_problem_names_the_file_that_a_frame_was_read_from(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "ships.csv").write_text("code,name,crew\nq,Q,100\nr,name of a,1\n")
    ships = spark.read.csv(str(tmp_path / "ships.csv"), header=True, schema="code string, name string, crew int")
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Ship": ships})
    assert {(each.id, each.file) for each in caught.value.violations} == {
        ("q", str(tmp_path / "ships.csv")),
        ("r", str(tmp_path / "ships.csv")),
    }
    # A row that was joined comes from no one file. PySpark would log what it cannot do.
    logger, log = PySparkLogger.getLogger("DataFrameQueryContextLogger"), StringIO()
    handler = logging.StreamHandler(log)
    logger.addHandler(handler)
    try:
        with pytest.raises(ValidationError) as caught:
            graph.load(nodes={"Ship": ships.join(ships.select("code"), "code")})
    finally:
        logger.removeHandler(handler)
    assert log.getvalue() == ""
    assert {(each.id, each.file) for each in caught.value.violations} == {
        ("q", "nodes['Ship']"),
        ("r", "nodes['Ship']"),
    }


def test_wrong_columns_are_refused_before_anything_is_read(spark: SparkSession, graph: Graph) -> None:
    def never(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise AssertionError("something was read")

    ships = spark.range(1).mapInArrow(never, "code string, nam string, crew string")
    with pytest.raises(ParameterError) as caught:
        graph.load(nodes={"Ship": ships})
    assert "no property 'nam', did you mean 'name'?" in caught.value.message
    assert "column 'crew' is string, which is no I32?" in caught.value.message
    assert "column 'name' is missing" in caught.value.message


# --------------------------------------------------------------------------------------------- quarantine


@pytest.mark.usefixtures("spark", "many")
def test_quarantine_has_the_same_records_as_in_this_process(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = omnigraph.open(shutil.copytree(template, tmp_path / "here.og"))
    there = omnigraph.open(shutil.copytree(template, tmp_path / "there.og"))
    file = file_of(tmp_path / "wrong.jsonl", WRONG)
    local = here.load(file, on_error="quarantine", rejects=tmp_path / "rejects.jsonl")
    with monkeypatch.context() as driver:
        # What executors do, they do elsewhere.
        driver.setattr(pq, "ParquetWriter", done_here)
        driver.setattr(StagedRows, "_scan", done_here)
        driver.setattr(row_admission, "format_records", done_here)
        result = there.load(file, on_error="quarantine", rejects=tmp_path / "rejects.parquet", engine="spark")
    assert content(there) == content(here)
    assert (result.nodes, result.edges, result.rejected) == (local.nodes, local.edges, local.rejected)
    rows = pq.read_table(str(result.rejects_path))
    assert rows.column_names == ["record", "file", "line", "type", "id", "rule", "message", "table_key"]
    told = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text("utf-8").splitlines()]
    assert places_and_records(rows.to_pylist()) == places_and_records(told)
    third = omnigraph.open(shutil.copytree(template, tmp_path / "third.og"))
    third.load(file, on_error="quarantine", rejects=tmp_path / "third.jsonl", engine="spark")
    lines = [json.loads(line) for line in (tmp_path / "third.jsonl").read_text("utf-8").splitlines()]
    assert places_and_records(lines) == places_and_records(told)
    again = there.load(file, on_error="quarantine", engine="spark", check=True)
    # Now there is a 'z' already, and an edge more from 'b' would be its third.
    assert (again.rejected, again.rejects_path) == (result.rejected + 2, None)
    assert leftovers(there) == [
        *("here.og", "rejects.jsonl", "rejects.parquet"),
        *("third.jsonl", "third.og", "wrong.jsonl"),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("spark", "eight_partitions")
def test_more_records_are_rejected_than_a_filter_lists(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = omnigraph.open(shutil.copytree(template, tmp_path / "here.og"))
    there = omnigraph.open(shutil.copytree(template, tmp_path / "there.og"))
    wrong = [tow(f"nobody {number}", "a") for number in range(MAX_LISTED_VALUES + 100)]
    file = file_of(tmp_path / "wrong.jsonl", [ship("d"), *wrong, ship("b"), ship("b"), tow("d", "a")])
    local = here.load(file, on_error="quarantine", rejects=tmp_path / "rejects.jsonl")
    with monkeypatch.context() as driver:
        driver.setattr(row_admission, "format_records", done_here)
        driver.setattr(set_rules, "describe_violation", done_here)
        result = there.load(file, on_error="quarantine", rejects=tmp_path / "rejects.parquet", engine="spark")
    assert result.rejected == local.rejected == len(wrong) + 2
    assert (result.nodes, result.edges) == (local.nodes, local.edges)
    assert codes(there) == codes(here)
    told = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text("utf-8").splitlines()]
    assert places_and_records(pq.read_table(str(result.rejects_path)).to_pylist()) == places_and_records(told)


def places_and_records(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return sorted(((row["line"], row["file"], row["record"], row["rule"], row["type"]) for row in rows), key=str)


# --------------------------------------------------------------------------------------------- branches and commits


def test_a_branch_without_forks_is_handed_its_tables(spark: SparkSession, graph: Graph) -> None:
    graph.create_branch("x")
    main = content(graph)
    ships = spark.createDataFrame([("a", "Anna"), ("d", "D")], "code string, name string")
    result = graph.load(nodes={"Ship": ships}, mode="merge", branch="x")
    assert codes(graph, "x") == {"a": "Anna", "b": "name of b", "c": "name of c", "d": "D"}
    assert content(graph) == main
    assert [commit.message for commit in graph.commits("x", limit=2)] == [None, HANDOFF_MESSAGE]
    assert {pin.type_name: pin.branch for pin in graph.snapshot("x").pins.values()} == {
        "Ship": "x",
        "Note": None,
        "Tows": None,
        "About": None,
    }
    assert result.branch == "x"


@pytest.mark.slow
@pytest.mark.usefixtures("many")
def test_a_branch_is_made_for_a_load_that_succeeds(spark: SparkSession, graph: Graph) -> None:
    wrong = spark.createDataFrame([("a", "Anna")], "code string, name string")
    with pytest.raises(KeyConflict):
        graph.load(nodes={"Ship": wrong}, branch="new", from_branch="main")
    assert [branch.name for branch in graph.branches()] == ["main"]
    graph.load(nodes={"Ship": wrong}, mode="merge", branch="new", from_branch="main")
    assert (codes(graph, "new")["a"], codes(graph)["a"]) == ("Anna", "name of a")


def test_the_same_txn_is_loaded_once(spark: SparkSession, graph: Graph) -> None:
    ships = spark.createDataFrame([("d", "D")], "code string, name string")
    first = graph.load(nodes={"Ship": ships}, txn=("app", 3))
    again = graph.load(nodes={"Ship": ships}, txn=("app", 3))
    assert (first.replayed, again.replayed, again.commit, again.engine) == (False, True, first.commit, "spark")


def test_a_check_writes_nothing_and_a_reader_may_ask_for_it(spark: SparkSession, graph: Graph) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(graph.uri).rglob("*") if path.is_file()}
    reader = omnigraph.open(graph.uri, mode="ro")
    ships = spark.createDataFrame([("d", "D")], "code string, name string")
    result = reader.load(nodes={"Ship": ships}, check=True)
    assert (result.commit, result.nodes) == (None, {"Ship": 1})
    assert {path: path.stat().st_mtime_ns for path in Path(graph.uri).rglob("*") if path.is_file()} == before
    assert leftovers(graph) == []
    with pytest.raises(ReadOnly):
        reader.load(nodes={"Ship": ships})


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("mode", daily(["append", "merge"], ["append"]))
def test_what_others_write_meanwhile_is_checked_again(spark: SparkSession, graph: Graph, mode: LoadMode) -> None:
    ships = spark.createDataFrame([("d", "D"), ("e", "E")], "code string, name string")
    with meanwhile(lambda: graph.mutate(INSERT), "table.audit"):
        graph.load(nodes={"Ship": ships}, mode=mode)
    assert codes(graph).keys() == {"a", "b", "c", "d", "e", "other"}


def test_an_overwrite_of_what_others_write_meanwhile_is_a_conflict(spark: SparkSession, graph: Graph) -> None:
    ships = spark.createDataFrame([("a", "A"), ("b", "B")], "code string, name string")
    with (
        pytest.raises(ExpectedVersionMismatch),
        meanwhile(lambda: graph.mutate(INSERT), "table.audit"),
    ):
        graph.load(nodes={"Ship": ships}, mode="overwrite")
    assert codes(graph).keys() == {"a", "b", "c", "other"}


def test_a_name_that_others_take_meanwhile_is_a_violation(spark: SparkSession, graph: Graph) -> None:
    ships = spark.createDataFrame([("d", "o")], "code string, name string")
    with (
        pytest.raises(ValidationError, match="value 'o' is held by 'd' and 'other'"),
        meanwhile(lambda: graph.mutate(INSERT), "table.audit"),
    ):
        graph.load(nodes={"Ship": ships}, mode="merge")
    assert "d" not in codes(graph)


@pytest.mark.usefixtures("many")
def test_a_row_that_others_replace_meanwhile_is_replaced_where_it_lies_then(spark: SparkSession, graph: Graph) -> None:
    ships = spark.createDataFrame([("a", "Anna")], "code string, name string")
    update = 'query q() { update Ship set { crew: 5 } where code = "a" }'
    with meanwhile(lambda: graph.mutate(update), "table.audit"):
        graph.load(nodes={"Ship": ships}, mode="merge")
    assert codes(graph) == {"a": "Anna", "b": "name of b", "c": "name of c"}


# --------------------------------------------------------------------------------------------- faults and bad input


def test_nothing_is_seen_of_a_load_that_fails_in_the_middle(spark: SparkSession, graph: Graph) -> None:
    def broken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = cast("list[int]", batch.column(0).to_pylist())
            yield pa.record_batch({"code": [f"s{each}" for each in numbers], "name": [f"S{each}" for each in numbers]})
            if 3 in numbers:
                raise ValueError("the disk is on fire")

    before = (written(graph), leftovers(graph))
    ships = spark.range(0, 4, 1, 2).mapInArrow(broken, "code string, name string")
    with pytest.raises(StorageError, match="reading a load failed on Spark"):
        graph.load(nodes={"Ship": ships})
    assert (written(graph), leftovers(graph)) == before
    graph.load(nodes={"Ship": spark.createDataFrame([("s3", "S3")], "code string, name string")})
    assert codes(graph).keys() == {"a", "b", "c", "s3"}


@pytest.mark.usefixtures("spark")
def test_files_that_cannot_be_read(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="none"):
        graph.load(tmp_path / "none.jsonl", engine="spark")
    hidden = file_of(tmp_path / "_hidden.jsonl", [ship("d")])
    with pytest.raises(ParameterError, match="begins with '_'"):
        graph.load(hidden, engine="spark")
    empty = file_of(tmp_path / "empty.jsonl", [])
    assert graph.load(empty, engine="spark").commit is None


def test_which_engine_is_taken(
    spark: SparkSession, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = file_of(tmp_path / "d.jsonl", [ship("d")])
    empty = spark.createDataFrame([], "code string, name string")
    caplog.set_level(logging.INFO, "omnigraph")
    assert graph.load(file, check=True).engine == "local"
    assert "on Spark" not in caplog.text
    assert graph.load(nodes={"Ship": empty}).engine == "spark"
    assert "the load runs on Spark" in caplog.text
    monkeypatch.setattr(engine_choice, "SPARK_MIN_BYTES", 10)
    assert graph.load(file, check=True).engine == "spark"
    assert graph.load(file, check=True, engine="local").engine == "local"
    assert graph.load([ship("d")], check=True).engine == "local"

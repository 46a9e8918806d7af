"""Runs of pipelines on a real Spark: what is right becomes one commit on a branch, what is wrong changes nothing."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import date
from io import StringIO
from logging import StreamHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import PipelineError, Problem, ValidationError
from omnigraph.graph import Graph
from omnigraph.spark.pipeline.problems import LOGGERS
from omnigraph.spark.pipeline.run import SAMPLE_ROWS, PipelineResult, check_pipeline, run_pipeline
from omnigraph.spark.pipeline.step_recorder import PipelineStep
from omnigraph.spark.query import run as spark_query
from omnigraph.storage.tables import Table
from omnigraph.write.load import RecordCounts
from tests.pipeline.pipelines import GOOD, changed, make_project, places, planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run: TypeAlias = Callable[..., PipelineResult]


class Watched:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, int | None]] = []

    def on_start(self, step: PipelineStep) -> None:
        self.told.append(("begun", step.kind, step.name, step.rows))

    def on_end(self, step: PipelineStep) -> None:
        self.told.append(("ended", step.kind, step.name, step.rows))


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make_project(tmp_path)


@pytest.fixture
def run(graph: Graph, tmp_path: Path, spark: SparkSession) -> Run:
    def run(text: str, *, check: bool = False, watch: Watched | None = None, **environment: str) -> PipelineResult:
        plan = planned(graph, tmp_path, text, environment)
        return (check_pipeline if check else run_pipeline)(plan, lambda: graph.spark(spark), watch or Watched())

    return run


def failing(run: Run, text: str, **environment: str) -> list[Problem]:
    with pytest.raises(PipelineError) as failed:
        run(text, **environment)
    return list(failed.value.problems)


def names(graph: Graph, branch: str) -> list[object]:
    return sorted(row["name"] for row in graph.nodes("Person", branch=branch).to_arrow().to_pylist())


def nothing_happened(graph: Graph, spark: SparkSession) -> None:
    assert [branch.name for branch in graph.branches()] == ["main"]
    assert len(graph.commits()) == 1
    assert not {"people", "links", "adults"} & {each.name for each in spark.catalog.listTables()}


def test_files_become_one_commit_on_a_branch(graph: Graph, spark: SparkSession, run: Run) -> None:
    watch = Watched()
    result = run(GOOD, watch=watch)
    assert (result.load.engine, result.load.branch) == ("spark", "load/june")
    assert (dict(result.load.nodes), dict(result.load.edges), result.rows) == ({"Person": 2}, {"Knows": 1}, 3)
    assert result.passed
    assert [(each.check.name, each.rows) for each in result.checks] == [("young", 0)]
    assert names(graph, "load/june") == ["ann", "cas"]
    assert names(graph, "main") == []
    head = graph.commits("load/june")[0]
    assert result.load.commit == head
    assert head.message == "pipeline june.pipeline.yaml"
    assert not {"people", "links", "adults"} & {each.name for each in spark.catalog.listTables()}
    assert [(kind, name, rows) for when, kind, name, rows in watch.told if when == "ended"] == [
        ("spark", "Spark", None),
        ("source", "people", None),
        ("source", "links", None),
        ("view", "adults", None),
        ("map", "Person", None),
        ("map", "Knows", None),
        ("load", "load/june", 3),
        ("check", "young", 0),
    ]
    assert 0 < result.load_seconds < result.seconds
    assert result.rows_per_second == pytest.approx(3 / result.load_seconds)


def test_a_second_run_changes_nothing(graph: Graph, run: Run) -> None:
    text = changed("from: main", "from: main, merge_into: main, identity: {Knows: [from, to]}")
    first = run(text)
    assert first.merged is not None
    assert first.merged.commit is not None
    commits = graph.commits()
    again = run(text)
    assert (again.load.commit, again.rows, again.passed) == (None, first.rows, True)
    assert again.merged is not None
    assert again.merged.commit is None
    assert (graph.commits("load/june"), graph.commits()) == (commits, commits)


NIGHTLY: Final = changed(
    "from: main",
    'from: main, merge_into: main, identity: {Knows: [from, to]}, txn: {app: nightly, number: "${NIGHT}"}',
    changed("name: young, params: {limit: 18}", "name: old, params: {limit: 99}"),
)


def write_people(folder: Path, **ages: int) -> None:
    rows = "".join(f"{name},{age}\n" for name, age in ages.items())
    (folder / "raw" / "people" / "one.csv").write_text(f"full_name,age\n{rows}", "utf-8")


def ages(graph: Graph) -> dict[str, int]:
    return {row["name"]: row["age"] for row in graph.nodes("Person").to_arrow().to_pylist()}


def test_a_night_begins_at_main_also_after_changes_there(graph: Graph, tmp_path: Path, run: Run) -> None:
    assert run(NIGHTLY, NIGHT="1").merged is not None
    graph.mutate('query q() { update Person set { age: 31 } where name = "ann"  insert Person { name: "zoe" } }')
    links = {"a": ["ann", "ann"], "b": ["cas", "zoe"], "since": pa.array([2019, 2020], pa.int32())}
    pq.write_table(pa.table(links), tmp_path / "raw" / "links.parquet")
    second = run(NIGHTLY, NIGHT="2")
    assert second.merged is not None
    assert second.merged.commit is not None
    assert second.merged.commit.txn == ("nightly", 2)
    assert ages(graph) == {"ann": 30, "cas": 44, "zoe": None}
    assert graph.edges("Knows").to_arrow().num_rows == 2


def test_a_rejected_night_is_repeated_after_its_correction(graph: Graph, tmp_path: Path, run: Run) -> None:
    write_people(tmp_path, ann=30, methuselah=969)
    rejected = run(NIGHTLY, NIGHT="1")
    assert (rejected.passed, rejected.merged, ages(graph)) == (False, None, {})
    (tmp_path / "raw" / "people" / "two.csv").write_text("full_name,age\ncas,forty-four\n", "utf-8")
    failing(run, NIGHTLY, NIGHT="1")
    assert "methuselah" in names(graph, "load/june"), "a run that fails leaves the rejected rows to look at"
    (tmp_path / "raw" / "people" / "two.csv").write_text("full_name,age\ncas,44\n", "utf-8")
    write_people(tmp_path, ann=30)
    corrected = run(NIGHTLY, NIGHT="1")
    assert (corrected.passed, corrected.load.replayed, ages(graph)) == (True, False, {"ann": 30, "cas": 44})
    again = run(NIGHTLY, NIGHT="1")
    assert (again.load.replayed, again.load.branch, again.checks, again.merged) == (True, "main", (), None)
    assert corrected.merged is not None
    assert again.load.commit == corrected.merged.commit


@pytest.mark.slow
def test_a_run_with_a_number_is_loaded_once(graph: Graph, run: Run) -> None:
    text = changed("from: main", 'from: main, txn: {app: nightly, number: "${NIGHT}"}')
    first = run(text, NIGHT="7")
    assert first.load.commit is not None
    assert first.load.commit.txn == ("nightly", 7)
    again = run(text, NIGHT="7")
    assert (again.load.replayed, again.load.commit) == (True, first.load.commit)
    # Nothing changed, and yet the number is kept.
    later = run(text, NIGHT="8").load
    assert (later.replayed, later.commit and later.commit.txn) == (False, ("nightly", 8))
    assert names(graph, "load/june") == ["ann", "cas"]


def test_a_check_that_finds_something_leaves_the_branch(graph: Graph, run: Run) -> None:
    result = run(changed("name: young, params: {limit: 18}", "name: old, params: {limit: 18}"))
    assert not result.passed
    (check,) = result.checks
    assert (check.rows, sorted(str(row["p.name"]) for row in check.sample)) == (2, ["ann", "cas"])
    assert names(graph, "load/june") == ["ann", "cas"]


class ScannedTables(Watched):
    """Notes which tables of rows this process scans during a check."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.tables: list[str] = []
        self._is_check = False
        scan = cast("Callable[..., pa.RecordBatchReader]", Table.scan)

        def note(table: Table, *args: object, **more: object) -> pa.RecordBatchReader:
            if self._is_check and "__manifest" not in table.uri:
                self.tables.append(table.uri)
            return scan(table, *args, **more)

        monkeypatch.setattr(Table, "scan", note)

    def on_start(self, step: PipelineStep) -> None:
        self._is_check = step.kind == "check"

    def on_end(self, step: PipelineStep) -> None:
        self._is_check = self._is_check and step.kind != "check"


@pytest.mark.slow
def test_executors_read_the_rows_of_a_check(graph: Graph, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    people = [{"type": "Person", "data": {"name": f"p{number}", "age": number}} for number in range(40)]
    graph.load(people, branch="load/june", from_branch="main")
    text = changed("name: young, params: {limit: 18}", "name: old, params: {limit: 18}")
    watch = ScannedTables(monkeypatch)
    assert run(text, watch=watch).checks[0].rows == 23
    assert len(watch.tables) == 1, "a small check is computed here"
    watch.tables.clear()
    monkeypatch.setattr(spark_query, "MAX_LOCAL_BYTES", 0)
    (check,) = run(text, watch=watch).checks
    assert (check.rows, len(check.sample)) == (23, SAMPLE_ROWS)
    assert {key: type(value) for key, value in check.sample[0].items()} == {"p.name": str, "p.age": int}
    assert watch.tables == []


def test_rows_that_break_rules_are_all_told_and_change_nothing(
    graph: Graph, tmp_path: Path, spark: SparkSession, run: Run
) -> None:
    people = tmp_path / "raw" / "people"
    (people / "three.csv").write_text("full_name,age\nann,31\n,20\n")
    links = {"a": ["ann"], "b": ["nobody"], "since": pa.array([2019], pa.int32())}
    pq.write_table(pa.table(links), tmp_path / "raw" / "links.parquet")
    with pytest.raises(ValidationError) as failed:
        run(GOOD, check=True)
    found = {(each.type, each.rule, each.value): each for each in failed.value.violations}
    assert found.keys() == {
        ("Person", "required", None),
        ("Person", "@key(name)", "ann"),
        ("Knows", "edge Knows: Person -> Person", "nobody"),
    }
    assert found["Person", "required", None].file == str(people / "three.csv")
    twice = found["Person", "@key(name)", "ann"]
    # Which of two files comes first is Spark's choice.
    assert {str(people / "one.csv"), str(people / "three.csv")} == {twice.file, twice.message.rpartition(" in ")[2]}
    with pytest.raises(ValidationError):
        run(GOOD)
    nothing_happened(graph, spark)


@pytest.mark.slow
def test_a_check_of_rows_that_are_right_writes_nothing(graph: Graph, spark: SparkSession, run: Run) -> None:
    result = run(GOOD, check=True)
    assert (dict(result.load.nodes), result.load.commit, result.checks) == ({"Person": 2}, None, ())
    nothing_happened(graph, spark)


def test_what_spark_finds_in_mappings_is_told_together_before_a_row_is_read(
    graph: Graph, spark: SparkSession, run: Run
) -> None:
    text = changed("SELECT * FROM people WHERE cast(age AS int) >= 18", "SELECT full_name AS name, age FROM people")
    text = changed("{name: full_name, age: cast(age AS int)}", "{name: full_name, age: upper(age)}", text)
    text = changed("columns: {since: since}", "columns: {since: since +}", text)
    problems = failing(run, text)
    assert places(problems) == [("P207", 10, 42), ("P303", 12, 57)]
    assert problems[0].message == "'adults' has no column 'full_name'"
    text = changed("since: since +", "since: '*'", changed("name: full_name", "name: name", text))
    wrong = failing(run, changed("upper(age)", '"map(name, age)"', text))[0]
    assert wrong.message.startswith("Person.age is I32?, but this is map<")
    problems = failing(run, text)
    assert [(each.code, each.position.line, each.message) for each in problems] == [
        ("P204", 10, "Person.age is I32?, but this is string"),
        ("P303", 12, "'*' has 3 columns"),
    ]
    nothing_happened(graph, spark)


def test_sources_that_spark_cannot_read_are_told_together_without_secrets(
    graph: Graph, spark: SparkSession, run: Run
) -> None:
    text = changed("path: raw/people/*.csv", "path: '/nowhere/${TOKEN}/*.csv'")
    text = changed("format: parquet, path: raw/links.parquet", "format: nosuch, path: raw/links.parquet", text)
    text = changed("views:", "  other: {sql: SELECT * FROM no.such_table}\nviews:", text)
    problems = failing(run, text, TOKEN="xyzzy")  # noqa: S106  nobody has it
    assert [(each.code, each.position.line) for each in problems] == [("P302", 5), ("P302", 6), ("P302", 7)]
    assert "/nowhere/${TOKEN}/*.csv" in problems[0].message
    assert "xyzzy" not in "".join(each.render() for each in problems)
    assert problems[1].message.startswith("source 'links': Failed to find the data source: nosuch")
    nothing_happened(graph, spark)


@pytest.mark.slow
def test_what_pyspark_would_log_of_a_failure_is_not_logged(run: Run) -> None:
    from pyspark.logger import PySparkLogger

    logged = StringIO()
    handler = StreamHandler(logged)
    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        text = changed("SELECT * FROM people WHERE cast(age AS int) >= 18", "SELECT full_name, age FROM people")
        text = changed("name: full_name", "name: \"concat('${TOKEN}', nobody)\"", text)
        (problem,) = failing(run, text, TOKEN="xyzzy")  # noqa: S106  nobody has it
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    assert problem.code == "P207"
    assert logged.getvalue() == ""
    assert [logger.disabled for logger in loggers] == [False, False]


def test_every_wrong_view_is_told_and_none_that_only_needs_a_wrong_one(
    graph: Graph, spark: SparkSession, run: Run
) -> None:
    views = "  seniors: SELECT * FROM adults\n  lost: SELECT * FROM nobody\nnodes:"
    text = changed("nodes:", views, changed("SELECT * FROM people", "SELEC * FROM people"))
    text = changed("path: raw/people/*.csv", "path: /nowhere/*.csv", text)
    problems = failing(run, changed("columns: {since: since}", "columns: {since: since +}", text))
    assert places(problems) == [("P302", 5, 31), ("P303", 8, 11), ("P303", 10, 9), ("P303", 14, 57)]
    assert problems[1].message == "view 'adults': Syntax error at or near 'SELEC'."
    assert problems[2].message.startswith("view 'lost': The table or view `nobody` cannot be found.")
    nothing_happened(graph, spark)


def test_a_view_of_the_session_is_not_taken(spark: SparkSession, run: Run) -> None:
    spark.sql("SELECT 7 AS seven").createTempView("people")
    try:
        (problem,) = failing(run, GOOD)
        assert places([problem]) == [("P302", 5, 31)]
        assert "already exists" in problem.message
        assert spark.table("people").columns == ["seven"]
    finally:
        spark.catalog.dropTempView("people")


def test_a_value_that_cannot_be_cast_is_told_at_its_expression(
    graph: Graph, tmp_path: Path, spark: SparkSession, run: Run
) -> None:
    (tmp_path / "raw" / "people" / "two.csv").write_text("full_name,age\ncas,old\n")
    text = changed("  adults: SELECT * FROM people WHERE cast(age AS int) >= 18", "  adults: SELECT * FROM people")
    (problem,) = failing(run, text)
    assert places([problem]) == [("P304", 10, 58)]
    assert problem.message.startswith("Person.age: The value 'old'")
    nothing_happened(graph, spark)


@pytest.mark.slow
def test_a_file_that_is_corrupt_in_the_middle(graph: Graph, tmp_path: Path, spark: SparkSession, run: Run) -> None:
    path = tmp_path / "raw" / "links.parquet"
    rows = 20_000
    many = {"a": [f"p{n}" for n in range(rows)], "b": ["ann"] * rows, "since": pa.array(range(rows), pa.int32())}
    pq.write_table(pa.table(many), path, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[4:5000] = b"\xff" * 4996
    path.write_bytes(data)
    (problem,) = failing(run, GOOD)
    assert places([problem]) == [("P302", 6, 34)]
    assert "links.parquet" in problem.message
    nothing_happened(graph, spark)


@pytest.mark.slow
def test_a_file_that_was_cut(graph: Graph, tmp_path: Path, spark: SparkSession, run: Run) -> None:
    cut = tmp_path / "raw" / "people" / "three.csv.gz"
    whole = gzip.compress("".join(["full_name,age\n", *(f"p{n},{n}\n" for n in range(20_000))]).encode())
    cut.write_bytes(whole[: len(whole) // 2])
    (problem,) = failing(run, changed("path: raw/people/*.csv", "path: raw/people/*"))
    assert places([problem]) == [("P302", 5, 31)]
    assert "three.csv.gz" in problem.message
    nothing_happened(graph, spark)
    cut.unlink()
    assert dict(run(GOOD).load.nodes) == {"Person": 2}


@pytest.mark.slow
def test_json_orc_and_jdbc(graph: Graph, tmp_path: Path, spark: SparkSession, run: Run) -> None:
    raw, place = tmp_path / "raw", f"jdbc:derby:{tmp_path / 'people'}"
    (raw / "people.json").write_text('{"who": "dan", "when": "2020-02-29"}\n{"who": "eve"}\n')
    pa_orc.write_table(pa.table({"who": ["fay"], "age": pa.array([50], pa.int32())}), raw / "people.orc")
    database(spark, place, "CREATE TABLE people (name VARCHAR(9), age INT)", "INSERT INTO people VALUES ('gus', 7)")
    text = """
    version: 1
    graph: brain.og
    sources:
      some: {format: json, path: raw/people.json}
      more: {format: orc, path: raw/people.orc}
      most: {format: jdbc, options: {url: "${PLACE}", dbtable: people, driver: org.apache.derby.jdbc.EmbeddedDriver}}
    views:
      people: >-
        SELECT who AS name, NULL AS age, cast(when AS date) AS joined FROM some
        UNION ALL SELECT who, age, NULL FROM more UNION ALL SELECT name, age, NULL FROM most
    nodes:
      Person: {view: people, columns: {name: name, age: age, joined: joined}}
    """
    result = run(text, PLACE=place)
    assert dict(result.load.nodes) == {"Person": 4}
    found = {(row["name"], row["age"], row["joined"]) for row in graph.nodes("Person").to_arrow().to_pylist()}
    assert found == {("dan", None, date(2020, 2, 29)), ("eve", None, None), ("fay", 50, None), ("gus", 7, None)}
    (problem,) = failing(
        run, changed(", driver: org.apache.derby.jdbc.EmbeddedDriver", "", text), PLACE="jdbc:no:xyzzy"
    )
    assert places([problem]) == [("P302", 6, 18)]
    assert problem.message == "source 'most': No suitable driver"
    assert "spark.jars" in str(problem.hint)


def database(spark: SparkSession, url: str, *statements: str) -> None:
    """Make a database with the one that comes with Spark."""
    # PySpark has no other way to Java, and says nothing of its types.
    java = cast("Any", spark)._jvm.java
    java.lang.System.setProperty("derby.stream.error.file", "/dev/null")
    connection = java.sql.DriverManager.getConnection(f"{url};create=true")
    for statement in statements:
        connection.createStatement().execute(statement)
    connection.close()


def test_rejected_rows_are_kept_beside_the_graph(tmp_path: Path, run: Run) -> None:
    links = {"a": ["ann", "ann"], "b": ["cas", "nobody"], "since": pa.array([2019, 2020], pa.int32())}
    pq.write_table(pa.table(links), tmp_path / "raw" / "links.parquet")
    result = run(changed("from: main", "from: main, on_error: quarantine"))
    assert (result.rows, result.load.rejected, result.passed) == (3, 1, True)
    assert result.load.counts["edge:Knows"] == RecordCounts(inserted=1, rejected=1)
    assert result.load.total.read == 4
    assert result.load.rejects_path is not None
    (rejected,) = pq.read_table(result.load.rejects_path).to_pylist()
    assert (rejected["type"], rejected["rule"]) == ("Knows", "edge Knows: Person -> Person")
    assert "nobody" in rejected["message"]


def test_plain_columns_of_parquet_files_are_read_by_tasks(graph: Graph, tmp_path: Path, run: Run) -> None:
    # Only tasks that read files know the numbers of rows. A column that is not mapped is not read by its own name.
    (tmp_path / "raw" / "links.parquet").unlink()
    for name, ends in (("1", ["ann", "cas"]), ("2", ["cas", "nobody"])):
        links = {"A": ["ann", "cas"], "b": ends, "since": pa.array([7, 8], pa.int32()), "id": ["x", "y"]}
        pq.write_table(pa.table(links), tmp_path / "raw" / f"links-{name}.part")
    text = changed("path: raw/links.parquet", "path: raw/links-*.part", changed("since: since", "since: Since"))
    with pytest.raises(ValidationError) as failed:
        run(text, check=True)
    (found,) = failed.value.violations
    assert (found.file, found.line, found.value) == (str(tmp_path / "raw" / "links-2.part"), 2, "nobody")
    (tmp_path / "raw" / "links-2.part").unlink()
    assert run(text).load.edges == {"Knows": 2}
    branch = graph.edges("Knows", branch="load/june").to_arrow().to_pylist()
    assert sorted((row["from"], row["to"], row["since"]) for row in branch) == [("ann", "ann", 7), ("cas", "cas", 8)]
    assert not {"x", "y"} & {row["id"] for row in branch}


@pytest.mark.slow
def test_spaces_in_paths_empty_sources_and_composite_keys(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "a b [1]"
    graph = make_project(folder)
    (folder / "raw" / "people" / "one.csv").write_text("full_name,age\n")
    (folder / "more legs").mkdir()
    pq.write_table(pa.table({"l": ["N1"], "s": pa.array([7], pa.int32())}), folder / "more legs" / "x y.parquet")
    text = """
    version: 1
    graph: brain.og
    sources:
      people: {format: csv, path: raw/people/*.csv, options: {header: true}}
      nobody: {format: csv, path: raw/people/one.csv, options: {header: true}}
      legs: {format: parquet, path: more legs/*.parquet}
    views:
      rides: SELECT p.full_name, l.l, l.s FROM people p CROSS JOIN legs l
    nodes:
      Person: {view: people, columns: {name: full_name}}
      Leg: {view: legs, columns: {line: l, seq: s}}
      Note: {view: nobody, columns: {text: full_name}}
    edges:
      Rides: {view: rides, from: full_name, to: {seq: s, line: l}}
    """
    result = run_pipeline(planned(graph, folder, text), lambda: graph.spark(spark), Watched())
    assert dict(result.load.nodes) == {"Leg": 1, "Note": 0, "Person": 1}
    assert [row["to"] for row in graph.edges("Rides").to_arrow().to_pylist()] == ['["N1","7"]']


@pytest.mark.slow
def test_an_update_changes_what_is_mapped(graph: Graph, run: Run) -> None:
    text = changed("mode: merge, branch: load/june, from: main", "mode: update, identity: {Knows: [from, to]}")
    text = changed("since: since", "since: 7", text)
    people = [{"type": "Person", "data": {"name": name, "joined": "2024-01-01"}} for name in ("ann", "cas")]
    graph.load([*people, {"edge": "Knows", "from": "ann", "to": "cas", "data": {"since": 1}}])
    assert run(text).load.mode == "update"
    rows = graph.nodes("Person").to_arrow().to_pylist()
    assert sorted((row["name"], row["age"], row["joined"]) for row in rows) == [
        ("ann", 30, date(2024, 1, 1)),
        ("cas", 44, date(2024, 1, 1)),
    ]
    assert [row["since"] for row in graph.edges("Knows").to_arrow().to_pylist()] == [7]
    again = run(text)
    assert again.load.commit is None

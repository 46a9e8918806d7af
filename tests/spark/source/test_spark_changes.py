"""The changes of a branch as a stream of Spark: the rows of ``graph.changes``, each commit whole and never twice.

What the reader says and reads is asked of it here, as Spark asks it; queries show that Spark does so.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import orjson
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from omnigraph.errors import ChangeGap, NotFound, OmniGraphError, ParameterError, Unsupported
from omnigraph.graph import Graph
from omnigraph.read.changes.feed import Changes
from omnigraph.spark.data_source import OmniGraphSource
from omnigraph.spark.source import change_parts
from omnigraph.spark.source.change_stream import (
    _MAX_TASKS,
    CHANGE_STREAM_SCHEMA,
    ChangeStreamReader,
    CommitPart,
    CommitRange,
    parse_stream_options,
)
from omnigraph.storage import tables
from tests.spark.stream.spark_streams import ended
from tests.write.merge.social_graph import edit, knows, make, person

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row: TypeAlias = "dict[str, object]"
Offset: TypeAlias = "dict[str, str]"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make(tmp_path, {"ann": person(30), "bob": person(31)}, {"a-b": knows("ann", "bob")})


def fed(blocks: Changes) -> list[Row]:
    """What the feed has, as rows of a stream."""
    found: list[Row] = []
    for block in blocks:
        commit = block.commit
        cause = {name: getattr(commit, name) for name in ("branch", "actor", "message", "created_at")}
        for record in block.records():
            images = {name: None if record[name] is None else orjson.dumps(record[name]).decode() for name in IMAGES}
            found.append({"commit": commit.id, "parents": list(commit.parents), **cause, **record, **images})
    return found


IMAGES = ("before", "after")


# --------------------------------------------------------------------------------------------- as Spark asks


def reader_of(graph: Graph, **options: str) -> ChangeStreamReader:
    return ChangeStreamReader(parse_stream_options({"path": graph.uri, "changes": "true", **options}))


def batch(reader: ChangeStreamReader, start: Offset) -> tuple[list[Row], Offset]:
    """The rows of the next batch after an offset, and where it ends."""
    end = reader.latestOffset(start, ReadAllAvailable())
    rows = [row for part in reader.partitions(start, end) for row in reader.read(part)]
    return [dict(zip(CHANGE_STREAM_SCHEMA.names, row, strict=True)) for row in rows], end


def test_offsets_are_commits_and_batches_what_the_feed_has(graph: Graph) -> None:
    reader = reader_of(graph, start="beginning")
    first, end = batch(reader, reader.initialOffset())
    assert len(first) == 3
    assert first == fed(graph.changes("beginning"))
    assert batch(reader, end) == ([], end)
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(40), "cid": person(1)})
    graph.merge("dev", actor="ines")
    edit(graph, people={"bob": None}, knows={"a-b": None})
    second, last = batch(reader, end)
    assert [row["op"] for row in second] == ["updated", "inserted", "deleted", "deleted"]
    assert [*first, *second] == fed(graph.changes("beginning"))
    # Spark keeps the ends of batches and nothing else: another reader goes on there.
    edit(graph, people={"cid": person(2)})
    third, _ = batch(reader_of(graph, start="now"), last)
    assert [row["id"] for row in third] == ["cid"]


def test_a_large_commit_is_read_by_several_tasks(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_parts, "ROWS_PER_TASK", 10)
    reader = reader_of(graph, start="now")
    begins = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    crowd = {f"p{number}": person(number) for number in range(45)}
    edit(graph, people=crowd)
    edit(graph, people={name: person(100 + number) for number, name in enumerate(list(crowd)[:35])})
    graph.optimize()
    edit(graph, people={name: person(145 - number) if number % 3 else None for number, name in enumerate(crowd)})
    edit(graph, people={"ann": person(1)})
    end = reader.latestOffset(begins, ReadAllAvailable())
    parts = reader.partitions(begins, end)
    shares = [part.part for part in parts if isinstance(part, CommitPart)]
    assert {share.count for share in shares} >= {4, 5}
    assert isinstance(parts[-1], CommitRange), "few rows are one task"
    found = [dict(zip(CHANGE_STREAM_SCHEMA.names, row, strict=True)) for part in parts for row in reader.read(part)]
    expected = fed(graph.changes(cursor=begins["cursor"]))
    assert len(found) == 45 + 35 + 45 + 1
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    # Rows that meet by their ids are spread over the tasks.
    updates = [list(reader.read(part)) for part in parts if isinstance(part, CommitPart) and part.part.count == 4]
    assert sum(1 for rows in updates if rows) > 1


@pytest.mark.parametrize("type_", ["Knows", "Knows, Person"])
def test_only_some_types_are_followed(graph: Graph, type_: str) -> None:
    edit(graph, people={"cid": person(1)})
    edit(graph, knows={"a-b": None})
    reader = reader_of(graph, start="beginning", type=type_)
    names = [name.strip() for name in type_.split(",")]
    rows, end = batch(reader, reader.initialOffset())
    assert rows == fed(graph.changes("beginning", types=names))
    assert {row["type"] for row in rows} == {*names}
    with pytest.raises(ParameterError, match="the cursor follows edge:Knows"):
        reader_of(graph, type="Person").latestOffset(end, ReadAllAvailable())


@pytest.mark.parametrize("start", ["now", "after:marked"])
def test_where_a_query_begins_is_the_end_of_its_first_batch(graph: Graph, start: str) -> None:
    graph.create_tag("marked")
    reader = reader_of(graph, start=start)
    begins = reader.initialOffset()
    edit(graph, people={"ann": person(1)})
    rows, kept = batch(reader, begins)
    assert rows == []
    # The batch is run again by a query that was told the same, when that is another place.
    graph.delete_tag("marked")
    graph.create_tag("marked")
    edit(graph, people={"ann": person(2)})
    again = reader_of(graph, start=start)
    assert again.partitions(again.initialOffset(), kept) == []
    rows, _ = batch(again, kept)
    assert [orjson.loads(str(row["after"]))["age"] for row in rows] == [1, 2]


def test_a_query_of_what_is_there_ends_where_it_began(graph: Graph) -> None:
    reader = reader_of(graph, start="beginning")
    reader.prepareForTriggerAvailableNow()
    edit(graph, people={"ann": person(1)})
    rows, end = batch(reader, reader.initialOffset())
    assert len(rows) == 3
    assert batch(reader, end) == ([], end)
    late = reader_of(graph)
    late.prepareForTriggerAvailableNow()
    edit(graph, people={"ann": person(2)})
    _, begins = batch(late, late.initialOffset())
    assert batch(late, begins) == ([], begins)


def test_a_batch_has_at_most_so_many_commits(graph: Graph) -> None:
    for age in range(5):
        edit(graph, people={"ann": person(age)})
    reader, everything = reader_of(graph, start="beginning", max_commits="2"), fed(graph.changes("beginning"))
    found: list[Row] = []
    counts: list[int] = []
    start = reader.initialOffset()
    while True:
        rows, end = batch(reader, start)
        if end == start:
            break
        found += rows
        counts.append(len({row["commit"] for row in rows}))
        start = end
    assert found == everything
    assert max(counts) <= 2
    assert len(counts) >= 3


def test_many_commits_are_few_tasks(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _MAX_TASKS > 2
    monkeypatch.setattr("omnigraph.spark.source.change_stream._MAX_TASKS", 2)
    for age in range(3):
        edit(graph, people={"ann": person(age)})
    reader = reader_of(graph, start="beginning")
    begins = reader.initialOffset()
    parts = reader.partitions(begins, reader.latestOffset(begins, ReadAllAvailable()))
    assert len(parts) == 2
    assert batch(reader, begins)[0] == fed(graph.changes("beginning"))


def test_a_branch_that_was_made_anew_is_refused(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(1)})
    reader = reader_of(graph, branch="dev", start="beginning")
    rows, end = batch(reader, reader.initialOffset())
    assert rows == fed(graph.changes("beginning", branch="dev"))
    graph.delete_branch("dev")
    with pytest.raises(NotFound, match="no branch 'dev'"):
        reader.latestOffset(end, ReadAllAvailable())
    graph.create_branch("dev")
    for other in (reader, reader_of(graph, branch="dev")):
        with pytest.raises(ParameterError, match="branch 'dev' was deleted and re-created"):
            other.latestOffset(end, ReadAllAvailable())
    with pytest.raises(ParameterError, match="the cursor belongs to branch 'dev', not to 'main'"):
        reader_of(graph).partitions(end, end | {"cursor": "other"})


def test_a_commit_that_is_gone_is_a_gap(graph: Graph) -> None:
    reader = reader_of(graph, start="beginning")
    begins = reader.initialOffset()
    with pytest.raises(ChangeGap, match="is no longer in the history") as raised:
        reader.partitions(begins, {"cursor": "one that nobody has seen"})
    assert "omnigraph changes baseline" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "sometimes"}, "start is 'sometimes'"),
        ({"types": "Person"}, "no option 'types', did you mean 'type'"),
        ({"at": "x", "branches": "x"}, r"no option 'at', .*; no option 'branches', did you mean 'branch'"),
        ({"type": "Persn"}, "no type 'Persn' in this graph"),
        ({"branch": "gone"}, "no branch 'gone'"),
        ({"start": "after:gone"}, "gone"),
        ({"path": ""}, "the path of the graph is missing"),
    ],
)
def test_bad_options_are_refused(graph: Graph, options: dict[str, str], message: str) -> None:
    with pytest.raises(OmniGraphError, match=message):
        reader_of(graph, **options).initialOffset()


def test_changes_are_no_table_and_rows_no_stream(graph: Graph) -> None:
    changes = OmniGraphSource({"path": graph.uri, "changes": "True"})
    assert changes.schema() == CHANGE_STREAM_SCHEMA
    with pytest.raises(Unsupported, match="changes can only be read as a stream"):
        changes.reader(CHANGE_STREAM_SCHEMA)
    rows = OmniGraphSource({"path": graph.uri, "type": "Person", "changes": "false"})
    assert rows.schema().names == ["id", "age", "mail", "name"]
    with pytest.raises(Unsupported, match="the rows of a type cannot be read as a stream"):
        rows.streamReader(rows.schema())
    with pytest.raises(ParameterError, match="option 'changes' is 'no'"):
        OmniGraphSource({"path": graph.uri, "changes": "no"}).schema()


# --------------------------------------------------------------------------------------------- as queries


def follow(
    spark: SparkSession, graph: Graph, checkpoint: Path, take: Callable[[DataFrame, int], None], **options: str
) -> str | None:
    """Have a query take all that is there; what it failed of, if it did."""
    frame = spark.readStream.format("omnigraph").options(**{"changes": "true", **options}).load(graph.uri)
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    return ended(writer.trigger(availableNow=True).start())


def test_a_query_goes_on_from_its_checkpoint(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    found: list[Row] = []

    def take(rows: DataFrame, number: int) -> None:
        del number
        # Only Arrow tells the time zone.
        found.extend(rows.toArrow().to_pylist())

    assert follow(spark, graph, tmp_path / "checkpoint", take, start="beginning") is None
    assert len(found) == 3
    for age in (1, 2):
        edit(graph, people={"ann": person(age), f"p{age}": person(1)})
    assert follow(spark, graph, tmp_path / "checkpoint", take, start="beginning") is None
    assert in_order(found) == in_order(fed(graph.changes("beginning")))


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [str(row[name]) for name in ("commit", "kind", "type", "id")])


@pytest.mark.slow
def test_a_first_batch_that_fails_loses_nothing(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    found: list[str] = []

    def fail(rows: DataFrame, number: int) -> None:
        raise OSError(f"no disk for batch {number} of {rows.columns}")

    def take(rows: DataFrame, number: int) -> None:
        del number
        found.extend(row.commit for row in rows.collect())

    assert "no disk for batch 0" in str(follow(spark, graph, tmp_path / "checkpoint", fail))
    made = edit(graph, people={"ann": person(1)})
    assert follow(spark, graph, tmp_path / "checkpoint", take) is None
    assert found == [made.id]


@pytest.mark.slow
def test_a_gap_ends_a_query_and_says_the_way_out(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    edit(graph, people={"ann": person(1)})
    edit(graph, people={"ann": person(2)})
    table = graph.snapshot().table("Person")
    tables.drop_versions(table, [table.version - 1])
    failed = follow(spark, graph, tmp_path / "gap", keep(tmp_path / "kept"), start="beginning")
    assert "ChangeGap: the changes of commit " in str(failed)
    assert "omnigraph changes baseline" in str(failed)


# --------------------------------------------------------------------------------------------- a driver that dies

# A driver that is killed takes its Spark with it, so it is another one than that of all tests.
SCRIPT = """
import os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
import omnigraph
from tests.spark.source.test_spark_changes import follow, keep
from tests.write.merge.social_graph import edit, person

folder = Path(sys.argv[1])
graph = omnigraph.open(folder / "merge.og")
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()

def take(rows, number):
    keep(folder / "kept")(rows, number)
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)

for age in range(4):
    follow(session, graph, folder / "checkpoint", take)
    edit(graph, people={"ann": person(age)})
"""


def keep(folder: Path) -> Callable[[DataFrame, int], None]:
    """A sink that knows batches by their numbers."""

    def take(rows: DataFrame, number: int) -> None:
        folder.mkdir(exist_ok=True)
        lines = [orjson.dumps([row.commit, row.id, row.after]) for row in rows.collect()]
        (folder / f"{number}.jsonl").write_bytes(b"\n".join(lines))

    return take


@pytest.mark.slow
def test_killed_when_a_batch_is_taken_the_next_driver_goes_on(
    spark: SparkSession, graph: Graph, tmp_path: Path
) -> None:
    begins = graph.commits()[0].id
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    # Its Java holds the same pipes, so this ends when Java has ended too.
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert sorted(path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")) == ["0", "1"]
    taken = (tmp_path / "kept" / "2.jsonl").read_bytes()
    edit(graph, people={"bob": person(1)})
    assert follow(spark, graph, tmp_path / "checkpoint", keep(tmp_path / "kept")) is None
    assert (tmp_path / "kept" / "2.jsonl").read_bytes() == taken, "the batch that was run again has the same rows"
    batches = [path.read_bytes() for path in sorted((tmp_path / "kept").iterdir())]
    kept = [orjson.loads(line) for lines in batches for line in lines.splitlines()]
    assert kept == [[row["commit"], row["id"], row["after"]] for row in fed(graph.changes(f"after:{begins}"))]
    assert len(kept) == 3

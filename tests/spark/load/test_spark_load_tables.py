"""Tables on Spark: the same graphs and the same problems, with file and line, as in this process."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import OmniGraphError, ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.spark import engine_choice, sized_frames
from omnigraph.spark.load import incoming_rows
from omnigraph.spark.load.sources import read_first_lines
from omnigraph.write.load.run import Engine
from tests.graphs import rows_of
from tests.selection import daily
from tests.spark.load.spark_loads import content, problems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  tags: [String]? }
node Stop { line: String  seq: I32  name: String?  @key(line, seq) }
edge Knows: Person -> Person { since: Date? }
edge Visits: Person -> Stop
node Photo { name: String @key  file: Blob? }
node Shape { name: String @key  at: DateTime?  made: DateTime?  sizes: [F64]?  place: Vector(2)?  look: String? }
edge Near: Shape -> Shape
"""
PEOPLE = [
    {"name": f"p{number}", "age": number, "born": "1983-02-28", "tags": json.dumps([f"t{number}"])}
    for number in range(300)
]


def both(tmp_path: Path) -> tuple[Graph, Graph]:
    """Two empty graphs: one for this process, one for Spark."""
    here, there = (omnigraph.init(tmp_path / name, SCHEMA) for name in ("local.og", "spark.og"))
    return here, there


def load_both(tmp_path: Path, **given: Any) -> tuple[dict[str, list[dict[str, object]]], ...]:
    """Load the same into two graphs, and return what they hold."""
    here, there = both(tmp_path)
    assert here.load(**given, engine="local").engine == "local"
    assert there.load(**given, engine="spark").engine == "spark"
    return content(here), content(there)  # pyright: ignore[reportReturnType]  JSON values are objects


def fail_both(tmp_path: Path, **given: Any) -> tuple[OmniGraphError, OmniGraphError]:
    here, there = both(tmp_path)
    found: list[OmniGraphError] = []
    runs: tuple[tuple[Graph, Engine], ...] = ((here, "local"), (there, "spark"))
    for graph, engine in runs:
        with pytest.raises(OmniGraphError) as caught:
            graph.load(**given, engine=engine)
        assert rows_of(graph, "Person") == []
        found.append(caught.value)
    return found[0], found[1]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:  # noqa: ARG001  it must run
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_csv(path: str, rows: Sequence[Mapping[str, object]]) -> str:
    lines = [",".join(rows[0]), *(",".join(map(_quote, row.values())) for row in rows)]
    Path(path).write_text("\n".join(lines) + "\n")
    return path


def _quote(value: object) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text or "\n" in text else text


def write_tables(kind: str) -> dict[str, str]:
    """The same people and stops in one format."""
    stops = pa.table({"line": ["N"] * 5, "seq": range(5), "label": [None, "a", "b", "c", "d"]})
    visits = pa.table({"who": ["p1", "p2"], "line": ["N", "N"], "number": [1, 4]})
    names = {"Stop": f"stops.{kind}", "Visits": f"visits.{kind}"}
    for table, name in ((stops, names["Stop"]), (visits, names["Visits"])):
        rows = table.to_pylist()
        match kind:
            case "parquet":
                pq.write_table(table, name)
            case "arrow":
                with ipc.new_file(name, table.schema) as writer:
                    writer.write_table(table, max_chunksize=2)
            case "jsonl":
                Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            case "csv.gz":
                write_csv("plain.csv", rows)
                Path(name).write_bytes(gzip.compress(Path("plain.csv").read_bytes()))
            case _:
                write_csv(name, rows)
    return names


@pytest.mark.parametrize("kind", daily(["csv", "csv.gz", "jsonl", "parquet", "arrow"], ["csv.gz"]))
def test_every_format_gives_the_same_graph_on_spark(folder: Path, kind: str) -> None:
    names = write_tables(kind)
    write_csv("people.csv", PEOPLE)
    here, there = load_both(
        folder,
        nodes={"Person": "people.csv", "Stop": names["Stop"]},
        edges={"Visits": names["Visits"]},
        columns={"Stop": {"name": "label"}, "Visits": {"from": "who", "to": ["line", "number"]}},
    )
    assert here == there
    assert (len(here["Person"]), len(here["Stop"]), len(here["Visits"])) == (300, 5, 2)


def test_columns_are_chosen_on_spark_as_in_this_process(folder: Path, spark: SparkSession) -> None:
    Path("people.csv").write_text("NAME,id\nann,41\nbob,42\n")
    pq.write_table(pa.table({"From": ["ann", "bob"], "to": ["bob", "ann"], "ID": ["k1", "k2"]}), "knows.parquet")
    here, there = both(folder)
    columns = {"Person": {"age": "id"}}
    frame = spark.read.parquet(str(folder / "knows.parquet"))
    results = [
        here.load(nodes={"Person": "people.csv"}, edges={"Knows": "knows.parquet"}, columns=columns),
        there.load(nodes={"Person": "people.csv"}, edges={"Knows": frame}, columns=columns),  # pyright: ignore[reportArgumentType]  as Arrow
    ]
    assert [each.engine for each in results] == ["local", "spark"]
    assert content(there) == content(here)
    assert {row["id"]: row["age"] for row in rows_of(there, "Person")} == {"ann": 41, "bob": 42}
    assert [row["id"] for row in rows_of(there, "Knows")] == ["k1", "k2"]
    assert results[1].notes == results[0].notes
    assert results[1].notes[0].startswith("Knows: 2 rows took the id from the column id;")


def test_values_that_span_lines_and_blocks_keep_their_lines_on_spark(folder: Path, spark: SparkSession) -> None:
    many = "".join(f"p{number},{number}\n" for number in range(500))
    Path("people.csv").write_text(f'name,age\n"a\n1",1\n\n"b, ""c""",2\nwrong\nd,x\n{many}last,y\n')
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")
    try:
        here, there = fail_both(folder, nodes={"Person": "people.csv"})
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    assert isinstance(here, ValidationError)
    assert isinstance(there, ValidationError)
    assert problems(here) == problems(there)
    assert [line for _, line, _, _ in problems(there)] == [6, 7, 508]


@pytest.fixture
def small_parts(spark: SparkSession) -> Iterator[int]:
    """Spark divides files into parts of so many bytes."""
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    size = 200
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(size))
    yield size
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("options", daily([{}, {"multiLine": True}], [{}]))
def test_a_quoted_value_may_span_the_parts_of_a_file_on_spark(folder: Path, options: Mapping[str, object]) -> None:
    people = [{"name": f" p{number} ", "age": number} for number in range(40)]
    write_csv("people.csv", [*people, {"name": "long\n" * 200, "age": 2}, {"name": "b", "age": 3}])
    Path("more.csv").write_text("name,age\nmore,1\n")
    before = len(list(folder.rglob("*.lance")))
    here, there = load_both(folder, nodes={"Person": ["people.csv", "more.csv"]}, options=options)
    assert here == there
    assert len(there["Person"]) == 43
    assert {" p1 ", "long\n" * 200} <= {row["name"] for row in there["Person"]}
    # What the first attempt wrote is gone.
    data = [len(list(graph.glob("**/data/*.lance"))) for graph in (folder / "local.og", folder / "spark.og")]
    assert before == 0
    assert data[1] <= data[0] + 1, "two files, two tasks"


QUOTES = {
    "open in the last column": "".join(f"p{number},{number}\n" for number in range(40)) + 'x,"1\n' + "y,2\nz,3\n" * 20,
    "open at the end": 'a,1\n"b,2\n',
    "text after a quote": 'a,1\n"b"x,2\nc,"3"4\n"d",4\n',
    "others later": 'a,"1\nb,2\n"c\n",3\nd,"x\n' + "e,4\n" * 40 + '"f"\n',
    "returns": '\r\n\ra,1\r"b\rc",2\rd\r"e,3\rf,x\r',
}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", daily(QUOTES, ["others later"]))
def test_records_with_misplaced_quotes_are_rejected_alone_on_spark_too(folder: Path, name: str) -> None:
    Path("people.csv").write_text("name,age\r" + QUOTES[name], newline="")
    here, there = both(folder)
    found: list[object] = []
    rules: set[str] = set()
    runs: tuple[tuple[Graph, Engine], ...] = ((here, "local"), (there, "spark"))
    for graph, engine in runs:
        rejects = f"{engine}.jsonl"
        result = graph.load(
            nodes={"Person": "people.csv"}, on_error="quarantine", engine=engine, rejects=rejects, mode="merge"
        )
        rows = list(map(json.loads, Path(rejects).read_text().splitlines()))
        rules |= {row["rule"] for row in rows}
        rejected = sorted((row["line"], row["rule"], row["record"], row["message"]) for row in rows)
        found.append((rejected, result.rejected, content(graph)))
    assert found[0] == found[1]
    assert "record" in rules


@pytest.mark.slow
def test_files_with_other_columns_are_read_by_their_own_names_on_spark(folder: Path) -> None:
    Path("a.csv").write_text("name,age\na,1\n")
    Path("b.csv").write_text("\ufeffage,name,born\n2,b,2020-01-01\n")
    pq.write_table(pa.table({"name": ["c"], "tags": [["x"]]}), "c.parquet")
    pq.write_table(pa.table({"born": [7], "name": ["d"]}), "d.parquet")
    Path("e.jsonl").write_text('{"name": "e", "tags": ["y"], "extra": 1}\n')
    files = ["a.csv", "b.csv", "c.parquet", "d.parquet", "e.jsonl"]
    here, there = load_both(folder, nodes={"Person": files}, ignore={"Person": ["extra"]})
    assert here == there
    assert len(there["Person"]) == 5


def write_shapes() -> None:
    """Shapes and what is near them, in two files of several row groups, one of which has timestamps of 96 bits."""
    Path("shapes/more").mkdir(parents=True)
    times = [None, datetime(9999, 12, 31, 23), datetime(2024, 2, 29, 12), datetime(1, 1, 1)]
    for start, name in ((0, "shapes/a.parquet"), (40, "shapes/more/b.parquet")):
        numbers = range(start, start + 40)
        table = pa.table(
            {
                "title": [f"s{number}" for number in numbers],
                "at": pa.array([times[number % 4] for number in numbers], pa.timestamp("us")),
                "made": pa.array([number * 10**9 for number in numbers], pa.timestamp("ns", "Europe/Berlin")),
                "sizes": [None if number % 3 else [number / 2, 1.0] for number in numbers],
                "place": pa.array([[number, -1] for number in numbers], pa.list_(pa.float64())),
                "look": pa.array([f"look {number}" for number in numbers], pa.dictionary(pa.int8(), pa.string())),
                "unused": ["x" * 100] * 40,
            }
        )
        pq.write_table(table, name, row_group_size=9, use_deprecated_int96_timestamps=start == 0)
    ends = {"a": [f"s{number}" for number in range(30)], "b": [f"s{79 - number}" for number in range(30)]}
    pq.write_table(pa.table(ends), "near.parquet", row_group_size=7)


GIVEN_SHAPES: Mapping[str, Any] = {
    "nodes": {"Shape": "shapes"},
    "edges": {"Near": "n*.parquet"},
    "columns": {"Shape": {"name": "title"}, "Near": {"from": "a", "to": "b"}},
    "ignore": {"Shape": ["unused"]},
}


@pytest.mark.usefixtures("eight_partitions")
def test_row_groups_of_parquet_files_give_the_same_graph_on_spark(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sized_frames, "PARTITION_BYTES", 2_000)
    write_shapes()
    here, there = load_both(folder, **GIVEN_SHAPES)
    assert here == there
    assert (len(there["Shape"]), len(there["Near"])) == (80, 30)
    assert {row["at"] for row in there["Shape"]} == {
        None, "9999-12-31T23:00:00+00:00", "2024-02-29T12:00:00+00:00", "0001-01-01T00:00:00+00:00",
    }  # fmt: skip
    graph = omnigraph.open(folder / "spark.og")
    assert [row["name"] for row in rows_of(graph, "Shape")] == [f"s{number}" for number in range(80)]
    # Each task writes a fragment.
    assert len(graph.snapshot().table("Shape").fragment_rows()) > 2


def test_problems_of_parquet_files_name_the_row_on_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_frames, "PARTITION_BYTES", 2_000)
    write_shapes()
    rows = pq.read_table("shapes/a.parquet").select(["title", "look", "sizes", "place"]).to_pylist()
    rows[11]["title"] = None
    rows[12]["place"] = [1.0]
    rows[30]["sizes"] = [None]
    pq.write_table(pa.Table.from_pylist(rows), "wrong.parquet", row_group_size=9)
    here, there = fail_both(folder, nodes={"Shape": "wrong.parquet"}, columns={"Shape": {"name": "title"}})
    assert isinstance(here, ValidationError)
    assert isinstance(there, ValidationError)
    assert problems(there) == problems(here)
    assert [(file, row) for file, row, _, _ in problems(there)] == [("wrong.parquet", row) for row in (12, 13, 31)]


def test_rejected_rows_of_parquet_files_have_their_rows_on_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_frames, "PARTITION_BYTES", 300)
    monkeypatch.setattr(incoming_rows, "LOCAL_LOAD_ROWS", 0)
    write_shapes()
    rows = pq.read_table("near.parquet").to_pylist()
    rows[3]["b"], rows[20]["a"], rows[26]["b"] = None, "nobody", "nothing"
    pq.write_table(pa.Table.from_pylist(rows), "near.parquet", row_group_size=7)
    here, there = both(folder)
    found: list[list[tuple[str, int, str, str]]] = []
    runs: tuple[tuple[Graph, Engine, str], ...] = ((here, "local", "r.jsonl"), (there, "spark", "r.parquet"))
    for graph, engine, rejects in runs:
        result = graph.load(**GIVEN_SHAPES, on_error="quarantine", engine=engine, rejects=rejects)
        assert (result.edges, result.rejected) == ({"Near": 27}, 3)
        lines = [] if engine == "spark" else Path(rejects).read_text().splitlines()
        read = list(map(json.loads, lines)) or pq.read_table(rejects).to_pylist()
        found.append(sorted((row["file"], row["line"], row["rule"], row["record"]) for row in read))
    assert found[0] == found[1]
    assert [(file, row) for file, row, *_ in found[1]] == [("near.parquet", row) for row in (4, 21, 27)]


def test_all_problems_of_columns_are_the_same_on_spark(folder: Path) -> None:
    Path("a.csv").write_text("nme,age\n")
    pq.write_table(pa.table({"name": ["c"], "age": ["x"]}), "c.parquet")
    Path("k.csv").write_text("frm,to\n")
    here, there = fail_both(folder, nodes={"Person": ["a.csv", "c.parquet"]}, edges={"Knows": "k.csv"})
    assert isinstance(there, ParameterError)
    assert there.details["problems"] == here.details["problems"]
    assert len(there.details["problems"]) == 5  # pyright: ignore[reportArgumentType]  a list


@pytest.mark.slow
def test_rejected_rows_of_tables_have_their_places_on_spark(folder: Path) -> None:
    Path("people.csv").write_text("name,age\nann,4\nbob,x\neve\n")
    Path("knows.csv").write_text("from,to\nann,ann\nann,bob\n")
    graph = omnigraph.init(folder / "g.og", SCHEMA)
    result = graph.load(
        nodes={"Person": "people.csv"}, edges={"Knows": "knows.csv"}, on_error="quarantine", engine="spark"
    )
    assert (result.nodes, result.edges, result.rejected) == ({"Person": 1}, {"Knows": 1}, 3)
    rows = pq.read_table(str(result.rejects_path)).sort_by("file").to_pylist()
    assert sorted((row["file"], row["line"], row["rule"]) for row in rows) == [
        ("knows.csv", 3, "edge Knows: Person -> Person"), ("people.csv", 3, "I32?"), ("people.csv", 4, "record"),
    ]  # fmt: skip


def test_a_uri_and_an_encoding_are_read_on_spark(folder: Path) -> None:
    Path("a.csv").write_bytes("name;age\nåke;1\n".encode("latin-1"))
    Path("b.csv").write_bytes("name;age\nødis;2\n".encode("latin-1"))
    graph = omnigraph.init(folder / "g.og", SCHEMA)
    uris = [f"file://{folder}/[ab].csv"]
    graph.load(nodes={"Person": uris}, options={"sep": ";", "encoding": "latin-1"}, engine="spark")
    assert {row["name"]: row["age"] for row in rows_of(graph, "Person")} == {"åke": 1, "ødis": 2}
    Path("b.csv").write_bytes(b"nam;age\nx;2\n")
    with pytest.raises(ParameterError, match=r"b\.csv: no property 'nam'"):
        graph.load(nodes={"Person": uris}, options={"sep": ";"}, engine="spark", mode="merge")


def test_the_header_of_files_that_only_spark_reaches_comes_from_the_first(folder: Path, spark: SparkSession) -> None:
    Path("a.csv").write_bytes(b'\n"name\n",age\nx,2\n')
    Path("b.csv").write_bytes(b"other\n")
    head = read_first_lines(spark, f"file://{folder}/[ab].csv")
    assert head.startswith(b'\n"name\n",age\n')


def test_large_tables_are_loaded_on_spark_by_themselves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_choice, "SPARK_MIN_BYTES", 10)
    write_csv("people.csv", PEOPLE)
    graph = omnigraph.init(folder / "g.og", SCHEMA)
    assert graph.load(nodes={"Person": "people*.csv"}).engine == "spark"


def test_columns_of_a_dataframe_are_chosen_too_on_spark(folder: Path, spark: SparkSession) -> None:
    graph = omnigraph.init(folder / "g.og", SCHEMA)
    frame = spark.createDataFrame([("ann", 4, 0)], "`full.name` string, age int, x int")
    sg = graph.spark(spark)
    with pytest.raises(ParameterError, match="no property 'x'"):
        sg.load(nodes={"Person": frame}, columns={"Person": {"name": "full.name"}})  # pyright: ignore[reportArgumentType]  as Arrow
    sg.load(nodes={"Person": frame}, columns={"Person": {"name": "full.name"}}, ignore={"Person": ["x"]})  # pyright: ignore[reportArgumentType]  as Arrow
    assert [(row["name"], row["age"]) for row in rows_of(graph, "Person")] == [("ann", 4)]


def test_frames_of_one_connection_and_infinite_times_are_read_on_spark(folder: Path, spark: SparkSession) -> None:
    connection = duckdb.connect()
    people = connection.sql("select 'p' || i as name, i::int as age from range(3) t(i)")
    shapes = connection.sql("select 's' as name, 'infinity'::timestamp as \"at\" union all select 't', null")
    graph = omnigraph.init(folder / "g.og", SCHEMA)
    result = graph.spark(spark).load(nodes={"Person": people, "Shape": shapes}, on_error="quarantine")
    assert (result.nodes, result.rejected) == ({"Person": 3, "Shape": 1}, 1)
    (rejected,) = pq.read_table(str(result.rejects_path)).to_pylist()
    assert "expected DateTime, found infinity" in rejected["message"]
    assert json.loads(rejected["record"])["data"]["at"] == "infinity"


def test_uris_of_nothing_are_refused_or_allowed_on_spark(folder: Path) -> None:
    missing = (folder / "gone.bin").as_uri()
    Path("photos.csv").write_text(f"name,file\na,base64:AAEC\nb,{missing}\nc,\n")
    here, there = fail_both(folder, nodes={"Photo": "photos.csv"})
    assert isinstance(here, ValidationError)
    assert isinstance(there, ValidationError)
    assert problems(there) == problems(here)
    assert f"there is no file '{missing}'" in there.message
    graph = omnigraph.open(folder / "spark.og")
    loaded = graph.load(nodes={"Photo": "photos.csv"}, allow_missing_blobs=True, engine="spark")
    assert (loaded.nodes, loaded.engine) == ({"Photo": 3}, "spark")

"""Exports: where they go to, what is in them, and what they leave behind when they fail."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, NotFound, OmniGraphError, ParameterError, StorageError, Unsupported
from omnigraph.graph import Graph
from omnigraph.language.schema import TableKey, parse_schema
from omnigraph.read.rows import export_formats
from omnigraph.read.rows.export import Format, export_lines, plan_export
from omnigraph.read.rows.export_formats import to_json_lines
from tests import crash

SCHEMA = """
node Person { name: String @key  age: I32? @default("7")  score: F64?  at: DateTime? }
node Knows { text: String }
edge Knows: Person -> Person { since: Date? }
"""
RECORDS: tuple[dict[str, object], ...] = (
    {"type": "Person", "data": {"name": 'a "b"\n', "age": None, "score": -0.0, "at": "2024-05-01T10:30:00.5Z"}},
    {"type": "Person", "data": {"name": "bob"}},
    {"type": "Knows", "data": {"id": "k", "text": "a node type"}},
    {"edge": "Knows", "from": "bob", "to": "bob", "data": {"id": "e1", "since": "2020-02-29"}},
)
LINES = [
    '{"type":"Knows","data":{"id":"k","text":"a node type"}}\n',
    '{"type":"Person","data":{"id":"a \\"b\\"\\n","age":null,"at":"2024-05-01T10:30:00.500Z",'
    '"name":"a \\"b\\"\\n","score":-0.0}}\n',
    '{"type":"Person","data":{"id":"bob","age":7,"at":null,"name":"bob","score":null}}\n',
    '{"edge":"Knows","from":"bob","to":"bob","data":{"id":"e1","since":"2020-02-29"}}\n',
]
TEXT = "".join(LINES)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "graph.og", SCHEMA)
    graph.load(RECORDS)
    return graph


def test_without_a_target_the_lines_can_be_iterated(graph: Graph) -> None:
    lines = graph.export()
    assert isinstance(lines, Iterator)
    assert list(lines) == LINES
    for line in LINES:
        json.loads(line)


def test_a_path_gets_a_file_and_a_result_that_counts(graph: Graph, tmp_path: Path) -> None:
    result = graph.export(tmp_path / "x.jsonl")
    assert (tmp_path / "x.jsonl").read_text("utf-8") == TEXT
    assert (result.nodes, result.edges) == ({"Knows": 1, "Person": 2}, {"Knows": 1})
    assert (result.format, result.path) == ("jsonl", str(tmp_path / "x.jsonl"))
    assert (result.branch, result.commit) == ("main", graph.commits()[0])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["graph.og", "x.jsonl"]


@pytest.mark.parametrize(
    ("name", "format_", "chosen", "written"),
    [
        ("x.parquet", None, "parquet", "x.parquet/node/Person/00000.parquet"),
        ("x.CSV", None, "csv", "x.CSV/node/Person.csv"),
        ("x.ndjson", None, "jsonl", "x.ndjson"),
        ("x", None, "jsonl", "x"),
        ("x.csv", "jsonl", "jsonl", "x.csv"),
    ],
)
def test_the_ending_of_a_path_gives_the_format(
    graph: Graph, tmp_path: Path, name: str, format_: Format | None, chosen: str, written: str
) -> None:
    result = graph.export(tmp_path / name, ["Person"], format=format_)
    assert (result.format, result.path) == (chosen, str(tmp_path / name))
    files = [path for path in (tmp_path / name, *(tmp_path / name).rglob("*")) if path.is_file()]
    assert [str(path.relative_to(tmp_path)) for path in files] == [written]


def test_open_streams_of_bytes_and_of_text(graph: Graph, tmp_path: Path) -> None:
    binary, text = io.BytesIO(), io.StringIO()
    assert graph.export(binary).path is None
    graph.export(text)
    with gzip.open(tmp_path / "x.gz", "wb") as file:
        graph.export(file)
    assert (
        binary.getvalue().decode()
        == text.getvalue()
        == gzip.decompress((tmp_path / "x.gz").read_bytes()).decode()
        == TEXT
    )


def test_a_raw_stream_that_takes_little_at_a_time_gets_everything(graph: Graph) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as sink:
        received: list[bytes] = []
        reader = threading.Thread(target=lambda: received.append(source.read()))
        reader.start()
        graph.load([{"type": "Knows", "data": {"text": "x" * 300_000}} for _ in range(3)])
        graph.export(sink, ["node:Knows"])
        sink.close()
        reader.join()
    assert len(received[0].splitlines()) == 4
    assert len(received[0]) > 900_000


def test_some_types_and_a_name_that_both_kinds_have(graph: Graph) -> None:
    assert list(graph.export(types=["Person"])) == LINES[1:3]
    assert list(graph.export(types=["Knows"])) == [LINES[0], LINES[3]]
    assert list(graph.export(types=["edge:Knows"])) == [LINES[3]]
    assert list(graph.export(types=[])) == []


def test_another_branch_and_another_moment(graph: Graph) -> None:
    first = graph.commits()[0]
    graph.create_branch("side")
    graph.mutate('query q() { delete Person where name = "bob" }', branch="side")
    graph.mutate('query q() { update Person set { score: 2 } where name = "bob" }')
    assert list(graph.export(branch="side")) == LINES[:2]
    assert list(graph.export(at=first.id)) == LINES
    assert '"score":2.0' in "".join(graph.export())


def test_a_table_that_lags_behind_the_schema_gives_nulls(graph: Graph) -> None:
    newer = parse_schema(SCHEMA.replace("age: I32?", "photo: Blob?  age: I64?") + "node Fresh { n: I32 }").catalog
    lines = list(export_lines(plan_export(graph.snapshot(), newer, ["Person", "Fresh"])))
    assert [json.loads(line)["data"]["photo"] for line in lines] == [None, None]
    assert [json.loads(line)["data"]["age"] for line in lines] == [None, 7]


def test_rows_are_spelled_in_pieces(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.load([{"type": "Knows", "data": {"id": f"n{n}", "text": f"é{n}" * (n % 7)}} for n in range(500)])
    whole = list(graph.export())
    monkeypatch.setattr(export_formats, "PIECE_BYTES", 1_000)
    assert list(graph.export()) == whole
    graph.export(tmp_path / "x.jsonl")
    assert (tmp_path / "x.jsonl").read_text("utf-8") == "".join(whole)


# --------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "kind", "complaint"),
    [
        ({"types": ["Persn"]}, NotFound, "no type 'Persn' in this snapshot (did you mean 'Person'?)"),
        ({"types": "Person"}, ParameterError, "give a list, such as ['Person']"),
        ({"format": "xml"}, ParameterError, "format is 'xml' (use jsonl or parquet or csv)"),
        (
            {"target": "x.arrow"},
            ParameterError,
            "the extension of 'x.arrow' names no format (give the format, or use one",
        ),
        ({"target": "x.jsonl.gz"}, ParameterError, "the extension of 'x.jsonl.gz' names no format"),
        ({"format": "parquet"}, ParameterError, "tables are a folder of files"),
        ({"format": "parquet", "target": io.BytesIO()}, ParameterError, "tables are a folder of files"),
        ({"target": "nowhere/x.jsonl"}, NotFound, "there is no folder 'nowhere'"),
        ({"target": "."}, ParameterError, "'.' is a folder"),
        ({"target": "s3://bucket/x.jsonl"}, ParameterError, "target is 's3://bucket/x.jsonl', which is no local path"),
        ({"target": "graph.og", "format": "parquet"}, AlreadyExists, "'graph.og' already exists"),
        ({"branch": "nope"}, NotFound, "nope"),
        ({"at": "v99"}, NotFound, "no manifest version 99"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, object],
    kind: type[OmniGraphError],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        graph.export(**arguments)  # pyright: ignore[reportArgumentType, reportCallIssue]  wrong on purpose
    assert complaint in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["graph.og"]


def damage(graph: Graph, key: TableKey) -> None:
    """Cut off a file of the rows of a type."""
    inside = graph.snapshot().table(key)
    data = next(path for path in Path(inside.uri).rglob("*.lance") if path.is_file())
    data.write_bytes(data.read_bytes()[:20])


def test_a_failed_export_leaves_the_file_that_was_there(graph: Graph, tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"
    graph.export(target)
    damage(graph, TableKey.of_node("Person"))
    with pytest.raises(OmniGraphError):
        omnigraph.open(graph.uri).export(target)
    assert target.read_text("utf-8") == TEXT
    assert sorted(each.name for each in tmp_path.iterdir()) == ["graph.og", "x.jsonl"]


def test_a_failed_export_to_parquet_leaves_nothing(graph: Graph, tmp_path: Path) -> None:
    damage(graph, TableKey.of_edge("Knows"))
    with pytest.raises(OmniGraphError):
        omnigraph.open(graph.uri).export(tmp_path / "tables", format="parquet")
    assert [each.name for each in tmp_path.iterdir()] == ["graph.og"]


def test_a_name_that_the_file_system_refuses_is_said(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot be written: File name too long \(name another place"):
        graph.export(tmp_path / ("x" * 300))
    with pytest.raises(StorageError, match="cannot be written: File name too long"):
        graph.export(tmp_path / ("x" * 300), format="parquet")
    graph.export(tmp_path / ("x" * 250))


def test_a_number_that_json_cannot_hold_is_refused() -> None:
    catalog = parse_schema("node P { x: F64?  v: Vector(1)? }").catalog
    for column, values in (("x", pa.array([np.nan])), ("v", pa.array([[np.inf]], pa.list_(pa.float32(), 1)))):
        rows = {"id": pa.array(["a"]), "x": pa.array([1.0]), "v": pa.array([[1.0]], pa.list_(pa.float32(), 1))}
        with pytest.raises(Unsupported, match=f"P has a '{column}' that is not finite"):
            to_json_lines(catalog.nodes["P"], pa.RecordBatch.from_pydict({**rows, column: values}))


# --------------------------------------------------------------------------------------------- Parquet


def test_parquet_has_a_folder_for_each_type(graph: Graph, tmp_path: Path) -> None:
    result = graph.export(tmp_path / "tables", format="parquet")
    files = sorted(str(path.relative_to(tmp_path / "tables")) for path in (tmp_path / "tables").rglob("*.parquet"))
    assert files == ["edge/Knows/00000.parquet", "node/Knows/00000.parquet", "node/Person/00000.parquet"]
    assert (result.nodes, result.edges) == ({"Knows": 1, "Person": 2}, {"Knows": 1})
    people = pq.read_table(tmp_path / "tables" / "node" / "Person")
    assert people.schema.field("at").type == pa.timestamp("ms", "UTC")
    assert people.schema.equals(graph.nodes("Person").schema)
    assert pq.read_table(tmp_path / "tables" / "edge" / "Knows").column_names == ["id", "from", "to", "since"]


def test_csv_is_read_back_as_it_was(tmp_path: Path) -> None:
    schema = """node Thing { code: String @key  n: I64?  share: F64?  day: Date?  at: DateTime?  tags: [String]?
                             point: Vector(3)?  flag: Bool?  note: String? }
                edge Near: Thing -> Thing { far: F32? }
                node Empty { code: String @key }"""
    whole = {
        "code": 'a,"q"\nx',
        "n": 5,
        "share": 0.1,
        "day": "2024-05-01",
        "at": "2024-05-01T10:30:00.123Z",
        "note": "",
    }
    whole |= {"tags": ["x,y", "z"], "point": [1, 2, 3], "flag": True}
    first = omnigraph.init(tmp_path / "first.og", schema)
    first.load([{"type": "Thing", "data": data} for data in (whole, {"code": "b"})])
    first.load([{"edge": "Near", "from": "b", "to": "b", "data": {"far": 0.1}}])
    result = first.export(tmp_path / "tables", format="csv")
    assert (result.nodes, result.edges) == ({"Empty": 0, "Thing": 2}, {"Near": 1})
    assert (tmp_path / "tables" / "node" / "Empty.csv").read_text() == '"id","code"\n'
    second = omnigraph.init(tmp_path / "second.og", schema)
    tables = {name: str(tmp_path / "tables" / "node" / f"{name}.csv") for name in ("Thing", "Empty")}
    second.load(nodes=tables, edges={"Near": str(tmp_path / "tables" / "edge" / "Near.csv")})
    assert list(second.export()) == list(first.export())
    with pytest.raises(AlreadyExists):
        first.export(tmp_path / "tables", format="csv")


def test_an_empty_type_has_a_file_with_its_columns(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    (tmp_path / "tables").mkdir()
    graph.export(tmp_path / "tables", format="parquet")
    assert pq.read_table(tmp_path / "tables" / "node" / "Person").column_names == ["id", "age", "at", "name", "score"]


def test_many_rows_take_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_formats, "FILE_BYTES", 20_000)
    monkeypatch.setattr(export_formats, "_GROUP_BYTES", 8_000)
    monkeypatch.setattr(export_formats, "PIECE_BYTES", 4_000)
    graph = omnigraph.init(tmp_path / "g.og", "node N { n: I64 @key  t: String }")
    graph.load(nodes={"N": pa.table({"n": range(5_000), "t": ["text"] * 5_000})})
    assert graph.export(tmp_path / "tables", format="parquet").nodes == {"N": 5_000}
    folder = tmp_path / "tables" / "node" / "N"
    assert len(list(folder.iterdir())) > 3
    assert sorted(cast("list[int]", pq.read_table(folder)["n"].to_pylist())) == list(range(5_000))
    sizes = [pq.ParquetFile(path).metadata.num_rows for path in folder.iterdir()]
    assert min(sizes) > 0


# --------------------------------------------------------------------------------------------- memory


def _private_memory() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def export_and_watch(uri: str, target: str) -> int:
    """How much memory an export took at most, beyond what was in use before it."""
    graph = omnigraph.open(uri, "ro")
    before, peak, done = _private_memory(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, _private_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    graph.export(target)
    done.set()
    watcher.join()
    return peak - before


@pytest.mark.slow
def test_memory_does_not_grow_with_the_graph(tmp_path: Path) -> None:
    used: list[int] = []
    for megabytes in (100, 500):
        graph = omnigraph.init(tmp_path / f"{megabytes}.og", "node Page { text: String }")
        for _ in range(megabytes // 50):
            graph.load(nodes={"Page": pa.table({"text": ["x" * 1_000] * 50_000})})
        used.append(crash.run(export_and_watch, graph.uri, str(tmp_path / "x.jsonl")))
    small, large = used
    assert large < 1.5 * small + 50 * 1024 * 1024, used

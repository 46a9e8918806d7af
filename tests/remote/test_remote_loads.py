"""Loads through a server read what a local load reads: the same rows and counts, and the same places in errors."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import httpx
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import Json, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.write.load import LoadResult
from tests import crash
from tests.remote.served import SECONDS, ServerProcess
from tests.selection import daily

Load = Callable[[Graph, Path], LoadResult]

PEOPLE = pa.table(
    {
        "name": ["p", "q"],
        "big": pa.array([2**63 - 1, None], pa.int64()),
        "score": [0.1, float("nan")],
        "seen": pa.array([1, None], pa.timestamp("us", "UTC")),
        "tags": [["a"], None],
        "photo": [b"\x00\xff", None],
    }
)


def exhausted() -> pa.RecordBatchReader:
    reader = PEOPLE.to_reader()
    reader.read_all()
    return reader


def write_files(folder: Path) -> None:
    """The files that the loads read."""
    (folder / "a.jsonl").write_text(
        '{"type": "Person", "data": {"name": "x"}}\n\n{"type": "Slot", "data": {"line": 1}}\n'
    )
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b'{"type": "Person", "data": {"name": "z", "age": "old"}}\n'))
    (folder / "good.jsonl").write_text('{"type": "Person", "data": {"name": "x"}}\n')
    (folder / "people.csv").write_text("full name;age\nann b;3\ncid;\n")
    (folder / "wrong.tsv").write_text("name\tage\nu\t3\nv\tthree\n")
    (folder / "lines.jsonl").write_text('{"name": "o"}\n{"name": "o2", "age": 3}\n')
    pq.write_table(PEOPLE.drop_columns(["photo", "score"]), folder / "people.parquet")
    with pa.OSFile(str(folder / "people.arrow"), "wb") as file, pa.ipc.new_file(file, PEOPLE.schema) as writer:
        writer.write_table(PEOPLE.slice(0, 1))


LOADS: dict[str, Load] = {
    "a file": lambda g, f: g.load(f / "good.jsonl"),
    "wrong files": lambda g, f: g.load([f / "a.jsonl", f / "b.jsonl.gz"]),
    "quarantined": lambda g, f: g.load([f / "a.jsonl", f / "b.jsonl.gz"], on_error="quarantine"),
    "a stream": lambda g, f: g.load(io.StringIO((f / "a.jsonl").read_text())),
    "records": lambda g, _: g.load([{"type": "Person", "data": {"name": "x"}}, {"type": "Nobody", "data": {}}]),
    "nothing": lambda g, _: g.load([]),
    "rounded": lambda g, _: g.load([{"type": "Person", "data": {"name": "r", "seen": "2024-05-01T10:00:00.1234Z"}}]),
    "rounded, but strict": lambda g, _: g.load(
        [{"type": "Person", "data": {"name": "r", "seen": "2024-05-01T10:00:00.1234Z"}}], strict=True
    ),
    "seconds": lambda g, _: g.load([{"type": "Person", "data": {"name": "r", "seen": 1_700_000_000}}]),
    "a frame": lambda g, _: g.load(nodes={"Person": PEOPLE.drop_columns(["score"])}),
    "a wrong frame": lambda g, _: g.load(nodes={"Person": PEOPLE}),
    "a frame without a type": lambda g, _: g.load(nodes={"Persn": PEOPLE}),
    "columns": lambda g, f: g.load(
        nodes={"Person": f / "people.csv"}, columns={"Person": {"name": "full name"}}, options={"sep": ";"}
    ),
    "columns ignored": lambda g, f: g.load(
        nodes={"Person": str(f / "people.csv")},
        columns={"Person": {"name": "full name"}},
        ignore={"Person": ["age"]},
        options={"sep": ";"},
    ),
    "wrong columns": lambda g, f: g.load(nodes={"Person": f / "people.csv"}, ignore={"Slot": ["x"]}),
    "wrong rows": lambda g, f: g.load(nodes={"Person": f / "wrong.tsv"}),
    "wrong option": lambda g, f: g.load(nodes={"Person": f / "people.csv"}, options={"sepp": ";"}),
    "a file that is not there": lambda g, f: g.load(nodes={"Person": f / "none.csv"}),
    "lines of objects": lambda g, f: g.load(nodes={"Person": f / "lines.jsonl"}),
    "parquet and edges": lambda g, f: g.load(
        nodes={"Person": f / "people.parquet"}, edges={"knows": pa.table({"from": ["p"], "to": ["q"]})}
    ),
    "columns in another case": lambda g, _: g.load(
        edges={"Knows": pa.table({"From": ["ann"], "TO": ["ann"], "ID": ["k9"]})}
    ),
    "arrow": lambda g, f: g.load(nodes={"Person": [f / "people.arrow"]}, mode="merge"),
    "identity": lambda g, _: g.load(
        [{"edge": "Knows", "from": "ann", "to": "ann", "data": {"since": n}} for n in (1, 2)],
        mode="merge",
        identity={"Knows": ["from", "to", "since"]},
    ),
    "wrong identity": lambda g, _: g.load([], mode="merge", identity={"Knows": ["nothing"]}),
    "update": lambda g, _: g.load(nodes={"Person": pa.table({"name": ["ann"], "age": [9]})}, mode="update"),
    "wrong mode": lambda g, f: g.load(f / "good.jsonl", mode="upsert"),  # type: ignore[arg-type]
    "tables as records": lambda g, f: g.load(f / "people.csv"),
    "a new branch": lambda g, f: g.load(f / "good.jsonl", branch="new/b", from_branch="dev/a", message="m"),
    "a reader that was read": lambda g, _: g.load(nodes={"Person": exhausted()}),
    "an overwrite without rows": lambda g, _: g.load(nodes={"Person": PEOPLE.slice(0, 0)}, mode="overwrite"),
    "an empty overwrite": lambda g, _: g.load(
        edges={"Knows": pa.table({"from": ["p"], "to": ["q"]}).slice(0, 0)}, mode="overwrite", allow_empty=True
    ),
    "checked": lambda g, f: g.load(f / "good.jsonl", check=True),
}
DAILY = (
    "wrong files",
    "a frame",
    "columns",
    "columns in another case",
    "wrong rows",
    "a reader that was read",
    "an overwrite without rows",
    "an empty overwrite",
    "parquet and edges",
    "identity",
    "a new branch",
)


def outcome_of(load: Load, graph: Graph, files: Path) -> Json:
    """All that a load says, and what it leaves."""
    try:
        result = load(graph, files)
    except OmniGraphError as error:
        return [type(error).__name__, error.to_json()]
    made = result.commit
    return [
        [result.branch, result.mode, dict(result.nodes), dict(result.edges), result.rejected, result.replayed],
        result.notes,
        {key: counts.to_json() for key, counts in result.counts.items()},
        None if made is None else [made.branch, made.message],
        sorted(graph.export(branch=result.branch if result.commit else "main", types=["Person", "Slot"])),
        len(list(graph.export(types=["Knows"]))),
    ]


@pytest.mark.parametrize("name", daily(LOADS, DAILY))
def test_a_load_does_the_same(name: str, template: Path, server: ServerProcess, tmp_path: Path) -> None:
    write_files(tmp_path)
    local, remote = crash.fresh_copy(template), crash.fresh_copy(template)
    expected = outcome_of(LOADS[name], omnigraph.open(local, actor="act-test"), tmp_path)
    assert outcome_of(LOADS[name], server.open(remote), tmp_path) == expected


def test_rejected_records_have_the_names_of_their_files(server: ServerProcess, folder: Path, tmp_path: Path) -> None:
    write_files(tmp_path)
    archive = make_archive({"t": (tmp_path / "wrong.tsv").read_bytes()}, tables=[describe("t", "people/wrong.tsv")])
    answer = post(server, server.add(folder), archive, "on_error=quarantine")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["nodes"], found["rejected"]) == ({"Person": 1}, 1)
    assert (found["rejects"][0]["file"], found["rejects"][0]["line"]) == ("people/wrong.tsv", 3)


# --------------------------------------------------------------------------------------------- archives of strangers


def make_archive(members: dict[str, bytes], **contents: object) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in {**members, "load.json": orjson.dumps(contents)}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def describe(member: str, name: str, format_: str = "csv") -> dict[str, str]:
    return {"member": member, "name": name, "kind": "node", "type": "Person", "format": format_}


def post(server: ServerProcess, url: str, archive: bytes, query: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/x-tar"}
    return httpx.post(f"{url}/load?{query}", content=archive, headers=headers, timeout=SECONDS)


def make_link() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("t")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    return file.getvalue()


ZEROS = gzip.compress(bytes(64 << 20))
HOSTILE: dict[str, tuple[int, Callable[[], bytes]]] = {
    "no archive": (400, lambda: b"hello"),
    "nothing": (400, lambda: b""),
    "a link": (400, make_link),
    "cut": (400, lambda: make_archive({"t": bytes(100_000)}, tables=[describe("t", "a.csv")])[:50_000]),
    "no contents": (400, lambda: make_archive({}, unknown=1)),
    "no member": (400, lambda: make_archive({}, source=[{"member": "x"}])),
    "a name that is a path": (400, lambda: make_archive({}, tables=[describe("/etc/passwd", "/etc/passwd")])),
    "a frame that is none": (400, lambda: make_archive({"t": b"x" * 99}, tables=[describe("t", "n", "frame")])),
    "a bomb": (413, lambda: make_archive({"t": ZEROS}, tables=[describe("t", "a.csv.gz")])),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_archives_of_strangers_are_refused(name: str, server: ServerProcess, template: Path) -> None:
    status, make = HOSTILE[name]
    answer = post(server, f"{server.origin}/graphs/first", make())
    assert answer.status_code == status, answer.text
    body = cast("dict[str, Json]", answer.json())
    assert body["type"] in ("parameter_error", "body_too_large")
    assert str(template) not in answer.text
    assert "root:" not in answer.text

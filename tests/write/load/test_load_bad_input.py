"""Bad input: the position in the error is right for every kind of file, and nothing is ever half-loaded."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from omnigraph.errors import InputError, ValidationError
from omnigraph.graph import Graph
from omnigraph.write.load import LoadMode
from omnigraph.write.load.inputs import sources
from tests.graphs import rows_of, written

MOST_SHOWN = 1_000
"""Characters of a message: what is wrong with a large record is said in a few words."""


def port(code: str, **data: object) -> str:
    return json.dumps({"type": "Port", "data": {"code": code, "name": "n", **data}})


def refused(graph: Graph, source: object, mode: LoadMode = "append", branch: str = "main") -> ValidationError:
    before = written(graph, branch)
    with pytest.raises(ValidationError) as caught:
        graph.load(source, mode=mode, branch=branch)  # pyright: ignore[reportArgumentType]  of any kind
    assert written(graph, branch) == before
    return caught.value


# --------------------------------------------------------------------------------------------- nothing by halves


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("branch", ["main", "review"])
@pytest.mark.parametrize(
    "bad",
    ["nope", port("P!"), port("x1", depth=31), port("x1"), '{"edge": "CallsAt", "from": "v1", "to": "nobody"}'],
    ids=["no JSON", "check", "range", "twice", "no end"],
)
def test_one_bad_line_among_many_blocks_loads_nothing(
    fleet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: LoadMode, branch: str, bad: str
) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", 200)
    if branch != "main":
        fleet.create_branch(branch)
    lines = [port(f"x{number}") for number in range(60)]
    path = tmp_path / "ports.jsonl"
    path.write_text("\n".join([*lines[:40], bad, *lines[40:]]))
    found = refused(fleet, path, mode, branch)
    assert 41 in {each.line for each in found.violations}


DRESSES: dict[str, Callable[[bytes], bytes]] = {
    "mark": lambda text: b"\xef\xbb\xbf" + text,
    "crlf": lambda text: text.replace(b"\n", b"\r\n"),
    "gzip": gzip.compress,
    "gzip members": lambda text: b"".join(map(gzip.compress, text.splitlines(keepends=True))),
    "zstd": lambda text: pa.compress(text, "zstd", asbytes=True),
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
def test_a_bad_line_has_its_place_in_every_dress(fleet: Graph, tmp_path: Path, dress: Callable[[bytes], bytes]) -> None:
    text = "\n".join([port("x1"), "", "nope", port("x2", depth=31), port("x3")])
    path = tmp_path / "ports.jsonl"
    path.write_bytes(dress(text.encode()))
    found = refused(fleet, path)
    assert [(each.file, each.line) for each in found.violations] == [(str(path), 3), (str(path), 4)]


# --------------------------------------------------------------------------------------------- no JSONL at all


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table({"code": ["x"], "name": ["n"]}), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([json.loads(port("x1")), json.loads(port("x2"))]).encode(),
        json.dumps(json.loads(port("x1")), indent=2).encode(),
        b"code,name\nx1,Oslo\n",
        b"<html><body>404</body></html>\n",
        parquet_bytes(),
        bytes(range(256)) * 4,
        b"\x00" * 1000,
        port("x1").encode() + b"\r" + port("x2").encode(),
        port("x1").encode() + port("x2").encode(),
        port("x1")[:-1].encode(),
    ],
    ids=["array", "indented", "csv", "html", "parquet", "binary", "zeros", "lone cr", "one line", "cut"],
)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_file_that_is_no_jsonl(fleet: Graph, tmp_path: Path, content: bytes, mode: LoadMode) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    found = refused(fleet, path, mode)
    assert (found.violations[0].file, found.violations[0].line) == (str(path), 1)
    assert all(len(each.message) < MOST_SHOWN for each in found.violations)


# --------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "Port", "data": {"code": "x", "name": "n", "depth": Infinity}}',
        '{"type": "Port", "data": {"code": "x", "name": "n", "depth": -1e999}}',
        '{"type": "Port", "data": {"code": "x", "name": "n", "depth": 0x10}}',
        '{"type": "Port", "data": {"code": "x", "name": "n", "depth": 1.}}',
        '{"type": "Port", "data": {"code": "x", "name": "\\ud800"}}',
        '{"type": "Port", "data": {"code": "x", "name": "a\tb"}}',
        '{"type": "Vessel", "data": {"code": "x", "name": "n", "kind": "tug", "tonnage": 2147483648}}',
        '{"type": "Vessel", "data": {"code": "x", "name": "n", "kind": "tug", "tonnage": 1e3}}',
        '{"type": "Vessel", "data": {"code": "x", "name": "n", "kind": "tug", "launched": "04.05.2001"}}',
        '{"type": "Vessel", "data": {"code": "x", "name": "n", "kind": "tug", "launched": "2001-02-29"}}',
        '{"type": "Vessel", "data": {"code": "x", "name": "n", "kind": "tug", "launched": "2001-W18-5"}}',
        '{"edge": "CallsAt", "from": "v1", "to": "p1", "data": {"at": "2024-01-01 08:00 PM"}}',
        '{"edge": "CallsAt", "from": "v1", "to": "p1", "data": {"at": "2024-01-01T08:00:61Z"}}',
        '{"edge": "CallsAt", "from": "v1", "to": "p1", "data": {"at": "24-1-1"}}',
    ],
)
def test_values_of_odd_forms_are_refused_with_their_line(fleet: Graph, tmp_path: Path, line: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(f"{port('x1')}\n{line}\n{port('x2')}\n")
    assert [each.line for each in refused(fleet, path).violations] == [2]


def test_a_byte_that_is_no_text(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes(port("x1").encode() + b"\n" + port("x2").encode().replace(b'"n"', b'"\xe9"'))
    assert [each.line for each in refused(fleet, path).violations] == [2]


@pytest.mark.slow
def test_ten_megabytes_that_are_wrong_are_reported_in_a_few_words(fleet: Graph, tmp_path: Path) -> None:
    large = "x" * 10_000_000
    path = tmp_path / "large.jsonl"
    path.write_text(
        "\n".join(
            [
                port("x1", depth=large),
                port("x2", **{large: 1}),
                json.dumps({"type": large}),
                json.dumps({"edge": "CallsAt", "from": "v1", "to": large}),
                large,
            ]
        )
    )
    found = refused(fleet, path)
    assert {1, 2, 3, 5} <= {each.line for each in found.violations}
    assert max(len(each.message) for each in found.violations) < MOST_SHOWN
    assert len(found.message) < MOST_SHOWN


def test_a_record_that_is_nested_without_end(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text(f'{{"type": "Port", "data": {"[" * 100_000}{"]" * 100_000}}}\n')
    before = written(fleet)
    with pytest.raises(InputError):
        fleet.load(path)
    assert written(fleet) == before


def test_all_is_well_with_what_only_looks_odd(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "fine.jsonl"
    text = 'a\u2028b\u0000c"\\'
    path.write_text(f"{port('x1', name=text)}\n \t{port('x2', depth=7)}  \n", "utf-8")
    fleet.load(path)
    found = {row["code"]: (row["name"], row["depth"]) for row in rows_of(fleet, "Port")}
    assert (found["x1"], found["x2"]) == ((text, None), ("n", 7.0))

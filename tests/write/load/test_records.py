"""Graph records: every form that is accepted, and every error in a record."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from omnigraph.errors import NotFound, ParameterError, StorageError, ValidationError, Violation
from omnigraph.graph import Graph
from omnigraph.language.schema import parse_schema
from omnigraph.write.load.inputs import sources
from omnigraph.write.load.inputs.records import read_records
from omnigraph.write.load.rows.validation import RawBatch, validate_batch
from tests.graphs import rows_of, written

PORT = b'{"type":"Port","data":{"code":"p9","name":"Riga"}}'
NEXT = b'{"type":"Port","data":{"code":"p8","name":"Turku"}}'
WIDE = """
node Wide { key: I64 @key  b: Bool?  i: I32?  u: U64?  f: F32?  d: F64?  day: Date?  at: DateTime?  word: String?
  days: [Date]?  words: [String]?  vec: Vector(2)?  body: Blob?  level: I32 @default("3") }
"""


def problems(graph: Graph, source: object) -> list[Violation]:
    """Return the violations of a source; nothing may be written."""
    before = written(graph)
    with pytest.raises(ValidationError) as caught:
        graph.load(source)  # pyright: ignore[reportArgumentType]  some sources are wrong on purpose
    assert written(graph) == before
    return list(caught.value.violations)


def ports(graph: Graph) -> set[str]:
    return {cast(str, row["code"]) for row in rows_of(graph, "Port")}


# --------------------------------------------------------------------------------------------- sources


@pytest.mark.parametrize(
    "content",
    [
        PORT + b"\n" + NEXT + b"\n",
        PORT + b"\n" + NEXT,
        b"\xef\xbb\xbf" + PORT + b"\n" + NEXT + b"\n",
        PORT + b"\r\n\r\n" + NEXT + b"\r\n",
        b"\n  \n\t\n" + PORT + b"\n\n" + NEXT + b"\n\n",
        gzip.compress(PORT + b"\n") + gzip.compress(b"\n" + NEXT),
        pa.compress(PORT + b"\n" + NEXT, "zstd", asbytes=True),
        gzip.compress(b"\xef\xbb\xbf" + PORT + b"\n" + NEXT),
    ],
    ids=["plain", "no end", "mark", "crlf", "blank", "gzip members", "zstd", "gzip mark"],
)
@pytest.mark.parametrize("form", ["path", "text", "stream"])
def test_a_file_in_any_dress(fleet: Graph, tmp_path: Path, content: bytes, form: str) -> None:
    path = tmp_path / "ports.jsonl"
    path.write_bytes(content)
    if form == "stream":
        with path.open("rb") as stream:
            result = fleet.load(stream)
    else:
        result = fleet.load(path if form == "path" else str(path))
    assert result.nodes == {"Port": 2}
    assert ports(fleet) == {"p1", "p2", "p8", "p9"}


def test_several_sources_of_several_kinds_are_one_commit(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_bytes(PORT)
    before = len(fleet.commits())
    result = fleet.load([path, io.StringIO(NEXT.decode()), {"type": "Port", "data": {"code": "p7", "name": "Visby"}}])
    assert result.nodes == {"Port": 3}
    assert len(fleet.commits()) == before + 1


def test_records_that_are_made_while_they_are_read(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK_RECORDS", 3)

    def made() -> Iterator[dict[str, object]]:
        for number in range(10):
            yield {"type": "Port", "data": {"code": f"x{number}", "name": "n"}}

    assert fleet.load(made()).nodes == {"Port": 10}


def test_an_empty_file_changes_nothing(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    before = written(fleet)
    for mode in ("append", "merge", "overwrite"):
        assert fleet.load(path, mode=mode, allow_empty=True).commit is None
    assert written(fleet) == before


def test_lines_longer_than_a_block(fleet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", 100)
    path = tmp_path / "long.jsonl"
    name = "é" * 300
    lines = [
        json.dumps({"type": "Port", "data": {"code": f"x{n}", "name": name}}, ensure_ascii=False) for n in range(5)
    ]
    path.write_text("\n".join([*lines, "nope"]))
    assert [(each.line, each.rule) for each in problems(fleet, path)] == [(6, "record")]
    path.write_text("\n".join(lines))
    fleet.load(path)
    assert [row["name"] for row in rows_of(fleet, "Port")].count(name) == 5


def test_a_text_of_ten_megabytes(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    name = "x" * 10_000_000
    path.write_text(json.dumps({"type": "Port", "data": {"code": "large", "name": name}}))
    fleet.load(path)
    assert name in [row["name"] for row in rows_of(fleet, "Port")]


def test_sources_that_are_none(fleet: Graph, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        fleet.load(tmp_path / "none.jsonl")
    with pytest.raises(ParameterError, match="is a folder"):
        fleet.load(tmp_path)
    for wrong in (7, b"{}", {"type": "Port"}, pa.table({"code": ["x"]})):
        with pytest.raises(ParameterError, match="cannot be read from"):
            fleet.load(wrong)  # pyright: ignore[reportArgumentType]  that is the point
    with pytest.raises(ParameterError, match="a source holds int"):
        fleet.load([7])  # pyright: ignore[reportArgumentType]  that is the point
    with pytest.raises(ParameterError, match="nothing to load"):
        fleet.load()


@pytest.mark.parametrize(
    "content",
    [gzip.compress(PORT * 100, mtime=0)[:-20], b"\x28\xb5\x2f\xfd\x00garbage"],
    ids=["gzip cut short", "zstd with garbage"],
)
def test_a_damaged_file(fleet: Graph, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(content)
    before = written(fleet)
    with pytest.raises(StorageError, match="cannot be read"):
        fleet.load(path)
    assert written(fleet) == before


def test_utf_16_is_named(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "wide.jsonl"
    path.write_bytes(PORT.decode().encode("utf-16"))
    with pytest.raises(ParameterError, match="UTF-16"):
        fleet.load(path)


# --------------------------------------------------------------------------------------------- bad records


@pytest.mark.parametrize(
    ("line", "rule", "message"),
    [
        ("nope", "record", "not JSON"),
        ("[1]", "record", "not a JSON object"),
        ('{"data": {}}', "record", "neither 'type' nor 'edge'"),
        ('{"type": "Prot", "data": {}}', "known types", "did you mean 'Port'?"),
        ('{"type": 3}', "known types", "not a text"),
        ('{"edge": "Pulls", "from": "a", "to": "b"}', "known types", "no edge type 'Pulls'"),
        ('{"type": "Port", "code": "x"}', "record", "unknown field 'code'"),
        ('{"type": "Port", "data": []}', "record", "'data' is not an object"),
        ('{"edge": "Tows", "from": "v1", "to": "v2", "data": 1}', "record", "'data' is not an object"),
        ('{"type": "Port", "edge": "Tows", "data": {"code": "p7", "name": "x"}}', "record", "both 'type' and 'edge'"),
        ('{"edge": "Tows", "type": null, "from": "v1", "to": "v2"}', "record", "both 'type' and 'edge'"),
        ('{"type": "Port", "type": "Port"}', "record", "'type' occurs twice"),
        ('{"type": "Port", "data": {"code": "a", "code" : "b"}}', "record", "'code' occurs twice"),
        ('{"type": "Port", "data": {"code": "a:b", "name": "x", "name": "x"}}', "record", "'name' occurs twice"),
        (
            '{"type": "Port", "data": {"code": "a", "nam": "b", "name": "x"}}',
            "known properties",
            "did you mean 'name'?",
        ),
        ('{"type": "Port", "data": {"code": "a"}}', "required", "'name' is missing"),
        ('{"type": "Port", "data": {"name": "a"}}', "required", "'code' is missing"),
        ('{"type": "Port", "data": {"code": "a", "name": null}}', "required", "'name' is missing"),
        ('{"type": "Port", "data": {"code": "a", "name": 1}}', "String", "found an integer"),
        ('{"type": "Port", "data": {"code": "a", "name": "b", "depth": NaN}}', "record", "not JSON"),
        ('{"type": "Port", "data": {"code": "a", "name": "b", "depth": 1e400}}', "record", "not JSON"),
        ('{"type": "Port", "data": {"code": "a", "name": "b", "depth": "9"}}', "F64?", "found a string"),
        ('{"type": "Port", "data": {"code": "a", "name": "b", "depth": 31}}', "@range(depth, 0.0..30.0)", "31"),
        ('{"type": "Port", "data": {"code": "P!", "name": "b"}}', '@check(code, "^[a-z0-9]+$")', "P!"),
        ('{"type": "Port", "data": {"id": "b", "code": "a", "name": "b"}}', "@key(code)", "the key gives 'a'"),
        ('{"type": "Port", "data": {"id": 3, "code": "a", "name": "b"}}', "String", "found an integer"),
        ('{"edge": "Tows", "to": "v1"}', "required", "'from' is missing"),
        ('{"edge": "Tows", "from": "v1", "to": null}', "required", "'to' is missing"),
        ('{"edge": "Tows", "from": "v1", "to": 7}', "edge Tows: Vessel -> Vessel", "found an integer"),
        ('{"edge": "Tows", "from": "v1", "to": ""}', "required", "'to' is empty"),
        ('{"edge": "Tows", "from": "v1", "to": "nobody"}', "edge Tows: Vessel -> Vessel", "no such Vessel"),
        ('{"edge": "CallsAt", "from": "v1", "to": "v2"}', "edge CallsAt: Vessel -> Port", "no such Port"),
        ('{"edge": "CallsAt", "from": "v1", "to": "p1", "data": {"at": "soon"}}', "DateTime?", "not a date-time"),
        ('{"edge": "CallsAt", "from": "v1", "to": "p1", "data": {"src": "v2"}}', "known properties", "'src'"),
        ('{"edge": "CallsAt", "from": "v1", "to": {"code": 3}}', "String", "found an integer"),
        ('{"edge": "CallsAt", "from": "v1", "to": {"name": "Oslo"}}', "@key(code)", "an object of code"),
    ],
)
def test_a_bad_line_in_the_middle(fleet: Graph, tmp_path: Path, line: str, rule: str, message: str) -> None:
    path = tmp_path / "mixed.jsonl"
    path.write_bytes(PORT + b"\n\n" + line.encode() + b"\n" + NEXT)
    found = problems(fleet, path)
    assert [(each.file, each.line, each.rule) for each in found] == [(str(path), 3, rule)]
    assert message in found[0].message


def test_everything_wrong_with_a_file_comes_together_and_in_order(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(
        '{"edge": "Tows", "from": "v1", "to": "bad"}\n'
        '{"edge": "Tows", "from": "v1", "to": "nobody"}\n'
        '{"type": "Vessel", "data": {"code": "bad", "name": 1, "kind": "boat", "tonnage": 9999999999}}\n'
        "oops\n"
        '{"type": "Vessel", "data": {"code": "v1", "name": "again", "kind": "tug"}}\n'
    )
    found = [(each.line, each.type, each.id, each.property, each.value) for each in problems(fleet, path)]
    # The edge on line 1 is not reported: it is invalid only because the vessel on line 3 is.
    tow = found.pop(0)
    assert (tow[0], tow[1], tow[3], tow[4]) == (2, "Tows", "dst", "nobody")
    assert found == [
        (3, "Vessel", "bad", "name", "1"),
        (3, "Vessel", "bad", "tonnage", "9999999999"),
        (3, "Vessel", "bad", "kind", "boat"),
        (4, "", None, None, None),
        (5, "Vessel", "v1", "code", "v1"),
    ]


def test_a_hundred_problems_are_enough(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text("".join(f"{number},name\n" for number in range(1000)))
    found = problems(fleet, path)
    assert len(found) == 100
    assert [each.line for each in found] == list(range(1, 101))
    with pytest.raises(ValidationError) as caught:
        fleet.load(path, check=True)
    assert len(caught.value.violations) == 1000


# --------------------------------------------------------------------------------------------- good records


def test_edges_are_named_in_any_case(fleet: Graph) -> None:
    result = fleet.load(
        [
            {"type": "Port", "data": {"code": "p9", "name": "Riga"}},
            {"edge": "callsAT", "from": "v1", "to": "p9"},
            {"edge": "CALLSAT", "from": "v2", "to": {"code": "p9"}, "data": {"id": "mine"}},
        ]
    )
    assert result.nodes == {"Port": 1}
    assert result.edges == {"CallsAt": 2}
    assert "mine" in [row["id"] for row in rows_of(fleet, "CallsAt")]


def wide(*data: dict[str, object] | str) -> pa.Table:
    """Read rows of the wide type; fail on any error."""
    catalog = parse_schema(WIDE).catalog
    lines = [each if isinstance(each, str) else json.dumps({"type": "Wide", "data": each}) for each in data]
    drafts = list(read_records(catalog, io.BytesIO("\n".join(lines).encode())))
    admitted = [validate_batch(draft) for draft in drafts if isinstance(draft, RawBatch)]
    assert [each.violations for found in admitted for each in found.rejected] == []
    return pa.Table.from_batches([each.rows for each in admitted])


def test_values_of_every_type() -> None:
    rows = wide(
        {
            "key": -(2**63), "b": True, "i": -(2**31), "u": 2**64 - 1, "f": 0.1, "d": 2**53 + 1, "day": "2001-05-04",
            "at": "2024-01-01T08:00:00.250+01:00", "word": "ø\u0000", "days": ["1970-01-02", 3], "words": [],
            "vec": [1, 0.5], "body": "base64:aGk=",
        },
        {"key": 1, "day": -1, "at": 5, "d": 7, "level": 9},
        {"key": 2, "at": "2024-01-01", "day": None, "body": "s3://b/k"},
    )  # fmt: skip
    first, second, third = rows.to_pylist()
    assert rows["id"].to_pylist() == [str(-(2**63)), "1", "2"]
    assert (first["b"], first["i"], first["u"], first["word"]) == (True, -(2**31), 2**64 - 1, "ø\u0000")
    assert (first["f"], first["d"]) == (pytest.approx(0.1), float(2**53 + 1))
    assert [str(day) for day in first["days"]] == ["1970-01-02", "1970-01-04"]
    assert (first["words"], first["vec"]) == ([], [1.0, 0.5])
    assert (first["body"]["data"], third["body"]["uri"]) == (b"hi", "s3://b/k")
    assert rows["at"].cast(pa.int64()).to_pylist() == [1704092400250, 5, 1704067200000]
    assert [str(day) for day in rows["day"].to_pylist()] == ["2001-05-04", "1969-12-31", "None"]
    assert rows["level"].to_pylist() == [3, 9, 3]
    assert second["vec"] is None


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ('"i": 2147483648', "I32?"),
        ('"i": 1.0', "I32?"),
        ('"i": true', "I32?"),
        ('"i": "1"', "I32?"),
        ('"u": -1', "U64?"),
        ('"u": 18446744073709551616', "U64?"),
        ('"f": 1e39', "F32?"),
        ('"f": true', "F32?"),
        ('"b": 1', "Bool?"),
        ('"day": "2001-5-4"', "Date?"),
        ('"day": "2001-02-30"', "Date?"),
        ('"day": "0000-01-01"', "Date?"),
        ('"day": 1.5', "Date?"),
        ('"day": 99999999', "Date?"),
        ('"at": "2024-01-01T25:00:00Z"', "DateTime?"),
        ('"at": "0000-01-01T00:00:00Z"', "DateTime?"),
        ('"at": 9999999999999999', "DateTime?"),
        ('"words": "a"', "[String]?"),
        ('"words": ["a", 1]', "[String]?"),
        ('"words": ["a", null]', "no null items"),
        ('"days": ["2001-01-01", "x"]', "[Date]?"),
        ('"vec": [1]', "Vector(2)"),
        ('"vec": [1, "a"]', "Vector(2)?"),
        ('"vec": [1, null]', "no null items"),
        ('"body": "base64:?"', "Blob?"),
        ('"body": 3', "Blob?"),
    ],
)
def test_values_that_do_not_fit(data: str, rule: str) -> None:
    good = '{"type": "Wide", "data": {"key": 1, "day": "2001-05-04", "words": ["x"], "vec": [1, 2]}}'
    bad = f'{{"type": "Wide", "data": {{"key": 2, {data}}}}}'
    (draft,) = read_records(parse_schema(WIDE).catalog, io.StringIO(f"{good}\n{bad}\n{good}\n"))
    assert isinstance(draft, RawBatch)
    admitted = validate_batch(draft)
    assert admitted.rows.num_rows == 2
    assert [(each.record, [one.rule for one in each.violations]) for each in admitted.rejected] == [(bad, [rule])]
    assert admitted.rejected[0].violations[0].line == 2

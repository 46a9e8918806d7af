"""What is exported loads back to the same graph: every type, at any commit, on any branch, in every format."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.graph import Graph
from omnigraph.language.schema import parse_schema
from tests.read.rows.exported_graphs import SCHEMA, contents, records
from tests.selection import sized

OUTSIDE = "outside.bin"
# The template is only ever copied.
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty graph, and beside it an object that blobs may stand for."""
    folder = tmp_path_factory.mktemp("round-trip")
    omnigraph.init(folder / "empty.og", SCHEMA)
    (folder / OUTSIDE).write_bytes(b"elsewhere")
    return folder


@contextmanager
def empty_graph(template: Path) -> Generator[Graph]:
    with TemporaryDirectory(dir=template) as folder:
        yield omnigraph.open(shutil.copytree(template / "empty.og", Path(folder) / "graph.og"))


@pytest.mark.costly
@settings(shared, max_examples=sized(3, 100))
@given(data=st.data())
def test_jsonl_of_any_moment_and_branch_loads_back(template: Path, data: st.DataObject) -> None:
    drawn = records((template / OUTSIDE).as_uri())
    with empty_graph(template) as graph:
        graph.load(data.draw(drawn, "first"))
        first = graph.commits()[0].id
        graph.create_branch("side")
        graph.load(data.draw(drawn, "on the branch"), mode="merge", branch="side")
        graph.load(data.draw(drawn, "second"), mode="merge")
        for branch, at in (("main", None), ("main", first), ("side", None)):
            with empty_graph(template) as copy:
                copy.load(BytesIO("".join(graph.export(branch=branch, at=at)).encode()))
                assert contents(copy) == contents(graph, branch, at)


def tables_of(folder: Path) -> dict[str, dict[str, Path]]:
    """The file or folder of each exported type, by kind and type."""
    return {kind: {path.stem: path for path in (folder / kind).iterdir()} for kind in ("node", "edge")}


@pytest.mark.parametrize("form", ["parquet", "csv"])
@settings(shared, max_examples=sized(3, 80))
@given(data=st.data())
def test_tables_load_back(template: Path, form: Literal["parquet", "csv"], data: st.DataObject) -> None:
    with empty_graph(template) as graph, empty_graph(template) as copy, TemporaryDirectory(dir=template) as folder:
        graph.load(data.draw(records((template / OUTSIDE).as_uri())))
        place = Path(folder) / "tables"
        graph.export(place, format=form)
        tables = tables_of(place)
        copy.load(nodes=tables["node"], edges=tables["edge"])
        assert contents(copy) == contents(graph)


FULL: dict[str, object] = {
    "text": "", "flag": False, "small": -(2**31), "large": 2**63 - 1, "count": 2**32 - 1, "huge": 2**64 - 1,
    "half": 0.1, "whole": -0.0, "day": "0001-01-01", "moment": "9999-12-31T23:59:59.999Z", "kind": "red",
    "point": [0.1, -0.0, 1e-38], "body": "base64:AAEC", "texts": ["", 'a,"b"', "null", "\n"], "flags": [True],
    "smalls": [], "larges": [-(2**63)], "counts": [0], "huges": [2**64 - 1], "halves": [0.1], "wholes": [1e308],
    "days": ["2024-02-29"], "moments": ["1969-12-31T23:59:59.001Z"], "level": None,
}  # fmt: skip


def full_records(outside: str) -> list[dict[str, object]]:
    """A value of every type, nulls, empty texts and blobs, an object elsewhere, and edges with and without values."""
    texts = ["null", " a ", "1", "true", 'say "x", y', "line\nbreak", "\r\n", "\t", "base64:AAEC", "{}"]
    assert set(FULL) == set(parse_schema(SCHEMA).catalog.nodes["Thing"].properties) - {"code"}
    things = [
        {"code": "full", **FULL},
        {"code": "nulls", **dict.fromkeys(FULL)},
        {"code": " ", "body": "base64:"},
        {"code": "outside", "body": outside, "text": "file:///x"},
        *({"code": text, "text": text, "texts": [text]} for text in texts),
    ]
    return [
        *({"type": "Thing", "data": data} for data in things),
        {"type": "Free", "data": {"id": "f1", "name": "", "score": 0}},
        {"type": "Free", "data": {"name": None, "score": -1.5}},
        {"type": "Leg", "data": {"line": "", "seq": 1, "at": 0}},
        {"edge": "Holds", "from": "full", "to": "f1", "data": {"weight": 0.1, "since": 1, "proof": "base64:"}},
        {"edge": "Holds", "from": " ", "to": "f1", "data": {"proof": outside}},
        {"edge": "Holds", "from": "full", "to": "f1"},
        {"edge": "Follows", "from": {"line": "", "seq": 1, "at": 0}, "to": {"line": "", "seq": 1, "at": 0}},
    ]


@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv"])
def test_a_value_of_every_type_loads_back(template: Path, form: Literal["jsonl", "parquet", "csv"]) -> None:
    with empty_graph(template) as graph, empty_graph(template) as copy, TemporaryDirectory(dir=template) as folder:
        graph.load(full_records((template / OUTSIDE).as_uri()))
        place = Path(folder) / f"exported.{form}"
        graph.export(place)
        if form == "jsonl":
            copy.load(place)
        else:
            tables = tables_of(place)
            copy.load(nodes=tables["node"], edges=tables["edge"])
        assert contents(copy) == contents(graph)

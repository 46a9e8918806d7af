"""A load without rows: an overwrite removes all rows of a type only if that is asked for, and a reader has a row."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph
from omnigraph.write.load import LoadMode
from tests.graphs import rows_of, written

SCHEMA = "node Part { code: String @key  stock: I32? @range(stock, 0..99) }"
PARTS = pa.table({"code": ["a", "b"], "stock": pa.array([1, 2], pa.int32())})


def exhausted() -> pa.RecordBatchReader:
    reader = PARTS.to_reader()
    reader.read_all()
    return reader


def empty_file(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(b"")
    return path


WRONG: Final = '{"type": "Part", "data": {"code": "w", "stock": 500}}'
INPUTS: Final[Mapping[str, Callable[[Path], dict[str, object]]]] = {
    "a table without rows": lambda _: {"nodes": {"Part": PARTS.slice(0, 0)}},
    "a reader that was read": lambda _: {"nodes": {"Part": exhausted()}},
    "a CSV file of 0 bytes": lambda folder: {"nodes": {"Part": empty_file(folder, "parts.csv")}},
    "a JSONL file of 0 bytes": lambda folder: {"nodes": {"Part": empty_file(folder, "parts.jsonl")}},
    "no record": lambda _: {"source": []},
    "a file of 0 bytes": lambda folder: {"source": empty_file(folder, "records.jsonl")},
    "only rejected records": lambda _: {"source": io.StringIO(WRONG)},
    "only rejected rows": lambda _: {"nodes": {"Part": pa.table({"code": ["w"], "stock": [500]})}},
    "only records that are not whole": lambda _: {"source": io.StringIO('{"type": "Part", "data": []}')},
}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.load(nodes={"Part": PARTS})
    return graph


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", INPUTS)
def test_an_overwrite_without_rows_is_refused(name: str, graph: Graph, tmp_path: Path, *, check: bool) -> None:
    before = written(graph)
    with pytest.raises(ParameterError, match="allow_empty=True"):
        graph.load(**INPUTS[name](tmp_path), mode="overwrite", on_error="quarantine", check=check)  # pyright: ignore[reportArgumentType]  of any kind
    assert written(graph) == before


@pytest.mark.parametrize("name", INPUTS)
def test_an_overwrite_that_may_be_empty_removes_all_rows(name: str, graph: Graph, tmp_path: Path) -> None:
    graph.load(**INPUTS[name](tmp_path), mode="overwrite", on_error="quarantine", allow_empty=True)  # pyright: ignore[reportArgumentType]  of any kind
    named = "source" not in INPUTS[name](tmp_path) or name.startswith("only")
    assert len(rows_of(graph, "Part")) == (0 if named else 2)


def test_the_error_says_how_many_records_would_be_rejected(graph: Graph) -> None:
    with pytest.raises(ParameterError) as caught:
        graph.load(io.StringIO(f"{WRONG}\nnot json\n"), mode="overwrite", on_error="quarantine")
    assert caught.value.message == "the overwrite has no rows of Part; 2 records would be rejected"


@pytest.mark.parametrize("mode", ["append", "merge", "update", "overwrite"])
def test_a_reader_without_a_row_is_refused_in_every_mode(mode: LoadMode, graph: Graph) -> None:
    before = written(graph)
    with pytest.raises(ParameterError, match="it was read before") as caught:
        graph.load(nodes={"Part": exhausted()}, mode=mode)
    assert "allow_empty=True" in str(caught.value.hint)
    assert written(graph) == before
    result = graph.load(nodes={"Part": exhausted()}, mode=mode, allow_empty=True)
    assert result.total.read == 0

"""``dir(omnigraph)`` shows what there is, and every name of it can be had, documented."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import Graph, errors

HIDDEN = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
hidden = {"pyspark", "py4j", "pandas", "polars", "fastapi", "starlette", "uvicorn", "cedarpy", "mcp"}
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in hidden else find(name, *more)
import omnigraph
for name in dir(omnigraph):
    getattr(omnigraph, name)
"""


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert dir(og) == sorted(og.__all__)
    assert [name for name in og.__all__ if getattr(og, name) is None] == []


def test_every_public_name_has_a_docstring() -> None:
    without = [name for name in og.__all__ if name != "__version__" and not inspect.getdoc(getattr(og, name))]
    assert without == []


def test_every_class_that_a_verb_returns_is_public() -> None:
    """What ``Graph`` returns can be named in an annotation without an inner module."""
    verbs = [verb for name, verb in inspect.getmembers(Graph, inspect.isfunction) if not name.startswith("_")]
    words = {word for verb in verbs for word in re.findall(r"[\w.]+", str(inspect.signature(verb).return_annotation))}
    ours = {word.rpartition(".")[2] for word in words if word.rpartition(".")[2][:1].isupper()}
    foreign = {"None", "Self", "Iterator", "Any", "Table", "RecordBatchReader", "OneDirection"}
    elsewhere = {"SparkGraph"}  # it needs PySpark: graph.spark() is the way to it
    assert ours - foreign - elsewhere - set(og.__all__) == set()


def test_every_group_of_errors_is_public() -> None:
    groups = {kind.__name__ for kind in errors.OmniGraphError.__subclasses__() if kind.__module__ == errors.__name__}
    assert groups <= set(og.__all__)


def test_the_base_install_has_every_public_name() -> None:
    done = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = og.nope  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def test_libraries_of_frames_take_a_result_as_it_is(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.og", "node Port { code: String @key  depth: F64? }")
    graph.load([{"type": "Port", "data": {"code": "kiel", "depth": 9.5}}, {"type": "Port", "data": {"code": "riga"}}])
    result = graph.query(
        "query q() { match { $p: Port } return { $p.code as code, $p.depth as depth } order { code } }"
    )
    assert pa.table(result).to_pylist() == result.rows
    assert pl.DataFrame(result).to_dicts() == result.rows
    assert first_address(pa.table(result)) == first_address(result.to_arrow())


def first_address(table: pa.Table) -> int:
    """Where the values of the last column lie in memory."""
    (batch,) = table.to_batches()
    values = batch.column(batch.num_columns - 1).buffers()[1]
    assert values is not None
    return values.address

"""What is exported loads back to the same graph: every type, at any commit, on any branch, in both formats."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.graph import Graph
from tests.read.rows.exported_graphs import SCHEMA, contents, records
from tests.selection import sized

OUTSIDE = "outside.bin"
INLINE = "base64:aW5saW5l"
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


@settings(shared, max_examples=sized(3, 80))
@given(first=records(INLINE))
def test_parquet_loads_back(template: Path, first: list[dict[str, object]]) -> None:
    with empty_graph(template) as graph, empty_graph(template) as copy, TemporaryDirectory(dir=template) as folder:
        graph.load(first)
        place = Path(folder) / "tables"
        graph.export(place, format="parquet")
        nodes, edges = (
            {each.name: pq.read_table(each) for each in (place / kind).iterdir()} for kind in ("node", "edge")
        )
        copy.load(nodes=nodes, edges=edges)
        assert contents(copy) == contents(graph)

"""Frames that compute their rows when they are read, and values of DuckDB and pandas that no property can hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import omnigraph
from omnigraph.errors import ParameterError, ValidationError
from omnigraph.graph import Graph
from tests.graphs import rows_of, written

SCHEMA = """
node Person {
  name: String @key
  age: I32?  score: F64?  born: Date?  seen: DateTime?  times: [DateTime]?  scores: [F64]?  at: Vector(2)?
  tags: [String]?  photo: Blob?
}
edge Knows: Person -> Person
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "people.og", SCHEMA)


def test_frames_of_one_connection_are_opened_one_after_the_other(graph: Graph) -> None:
    connection = duckdb.connect()
    people = connection.sql("select 'p' || i as name, i::int as age from range(5) t(i)")
    knows = connection.sql("select 'p' || i as \"from\", 'p0' as \"to\" from range(1, 4) t(i)")
    result = graph.load(nodes={"Person": people}, edges={"Knows": knows})
    assert (result.nodes, result.edges) == ({"Person": 5}, {"Knows": 3})
    assert sorted(str(row["name"]) for row in rows_of(graph, "Person")) == [f"p{number}" for number in range(5)]


def test_the_columns_of_a_lazy_frame_are_checked_when_it_is_read(graph: Graph) -> None:
    before = written(graph)
    first = pd.DataFrame({"name": ["ann"]})
    with pytest.raises(ParameterError, match=r"edges\['Knows'\]: no property 'frm', did you mean 'from'\?") as caught:
        graph.load(nodes={"Person": first}, edges={"Knows": duckdb.sql("select 'ann' as frm, 'ann' as \"to\"")})
    assert len(caught.value.details["problems"]) == 2  # pyright: ignore[reportArgumentType]  a list
    with pytest.raises(ParameterError, match=r"nodes\['Person'\] cannot be read: .*Could not convert string 'x'"):
        graph.load(nodes={"Person": duckdb.sql("select 'ann' as name, 'x'::int as age")})
    assert written(graph) == before


@pytest.mark.parametrize(
    ("expression", "name", "word"),
    [
        ("'infinity'::date", "born", "infinity"),
        ("'-infinity'::date", "seen", "-infinity"),
        *((f"'infinity'::{unit}", "seen", "infinity") for unit in ("timestamp", "timestamptz", "timestamp_s")),
        ("'-infinity'::timestamp_ms", "seen", "-infinity"),
        ("'infinity'::timestamp", "born", "infinity"),
        ("['infinity'::timestamp]", "times", "infinity"),
        ("'infinity'::double", "score", "inf"),
        ("'nan'::float", "score", "nan"),
        ("['infinity'::double]", "scores", "inf"),
        ("['-infinity'::float, 0]", "at", "-inf"),
    ],
)
def test_an_infinite_value_of_duckdb_is_a_violation_of_its_row(
    graph: Graph, tmp_path: Path, expression: str, name: str, word: str
) -> None:
    def rows() -> duckdb.DuckDBPyRelation:
        return duckdb.sql(f"select 'ann' as name, null as {name} union all select 'bob', {expression}")

    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": rows()})
    (violation,) = caught.value.violations
    assert (violation.line, violation.id, violation.property) == (2, "bob", name)
    assert word in violation.message
    kept = tmp_path / "rejects.jsonl"
    result = graph.load(nodes={"Person": rows()}, on_error="quarantine", rejects=kept)
    assert (result.nodes, result.rejected) == ({"Person": 1}, 1)
    value = json.loads(json.loads(kept.read_text())["record"])["data"][name]
    assert word == (value[0] if isinstance(value, list) else value)


@pytest.mark.parametrize(
    ("name", "values", "row", "shown"),
    [
        ("age", [1, 2, "x"], 3, "'x' in row 3 is str"),
        ("score", [None, 1.5, "x"], 3, "'x' in row 3 is str"),
        ("tags", [["a"], "b"], 2, "'b' in row 2 is str"),
        ("at", [np.array([1.0, 2.0]), 3], 2, "3 in row 2 is int"),
        ("seen", [datetime(2024, 1, 1), "x"], 2, "'x' in row 2 is str"),
        ("born", [None, date(2024, 1, 1), datetime(2024, 1, 1, 3)], 3, "in row 3 is datetime"),
        ("photo", [b"x", "file:///x"], 2, "'file:///x' in row 2 is str"),
        ("age", [Path], 1, "in row 1 is type"),
    ],
)
def test_a_pandas_column_of_mixed_objects_names_the_column_and_the_value(
    graph: Graph, name: str, values: Sequence[object], row: int, shown: str
) -> None:
    names = [f"p{number}" for number in range(len(values))]
    frame = pd.DataFrame({"name": names, name: pd.Series(values, dtype=object)})
    with pytest.raises(ParameterError) as caught:
        graph.load(nodes={"Person": frame})
    assert caught.value.message.startswith(f"nodes['Person']: column '{name}' has no single type: ")
    assert caught.value.message.endswith(shown)
    assert (caught.value.details["column"], caught.value.details["row"]) == (name, row)


def test_pandas_columns_of_objects_of_one_kind_are_loaded(graph: Graph) -> None:
    frame = pd.DataFrame(
        {
            "name": pd.Series(["ann", "bob"], dtype=object),
            "born": pd.Series([date(2024, 1, 1), None], dtype=object),
            "seen": pd.Series([datetime(2024, 1, 1), pd.NaT], dtype=object),
            "tags": pd.Series([["x"], None], dtype=object),
        }
    )
    assert graph.load(nodes={"Person": frame}).nodes == {"Person": 2}
    assert [row["tags"] for row in rows_of(graph, "Person")] == [["x"], None]

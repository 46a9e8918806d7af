"""A result in all its forms: Python, Arrow, pandas, polars, JSON and HTML, whole or a piece at a time."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import islice
from typing import cast

import orjson
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ParameterError, Unsupported
from omnigraph.language.values import parse_date, parse_datetime, round_to_f32
from omnigraph.manifest.history import Commit
from omnigraph.read.result.query_result import Result
from omnigraph.storage.arrow_schema import arrow_values
from tests.language.query.query_strategies import fuzzing
from tests.read.random_entities import PROPERTIES, Things, loaded, things

COMMIT = Commit("01JCOMMIT00000000000000000", (), "main", 3, "act-ann", None, datetime(2024, 5, 1, tzinfo=UTC), None)
EMPTY = pa.schema([("n", pa.int64()), ("s", pa.string())])


def result_of(
    table: pa.Table, *, name: str = "q", commit: Commit | None = COMMIT, pieces: Callable[[], int] = lambda: 2
) -> Result:
    """The result of a query that answers with a table, some rows at a time."""
    return Result(
        name, table.schema, lambda: iter(table.to_batches(max_chunksize=pieces())), branch="main", commit=commit
    )


def column(name: str, values: Sequence[object]) -> pa.Table:
    """One column of one of the types of the language."""
    return pa.table({name: arrow_values(PROPERTIES[name], cast("Sequence[None]", values))})


def shown(name: str, values: Sequence[object]) -> object:
    """What JSON shows of a column."""
    rows = cast("list[dict[str, object]]", result_of(column(name, values)).to_json()["rows"])
    return [row[name] for row in rows]


def dtypes(frame: pd.DataFrame) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in cast("dict[str, object]", frame.dtypes.to_dict()).items()}


# --------------------------------------------------------------------------------------------- Python and Arrow


def test_rows_are_dicts_of_python_values() -> None:
    moment = parse_datetime("2024-01-01T08:00:00.123Z")
    table = pa.table(
        {
            "name": ["Ann", None],
            "age": pa.array([2**63, None], pa.uint64()),
            "born": arrow_values(PROPERTIES["date"], [parse_date("2001-05-04"), None]),
            "at": arrow_values(PROPERTIES["datetime"], [moment, None]),
            "times": arrow_values(PROPERTIES["datetimes"], [(moment, moment), None]),
            "dates": arrow_values(PROPERTIES["dates"], [(), (0,)]),
            "flag": [True, None],
            "score": pa.array([0.5, None], pa.float64()),
            "vector": arrow_values(PROPERTIES["vector"], [None, (0.5, 1.0)]),
        }
    )
    at = datetime(2024, 1, 1, 8, 0, 0, 123_000, tzinfo=UTC)
    assert result_of(table).rows == [
        {
            "name": "Ann",
            "age": 2**63,
            "born": date(2001, 5, 4),
            "at": at,
            "times": [at, at],
            "dates": [],
            "flag": True,
            "score": 0.5,
            "vector": None,
        },
        {
            **dict.fromkeys(["name", "age", "born", "at", "times", "flag", "score"]),
            "dates": [date(1970, 1, 1)],
            "vector": [0.5, 1.0],
        },
    ]
    assert result_of(table).rows[0]["at"].tzinfo is UTC  # pyright: ignore[reportAttributeAccessIssue]  a datetime, as just compared


@fuzzing(50)
@given(things())
def test_rows_are_what_arrow_says(given_things: Things) -> None:
    result = result_of(loaded(given_things.entities).rows)
    expected = cast("list[dict[str, object]]", result.to_arrow().to_pylist())
    assert result.rows == expected
    assert list(result) == expected
    assert (result.columns, len(result), result.row_count) == (list(expected[0]), len(expected), len(expected))


def test_a_datetime_is_a_timestamp_in_utc_and_a_vector_a_list_of_fixed_size() -> None:
    schema = result_of(loaded([]).rows).to_arrow().schema
    assert schema.field("datetime").type == pa.timestamp("ms", "UTC")
    assert schema.field("datetimes").type.value_type == pa.timestamp("ms", "UTC")
    assert schema.field("date").type == pa.date32()
    assert schema.field("vector").type == pa.list_(pa.field("item", pa.float32()), 2)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"])
def test_times_far_away_come_through_all_forms(text: str) -> None:
    result = result_of(column("datetime", [parse_datetime(text), None]))
    expected = datetime.fromisoformat(text)
    assert [row["datetime"] for row in result.rows] == [expected, None]
    assert cast("list[object]", result.to_polars()["datetime"].to_list()) == [expected, None]
    frame = result.to_pandas()
    assert dtypes(frame) == {"datetime": "datetime64[ms, UTC]"}
    assert frame.to_dict("list") == {"datetime": [pd.Timestamp(expected).as_unit("ms"), pd.NaT]}
    assert shown("datetime", [parse_datetime(text)]) == [text]


def test_in_pandas_an_integer_beside_a_null_stays_exact() -> None:
    table = pa.table(
        {"n": pa.array([2**53 + 1, None], pa.int64()), "m": pa.array([1, 2], pa.int64()), "s": ["x", None]}
    )
    frame = result_of(table).to_pandas()
    assert dtypes(frame) == {"n": "Int64", "m": "int64", "s": "object"}
    assert frame.to_dict("list") == {"n": [2**53 + 1, None], "m": [1, 2], "s": ["x", None]}


def test_polars_has_the_same_rows() -> None:
    table = pa.table({"n": pa.array([2**63, None], pa.uint64()), "s": ["x", None]})
    frame = result_of(table).to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.to_dicts() == [{"n": 2**63, "s": "x"}, {"n": None, "s": None}]


def test_without_polars_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(Unsupported, match="pip install polars"):
        result_of(EMPTY.empty_table()).to_polars()


def test_a_result_without_rows_has_its_columns() -> None:
    result = result_of(EMPTY.empty_table())
    assert (result.rows, result.columns, len(result), list(result.batches())) == ([], ["n", "s"], 0, [])
    assert result.to_arrow().schema == EMPTY
    assert list(result.to_pandas().columns) == ["n", "s"]
    assert result.to_polars().columns == ["n", "s"]


# --------------------------------------------------------------------------------------------- a piece at a time


def counting(made: list[int], size: int = 10) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Batches without end; what was made is written down."""

    def make() -> Iterator[pa.RecordBatch]:
        number = 0
        while True:
            made.append(number)
            yield pa.record_batch({"n": pa.array(range(number, number + size), pa.int64())})
            number += size

    return make


def endless(made: list[int]) -> Result:
    return Result("endless", pa.schema([("n", pa.int64())]), counting(made), branch="main", commit=None)


def test_a_result_without_end_can_be_iterated() -> None:
    made: list[int] = []
    assert [batch.to_pydict() for batch in islice(endless(made).batches(4), 2)] == [
        {"n": [0, 1, 2, 3]},
        {"n": [4, 5, 6, 7]},
    ]
    assert made == [0]
    assert [len(batch) for batch in islice(endless(made).batches(25), 3)] == [25, 25, 25]


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    made: list[int] = []
    result = endless(made)
    batches = result.batches(5)
    assert (result.columns, repr(result), made) == (["n"], "Result('endless', columns=['n'], branch='main')", [])
    next(batches)
    assert made == [0]


@pytest.mark.parametrize("piece", [1, 3, 7, 100])
@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_batches_are_as_large_as_asked_for_whatever_the_pieces(size: int, piece: int) -> None:
    table = pa.table({"n": pa.array(range(23), pa.int64())})
    batches = list(result_of(table, pieces=lambda: piece).batches(size))
    assert [batch.num_rows for batch in batches] == [size] * (23 // size) + ([23 % size] if 23 % size else [])
    assert pa.Table.from_batches(batches).equals(table)


@pytest.mark.parametrize(
    ("offset", "limit", "rows", "more"),
    [
        (0, 3, [0, 1, 2], True),
        (3, 4, [3, 4, 5, 6], False),
        (5, 10**30, [5, 6], False),
        (7, 1, [], False),
        (2, 0, [], True),
    ],
)
def test_a_page_has_its_rows_and_says_whether_there_are_more(
    offset: int, limit: int, rows: list[int], more: bool
) -> None:
    for pieces in (1, 2, 100):
        page = result_of(pa.table({"n": range(7)}), pieces=lambda size=pieces: size).page(offset, limit)
        assert (page.rows["n"].to_pylist(), page.more) == (rows, more)


def test_a_page_computes_no_more_than_it_needs() -> None:
    computed: list[int] = []

    def pieces() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            computed.append(number)
            yield from pa.table({"n": [number], "s": ["x"]}, EMPTY).to_batches()

    page = Result("q", EMPTY, pieces, branch="main", commit=COMMIT).page(2, 3)
    assert (page.rows["n"].to_pylist(), page.more) == ([2, 3, 4], True)
    assert computed == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("offset", "limit"), [(-1, 1), (0, -1)])
def test_a_page_lies_within_the_result(offset: int, limit: int) -> None:
    with pytest.raises(ParameterError, match="is -1"):
        result_of(pa.table({"n": [1]})).page(offset, limit)


def test_what_was_read_whole_is_not_computed_again() -> None:
    asked: list[int] = []

    def pieces() -> int:
        asked.append(1)
        return 2

    result = result_of(pa.table({"n": pa.array(range(5), pa.int64())}), pieces=pieces)
    assert result.row_count == 5
    assert (len(result.rows), len(list(result)), len(result.to_pandas()), len(result)) == (5, 5, 5, 5)
    assert result.to_json()["row_count"] == 5
    assert len(asked) == 1


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_has_rows(size: int) -> None:
    with pytest.raises(ParameterError, match=f"a batch of {size} rows"):
        endless([]).batches(size)


# --------------------------------------------------------------------------------------------- JSON


def test_json_is_the_object_of_the_interface() -> None:
    table = pa.table({"v.name": ["Ann", None], "n": pa.array([1, 2**63], pa.uint64())})
    expected = {
        "query_name": "people",
        "columns": ["v.name", "n"],
        "rows": [{"v.name": "Ann", "n": 1}, {"v.name": None, "n": 2**63}],
        "row_count": 2,
        "branch": "main",
        "commit": COMMIT.id,
    }
    found = result_of(table, name="people").to_json()
    assert found == expected
    assert list(found) == list(expected)
    assert json.loads(json.dumps(found, allow_nan=False)) == expected
    assert orjson.loads(orjson.dumps(found)) == expected
    assert result_of(table, commit=None).to_json()["commit"] is None


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("bool", [True, False, None], [True, False, None]),
        ("string", ["", "é\0", None], ["", "é\0", None]),
        ("i64", [-(2**63), 2**53 + 1, None], [-(2**63), 2**53 + 1, None]),
        ("u64", [2**64 - 1, None], [2**64 - 1, None]),
        ("f32", [round_to_f32(0.1), None], [0.10000000149011612, None]),
        (
            "f64",
            [0.1, 1.0, -0.0, math.nan, math.inf, -math.inf, None],
            [0.1, 1.0, 0.0, "NaN", "Infinity", "-Infinity", None],
        ),
        ("f64s", [(math.nan, 1.0), None, ()], [["NaN", 1.0], None, []]),
        ("vector", [(math.nan, 0.5), None, (math.inf, -math.inf)], [[None, 0.5], None, [None, None]]),
        ("date", [parse_date("2001-05-04"), parse_date("0001-01-01"), None], ["2001-05-04", "0001-01-01", None]),
        ("dates", [(0,), None], [["1970-01-01"], None]),
        ("datetime", [parse_datetime("2024-01-01T08:00Z"), None], ["2024-01-01T08:00:00.000Z", None]),
        ("datetimes", [(1, 0), None, ()], [["1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.000Z"], None, []]),
        ("strings", [("a", "b"), (), None], [["a", "b"], [], None]),
    ],
)
def test_json_shows_each_type_as_the_language_says(name: str, values: Sequence[object], expected: list[object]) -> None:
    assert shown(name, values) == expected
    assert [type(each) for each in cast("list[object]", shown(name, values))] == [type(each) for each in expected]


@given(st.integers(0, 5), st.integers(0, 5))
def test_part_of_a_column_is_shown_as_that_part(begin: int, count: int) -> None:
    values = [(0, 1), None, (), (2,), (3, 4, 5), None]
    table = column("i64s", values).slice(begin, count)
    expected = [None if each is None else list(each) for each in values[begin : begin + count]]
    assert [row["i64s"] for row in result_of(table).rows] == expected


# --------------------------------------------------------------------------------------------- notebooks


def test_html_is_escaped_and_says_how_many_rows_there_are() -> None:
    table = pa.table({"<b>": ["<script>alert(1)</script>", None], "n": pa.array([1, 2], pa.int64())})
    html = result_of(table, name="a<b")._repr_html_()
    assert "<script>" not in html
    assert "<th>&lt;b&gt;</th>" in html
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>1</td>" in html
    assert "<caption>a&lt;b: 2 rows</caption>" in html


def test_html_shows_the_first_rows_and_computes_no_more() -> None:
    made: list[int] = []
    html = endless(made)._repr_html_()
    assert html.count("<td>") == 20
    assert "the first 20 rows" in html
    assert made == [0, 10, 20]


def test_html_cuts_long_values() -> None:
    html = result_of(pa.table({"s": ["x" * 10_000]}))._repr_html_()
    assert "x" * 200 + "..." in html
    assert len(html) < 500

"""A condition means the same to Lance, with and without an index, to Arrow, and to plain Python."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from omnigraph.language.query.ast import ComparisonOperator
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue, parse_date, parse_datetime, round_to_f32
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.filters import MAX_LISTED_VALUES, Condition, ValueIn, compare_column
from omnigraph.storage.tables import IndexKind, Table

TEXTS = ["", "a", "it's", 'say "x"', "back\\slash", "%_`", "line\nbreak", "é", "Z", "z", "😀"]
INTEGERS = [-(2**63), -(2**53) - 1, -(2**31), -1, 0, 1, 2, 2**31 - 1, 2**32 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**64 - 1]
FLOATS = [-1e308, -2.5, -0.0, 0.0, 0.1, round_to_f32(0.1), 1.0, 1.5, 2.0**53, 2.0**63, 2.0**64, 1e39, 5e-324]
DATES = [parse_date(text) for text in ("0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31")]
TIMES = [
    parse_datetime(text)
    for text in ("0001-01-01", "1969-12-31T23:59:59.999Z", "2024-01-01T08:00:00.123Z", "9999-12-31T23:59:59.999Z")
]
# What a column holds, and what it is compared with.
COLUMNS: dict[Scalar, tuple[list[ConstantValue], list[ConstantValue]]] = {
    Scalar.STRING: (list(TEXTS), list(TEXTS)),
    Scalar.BOOL: ([True, False], [True, False]),
    Scalar.I32: ([number for number in INTEGERS if abs(number) < 2**31], [*INTEGERS, *FLOATS]),
    Scalar.U32: ([number for number in INTEGERS if 0 <= number < 2**32], [*INTEGERS, *FLOATS]),
    Scalar.I64: ([number for number in INTEGERS if number < 2**63], [*INTEGERS, *FLOATS]),
    Scalar.U64: ([number for number in INTEGERS if number >= 0], [*INTEGERS, *FLOATS]),
    Scalar.F32: ([round_to_f32(number) for number in FLOATS if abs(number) < 1e38], [*INTEGERS, *FLOATS]),
    Scalar.F64: (list(FLOATS), [*INTEGERS, *FLOATS]),
    Scalar.DATE: (list(DATES), list(DATES)),
    Scalar.DATETIME: (list(TIMES), list(TIMES)),
}
MEANINGS: dict[ComparisonOperator, Callable[[object, object], bool]] = {
    ComparisonOperator.EQUAL: operator.eq,
    ComparisonOperator.NOT_EQUAL: operator.ne,
    ComparisonOperator.LESS: cast("Callable[[object, object], bool]", operator.lt),
    ComparisonOperator.LESS_OR_EQUAL: cast("Callable[[object, object], bool]", operator.le),
    ComparisonOperator.GREATER: cast("Callable[[object, object], bool]", operator.gt),
    ComparisonOperator.GREATER_OR_EQUAL: cast("Callable[[object, object], bool]", operator.ge),
}


def table_of(folder: Path, column: str, type_: ValueType, values: list[ConstantValue]) -> Table:
    ids = pa.array([str(place) for place in range(len(values))])
    return tables.create_table(
        str(folder / "table"), pa.table({"id": ids, column: arrow_values(type_, values)}), "test"
    )


def found_by_scan(table: Table, condition: Condition) -> list[str]:
    return cast("list[str]", table.scan(["id"], filter=condition.to_sql()).read_all()["id"].to_pylist())


def found_by_mask(table: Table, condition: Condition) -> list[str]:
    rows = table.scan().read_all()
    return cast("list[str]", rows.filter(condition.evaluate(rows))["id"].to_pylist())


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("scalar", list(COLUMNS))
def test_comparisons_agree_and_are_exact(tmp_path: Path, scalar: Scalar, indexed: bool) -> None:
    stored, compared = COLUMNS[scalar]
    values: list[ConstantValue] = [*stored, None]
    type_ = ValueType(scalar, nullable=True)
    table = table_of(tmp_path, "mixedCase", type_, values)
    if indexed:
        staged = tables.build_index(table, "mixedCase", IndexKind.BTREE)
        assert staged is not None
        table = tables.commit(table, staged, "index")
    for word, meaning in MEANINGS.items():
        for value in compared:
            expected = [str(place) for place, held in enumerate(values) if held is not None and meaning(held, value)]
            condition = compare_column("mixedCase", type_, word, value)
            if condition is None:
                assert expected == [], (word, value)
                continue
            assert found_by_mask(table, condition) == expected, (word, value)
            assert sorted(found_by_scan(table, condition)) == sorted(expected), (word, value, condition.to_sql())


def test_nothing_compares_with_null() -> None:
    assert compare_column("a", ValueType(Scalar.STRING), ComparisonOperator.NOT_EQUAL, None) is None


@pytest.mark.parametrize("count", [0, 3, MAX_LISTED_VALUES + 1])
def test_any_of_looks_into_each_column(tmp_path: Path, count: int) -> None:
    rows = {"id": ["a", "b", "c", "d"], "src": ["it's", "0", "x", None], "dst": ["y", "z", "it's", "0"]}
    table = tables.create_table(str(tmp_path / "table"), pa.table(rows), "test")
    values = [str(number) for number in range(count)] + (["it's"] if count else [])
    condition = ValueIn(("src", "dst"), pa.array(values, pa.string()))
    assert (condition.to_sql() is None) is (count > MAX_LISTED_VALUES)
    expected = ["a", "b", "c", "d"] if count else []
    assert found_by_mask(table, condition) == expected
    if condition.to_sql() is not None:
        assert found_by_scan(table, condition) == expected

"""Binding parameters: everything that is wrong is said at once, before anything runs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from omnigraph.errors import ParameterError
from omnigraph.language.query.parameters import bind_parameters, parse_parameter_text
from omnigraph.language.types import INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import ConstantValue

OPTIONAL_STRING = ValueType(Scalar.STRING, nullable=True)
STRINGS = ValueType(Scalar.STRING, is_list=True)
VECTOR = ValueType(Scalar.VECTOR, dimension=2)


def bound(value: object, declared: ValueType | Scalar) -> ConstantValue:
    return bind_parameters({"x": _type(declared)}, {"x": value})["x"]


def refused(value: object, declared: ValueType | Scalar) -> ParameterError:
    with pytest.raises(ParameterError) as caught:
        bound(value, declared)
    assert caught.value.message.startswith("param 'x': ")
    return caught.value


def _type(declared: ValueType | Scalar) -> ValueType:
    return ValueType(declared) if isinstance(declared, Scalar) else declared


# ------------------------------------------------------------------------------------------------ names


def test_omitted_nullable_parameters_are_null() -> None:
    assert bind_parameters({"a": OPTIONAL_STRING}, None) == {"a": None}
    assert bind_parameters({"a": OPTIONAL_STRING}, {}) == {"a": None}
    assert bind_parameters({"a": OPTIONAL_STRING}, {"a": None}) == {"a": None}


def test_all_problems_come_in_one_error() -> None:
    declared = {"name": ValueType(Scalar.STRING), "age": ValueType(Scalar.I32), "born": ValueType(Scalar.DATE)}
    with pytest.raises(ParameterError) as caught:
        bind_parameters(declared, {"nme": "Ann", "age": "many"})
    assert caught.value.details["problems"] == [
        {"parameter": "nme", "message": "the query declares no such parameter", "hint": "did you mean 'name'?"},
        {"parameter": "name", "message": "missing; it is declared as String", "hint": "give name a value"},
        {"parameter": "age", "message": "expected I32, found a string", "hint": "give an integer"},
        {"parameter": "born", "message": "missing; it is declared as Date", "hint": "give born a value"},
    ]
    assert caught.value.message.count("param '") == 4


def test_a_query_without_parameters_takes_none() -> None:
    assert bind_parameters({}, {}) == {}
    with pytest.raises(ParameterError, match="the query has no parameters"):
        bind_parameters({}, {"a": 1})


def test_null_needs_a_nullable_parameter() -> None:
    assert "found null" in refused(None, Scalar.STRING).message


def test_parameters_are_an_object() -> None:
    with pytest.raises(ParameterError, match="an object of names and values"):
        bind_parameters({}, cast("dict[str, object]", [1]))


# ------------------------------------------------------------------------------------------------ JSON values


@pytest.mark.parametrize("scalar", INTEGER_RANGES)
def test_integers_have_their_full_range(scalar: Scalar) -> None:
    smallest, largest = INTEGER_RANGES[scalar][0], INTEGER_RANGES[scalar][-1]
    for value in (smallest, largest):
        assert bound(value, scalar) == value
        assert bound(str(value), scalar) == value
    for value in (smallest - 1, largest + 1):
        assert f"{smallest} to {largest}" in (refused(value, scalar).hint or "")


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        ("Ann", Scalar.STRING, "Ann"),
        ("", Scalar.STRING, ""),
        (True, Scalar.BOOL, True),
        (3, Scalar.F64, 3.0),
        (0.1, Scalar.F64, 0.1),
        (0.1, Scalar.F32, 0.10000000149011612),
        ("2024-02-29", Scalar.DATE, 19_782),
        ("0001-01-01", Scalar.DATE, -719_162),
        ("s3://bucket/key", Scalar.BLOB, "s3://bucket/key"),
        (["a", "b"], STRINGS, ("a", "b")),
        ([], STRINGS, ()),
        ([1, 0.1], VECTOR, (1.0, 0.10000000149011612)),
        ([1, "2"], ValueType(Scalar.I64, is_list=True), (1, 2)),
    ],
)
def test_accepted(value: object, declared: ValueType | Scalar, expected: ConstantValue) -> None:
    found = bound(value, declared)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01 00:00:01.5", 1500),
        ("1970-01-01T00:00:00.123456789Z", 123),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T02:00:00+0200", 0),
        ("1969-12-31T23:59:59.999-00:30", 30 * 60_000 - 1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_date_time_texts(text: str, milliseconds: int) -> None:
    assert bound(text, Scalar.DATETIME) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024",
        "2024-13-01T00:00Z",
        "2024-01-01T24:00Z",
        "2024-01-01T10Z",
        "2024-01-01T10:00:60Z",
        "2024-01-01T10:00:00.Z",
        "2024-01-01T10:00+25:00",
        "2024-01-01Z",
        " 2024-01-01",
        "2024-01-01\n",
        "\u0662024-01-01",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
    ],
)
def test_texts_that_are_no_date_time(text: str) -> None:
    refused(text, Scalar.DATETIME)


@pytest.mark.parametrize("text", ["20240101", "2024-W01-1", "2024-1-1", "2023-02-29", "0000-01-01", "2024-01-01T00:00"])
def test_texts_that_are_no_date(text: str) -> None:
    assert refused(text, Scalar.DATE).hint == "write YYYY-MM-DD"


@pytest.mark.parametrize(
    ("value", "declared", "message"),
    [
        (1, Scalar.STRING, "expected String, found an integer"),
        ("\ud83d", Scalar.STRING, "surrogate"),
        (True, Scalar.I32, "expected I32, found a boolean"),
        (1.0, Scalar.I32, "expected I32, found a number"),
        ("1.0", Scalar.I32, "expected I32, found a string"),
        ("1" * 5000, Scalar.I64, "expected I64, found a string"),
        ("\u0661", Scalar.I64, "expected I64, found a string"),
        (1, Scalar.BOOL, "expected Bool, found an integer"),
        (False, Scalar.F64, "expected F64, found a boolean"),
        ("1.5", Scalar.F64, "expected F64, found a string"),
        (float("nan"), Scalar.F64, "finite"),
        (float("inf"), Scalar.F32, "finite"),
        (1e39, Scalar.F32, "finite"),
        (10**400, Scalar.F64, "this integer is not a finite number"),
        (19_000, Scalar.DATE, "expected Date, found an integer"),
        ({}, Scalar.DATETIME, "expected DateTime, found an object"),
        ("a", STRINGS, "expected [String], found a string"),
        (["a", None], STRINGS, "element 1: expected String, found null"),
        (["a", 1], STRINGS, "element 1: expected String, found an integer"),
        ([1], VECTOR, "expected Vector(2), found 1 numbers"),
        ([1, float("nan")], VECTOR, "element 1: nan is not a finite number"),
        ([1, "2"], VECTOR, "element 1: expected F32, found a string"),
        ("ab", VECTOR, "expected Vector(2), found a string"),
    ],
)
def test_refused(value: object, declared: ValueType | Scalar, message: str) -> None:
    assert message in refused(value, declared).message


def test_an_integer_too_long_to_print_is_refused() -> None:
    assert "this integer does not fit I64" in refused(10**5000, Scalar.I64).message


# ------------------------------------------------------------------------------------------------ Python objects


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (date(1970, 1, 2), Scalar.DATE, 1),
        (date(1970, 1, 2), Scalar.DATETIME, 86_400_000),
        (datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC), Scalar.DATETIME, 1000),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), Scalar.DATETIME, -1),
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), Scalar.DATETIME, 0),
        (pd.Timestamp("1970-01-01T00:00:01.5Z"), Scalar.DATETIME, 1500),
        (np.int32(7), Scalar.I64, 7),
        (np.uint64(2**64 - 1), Scalar.U64, 2**64 - 1),
        (np.float32(0.5), Scalar.F64, 0.5),
        (np.bool_(True), Scalar.BOOL, True),
        (np.str_("a"), Scalar.STRING, "a"),
        (np.datetime64("1970-01-02"), Scalar.DATE, 1),
        (np.array([1.0, 2.0], dtype=np.float32), VECTOR, (1.0, 2.0)),
        (np.array(["a", "b"]), STRINGS, ("a", "b")),
        ((1, np.float64(2)), VECTOR, (1.0, 2.0)),
        (pa.scalar(7, pa.int8()), Scalar.I64, 7),
        (pa.scalar(None, pa.string()), OPTIONAL_STRING, None),
        (pa.scalar(1500, pa.date64()), Scalar.DATETIME, 1500),
        (pa.scalar(1, pa.date32()), Scalar.DATE, 1),
        (pa.scalar(1500, pa.timestamp("ms", "UTC")), Scalar.DATETIME, 1500),
        (pa.scalar(["a"], pa.list_(pa.string())), STRINGS, ("a",)),
        (pa.array(["a", "b"]), STRINGS, ("a", "b")),
    ],
)
def test_python_numpy_and_arrow_objects(value: object, declared: ValueType | Scalar, expected: ConstantValue) -> None:
    found = bound(value, declared)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("value", [datetime(2024, 1, 1), np.datetime64("2024-01-01T00:00", "ms"), pd.NaT])
def test_a_datetime_without_a_zone_is_refused(value: object) -> None:
    error = refused(value, Scalar.DATETIME)
    assert "no time zone" in error.message
    assert "tzinfo" in (error.hint or "")


def test_a_datetime_is_no_date() -> None:
    refused(datetime(2024, 1, 1, tzinfo=UTC), Scalar.DATE)


@pytest.mark.parametrize("value", [np.nan, pa.scalar(float("nan")), np.float32("inf")], ids=repr)
def test_no_library_brings_in_what_is_not_finite(value: object) -> None:
    refused(value, Scalar.F64)


@pytest.mark.parametrize("scalar", [Scalar.I64, Scalar.U64, Scalar.F32, Scalar.F64])
@pytest.mark.parametrize("digits", ["Infinity", "-Infinity", "NaN", "sNaN"])
def test_a_decimal_that_is_not_finite_is_refused(digits: str, scalar: Scalar) -> None:
    refused(Decimal(digits), scalar)


# ------------------------------------------------------------------------------------------------ command line


@pytest.mark.parametrize(
    ("text", "declared", "expected"),
    [
        ("3", Scalar.STRING, "3"),
        ('"3"', Scalar.STRING, '"3"'),
        ("null", OPTIONAL_STRING, "null"),
        ("3", Scalar.I32, 3),
        ("18446744073709551615", Scalar.U64, 2**64 - 1),
        ("true", Scalar.BOOL, True),
        ("null", ValueType(Scalar.I32, nullable=True), None),
        ("[0.5, 1]", VECTOR, [0.5, 1]),
        ('["a"]', STRINGS, ["a"]),
        ("2024-01-01", Scalar.DATE, "2024-01-01"),
        ('"2024-01-01"', Scalar.DATE, "2024-01-01"),
        ("file:///x", Scalar.BLOB, "file:///x"),
    ],
)
def test_parameter_texts(text: str, declared: ValueType | Scalar, expected: object) -> None:
    found = parse_parameter_text("x", text, _type(declared))
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "declared"),
    [("three", Scalar.I32), ("NaN", Scalar.F64), ("", Scalar.BOOL), ("a,b", STRINGS), ("[" * 100_000, VECTOR)],
)
def test_parameter_texts_that_are_no_json(text: str, declared: ValueType | Scalar) -> None:
    with pytest.raises(ParameterError, match="param 'x': expected"):
        parse_parameter_text("x", text, _type(declared))

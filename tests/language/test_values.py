"""Days, milliseconds and microseconds since 1970, the texts of instants, and lists of values."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.errors import ParameterError
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import (
    FIRST_DAY,
    FIRST_MILLISECOND,
    LAST_DAY,
    LAST_MILLISECOND,
    ValueMismatch,
    convert_value,
    from_days,
    from_microseconds,
    from_milliseconds,
    parse_date,
    parse_datetime,
    parse_instant,
    to_days,
    to_microseconds,
    to_milliseconds,
)


@given(st.dates())
def test_days_and_back(day: date) -> None:
    assert from_days(to_days(day)) == day
    assert parse_date(day.isoformat()) == to_days(day)


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_and_back(instant: datetime) -> None:
    assert from_microseconds(to_microseconds(instant)) == instant
    assert to_milliseconds(instant) == to_microseconds(instant) // 1000
    assert to_milliseconds(from_milliseconds(to_milliseconds(instant))) == to_milliseconds(instant)
    assert parse_datetime(instant.isoformat()) == to_milliseconds(instant)
    assert parse_instant(instant.isoformat()) == instant


def test_the_first_and_the_last_instant() -> None:
    assert (from_days(FIRST_DAY), from_days(LAST_DAY)) == (date.min, date.max)
    assert from_milliseconds(FIRST_MILLISECOND) == datetime.min.replace(tzinfo=UTC)
    assert from_milliseconds(LAST_MILLISECOND) == datetime.max.replace(microsecond=999_000, tzinfo=UTC)


def test_an_instant_without_a_zone_is_in_utc() -> None:
    assert parse_instant("2024-05-01T10:00") == datetime(2024, 5, 1, 10, tzinfo=UTC)
    with pytest.raises(ParameterError, match="is no date or time"):
        parse_instant("yesterday")


ITEMS = st.one_of(
    st.text(st.characters(), max_size=3), st.integers(-(2**65), 2**65), st.floats(), st.booleans(), st.none()
)
TEXTS = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"])), max_size=2)  # "Cs": surrogates
FLOATS = st.one_of(st.floats(), st.floats(allow_nan=False, allow_infinity=False))
USUAL: dict[Scalar, st.SearchStrategy[object]] = {
    Scalar.STRING: TEXTS,
    Scalar.I32: st.integers(-(2**31) - 2, 2**31 + 1) | st.integers(-9, 9),
    Scalar.U64: st.integers(-1, 2**64),
    Scalar.F32: FLOATS,
    Scalar.F64: FLOATS,
}
LISTS = st.sampled_from(list(USUAL)).flatmap(
    lambda scalar: st.tuples(st.just(scalar), st.lists(USUAL[scalar] | USUAL[scalar] | ITEMS, max_size=4))
)


@given(LISTS)
@example((Scalar.I32, [0, 2**31]))
@example((Scalar.STRING, ["a", "\ud800"]))
def test_a_list_is_converted_as_its_elements_are(drawn: tuple[Scalar, list[object]]) -> None:
    scalar, items = drawn

    def convert(value: object, to: ValueType) -> str:
        try:
            return repr(convert_value(value, to))
        except ValueMismatch as mismatch:
            return mismatch.message

    one_by_one = [convert(item, ValueType(scalar)) for item in items]
    wrong = next((place for place, item in enumerate(items) if _is_refused(item, scalar)), None)
    expected = f"element {wrong}: {one_by_one[wrong]}" if wrong is not None else _tuple_text(one_by_one)
    assert convert(items, ValueType(scalar, is_list=True)) == expected


def _is_refused(item: object, scalar: Scalar) -> bool:
    try:
        convert_value(item, ValueType(scalar))
    except ValueMismatch:
        return True
    return False


def _tuple_text(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"

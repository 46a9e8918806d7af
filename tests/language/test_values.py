"""Days, milliseconds and microseconds since 1970, and the texts of instants."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ParameterError
from omnigraph.language.values import (
    FIRST_DAY,
    FIRST_MILLISECOND,
    LAST_DAY,
    LAST_MILLISECOND,
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

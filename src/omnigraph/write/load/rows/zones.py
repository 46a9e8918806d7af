"""Times without a zone, as the time zone of a Spark session reads them. Everywhere else such a time is in UTC.

The rules are those of Spark: of a repeated hour the first one is meant, and a time in a skipped hour moves forward.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, cast
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ParameterError
from omnigraph.language.values import FIRST_MILLISECOND, LAST_MILLISECOND, from_milliseconds
from omnigraph.storage.columns import Values, compute, to_list

UTC: Final = "UTC"
_MILLISECOND: Final = timedelta(milliseconds=1)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
_HAS_ZONE: Final = r"([Zz]|[+-]\d{2}:?\d{2})$"


def normalize_zone(name: str) -> str:
    """Return a time zone of Spark as Arrow names it."""
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        return f"{sign}{int(hours):02}:{minutes or '00'}"
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ParameterError(
            f"there is no time zone '{name}'", hint="set spark.sql.session.timeZone to a name such as Europe/Oslo"
        ) from None
    return name


def assume_zone(milliseconds: Values, zone: str) -> Values:
    """Return the instants of local times, both in milliseconds since 1970."""
    if zone == UTC:
        return milliseconds
    times = milliseconds.cast(pa.timestamp("ms"))
    options = pc.AssumeTimezoneOptions(zone, ambiguous="earliest", nonexistent="raise")
    try:
        return compute("assume_timezone", times, options=options).cast(pa.int64())
    except pa.ArrowInvalid:
        # One of the times is in an hour that was skipped.
        numbers = cast("list[int | None]", to_list(milliseconds))
        instants = [None if number is None else _assume_one(number, ZoneInfo(zone)) for number in numbers]
        return cast("Values", pa.array(instants, pa.int64()))


def _assume_one(milliseconds: int, zone: ZoneInfo) -> int:
    if not FIRST_MILLISECOND <= milliseconds <= LAST_MILLISECOND:
        return milliseconds
    local = from_milliseconds(milliseconds)
    offset = local.replace(tzinfo=zone).utcoffset() or timedelta()
    return milliseconds - offset // _MILLISECOND


def assume_zone_of_texts(milliseconds: Values, texts: Values, zone: str) -> Values:
    """Return the instants of times that were read as UTC where their text has no zone."""
    has_zone = compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(_HAS_ZONE))
    return compute("if_else", has_zone, milliseconds, assume_zone(milliseconds, zone))


def to_local(milliseconds: Values, zone: str) -> Values:
    """Return the local times of instants, both in milliseconds since 1970."""
    if zone == UTC:
        return milliseconds
    return compute("local_timestamp", milliseconds.cast(pa.timestamp("ms", zone))).cast(pa.int64())

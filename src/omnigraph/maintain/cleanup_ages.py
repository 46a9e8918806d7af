"""The ages of files that cleanup deletes, and the check of the clocks.

The clock of the storage sets the time of a file. If it differs from the clock of this machine, ages are wrong, so
cleanup compares the two clocks first.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from omnigraph.errors import ParameterError, StorageError
from omnigraph.manifest.settings import parse_age
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects

AGE_HINT: Final = 'give an age like "7d" or timedelta(days=7)'
_CLOCK: Final = "__locks/clock"
"""An object that is written to read the clock of the storage."""
_MOST_DIFFERENCE: Final = timedelta(hours=1)
_LEAST_ON_STORES: Final = timedelta(hours=2)
"""On an object store a writer does not check files that it staged in the last half hour."""


def parse_staged_age(age: timedelta | str, location: Location) -> timedelta:
    """Return the age above which staged files are deleted."""
    parsed = parse_age(age) if isinstance(age, str) else age
    if parsed < timedelta(0):
        raise ParameterError(f"staged_older_than is {parsed}", hint=AGE_HINT)
    if not location.is_local and parsed < _LEAST_ON_STORES:
        raise ParameterError(f"staged_older_than is {parsed}", hint="on an object store give 2 hours or more")
    return parsed


def refuse_wrong_clock(objects: Objects, now: datetime) -> None:
    """Raise ``StorageError`` if the clock of this machine and that of the storage differ by more than an hour."""
    objects.put(_CLOCK, b"")
    stored = objects.head(_CLOCK)
    difference = timedelta(0) if stored is None else abs(now - stored.modified)
    if difference > _MOST_DIFFERENCE:
        raise StorageError(
            f"the clocks of this machine and of the storage differ by {difference}: cleanup goes by the age of files",
            hint="set the clock, or clean up from another machine",
            details={"seconds": int(difference.total_seconds())},
        )

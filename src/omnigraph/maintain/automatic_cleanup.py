"""Automatic cleanup: remove history that is older than the graph keeps. It is off unless somebody asked for it.

The graph keeps the age in its settings. Processes that write look now and then, after a commit, whether a cleanup is
due; a mark in the graph says when the last one began, so that one of them does it. What it may take is what ``cleanup``
may take: tags, heads of branches, merge bases and the last hour stay, whatever the age.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from omnigraph.errors import OmniGraphError
from omnigraph.maintain.cleanup import Cleaned, cleanup
from omnigraph.maintain.cleanup_times import keep_cleanup_begin, read_cleanup_times
from omnigraph.maintain.retention import READER_GRACE
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.settings import parse_keep, read_current_settings

_log = logging.getLogger("omnigraph")

_RUNS_PER_AGE: Final = 10
_SHORTEST, _LONGEST = timedelta(minutes=10), timedelta(days=1)


def clean_up_if_due(manifest: Manifest, chosen: str | None = None) -> Cleaned | None:
    """Clean up if the graph keeps history for some time only, and the last automatic cleanup is long ago.

    ``chosen`` is used in place of what the graph keeps.
    """
    now = datetime.now(UTC)
    kept = find_due(manifest, now, chosen)
    if kept is None:
        return None
    # First the mark: others need not do the same meanwhile, and one that dies is followed by the next in its time.
    keep_cleanup_begin(manifest.objects, now)
    done = cleanup(manifest, None, kept, confirm=True, grace=READER_GRACE)
    _log.info("automatic cleanup kept %d commits and freed %d bytes", done.commits_kept, done.bytes)
    return done


def is_due(manifest: Manifest, chosen: str | None = None) -> bool:
    """Return whether it is time for a cleanup; not if that cannot be said now."""
    try:
        return find_due(manifest, datetime.now(UTC), chosen) is not None
    except OmniGraphError as error:
        # Nobody waits for it: a later commit asks again.
        _log.info("automatic cleanup is put off: %s", error)
        return False


def find_due(manifest: Manifest, now: datetime, chosen: str | None = None) -> timedelta | None:
    """Return how long history is kept, if it is time for a cleanup; None if it is not, or if it is switched off."""
    kept = parse_keep(read_current_settings(manifest).keep if chosen is None else chosen)
    if kept is None:
        return None
    interval = min(_LONGEST, max(_SHORTEST, kept / _RUNS_PER_AGE))
    began_at = read_cleanup_times(manifest.objects).began_at
    # A mark in the future was written by a clock that was wrong.
    is_recent = began_at is not None and abs(now - began_at) < interval
    return None if is_recent else kept

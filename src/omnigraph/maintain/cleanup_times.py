"""When a graph was cleaned up: a small file beside its tables, for operators and for automatic cleanup."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.objects import Objects
from omnigraph.storage.records import INSTANT, MalformedRecord, RecordCodec, nullable

FILE: Final = "__cleanup.json"


@dataclass(frozen=True, slots=True)
class CleanupTimes:
    """When the last automatic cleanup began, and when the last cleanup of any kind ended."""

    began_at: datetime | None = None
    ended_at: datetime | None = None


_CODEC: Final = RecordCodec(CleanupTimes, (nullable("began_at", INSTANT), nullable("ended_at", INSTANT)))


def read_cleanup_times(objects: Objects) -> CleanupTimes:
    """Return when the graph was cleaned up."""
    data = objects.get(FILE)
    try:
        return CleanupTimes() if data is None else _CODEC.loads(data)
    except MalformedRecord:
        # Torn by a power cut. Nothing depends on it but when the next automatic cleanup begins.
        return CleanupTimes()


def keep_cleanup_begin(objects: Objects, now: datetime) -> None:
    """Record that an automatic cleanup begins."""
    _write(objects, replace(read_cleanup_times(objects), began_at=now))


def keep_cleanup_end(objects: Objects, now: datetime) -> None:
    """Record that a cleanup has ended."""
    _write(objects, replace(read_cleanup_times(objects), ended_at=now))


def _write(objects: Objects, times: CleanupTimes) -> None:
    objects.put(FILE, _CODEC.dumps(times))

"""A table next to the graph that lives as long as one load on Spark: what many tasks write and no graph ever shows.

Executors share no folder with this process, except where the graph itself lies. So what a load cannot keep in the
graph lies beside it, in ``<graph>.loading/<id>``: rows of tables that may not be written to yet, where each row stood,
and rejected records. A load that is killed leaves its folder there, and the next load on Spark takes it away once a
day has passed in which nothing was written to it. A load that lives writes a line there every hour, so that its folder
is never as old, however long a job takes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Final

from ulid import ULID

from omnigraph.errors import OmniGraphError
from omnigraph.manifest.handle import Manifest
from omnigraph.spark.load.load_task import PLACES
from omnigraph.storage import table_writes as tables
from omnigraph.storage.objects import Objects
from omnigraph.storage.table import Table

FOLDER: Final = "loading"
_ALIVE: Final = "alive"
_HEARTBEAT: Final = timedelta(hours=1)
_ABANDONED: Final = timedelta(days=1)
_FOLDER_NAME: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
"""What the folder of a load is called. Nothing else is ours to delete."""
_log = logging.getLogger("omnigraph")


@contextmanager
def create_scratch_table(manifest: Manifest) -> Generator[Table]:
    """An empty table whose folder takes fragments of any columns."""
    location, name = manifest.location.beside(FOLDER), str(ULID())
    objects = Objects(location)
    table = tables.create_empty(location.join(name), PLACES, "load", manifest.access)
    try:
        _remove_abandoned(objects, name)
        with _keep_alive(objects, name):
            yield table
    finally:
        _remove(objects, name)
        if location.is_local:
            with suppress(OSError):
                # Other loads may have theirs in it.
                Path(location.base).rmdir()


def _remove(objects: Objects, name: str) -> None:
    try:
        objects.delete_prefix(name)
    except OmniGraphError as error:
        # A task that was given up may still be writing to it.
        _log.warning("what a load wrote to %s stays for now: %s", objects.location.join(name), error)


# --------------------------------------------------------------------------------------------- who died, who lives


def _remove_abandoned(objects: Objects, own: str) -> None:
    """Remove what loads that died left here."""
    try:
        written = _last_written(objects)
    except OmniGraphError as error:
        _log.warning("what loads left in %s stays for now: %s", objects.location, error)
        return
    # The store dates what it holds by a clock of its own, and what was written to last is this load's.
    now = written.pop(own)
    for name, last in written.items():
        if now - last > _ABANDONED:
            _remove(objects, name)


def _last_written(objects: Objects) -> dict[str, datetime]:
    """When something was last written to the folder of each load."""
    found: dict[str, datetime] = {}
    for info in objects.list():
        name = info.path.partition("/")[0]
        if _FOLDER_NAME.fullmatch(name):
            found[name] = max(info.modified, found.get(name, info.modified))
    return found


@contextmanager
def _keep_alive(objects: Objects, name: str) -> Generator[None]:
    ended = Event()

    def beat() -> None:
        while not ended.wait(_HEARTBEAT.total_seconds()):
            try:
                objects.put(f"{name}/{_ALIVE}", b"")
            except OmniGraphError as error:
                _log.warning("a load could not say that it lives: %s", error)

    thread = Thread(target=beat, name=f"omnigraph-load-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

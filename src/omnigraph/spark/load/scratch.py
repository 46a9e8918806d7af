"""The scratch table of one load on Spark: temporary fragments beside the graph.

The only place that executors share with this process is where the graph is stored. So a load keeps temporary data
beside it, in ``<graph>.loading/<id>``: rows of tables that cannot be written yet, the positions of rows, and rejected
records. A killed load leaves its folder behind; a later load on Spark removes folders that nothing was written to for a
day. A running load writes a heartbeat every hour, so its folder never gets that old.
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
"""The name of the folder of a load. Nothing else may be deleted."""
_log = logging.getLogger("omnigraph")


@contextmanager
def create_scratch_table(manifest: Manifest) -> Generator[Table]:
    """Create an empty table whose folder accepts fragments with any columns, and delete it after the block."""
    location, name = manifest.location.sibling(FOLDER), str(ULID())
    objects = Objects(location)
    table = tables.create_empty_table(location.join(name), PLACES, "load", manifest.access)
    try:
        _remove_abandoned(objects, name)
        with _keep_alive(objects, name):
            yield table
    finally:
        _remove(objects, name)
        if location.is_local:
            with suppress(OSError):
                # It may still hold the folders of other loads.
                Path(location.base).rmdir()


def _remove(objects: Objects, name: str) -> None:
    try:
        objects.delete_prefix(name)
    except OmniGraphError as error:
        # An abandoned task may still be writing to it.
        _log.warning("temporary files of a load in %s are not deleted yet: %s", objects.location.join(name), error)


# --------------------------------------------------------------------------------------------- abandoned folders


def _remove_abandoned(objects: Objects, own: str) -> None:
    """Remove the folders of loads that died."""
    try:
        written = _last_written(objects)
    except OmniGraphError as error:
        _log.warning("abandoned files of loads in %s could not be listed: %s", objects.location, error)
        return
    # Compare with the clock of the store: the folder of this load was just written.
    now = written.pop(own)
    for name, last in written.items():
        if now - last > _ABANDONED:
            _remove(objects, name)


def _last_written(objects: Objects) -> dict[str, datetime]:
    """Return the time of the last write to the folder of each load."""
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
                _log.warning("the heartbeat of a load could not be written: %s", error)

    thread = Thread(target=beat, name=f"omnigraph-load-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

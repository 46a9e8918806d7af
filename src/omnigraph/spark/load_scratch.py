"""A table next to the graph that lives as long as one load on Spark: what many tasks write and no graph ever shows.

Executors share no folder with this process, except where the graph itself lies. So what a load cannot keep in the
graph lies beside it: rows of tables that may not be written to yet, where each row stood, and rejected records. A
load that is killed leaves its folder there; it may be deleted when no load runs.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ulid import ULID

from omnigraph.errors import OmniGraphError
from omnigraph.manifest.handle import Manifest
from omnigraph.spark.load_tasks import PLACES
from omnigraph.storage import table as tables
from omnigraph.storage.objects import Objects
from omnigraph.storage.pinned import Table

FOLDER: Final = "loading"
_log = logging.getLogger("omnigraph")


@contextmanager
def scratch_table(manifest: Manifest) -> Generator[Table]:
    """An empty table whose folder takes fragments of any columns."""
    location, name = manifest.location.beside(FOLDER), str(ULID())
    table = tables.create_empty(location.join(name), PLACES, "load", manifest.access)
    try:
        yield table
    finally:
        try:
            Objects(location).delete_prefix(name)
        except OmniGraphError as error:
            # A task that was given up may still be writing to it.
            _log.warning("what a load wrote to %s stays for now: %s", location.join(name), error)
        if location.is_local:
            with suppress(OSError):
                # Other loads may have theirs in it.
                Path(location.base).rmdir()

"""The scratch folder of one job on Spark: temporary files beside the graph.

The only place that executors share with this process is where the graph is stored. So temporary data is kept beside it,
in ``<graph>.loading/<id>``: rows of a load that cannot be written to their tables yet, the positions of rows, rejected
records, and the frames of a query that several steps read. A killed process leaves its folder behind; a later job
removes folders that nothing was written to for a day, and at once those of algorithms whose process on this machine is
gone. A running job writes a heartbeat every hour, so its folder never gets that old.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Final

import pyarrow as pa
from ulid import ULID

from omnigraph.errors import OmniGraphError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.spark.process_marks import describe_process, is_dead_process
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import Table

FOLDER: Final = "loading"
_ALIVE: Final = "alive"
_HEARTBEAT: Final = timedelta(hours=1)
_ABANDONED: Final = timedelta(days=1)
_FOLDER_NAME: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
"""The name of the folder of a job. Nothing else may be deleted."""
_NAME_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_NAME_LENGTH: Final = 26
_USERS: Final = "users"
_log = logging.getLogger("omnigraph")


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """The folder of one job, ``name`` below ``location``. It can be pickled and sent to executors."""

    location: Location
    name: str

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        Objects(self.location).put(f"{self.name}/{path}", data)

    def get(self, path: str) -> bytes:
        """Read a file that was written."""
        data = Objects(self.location).get(f"{self.name}/{path}")
        assert data is not None, path
        return data

    def get_range(self, path: str, begin: int, end: int) -> bytes:
        """Read a part of a file that was written."""
        data = Objects(self.location).get_range(f"{self.name}/{path}", begin, end)
        assert data is not None, path
        return data

    def find(self, path: str) -> bytes | None:
        """Read a file; None if it was not written."""
        return Objects(self.location).get(f"{self.name}/{path}")

    def delete(self, path: str) -> None:
        """Delete a file."""
        Objects(self.location).delete(f"{self.name}/{path}")


@contextmanager
def open_scratch_folder(manifest: Manifest) -> Generator[ScratchFolder]:
    """Create a folder beside the graph, and delete it after the block."""
    folder = create_scratch_folder(manifest)
    try:
        with _keep_alive(Objects(folder.location), folder.name):
            yield folder
    finally:
        remove_scratch_folder(folder)


def create_scratch_folder(manifest: Manifest) -> ScratchFolder:
    """Create a folder beside the graph, which another process may remove; nothing but writes to it keeps it alive."""
    folder = ScratchFolder(manifest.location.sibling(FOLDER), str(ULID()))
    folder.put(_ALIVE, b"")
    _remove_abandoned(Objects(folder.location), folder.name)
    return folder


class FolderUse:
    """One use of a folder that others may use too. It ends when nothing refers to it any more."""

    def __init__(self, folder: ScratchFolder, leave: Callable[[], None]) -> None:
        self.folder = folder
        weakref.finalize(self, leave)


def use_named_folder(manifest: Manifest, digest: bytes) -> FolderUse:
    """Use the folder of a digest, as others may at the same time. The last one to leave removes it.

    A killed process never leaves: what it wrote for the same digest is used, and what it wrote for others is removed,
    if it ran on this machine.
    """
    number = int.from_bytes(digest, "big")
    name = "".join(_NAME_DIGITS[number >> 5 * place & 31] for place in range(_NAME_LENGTH))
    folder = ScratchFolder(manifest.location.sibling(FOLDER), name)
    own = f"{_USERS}/{ULID()}"
    folder.put(own, describe_process())
    _remove_abandoned(Objects(folder.location), name)
    _remove_dead_users(Objects(folder.location), name)

    def leave() -> None:
        objects = Objects(folder.location)
        try:
            objects.delete(f"{name}/{own}")
            if not objects.list(f"{name}/{_USERS}"):
                remove_scratch_folder(folder)
        except OmniGraphError as error:
            # Nobody waits for the end of a use who could be told.
            _log.warning("temporary files in %s are not deleted yet: %s", folder.location.join(name), error)

    return FolderUse(folder, leave)


def remove_scratch_folder(folder: ScratchFolder) -> None:
    """Delete a folder and what is in it; do nothing if it is gone."""
    _remove(Objects(folder.location), folder.name)
    if folder.location.is_local:
        with suppress(OSError):
            # It may still hold the folders of other jobs.
            Path(folder.location.base).rmdir()


@contextmanager
def create_scratch_table(manifest: Manifest, columns: pa.Schema) -> Generator[Table]:
    """Create an empty table whose folder accepts fragments with any columns, and delete it after the block."""
    with open_scratch_folder(manifest) as folder:
        yield create_table_in(folder, manifest, columns)


def create_table_in(folder: ScratchFolder, manifest: Manifest, columns: pa.Schema) -> Table:
    """Create an empty table in a scratch folder. It accepts fragments with any columns."""
    return tables.create_empty_table(folder.location.join(folder.name), columns, "load", manifest.access)


def _remove(objects: Objects, name: str) -> None:
    try:
        objects.delete_prefix(name)
    except OmniGraphError as error:
        # An abandoned task may still be writing to it.
        _log.warning("temporary files in %s are not deleted yet: %s", objects.location.join(name), error)


# --------------------------------------------------------------------------------------------- abandoned folders


def _remove_abandoned(objects: Objects, own: str) -> None:
    """Remove the folders of jobs that died."""
    try:
        written = _last_written(objects)
    except OmniGraphError as error:
        _log.warning("abandoned files in %s could not be listed: %s", objects.location, error)
        return
    # Compare with the clock of the store: the folder of this job was just written.
    now = written.pop(own)
    for name, last in written.items():
        if now - last > _ABANDONED:
            _remove(objects, name)


def _remove_dead_users(objects: Objects, own: str) -> None:
    """Remove the marks of processes of this machine that died, and the folders that nobody else uses."""
    try:
        marks = [info.path for info in objects.list() if info.path.split("/")[1:-1] == [_USERS]]
        dead = [path for path in marks if is_dead_process(objects.get(path) or b"")]
        for path in dead:
            objects.delete(path)
        used = {path.partition("/")[0] for path in marks if path not in dead}
        for name in {path.partition("/")[0] for path in dead} - used - {own}:
            _remove(objects, name)
    except OmniGraphError as error:
        _log.warning("abandoned files in %s could not be removed: %s", objects.location, error)


def _last_written(objects: Objects) -> dict[str, datetime]:
    """Return the time of the last write to the folder of each job."""
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
                _log.warning("the heartbeat of a job could not be written: %s", error)

    thread = Thread(target=beat, name=f"omnigraph-job-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

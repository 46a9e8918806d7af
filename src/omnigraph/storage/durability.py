"""Durability on a local disk: the one module that syncs files.

With ``"process"`` a write survives the death of its process: the operating system has it. With ``"power"`` it also
survives a power cut. POSIX promises that only for files that were synced, and for names whose folder was synced.

Lance never syncs. So every write to a table notes its files in a :class:`WriteBarrier`, and the writer waits at the
barrier before anything relies on them. The syncs of one barrier run in parallel: a disk flushes many files in about the
time of one. Object stores need none of this: there an acknowledged write is durable.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias
from uuid import uuid4

from omnigraph.errors import StorageError
from omnigraph.worker_threads import WorkerThreads, get_served_thread

Durability: TypeAlias = Literal["process", "power"]
DURABILITIES: Final[tuple[Durability, ...]] = ("process", "power")

_THREADS: Final = 16
_SETTLED_NS: Final = 1_000_000_000
"""A folder that did not change for so long has a time of change that the next change will not repeat."""


class SyncFailed(StorageError):
    """A file could not be synced. It may be lost in a power cut, and syncing it again proves nothing."""


class PublishedUnsynced(SyncFailed):
    """The files that could not be synced are visible already, so other commits may build on them."""


class WriteBarrier:
    """The files of a graph that were written and not synced. Safe to share between threads."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._files: dict[Path, Future[None]] = {}
        self._writers: set[int] = set()
        """The threads that noted files, or whose pools did, since files were last synced."""
        self._failures: dict[int, SyncFailed] = {}
        """Failed syncs by thread, for threads whose files another thread synced and that have not waited yet."""
        self._guard = threading.Lock()
        # Held while files are synced: another thread's files may be among them, and it must wait for them.
        self._syncing = threading.Lock()

    def note_files(self, paths: Iterable[str | Path]) -> None:
        """Start to sync files that were written, and remember them. A folder stands for all files in it."""
        written = [file for path in paths for file in _expand(Path(path))]
        with self._guard:
            self._files.update({file: _workers().submit(_sync, file) for file in written})
            self._writers.add(get_served_thread())

    def wait(self) -> None:
        """Return when everything noted so far is on the disk. Raises ``SyncFailed`` in each thread that noted any.

        Files that were noted in a pool belong to the thread that submitted the work.
        """
        own = get_served_thread()
        with self._syncing:
            with self._guard:
                files, self._files = self._files, {}
                writers, self._writers = self._writers, set()
            try:
                if files:
                    _sync_folders(self._root, {file.parent for file in files})
                for future in files.values():
                    future.result()
            except SyncFailed as failed:
                self._failures.update(dict.fromkeys(writers - {own}, failed))
                raise
            finally:
                earlier = self._failures.pop(own, None)
            if earlier is not None:
                raise earlier


def replace_file(root: str, path: str, data: bytes) -> None:
    """Write a file below the root of a graph. After a power cut an existing file is the old one or the new one.

    A new file may be torn after a cut, until this call has returned.
    """
    file = Path(root, path)
    with _temporary_file(file, data) as temporary:
        if file.exists():
            _sync(temporary)
        temporary.replace(file)
    _sync_folders(Path(root), {file.parent}, file)


def write_new_file(root: str, path: str, data: bytes) -> bool:
    """Write a file below the root of a graph unless it exists; return whether this call wrote it. It is never torn."""
    file = Path(root, path)
    with _temporary_file(file, data) as temporary:
        _sync(temporary)
        try:
            os.link(temporary, file)
        except FileExistsError:
            return False
    _sync_folders(Path(root), {file.parent})
    return True


@contextmanager
def _temporary_file(file: Path, data: bytes) -> Generator[Path]:
    """Write to a name that listings leave out, as that of an unfinished put."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}#{uuid4().int}")
    try:
        temporary.write_bytes(data)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def sync_names(root: str, path: str) -> None:
    """Make it durable that a name was deleted."""
    _sync_folders(Path(root), {Path(root, path).parent})


def sync_root(root: str) -> None:
    """Make the root itself durable: its name, and those of the folders above it."""
    for folder in Path(root).parents:
        # Folders that we may not read are older than the graph.
        if os.access(folder, os.R_OK):
            _sync(folder)


# --------------------------------------------------------------------------------------------- syncing

_pool_guard = threading.Lock()
_pool: tuple[int, WorkerThreads] | None = None
_MOST_SYNCED: Final = 4096
_synced: dict[Path, tuple[int, int]] = {}
"""The inode and the time of the last change of folders whose names are synced."""


def _sync_folders(root: Path, folders: Iterable[Path], *files: Path) -> None:
    """Sync files, folders whose names changed, and those above them up to the root that changed too."""
    changed = {_nearest(folder) for folder in folders}
    above = {parent for folder in changed for parent in folder.parents if parent.is_relative_to(root)}
    stamps = {folder: _stamp(folder) for folder in above - changed}
    stale = [folder for folder, stamp in stamps.items() if _synced.get(folder) != stamp]
    wanted = [*files, *changed, *stale]
    if len(wanted) == 1:
        _sync(wanted[0])
    else:
        # The first error is raised after all of them have ended.
        list(_workers().map(_sync, wanted))
    now = time.time_ns()
    if len(_synced) > _MOST_SYNCED:
        # They are synced once more.
        _synced.clear()
    _synced.update({folder: stamps[folder] for folder in stale if now - stamps[folder][1] > _SETTLED_NS})


def _expand(path: Path) -> list[Path]:
    """Return a file, or all files in a folder; nothing if it was deleted since."""
    if path.is_dir():
        return [each for each in path.rglob("*") if each.is_file()]
    return [path] if path.exists() else []


def _nearest(folder: Path) -> Path:
    """Return the folder, or the first one above it that is there."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _stamp(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_ino, found.st_mtime_ns


def _sync(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        # It was deleted since, by whoever wrote it.
        return
    except OSError as error:
        raise SyncFailed(
            f"cannot sync '{path}': {error.strerror or error}",
            hint="look at the disk, then try again",
            details={"path": str(path)},
        ) from error


def _workers() -> WorkerThreads:
    """Return the threads of this process: after a fork there are none of the parent's."""
    global _pool
    with _pool_guard:
        if _pool is None or _pool[0] != os.getpid():
            _pool = os.getpid(), WorkerThreads(_THREADS, thread_name_prefix="omnigraph-sync")
        return _pool[1]

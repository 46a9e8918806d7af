"""The locks of a graph: one per branch for its commit section, and ``refs`` for work that spans branches.

Order: refs, then one branch. Nothing else is locked, and never two branches at once. On a local folder a lock is an
``flock``, which the operating system frees when its holder dies. On an object store, or on request for a network
folder, it is a lease. A thread lock beside it serialises the threads of this process.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from omnigraph.errors import ConflictError, LockTimeout, Unsupported
from omnigraph.storage.failpoints import mark_write
from omnigraph.storage.location import Location
from omnigraph.storage.locks.leases import Deadline, LeaseLost, backoff, open_register, take_lease
from omnigraph.storage.objects import translate_store_errors

LockKind: TypeAlias = Literal["flock", "lease"]
LOCK_KINDS: Final[tuple[LockKind, ...]] = ("flock", "lease")

_FOLDER = "__locks"
_REFS = "refs"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.004
_HOLDER_BYTES = 256


@dataclass(frozen=True, slots=True)
class LockSettings:
    """How to take locks. ``kind`` None means flock on a local folder, a lease on an object store. Times in seconds."""

    kind: LockKind | None = None
    timeout: float = 60.0
    ttl: float = 10.0


_DEFAULT = LockSettings()


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock that this thread holds."""

    name: str
    kind: LockKind
    taken_over: bool
    """Whether it was taken from a holder that stopped renewing. Never with flock: a dead holder frees it."""
    holder: str
    """This process, as other waiters see it."""
    _confirm: Callable[[], None] = field(repr=False)
    _pid: int = field(default_factory=os.getpid, repr=False)

    def check(self) -> None:
        """Raise :class:`LeaseLost` unless the lock is surely still held. Call it before each durable step."""
        if os.getpid() != self._pid:
            raise LeaseLost(f"the lock '{self.name}' belongs to process {self._pid}, which forked this one")
        self._confirm()

    def joined_with(self, other: HeldLock) -> HeldLock:
        """Return this lock, held only as long as ``other`` is held too."""

        def confirm_both() -> None:
            other.check()
            self.check()

        return replace(self, _confirm=confirm_both)


def branch_lock(location: Location, branch: str, settings: LockSettings = _DEFAULT) -> AbstractContextManager[HeldLock]:
    """Take the lock for the commit section of a branch."""
    return _lock(location, f"branch:{branch}", settings)


def refs_lock(location: Location, settings: LockSettings = _DEFAULT) -> AbstractContextManager[HeldLock]:
    """Take the lock for work that spans branches: refs, tags, capture of a merge source, cleanup, schema apply."""
    return _lock(location, _REFS, settings)


@contextmanager
def _lock(location: Location, name: str, settings: LockSettings) -> Generator[HeldLock]:
    deadline = Deadline(settings.timeout)
    kind = settings.kind or ("flock" if location.is_local else "lease")
    if kind == "flock" and not location.is_local:
        raise Unsupported(f"{location} has no file locks", hint='choose lock="lease"')
    lock = _flock(location, name, deadline) if kind == "flock" else _lease(location, name, settings.ttl, deadline)
    try:
        with _lock_thread(location, name, deadline), lock as held:
            yield held
    except LeaseLost as lost:
        # Every step checks the lock before it writes, so nothing is half done.
        raise ConflictError(f"the lock '{name}' was lost: {lost}", hint="read again and retry") from lost


def _path(name: str) -> str:
    return f"{_FOLDER}/{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _describe_holder() -> str:
    return f"process {os.getpid()} on {socket.gethostname()} since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


# --------------------------------------------------------------------------------------------- between threads


class _ThreadLocks(threading.local):
    """The locks that a thread holds, as (root, name)."""

    def __init__(self) -> None:
        self.locks: list[tuple[str, str]] = []


_thread_locks = _ThreadLocks()
_between_threads: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)


@contextmanager
def _lock_thread(location: Location, name: str, deadline: Deadline) -> Generator[None]:
    lock = (location.objects, name)
    _check_order(lock)
    with _fork_guard:
        between_threads = _between_threads[lock]
    if not between_threads.acquire(timeout=deadline.remaining()):
        raise LockTimeout(name, f"another thread of process {os.getpid()}", deadline.waited())
    _thread_locks.locks.append(lock)
    pid = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == pid:
            _thread_locks.locks.remove(lock)
            between_threads.release()


def _check_order(lock: tuple[str, str]) -> None:
    root, name = lock
    mine = [held for where, held in _thread_locks.locks if where == root]
    if name in mine:
        raise RuntimeError(f"this thread holds the lock '{name}' already")
    if any(held != _REFS for held in mine):
        raise RuntimeError(f"this thread holds '{mine[-1]}' and may not wait for '{name}': refs first, then one branch")


# --------------------------------------------------------------------------------------------- between processes


_fork_guard = threading.Lock()
_descriptors: set[int] = set()


def _after_fork_in_child() -> None:
    """Close the parent's locks without unlocking: that would free them for others while the parent holds them."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()
    _between_threads.clear()
    _thread_locks.locks.clear()
    _fork_guard.release()


# The guard is held across a fork, so that the child knows every open descriptor. A child that kept one open would
# keep the lock of a killed parent.
os.register_at_fork(
    before=_fork_guard.acquire, after_in_parent=_fork_guard.release, after_in_child=_after_fork_in_child
)


@contextmanager
def _flock(location: Location, name: str, deadline: Deadline) -> Generator[HeldLock]:
    path = f"{_path(name)}.lock"
    file = Path(location.join(path))
    holder = _describe_holder()
    pid = os.getpid()
    with translate_store_errors("lock", path, location):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _take_flock(file, name, deadline)
    try:
        with translate_store_errors("lock", path, location), mark_write("locks.flock", path):
            # Written in place, never truncated: that works on a full disk too.
            os.pwrite(descriptor, holder.encode()[:_HOLDER_BYTES].ljust(_HOLDER_BYTES), 0)
        yield HeldLock(name, "flock", taken_over=False, holder=holder, _confirm=lambda: _confirm_file(descriptor, file))
    finally:
        if os.getpid() == pid:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            _close(descriptor)


def _take_flock(file: Path, name: str, deadline: Deadline) -> int:
    waits = backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
    while True:
        descriptor = _open(file)
        try:
            while not _try_flock(descriptor):
                if deadline.remaining() == 0.0:
                    holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").strip()
                    raise LockTimeout(name, holder or None, deadline.waited())
                time.sleep(min(next(waits), deadline.remaining()))
            if _is_same_file(descriptor, file):
                return descriptor
        except BaseException:
            _close(descriptor)
            raise
        # The file was removed while we waited: others lock a new one.
        _close(descriptor)


def _try_flock(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _open(file: Path) -> int:
    with _fork_guard:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        _descriptors.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    with _fork_guard:
        _descriptors.discard(descriptor)
        os.close(descriptor)


def _is_same_file(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _confirm_file(descriptor: int, file: Path) -> None:
    if not _is_same_file(descriptor, file):
        raise LeaseLost(f"the lock file {file} was removed or replaced: another process may hold the lock too")


# --------------------------------------------------------------------------------------------- between machines


@contextmanager
def _lease(location: Location, name: str, ttl: float, deadline: Deadline) -> Generator[HeldLock]:
    holder = _describe_holder()
    pid = os.getpid()
    lease = take_lease(open_register(location, f"{_path(name)}.lease"), name, holder, ttl, deadline)
    try:
        yield HeldLock(name, "lease", taken_over=lease.taken_over, holder=holder, _confirm=lease.confirm)
    finally:
        if os.getpid() == pid:
            lease.release()

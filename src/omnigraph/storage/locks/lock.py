"""The locks of a graph: one per branch for its commit section, and ``refs`` for work that spans branches.

Order: refs, then one branch. Nothing else is locked, and never two branches at once. On a local folder a lock is an
``flock``, which the operating system frees when its holder dies. On an object store, or on request for a network
folder, it is a lease. A thread lock beside it serialises the threads of this process.

An interrupt can strike between any two steps, so a lock is an object that can be released at every stage of being
taken, not a generator: what a generator holds is freed only when its traceback is.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, TypeAlias
from weakref import WeakSet, WeakValueDictionary

from omnigraph.deadlines import check_deadline, suspend_deadlines
from omnigraph.errors import ConflictError, LockTimeout, Unsupported
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.failpoints import mark_write
from omnigraph.storage.location import Location
from omnigraph.storage.locks.leases import (
    LONGEST_LEASE_PAUSE,
    Lease,
    LeaseChain,
    LeaseLost,
    LockWait,
    backoff,
    open_register,
)
from omnigraph.storage.objects import translate_store_errors

_log = logging.getLogger("omnigraph.locks")

LockKind: TypeAlias = Literal["flock", "lease"]
LOCK_KINDS: Final[tuple[LockKind, ...]] = ("flock", "lease")

_FOLDER = "__locks"
_REFS = "refs"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.004
_THREAD_PAUSE = 0.05
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
    continues: bool = False
    """Whether nobody else held it since the same handle held it and vouched for what it left. Never with flock."""
    vouch: Callable[[], None] = field(default=lambda: None, repr=False)
    """Say that what this lock protects is left in order, and that its state is known to this handle."""
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


def choose_lock_kind(location: Location, settings: LockSettings = _DEFAULT) -> LockKind:
    """Return the kind of locks that a graph uses."""
    return settings.kind or ("flock" if location.is_local else "lease")


def branch_lock(
    location: Location, branch: str, settings: LockSettings = _DEFAULT, chain: LeaseChain | None = None
) -> AbstractContextManager[HeldLock]:
    """Take the lock for the commit section of a branch. ``chain`` tells whether others held it meanwhile."""
    return _Lock(location, f"branch:{branch}", settings, chain)


def refs_lock(location: Location, settings: LockSettings = _DEFAULT) -> AbstractContextManager[HeldLock]:
    """Take the lock for work that spans branches: refs, tags, capture of a merge source, cleanup, schema apply."""
    return _Lock(location, _REFS, settings)


def find_turn_pause(location: Location, settings: LockSettings = _DEFAULT) -> float:
    """Return how many seconds to stay away from a lock that is taken again and again, so that waiters get it."""
    is_file = choose_lock_kind(location, settings) == "flock"
    return 2 * (_LONGEST_PAUSE if is_file else LONGEST_LEASE_PAUSE)


class _Lock(AbstractContextManager[HeldLock]):
    """One lock, for one ``with`` block: a thread lock, and a file lock or a lease."""

    _taken: tuple[_ThreadLock | _FileLock | _LeaseLock, ...] = ()
    """Those that may be held, the last one first; each can be released at any stage."""
    _resume_deadlines: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, location: Location, name: str, settings: LockSettings, chain: LeaseChain | None = None) -> None:
        self._location = location
        self._name = name
        self._settings = settings
        self._chain = chain or LeaseChain()
        self._pid = os.getpid()

    def __enter__(self) -> HeldLock:
        try:
            held = self._take(LockWait(self._settings.timeout))
        except BaseException as error:
            # Again, if an interrupt came between a failure and its handler.
            self._release()
            if isinstance(error, LeaseLost):
                raise self._make_lost_error(error) from error
            raise
        return held

    def _take(self, wait: LockWait) -> HeldLock:
        try:
            between_threads = _ThreadLock((self._location.objects, self._name))
            self._taken = (between_threads,)
            between_threads.take(wait)
            between_processes = self._make_process_lock()
            self._taken = (between_processes, between_threads)
            held = between_processes.take(wait)
            check_deadline()
            # What is done under a lock is short, and a commit never stops half-way.
            self._resume_deadlines = suspend_deadlines()
        except BaseException:
            self._release()
            raise
        return held

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()
        if isinstance(error, LeaseLost):
            raise self._make_lost_error(error) from error

    def __del__(self) -> None:
        # An interrupt at the very start of __exit__.
        self._release()

    def _make_process_lock(self) -> _FileLock | _LeaseLock:
        kind = choose_lock_kind(self._location, self._settings)
        if kind == "lease":
            return _LeaseLock(self._location, self._name, self._settings.ttl, self._chain)
        if not self._location.is_local:
            raise Unsupported(f"{self._location} has no file locks", hint='choose lock="lease"')
        return _FileLock(self._location, self._name)

    def _release(self) -> None:
        self._resume_deadlines()
        try:
            self._release_each()
        except BaseException:
            # An interrupt stopped it half way. What is released already is not released again.
            self._release_each()
            raise

    def _release_each(self) -> None:
        # In a forked child the locks belong to the parent.
        while self._taken and os.getpid() == self._pid:
            try:
                self._taken[0].release()
            except OSError as error:
                # Closing the file frees it; others must not wait for the thread lock.
                _log.warning("the lock '%s' was not released: %s", self._name, error)
            self._taken = self._taken[1:]

    def _make_lost_error(self, lost: LeaseLost) -> ConflictError:
        # Every step checks the lock before it writes, so nothing is half done.
        return ConflictError(f"the lock '{self._name}' was lost: {lost}", hint="read again and retry")


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
# Only its owner can release an RLock, so a thread that was interrupted need not know whether it got it.
# Nobody else has one that nobody uses, so it may go: branches come and go.
_between_threads: WeakValueDictionary[tuple[str, str], threading.RLock] = WeakValueDictionary()


class _ThreadLock:
    """Excludes the other threads of this process."""

    def __init__(self, key: tuple[str, str]) -> None:
        _check_order(key)
        self._key = key
        with _fork_guard:
            self._lock = _between_threads.setdefault(key, threading.RLock())

    def take(self, wait: LockWait) -> None:
        """Wait for the other threads."""
        while not self._lock.acquire(timeout=min(_THREAD_PAUSE, wait.remaining())):
            check_deadline()
            if wait.remaining() == 0.0:
                raise LockTimeout(self._key[1], f"another thread of process {os.getpid()}", wait.waited())
        _thread_locks.locks.append(self._key)

    def release(self) -> None:
        """Let the other threads go on. Does nothing if this thread does not hold it."""
        with suppress(ValueError):
            _thread_locks.locks.remove(self._key)
        with suppress(RuntimeError):
            self._lock.release()


def _check_order(lock: tuple[str, str]) -> None:
    root, name = lock
    mine = [held for where, held in _thread_locks.locks if where == root]
    if name in mine:
        raise RuntimeError(f"this thread holds the lock '{name}' already")
    if any(held != _REFS for held in mine):
        raise RuntimeError(f"this thread holds '{mine[-1]}' and may not wait for '{name}': refs first, then one branch")


# --------------------------------------------------------------------------------------------- between processes


_fork_guard = threading.Lock()
_files: WeakSet[FileIO] = WeakSet()


def _after_fork_in_child() -> None:
    """Close the parent's locks without unlocking: that would free them for others while the parent holds them."""
    for file in list(_files):
        file.close()
    _between_threads.clear()
    _thread_locks.locks.clear()
    _fork_guard.release()


# The guard is held across a fork, so that the child knows every open descriptor. A child that kept one open would
# keep the lock of a killed parent.
os.register_at_fork(
    before=_fork_guard.acquire, after_in_parent=_fork_guard.release, after_in_child=_after_fork_in_child
)


class _FileLock:
    """An ``flock`` on a file, which is a Python object: one that gets lost closes its descriptor and frees the lock."""

    def __init__(self, location: Location, name: str) -> None:
        self._location = location
        self._name = name
        self._path = f"{_path(name)}.lock"
        self._file: FileIO | None = None

    def take(self, wait: LockWait) -> HeldLock:
        """Wait for the lock and write into the file who holds it."""
        file, holder = Path(self._location.join(self._path)), _describe_holder()
        with translate_store_errors("lock", self._path, self._location):
            file.parent.mkdir(parents=True, exist_ok=True)
            opened = self._take_file(file, wait)
        with translate_store_errors("lock", self._path, self._location), mark_write("locks.flock", self._path):
            # Written in place, never truncated: that works on a full disk too.
            os.pwrite(opened.fileno(), holder.encode()[:_HOLDER_BYTES].ljust(_HOLDER_BYTES), 0)
        return HeldLock(
            self._name, "flock", taken_over=False, holder=holder, _confirm=lambda: _confirm_file(opened, file)
        )

    def _take_file(self, path: Path, wait: LockWait) -> FileIO:
        waits = backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            self._file = file = _open(path)
            while not _try_flock(file):
                check_deadline()
                if wait.remaining() == 0.0:
                    holder = os.pread(file.fileno(), _HOLDER_BYTES, 0).decode(errors="replace").strip()
                    raise LockTimeout(self._name, holder or None, wait.waited())
                time.sleep(min(next(waits), wait.remaining()))
            if _is_same_file(file, path):
                return file
            # The file was removed while we waited: others lock a new one.
            file.close()

    def release(self) -> None:
        """Free the lock and close the file, if that was not done."""
        if self._file is not None and not self._file.closed:
            try:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            finally:
                self._file.close()


def _try_flock(file: FileIO) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _open(path: Path) -> FileIO:
    with _fork_guard:
        file = FileIO(path, "r+", opener=_open_or_create)
        _files.add(file)
    return file


def _open_or_create(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _is_same_file(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _confirm_file(file: FileIO, path: Path) -> None:
    if not _is_same_file(file, path):
        raise LeaseLost(f"the lock file {path} was removed or replaced: another process may hold the lock too")


# --------------------------------------------------------------------------------------------- between machines


class _LeaseLock:
    """A lease on an object store or in a folder."""

    def __init__(self, location: Location, name: str, ttl: float, chain: LeaseChain) -> None:
        self._name = name
        self._holder = _describe_holder()
        self._chain = chain
        self._lease = Lease(open_register(location, f"{_path(name)}.lease"), self._holder, ttl, chain)

    def take(self, wait: LockWait) -> HeldLock:
        """Wait for the lease."""
        self._lease.take(self._name, wait)
        return HeldLock(
            self._name,
            "lease",
            self._lease.taken_over,
            holder=self._holder,
            _confirm=self._lease.confirm,
            continues=self._lease.continues,
            vouch=self._chain.vouch,
        )

    def release(self) -> None:
        """Free the lease, if it is held."""
        self._lease.release()

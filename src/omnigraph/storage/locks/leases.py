"""Leases: locks that the holder must renew, for storage that does not notice the death of a process.

A lease is the content of one register, which changes by compare and swap only. The holder renews it four times per
time to live. A taker must see the same content for a whole time to live on its own clock, so clocks of different
machines are never compared. A holder that could not renew in time must assume that it was replaced.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Generator
from dataclasses import asdict, field, replace
from typing import Protocol, cast
from uuid import uuid4

from omnigraph.deadlines import check_deadline
from omnigraph.errors import LockTimeout, OmniGraphError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects

_log = logging.getLogger("omnigraph.locks")

_FIRST_PAUSE, LONGEST_LEASE_PAUSE = 0.005, 0.25
_RENEWALS = 4  # per time to live
_KEPT_GENERATIONS = 8


class LeaseLost(Exception):
    """The lock may be lost: abandon the work without cleaning up. Callers of the API never see it."""


# --------------------------------------------------------------------------------------------- waiting

# Unlike the monotonic clock of Linux this one runs while the machine is suspended, and so does a lease.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_random = random.SystemRandom()  # no shared state: processes forked at the same moment do not wait in step


def read_clock() -> float:
    """Return the seconds since a fixed moment of this machine."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True)
class LockWait:
    """A wait for a lock that ends after some seconds."""

    timeout: float
    began: float = field(default_factory=read_clock)

    def waited(self) -> float:
        """Return the seconds since the wait began."""
        return read_clock() - self.began

    def remaining(self) -> float:
        """Return the seconds left, at least 0."""
        return max(0.0, self.timeout - self.waited())


def backoff(first: float, longest: float) -> Generator[float]:
    """Yield the seconds to wait before each retry: doubling, with jitter."""
    pause = first
    while True:
        yield pause * _random.uniform(0.5, 1.0)
        pause = min(longest, pause * 2)


# --------------------------------------------------------------------------------------------- the register


@dataclass(frozen=True, slots=True)
class RegisterValue:
    """The content of a register; ``tag`` identifies exactly this content."""

    tag: str
    data: bytes


class Register(Protocol):
    """One value that changes by compare and swap."""

    def read(self) -> RegisterValue | None:
        """Return the value, or None before the first swap."""
        ...

    def swap(self, expected: str | None, data: bytes) -> str | None:
        """Set the value if its tag is still ``expected``; return the new tag, or None if another value is there."""
        ...


class ObjectRegister:
    """A register on an object store: one object with conditional replace by etag."""

    def __init__(self, objects: Objects, path: str) -> None:
        self._objects = objects
        self._path = path

    def read(self) -> RegisterValue | None:
        """Read the object."""
        stored = self._objects.read(self._path)
        return None if stored is None else RegisterValue(stored.etag, stored.data)

    def swap(self, expected: str | None, data: bytes) -> str | None:
        """Create or replace the object."""
        if expected is not None:
            return self._objects.replace_if_match(self._path, data, expected)
        if not self._objects.put_if_absent(self._path, data):
            return None
        created = self.read()
        return created.tag if created is not None and created.data == data else None


class FolderRegister:
    """A register in a folder of a file system, which has no conditional replace: each value is a new numbered file.

    The value is the file with the greatest number. Only put-if-absent writes a number, and only smaller numbers are
    removed, so the greatest never falls. A slow writer may reuse a number that was removed; the listing after its put
    shows a greater one, so it has lost. (So has a writer whose value was replaced before that listing; a held lease
    cannot be replaced so soon.)
    """

    def __init__(self, objects: Objects, folder: str) -> None:
        self._objects = objects
        self._folder = folder

    def read(self) -> RegisterValue | None:
        """Read the file with the greatest number."""
        while numbers := self._numbers():
            data = self._objects.get(self._path(numbers[-1]))
            if data is not None:
                return RegisterValue(str(numbers[-1]), data)
        return None

    def swap(self, expected: str | None, data: bytes) -> str | None:
        """Write the next number, then check that it is the greatest."""
        number = 1 if expected is None else int(expected) + 1
        if not self._objects.put_if_absent(self._path(number), data):
            return None
        numbers = self._numbers()
        if numbers[-1:] != [number]:
            return None
        for old in numbers[:-_KEPT_GENERATIONS]:
            self._objects.delete(self._path(old))
        return str(number)

    def _numbers(self) -> list[int]:
        names = (info.path.rpartition("/")[2] for info in self._objects.list(self._folder))
        return [int(name) for name in names if name.isdecimal()]

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:020}"


def open_register(location: Location, path: str) -> Register:
    """Return the kind of register that the storage of the graph needs."""
    objects = Objects(location)
    return FolderRegister(objects, path) if location.is_local else ObjectRegister(objects, path)


# --------------------------------------------------------------------------------------------- the lease


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of the register. ``token`` and ``renewal`` make every content, and so every etag, unique."""

    token: str
    renewal: int
    ttl: float
    holder: str
    free: bool = False

    def encode(self) -> bytes:
        """Return the record as JSON."""
        return json.dumps(asdict(self)).encode()


def _decode_record(seen: RegisterValue | None, ttl: float) -> LeaseRecord:
    """Decode a record. An unreadable one counts as held and expires like any other."""
    if seen is None:
        return LeaseRecord("", 0, ttl, "nobody", free=True)
    try:
        fields = cast("dict[str, object]", json.loads(seen.data))
        return LeaseRecord(
            str(fields["token"]),
            int(cast("int", fields["renewal"])),
            float(cast("float", fields["ttl"])),
            str(fields["holder"]),
            free=fields["free"] is True,
        )
    except (ValueError, KeyError, TypeError):
        return LeaseRecord("", 0, ttl, "an unreadable lease")


class LeaseChain:
    """What a handle on a graph knows about a lease that it held last: the tag that it freed it with.

    A lease that is taken from exactly this tag was held by nobody else since. The holder says with :meth:`vouch` that
    it left everything in order; without that, and while the lease is held, there is no tag.
    """

    def __init__(self) -> None:
        self.tag: str | None = None
        self._is_vouched = False

    def begin(self) -> str | None:
        """Return the tag and forget it, when the lease is about to be taken."""
        tag, self.tag, self._is_vouched = self.tag, None, False
        return tag

    def vouch(self) -> None:
        """Say that the holder's work is done and that it knows its result."""
        self._is_vouched = True

    def end(self, tag: str | None) -> None:
        """Remember the tag of the freed lease, if its holder vouched for what it left."""
        self.tag = tag if self._is_vouched else None


class Lease:
    """A lease of this process, renewed by a thread from when it is taken until it is released.

    It needs a thread because one call into Lance may take longer than the time to live. A process that is stopped or
    dead stops renewing.
    """

    def __init__(self, register: Register, holder: str, ttl: float, chain: LeaseChain | None = None) -> None:
        self.taken_over = False
        """Whether it was taken from a holder that stopped renewing."""
        self.continues = False
        """Whether nobody else held it since the end of the chain."""
        self._chain = chain or LeaseChain()
        self._register = register
        self._record = LeaseRecord(uuid4().hex, 0, ttl, holder)
        self._tag: str | None = None
        self._sent = 0.0
        """When the last request to take it was sent."""
        self._is_taken = False
        self._safe_until = 0.0
        self._trouble: OmniGraphError | None = None
        self._replaced = False
        self._stop = threading.Event()
        self._renewing = threading.Thread(target=self._renew_until_stopped, name="omnigraph-lease", daemon=True)

    def take(self, name: str, wait: LockWait) -> None:
        """Wait for the lease and take it once it is free, or was not renewed for its whole time to live."""
        try:
            if not self._take_again():
                self._wait_and_take(name, wait)
            self._renewing.start()
        except Exception:
            # It may have been taken although the storage failed; then it expires.
            raise
        except BaseException:
            self._adopt_own_record()
            raise

    def _take_again(self) -> bool:
        """Take the lease if nobody else held it since this handle freed it: one request instead of two."""
        tag = self._chain.begin()
        if tag is None:
            return False
        self._sent = read_clock()
        taken = self._register.swap(tag, self._record.encode())
        if taken is None:
            return False
        self._mark_taken(taken)
        self.continues = True
        return True

    def _wait_and_take(self, name: str, wait: LockWait) -> None:
        record = self._record
        watched, since = "", 0.0
        waits = backoff(_FIRST_PAUSE, min(LONGEST_LEASE_PAUSE, record.ttl / _RENEWALS))
        while True:
            read_at = read_clock()
            seen = self._register.read()
            current = _decode_record(seen, record.ttl)
            if seen is not None and current.token == record.token:
                # We took it in the last round and lost only the answer.
                self._mark_taken(seen.tag)
                return
            tag = None if seen is None else seen.tag
            expired = tag == watched and read_at - since >= current.ttl
            if current.free or expired:
                self._sent, self.taken_over = read_clock(), not current.free
                taken = self._register.swap(tag, record.encode())
                if taken is not None:
                    self._mark_taken(taken)
                    return
            elif tag is not None and tag != watched:
                watched, since = tag, read_clock()
            check_deadline()
            if wait.remaining() == 0.0:
                raise LockTimeout(name, current.holder, wait.waited())
            time.sleep(min(next(waits), wait.remaining()))

    def _mark_taken(self, tag: str) -> None:
        self._tag, self._safe_until, self._is_taken = tag, self._safe_from(self._sent), True

    def _adopt_own_record(self) -> None:
        """After an interrupt, look whether the lease was taken, so that it can be released."""
        self._sent = read_clock()
        try:
            seen = self._register.read()
        except OmniGraphError as error:
            _log.warning("lease of %s may be held until it expires: %s", self._record.holder, error)
            return
        if seen is not None and _decode_record(seen, self._record.ttl).token == self._record.token:
            self._mark_taken(seen.tag)

    def confirm(self) -> None:
        """Raise :class:`LeaseLost` unless there is time for one more durable step."""
        if self._replaced:
            raise LeaseLost(f"the lease of {self._record.holder} was taken over")
        if read_clock() >= self._safe_until:
            raise LeaseLost(f"the lease of {self._record.holder} was not renewed in time") from self._trouble

    def release(self) -> None:
        """Free the lease if it is still ours; otherwise let it expire. Does nothing if it was not taken."""
        self._stop.set()
        if self._renewing.is_alive():
            self._renewing.join(self._record.ttl)
        if not self._is_taken:
            return
        if self._renewing.is_alive() or self._replaced or read_clock() >= self._safe_until:
            _log.warning("lease of %s abandoned: it was taken over, or not renewed in time", self._record.holder)
            return
        try:
            if self._swap(replace(self._record, renewal=self._record.renewal + 1, free=True)):
                self._chain.end(self._tag)
        except OmniGraphError as error:
            # The protected work is done; others wait until the lease expires.
            _log.warning("lease of %s not released, it will expire: %s", self._record.holder, error)
        self._is_taken = False

    def _safe_from(self, sent: float) -> float:
        # Counted from before the request, as a taker counts from after its answer. The last quarter is reserved for
        # the step that a check allows.
        return sent + self._record.ttl * (_RENEWALS - 1) / _RENEWALS

    def _renew_until_stopped(self) -> None:
        while not self._replaced and not self._stop.wait(self._record.ttl / _RENEWALS):
            sent = read_clock()
            try:
                if self._swap(replace(self._record, renewal=self._record.renewal + 1)):
                    self._safe_until = self._safe_from(sent)
            except OmniGraphError as error:
                self._trouble = error

    def _swap(self, record: LeaseRecord) -> bool:
        """Replace our last record. The token identifies a write of ours whose answer was lost."""
        self._record = record
        data = record.encode()
        while (tag := self._register.swap(self._tag, data)) is None:
            seen = self._register.read()
            if seen is None or _decode_record(seen, record.ttl).token != record.token:
                self._replaced = True
                return False
            self._tag = seen.tag
            if seen.data == data:
                return True
        self._tag = tag
        return True

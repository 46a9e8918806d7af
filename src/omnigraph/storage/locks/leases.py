"""A lease: a lock that its holder must renew, for storage where nobody notices that a process died.

The lease is the content of one register that changes by compare and swap only. The holder renews it four times per
time to live. A taker must see the same content for a whole time to live on its own clock, so clocks are never compared
across machines. A holder that could not renew in time must assume that it has been replaced.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol, cast
from uuid import uuid4

from omnigraph.errors import LockTimeout, OmniGraphError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects

_log = logging.getLogger("omnigraph.locks")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.25
_RENEWALS = 4  # per time to live
_KEPT_GENERATIONS = 8


class LeaseLost(Exception):
    """The lock is no longer surely ours: abandon the work without cleaning up. Never leaves the system."""


# --------------------------------------------------------------------------------------------- waiting

# Unlike the plain monotonic clock of Linux this one goes on while the machine is suspended, and so does a lease.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_chance = random.SystemRandom()  # own state per call: processes forked at the same moment do not wait in step


def read_clock() -> float:
    """Seconds since some fixed moment of this machine."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of somebody's patience."""

    timeout: float
    began: float = field(default_factory=read_clock)

    def waited(self) -> float:
        """Seconds since the wait began."""
        return read_clock() - self.began

    def remaining(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.timeout - self.waited())


def backoff(first: float, longest: float) -> Generator[float]:
    """Seconds to wait before each next try: doubling, and never the same for two waiters."""
    pause = first
    while True:
        yield pause * _chance.uniform(0.5, 1.0)
        pause = min(longest, pause * 2)


# --------------------------------------------------------------------------------------------- the register


@dataclass(frozen=True, slots=True)
class RegisterValue:
    """What a register held when it was read; ``tag`` names this content and no other."""

    tag: str
    data: bytes


class Register(Protocol):
    """One value that changes by compare and swap."""

    def read(self) -> RegisterValue | None:
        """The value, or None before the first swap."""
        ...

    def swap(self, expected: str | None, data: bytes) -> str | None:
        """Set the value if its tag is still ``expected``; the new tag, or None if another's value stands there now."""
        ...


class ObjectRegister:
    """A register on an object store: one object, replaced on condition of its etag."""

    def __init__(self, objects: Objects, path: str) -> None:
        self._objects = objects
        self._path = path

    def read(self) -> RegisterValue | None:
        """The object."""
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

    The value is the file with the greatest number. Only put-if-absent writes a number, and only numbers below the
    greatest are removed, so the greatest never falls. A slow writer may fill a number that was used and removed; the
    listing after its put shows a greater one, and it has lost. (So has one whose value was replaced before that
    listing; a lease that is held cannot be replaced so soon.)
    """

    def __init__(self, objects: Objects, folder: str) -> None:
        self._objects = objects
        self._folder = folder

    def read(self) -> RegisterValue | None:
        """The file with the greatest number."""
        while numbers := self._numbers():
            data = self._objects.get(self._path(numbers[-1]))
            if data is not None:
                return RegisterValue(str(numbers[-1]), data)
        return None

    def swap(self, expected: str | None, data: bytes) -> str | None:
        """Write the next number, then make sure that it is the greatest."""
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
    """The register that fits the storage of the graph."""
    objects = Objects(location)
    return FolderRegister(objects, path) if location.is_local else ObjectRegister(objects, path)


# --------------------------------------------------------------------------------------------- the lease


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of the register. ``token`` and ``renewal`` make every content unique, and with it every etag."""

    token: str
    renewal: int
    ttl: float
    holder: str
    free: bool = False

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()


def _decode_record(seen: RegisterValue | None, ttl: float) -> LeaseRecord:
    """Read a record; one that nobody could have written counts as held, and expires like any other."""
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


class Lease:
    """A lease that this process holds, renewed by a thread of its own until it is released.

    A thread, because one call into Lance may outlast the time to live; and a process that is stopped or dead stops
    renewing as a whole, which is what the lease is there to tell.
    """

    def __init__(self, register: Register, tag: str, record: LeaseRecord, sent: float, *, taken_over: bool) -> None:
        self.taken_over = taken_over
        self._register = register
        self._tag = tag
        self._record = record
        self._safe_until = self._safe_from(sent)
        self._trouble: OmniGraphError | None = None
        self._replaced = False
        self._stop = threading.Event()
        self._renewing = threading.Thread(target=self._renew_until_stopped, name="omnigraph-lease", daemon=True)
        self._renewing.start()

    def confirm(self) -> None:
        """Raise :class:`LeaseLost` unless there is time left for one more durable step."""
        if self._replaced:
            raise LeaseLost(f"the lease of {self._record.holder} was taken over")
        if read_clock() >= self._safe_until:
            raise LeaseLost(f"the lease of {self._record.holder} was not renewed in time") from self._trouble

    def release(self) -> None:
        """Free the lease, on condition that it is still ours. One that came late is left to expire."""
        self._stop.set()
        self._renewing.join(self._record.ttl)
        if self._renewing.is_alive() or self._replaced or read_clock() >= self._safe_until:
            _log.warning("lease of %s abandoned: it was taken over, or not renewed in time", self._record.holder)
            return
        try:
            self._swap(replace(self._record, renewal=self._record.renewal + 1, free=True))
        except OmniGraphError as error:
            # What it protected is done; others wait until it expires.
            _log.warning("lease of %s not released, it will expire: %s", self._record.holder, error)

    def _safe_from(self, sent: float) -> float:
        # Counted from before the request, as a taker counts from after its answer; the last quarter is for the step
        # that a check allows.
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
        """Write ``record`` over our last one. A write of ours whose answer was lost is recognised by its token."""
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


def take_lease(register: Register, name: str, holder: str, ttl: float, deadline: Deadline) -> Lease:
    """Wait for the lease and take it: when it is free, or when it was not renewed for its whole time to live."""
    record = LeaseRecord(uuid4().hex, 0, ttl, holder)
    watched, since = "", 0.0
    sent, taken_over = 0.0, False
    waits = backoff(_FIRST_PAUSE, min(_LONGEST_PAUSE, ttl / _RENEWALS))
    while True:
        asked = read_clock()
        seen = register.read()
        current = _decode_record(seen, ttl)
        if seen is not None and current.token == record.token:
            # We took it in the last round; only the answer was lost.
            return Lease(register, seen.tag, record, sent, taken_over=taken_over)
        tag = None if seen is None else seen.tag
        expired = tag == watched and asked - since >= current.ttl
        if current.free or expired:
            sent, taken_over = read_clock(), not current.free
            taken = register.swap(tag, record.encode())
            if taken is not None:
                return Lease(register, taken, record, sent, taken_over=taken_over)
        elif tag is not None and tag != watched:
            watched, since = tag, read_clock()
        if deadline.remaining() == 0.0:
            raise LockTimeout(name, current.holder, deadline.waited())
        time.sleep(min(next(waits), deadline.remaining()))

"""Leases from the inside: the register below them, lost answers, late holders, records that nobody can read."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from omnigraph.errors import LockTimeout, StorageError
from omnigraph.storage.failpoints import fail_at
from omnigraph.storage.location import Location
from omnigraph.storage.locks.leases import (
    FolderRegister,
    Lease,
    LeaseLost,
    LockWait,
    Register,
    RegisterValue,
    open_register,
)
from omnigraph.storage.objects import Objects

PATH = "__locks/x.lease"
LONG = 60.0


@pytest.fixture(params=["local", "s3"])
def location(request: pytest.FixtureRequest) -> Location:
    return cast("Location", request.getfixturevalue(f"{request.param}_location"))


@pytest.fixture
def register(location: Location) -> Register:
    return open_register(location, PATH)


def taken(register: Register, ttl: float = LONG, patience: float = 30.0) -> Lease:
    lease = Lease(register, "the test", ttl)
    lease.take("refs", LockWait(patience))
    return lease


def value(register: Register) -> bytes:
    seen = register.read()
    assert seen is not None
    return seen.data


def content(register: Register) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(value(register)))


def lost_after_a_while(lease: Lease) -> str:
    """Check the lease again and again until it is lost, as a holder does."""
    waiting = LockWait(30.0)
    while waiting.remaining():
        try:
            lease.confirm()
        except LeaseLost as lost:
            return str(lost)
    return "never lost"


class TestEveryRegister:
    def test_it_starts_empty_and_keeps_what_was_swapped_in(self, register: Register) -> None:
        assert register.read() is None
        first = register.swap(None, b"one")
        assert first is not None
        assert register.read() == RegisterValue(first, b"one")
        second = register.swap(first, b"two")
        assert second is not None
        assert register.read() == RegisterValue(second, b"two")

    def test_a_stale_swap_changes_nothing(self, register: Register) -> None:
        first = register.swap(None, b"one")
        assert first is not None
        assert register.swap(None, b"again") is None
        assert register.swap(first, b"two") is not None
        assert register.swap(first, b"stale") is None
        assert value(register) == b"two"

    def test_of_two_swaps_of_one_value_one_wins(self, register: Register) -> None:
        assert register.swap(None, b"0")

        def increment(rounds: int) -> list[str]:
            won: list[str] = []
            while len(won) < rounds:
                seen = register.read()
                assert seen is not None
                tag = register.swap(seen.tag, b"%d" % (int(seen.data) + 1))
                won += [] if tag is None else [tag]
            return won

        with ThreadPoolExecutor(4) as pool:
            tags = [tag for won in pool.map(increment, [20] * 4) for tag in won]
        assert len(set(tags)) == 80
        # More, where a value was replaced before its writer could see that it had won.
        assert int(value(register)) >= 80


def test_a_slow_writer_that_fills_a_removed_number_has_lost(local_location: Location) -> None:
    register = FolderRegister(Objects(local_location), PATH)
    tag = old = register.swap(None, b"0")
    for number in range(1, 40):
        tag = register.swap(tag, b"%d" % number)
    files = sorted(Path(local_location.join(PATH)).iterdir())
    assert len(files) < 12, "old numbers are removed"
    assert old is not None
    assert not any(file.name.endswith("02") for file in files)
    assert register.swap(old, b"slow") is None
    seen = register.read()
    assert seen is not None
    assert (seen.tag, seen.data) == (tag, b"39")


class Forgetful:
    """A real register whose swaps land and whose answers are lost, as when a client repeats a request by itself."""

    def __init__(self, inner: Register) -> None:
        self.inner = inner

    def read(self) -> RegisterValue | None:
        return self.inner.read()

    def swap(self, expected: str | None, data: bytes) -> str | None:
        self.inner.swap(expected, data)
        return None


class TestEveryLease:
    def test_lost_answers_lose_nothing(self, register: Register) -> None:
        lease = taken(Forgetful(register), ttl=2.0)
        with pytest.raises(LockTimeout, match="held by the test"):
            taken(register, patience=2.5)
        lease.confirm()
        assert cast("int", content(register)["renewal"]) >= 2
        lease.release()
        assert content(register)["free"] is True
        again = taken(register)
        assert not again.taken_over
        again.release()

    def test_a_lease_whose_taking_failed_half_way_expires(self, register: Register) -> None:
        with fail_at(1, "after", OSError(5, "Input/output error")), pytest.raises(StorageError):
            taken(register, ttl=0.3)
        lease = taken(register)
        assert lease.taken_over
        lease.release()

    def test_a_renewal_that_failed_half_way_is_repeated(self, register: Register) -> None:
        lease = taken(register, ttl=2.0)
        with fail_at(1, "after", PermissionError(13, "Permission denied")), pytest.raises(LockTimeout):
            taken(register, patience=2.0)
        lease.confirm()
        lease.release()
        assert content(register)["free"] is True

    def test_the_holder_decides_how_long_its_lease_lives(self, register: Register) -> None:
        lease = taken(register, ttl=LONG)
        with pytest.raises(LockTimeout):
            taken(register, ttl=0.05, patience=0.5)
        lease.release()

    def test_a_replaced_holder_notices_and_leaves_the_new_one_alone(self, register: Register) -> None:
        lease = taken(register, ttl=1.0)
        seen = register.read()
        while seen is not None and register.swap(seen.tag, b'{"of": "somebody else"}') is None:
            seen = register.read()
        assert lost_after_a_while(lease) == "the lease of the test was taken over"
        lease.release()
        assert content(register) == {"of": "somebody else"}

    def test_an_unreadable_lease_expires_like_any_other(self, register: Register) -> None:
        register.swap(None, b"\xff not json")
        with pytest.raises(LockTimeout, match="held by an unreadable lease"):
            taken(register, ttl=LONG, patience=0.05)
        lease = taken(register, ttl=0.2)
        assert lease.taken_over
        lease.release()


def test_a_holder_whose_storage_fails_is_late(local_location: Location) -> None:
    lease = taken(open_register(local_location, PATH), ttl=0.4)
    folder = Path(local_location.join(PATH))
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("a file where the folder was")
    assert lost_after_a_while(lease) == "the lease of the test was not renewed in time"
    with pytest.raises(LeaseLost) as raised:
        lease.confirm()
    assert isinstance(raised.value.__cause__, StorageError)
    lease.release()

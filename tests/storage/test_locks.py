"""One set of promises for every lock: flock on a local folder, a lease on a local folder, a lease on S3."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from omnigraph.errors import LockTimeout, ReadOnly, Unsupported
from omnigraph.storage.location import Location, locate
from omnigraph.storage.locks import HeldLock, LeaseLost, LockSettings, branch_lock, refs_lock
from omnigraph.storage.locks.leases import LockWait
from tests.crash import Pipe, every_crash, kill_at, pipe, record, run, start
from tests.selection import sized

TTL = 1.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of lock, where it lies, and how hard the races may be."""

    location: Location
    settings: LockSettings
    processes: int = sized(4, 8)
    rounds: int = sized(25, 50)

    @property
    def is_lease(self) -> bool:
        return self.settings.kind == "lease"

    def within(self, timeout: float, ttl: float = TTL) -> LockSettings:
        return replace(self.settings, timeout=timeout, ttl=ttl)


@pytest.fixture(params=["flock", "local lease", "s3 lease"])
def kind(request: pytest.FixtureRequest, local_location: Location) -> Kind:
    if request.param == "flock":
        return Kind(local_location, LockSettings("flock"))
    if request.param == "local lease":
        return Kind(local_location, LockSettings("lease"))
    location = cast("Location", request.getfixturevalue("s3_location"))
    return Kind(location, LockSettings("lease"), rounds=sized(6, 12))


# --------------------------------------------------------------------------------------------- what children do


def increment(location: Location, settings: LockSettings, counter: Path, rounds: int) -> None:
    """Read, add one, write: loses counts unless the lock excludes everybody else."""
    for _ in range(rounds):
        with branch_lock(location, "main", settings) as held:
            value = int(counter.read_text())
            held.check()
            counter.write_text(str(value + 1))


def hold(location: Location, settings: LockSettings, parent: Pipe) -> None:
    """Take the lock, say so, and keep it until told to check it; answer with what the check said."""
    with branch_lock(location, "main", settings) as held:
        parent.send(held.holder)
        parent.recv()
        try:
            held.check()
            parent.send("held")
        except LeaseLost as lost:
            parent.send(f"lost: {lost}")


def hold_with_a_fork(location: Location, settings: LockSettings, parent: Pipe) -> None:
    """Take the lock and fork a child that leaves the block by an exception, as if it were its own."""
    pid = 0
    try:
        with branch_lock(location, "main", settings) as held:
            pid = os.fork()
            if pid == 0:
                refused(held)
                raise InterruptedError
            _, status = os.waitpid(pid, 0)
            parent.send(os.waitstatus_to_exitcode(status))
            parent.recv()
            held.check()
            parent.send("held")
    except InterruptedError:
        os._exit(7)


def refused(held: HeldLock) -> None:
    with pytest.raises(LeaseLost, match="which forked this one"):
        held.check()


def hold_beside_a_surviving_fork(location: Location, settings: LockSettings, parent: Pipe) -> None:
    with branch_lock(location, "main", settings):
        if os.fork() == 0:
            parent.recv()  # until the test is over
            os._exit(0)
        parent.send(os.getpid())
        signal.pause()


def take(lock: AbstractContextManager[HeldLock]) -> None:
    with lock:
        pass


@contextmanager
def holder(kind: Kind, settings: LockSettings) -> Generator[tuple[int, str, Pipe]]:
    """A child that holds the lock: its process id, what it calls itself, and the line to it."""
    ours, theirs = pipe()
    child = start(hold, kind.location, settings, theirs)
    assert ours.poll(30)
    name = cast("str", ours.recv())
    assert child.pid is not None
    try:
        yield child.pid, name, ours
    finally:
        child.kill()
        child.join()


# --------------------------------------------------------------------------------------------- the promises


class TestEveryLock:
    def test_it_says_what_it_is_and_can_be_taken_again(self, kind: Kind) -> None:
        for _ in range(3):
            with branch_lock(kind.location, "main", kind.settings) as held:
                held.check()
                assert (held.name, held.kind, held.taken_over) == ("branch:main", kind.settings.kind, False)
                assert held.holder.startswith(f"process {os.getpid()} on ")

    def test_threads_exclude_each_other(self, kind: Kind, tmp_path: Path) -> None:
        counter = tmp_path / "counter"
        counter.write_text("0")
        work = (kind.location, kind.settings, counter, kind.rounds)
        threads = [threading.Thread(target=increment, args=work) for _ in range(kind.processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert int(counter.read_text()) == kind.processes * kind.rounds

    def test_processes_exclude_each_other(self, kind: Kind, tmp_path: Path) -> None:
        counter = tmp_path / "counter"
        counter.write_text("0")
        children = [start(increment, kind.location, kind.settings, counter, kind.rounds) for _ in range(kind.processes)]
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0] * kind.processes
        assert int(counter.read_text()) == kind.processes * kind.rounds

    def test_other_branches_and_refs_are_free(self, kind: Kind) -> None:
        with holder(kind, kind.settings):
            with branch_lock(kind.location, "other", kind.within(5.0)):
                pass
            with refs_lock(kind.location, kind.within(5.0)) as held:
                assert held.name == "refs"

    def test_a_timeout_names_the_holder(self, kind: Kind) -> None:
        with holder(kind, kind.settings) as (_, name, _), pytest.raises(LockTimeout) as raised:
            take(branch_lock(kind.location, "main", kind.within(0.2)))
        assert raised.value.holder == name
        assert raised.value.waited >= 0.2

    def test_a_timeout_names_the_thread_of_this_process(self, kind: Kind) -> None:
        raised: list[str | None] = []

        def try_it() -> None:
            try:
                with branch_lock(kind.location, "main", kind.within(0.05)):
                    pass
            except LockTimeout as timeout:
                raised.append(timeout.holder)

        with branch_lock(kind.location, "main", kind.settings):
            thread = threading.Thread(target=try_it)
            thread.start()
            thread.join()
        assert raised == [f"another thread of process {os.getpid()}"]

    def test_a_failed_block_frees_it(self, kind: Kind) -> None:
        with pytest.raises(KeyError), branch_lock(kind.location, "main", kind.settings):
            raise KeyError
        assert run(can_take, kind.location, kind.within(5.0)) == "taken"

    def test_a_killed_holder_frees_it(self, kind: Kind) -> None:
        with holder(kind, kind.within(5.0)) as (pid, _, _):
            os.kill(pid, signal.SIGKILL)
            waiting = LockWait(30.0)
            with branch_lock(kind.location, "main", kind.within(30.0)) as held:
                waited = waiting.waited()
        assert held.taken_over == kind.is_lease
        assert waited >= TTL if kind.is_lease else waited < TTL

    def test_killed_at_any_write_it_can_be_taken_again(self, kind: Kind) -> None:
        settings = kind.within(30.0)
        steps = record(can_take, kind.location, settings)
        assert steps
        for number, when in every_crash(steps):
            kill_at(can_take, (kind.location, settings), number, when)
            assert run(can_take, kind.location, settings) in ("taken", "taken over")

    def test_a_living_holder_keeps_it_longer_than_a_time_to_live(self, kind: Kind) -> None:
        with branch_lock(kind.location, "main", kind.within(5.0, ttl=2 * TTL)) as held:
            patience = 3 * TTL if kind.is_lease else 0.2
            assert run(can_take, kind.location, kind.within(patience)) == f"held by process {os.getpid()}"
            held.check()

    def test_a_stopped_holder_notices_that_it_was_replaced(self, kind: Kind) -> None:
        with holder(kind, kind.within(5.0)) as (pid, _, line):
            os.kill(pid, signal.SIGSTOP)
            answer = run(can_take, kind.location, kind.within(30.0 if kind.is_lease else 0.2))
            os.kill(pid, signal.SIGCONT)
            line.send("check")
            assert line.poll(30)
            said = cast("str", line.recv())
        if kind.is_lease:
            assert answer == "taken over"
            assert said.startswith("lost: the lease of process")
        else:
            assert answer.startswith("held by process")
            assert said == "held"

    def test_a_forked_child_does_not_release_it(self, kind: Kind) -> None:
        ours, theirs = pipe()
        child = start(hold_with_a_fork, kind.location, kind.settings, theirs)
        assert ours.poll(30)
        assert ours.recv() == 7
        assert run(can_take, kind.location, kind.within(0.3)) == f"held by process {child.pid}"
        ours.send("go on")
        assert ours.recv() == "held"
        child.join()
        assert run(can_take, kind.location, kind.within(5.0)) == "taken"

    def test_a_forked_child_does_not_keep_it_when_the_holder_is_killed(self, kind: Kind) -> None:
        ours, theirs = pipe()
        child = start(hold_beside_a_surviving_fork, kind.location, kind.within(5.0), theirs)
        assert ours.poll(30)
        assert ours.recv() == child.pid
        child.kill()
        child.join()
        assert run(can_take, kind.location, kind.within(5.0)) == ("taken over" if kind.is_lease else "taken")
        ours.send("done")


def can_take(location: Location, settings: LockSettings) -> str:
    try:
        with branch_lock(location, "main", settings) as held:
            held.check()
            return "taken over" if held.taken_over else "taken"
    except LockTimeout as timeout:
        return f"held by {(timeout.holder or '').partition(' on ')[0]}"


# --------------------------------------------------------------------------------------------- the order


class TestOrder:
    def test_refs_then_a_branch(self, local_location: Location) -> None:
        with refs_lock(local_location) as refs, branch_lock(local_location, "main") as branch:
            refs.check()
            branch.check()

    def test_a_branch_then_refs_is_a_mistake_in_the_program(self, local_location: Location) -> None:
        expected = "'branch:main' and may not wait for 'refs'"
        with branch_lock(local_location, "main"), pytest.raises(RuntimeError, match=expected):
            take(refs_lock(local_location))

    def test_two_branches_are_a_mistake_in_the_program(self, local_location: Location) -> None:
        with branch_lock(local_location, "main"), pytest.raises(RuntimeError, match="refs first, then one branch"):
            take(branch_lock(local_location, "other"))

    def test_the_same_lock_twice_is_a_mistake_in_the_program(self, local_location: Location) -> None:
        with refs_lock(local_location), pytest.raises(RuntimeError, match="'refs' already"):
            take(refs_lock(local_location))

    def test_two_graphs_have_nothing_to_do_with_each_other(self, local_location: Location, tmp_path: Path) -> None:
        with branch_lock(local_location, "main"), refs_lock(locate(tmp_path / "other.og")):
            pass


# --------------------------------------------------------------------------------------------- flock alone


def lock_file(location: Location) -> Path:
    (file,) = Path(location.join("__locks")).glob("*.lock")
    return file


def test_the_lock_file_stays(local_location: Location) -> None:
    with branch_lock(local_location, "main"):
        inode = lock_file(local_location).stat().st_ino
    with branch_lock(local_location, "main"):
        assert lock_file(local_location).stat().st_ino == inode


def test_a_holder_notices_that_its_lock_file_was_removed(local_location: Location) -> None:
    with branch_lock(local_location, "main") as held:
        lock_file(local_location).unlink()
        with pytest.raises(LeaseLost, match="removed or replaced"):
            held.check()
        assert run(can_take, local_location, LockSettings(timeout=5.0)) == "taken"
        with pytest.raises(LeaseLost, match="removed or replaced"):
            held.check()


def test_a_joined_lock_is_lost_with_the_other_one(local_location: Location) -> None:
    with refs_lock(local_location) as refs:
        refs_file = lock_file(local_location)
        with branch_lock(local_location, "main") as branch:
            both = branch.joined_with(refs)
            both.check()
            refs_file.unlink()
            branch.check()
            with pytest.raises(LeaseLost, match="removed or replaced"):
                both.check()


def test_who_waited_for_a_removed_lock_file_does_not_hold_it(local_location: Location) -> None:
    first = Kind(local_location, LockSettings())
    with holder(first, first.settings) as (_, _, first_line):
        ours, theirs = pipe()
        waiter = start(hold, local_location, LockSettings(), theirs)
        assert opened_by(waiter.pid, lock_file(local_location))
        lock_file(local_location).unlink()
        with holder(first, first.settings) as (_, _, second_line):
            first_line.send("check")
            assert cast("str", first_line.recv()).startswith("lost: the lock file")
            assert not ours.poll(0.2), "two holders"
            second_line.send("check")
            assert second_line.recv() == "held"
        assert ours.poll(30)
        assert cast("str", ours.recv()).startswith(f"process {waiter.pid} ")
        waiter.kill()
        waiter.join()


def opened_by(pid: int | None, file: Path) -> bool:
    """Wait until the process has the file open."""
    waiting = LockWait(30.0)
    while waiting.remaining():
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since
                if descriptor.samefile(file):
                    return True
    return False


def test_no_flock_on_an_object_store() -> None:
    with pytest.raises(Unsupported, match="no file locks"):
        take(refs_lock(locate("s3://bucket/p"), LockSettings("flock")))


def lock_as_nobody(folder: Path) -> None:
    if os.geteuid() == 0:
        os.setuid(65534)
    with pytest.raises(ReadOnly, match=r"cannot lock '__locks/.*\.lock' in .*: permission denied"):
        take(refs_lock(locate(folder)))


def test_where_nothing_can_be_written_nothing_can_be_locked(forbidden: Path) -> None:
    run(lock_as_nobody, forbidden)

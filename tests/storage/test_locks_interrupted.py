"""An interrupt leaves no lock behind, wherever it strikes between the call for a lock and the end of its block.

Python looks for signals after calls, when it jumps back, and where a function starts. A trace function raises
``KeyboardInterrupt`` at each such place in turn, so that every run is the same.
"""

from __future__ import annotations

import dis
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import pytest

from omnigraph.errors import LockTimeout
from omnigraph.storage.location import Location
from omnigraph.storage.locks import LeaseChain, LockSettings, branch_lock, lock
from omnigraph.storage.locks.leases import LockWait
from tests.selection import sized

# A lease that leaks would not expire within the test.
KINDS = {"flock": LockSettings("flock"), "lease": LockSettings("lease", ttl=60.0)}

# A file that gets lost in an interrupt is closed by Python, which is what frees its lock.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


class Interruption:
    """Raises ``KeyboardInterrupt`` once, at the place of this number in the code of locks and context managers."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.place: str | None = None
        self._is_signal_due: defaultdict[FrameType, bool] = defaultdict(bool)

    def __call__(self, frame: FrameType, event: str, _: object) -> Interruption | None:
        if not any(part in frame.f_code.co_filename for part in ("/storage/locks/", "/contextlib.py")):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self._pass(frame)
        return self

    def _pass(self, frame: FrameType) -> None:
        was_due = self._is_signal_due[frame]
        name = _opcode_names(frame.f_code)[frame.f_lasti]
        self._is_signal_due[frame] = name.startswith(("CALL", "JUMP_BACKWARD", "RESUME"))
        self.number -= was_due
        if was_due and self.number == 0:
            self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
            self._is_signal_due.clear()
            raise KeyboardInterrupt(self.place)


@cache
def _opcode_names(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}


def interrupt(number: int, location: Location, settings: LockSettings, *, may_wait: bool = False) -> str | None:
    """Take a lock, interrupted at one place; return the place, or None if there are fewer."""
    interruption, has_entered = Interruption(number), False
    try:
        sys.settrace(interruption)
        with branch_lock(location, "main", settings):
            has_entered = True
    except KeyboardInterrupt:
        sys.settrace(None)
        # The traceback, which may live on in a notebook, must not keep a lock.
        if not has_entered and not may_wait:
            assert_free(location, settings, interruption.place)
    finally:
        sys.settrace(None)
    return interruption.place


def assert_free(location: Location, settings: LockSettings, place: str | None) -> None:
    """Assert that another thread can have the lock at once, and that this one does not hold it."""

    def take() -> None:
        with branch_lock(location, "main", replace(settings, timeout=0.0)):
            pass

    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(take).result()
        take()
    except (LockTimeout, RuntimeError) as error:
        pytest.fail(f"interrupted at {place}: {error}")


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_at_any_place_leaves_no_lock(local_location: Location, kind: str) -> None:
    settings, places = KINDS[kind], list[str]()
    # A lease takes ten times as long, and most of its places are in files.
    step = 1 if kind == "flock" else sized(9, 1)
    while (place := interrupt(1 + len(places) * step, local_location, settings)) is not None:
        assert_free(local_location, settings, place)
        places.append(place)
    assert {"lock.py"} | ({"leases.py"} if kind == "lease" else set()) <= {place.partition(":")[0] for place in places}
    assert len(places) > 30


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_of_the_wait_for_another_process_leaves_no_lock(local_location: Location, kind: str) -> None:
    settings = KINDS[kind]
    held = hold_branch(local_location, settings)
    for number in range(1, 161, sized(3, 1)):
        assert interrupt(number, local_location, settings, may_wait=True) is not None
    held.release()
    assert_free(local_location, settings, "the wait")


def hold_branch(location: Location, settings: LockSettings) -> lock._FileLock | lock._LeaseLock:
    """Hold the lock of a branch as another process does: other threads of this one need not wait for a thread lock."""
    if settings.kind == "flock":
        held = lock._FileLock(location, "branch:main")
    else:
        held = lock._LeaseLock(location, "branch:main", ttl=60.0, chain=LeaseChain())
    held.take(LockWait(1.0))
    return held

"""The seam of durable writes: numbering, recording, injected faults, real kills, and the harness that uses them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import InjectedFault, When, WriteStep, fail_at, mark_write, record_writes
from tests.crash import every_fault, fresh_copy, kill_at, record, run


def write_three(folder: Path) -> None:
    for name in ("a", "b", "c"):
        with mark_write("file.write", name):
            (folder / name).write_text(name)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_unarmed_it_is_one_shared_object_that_does_nothing() -> None:
    assert mark_write("file.write", "a") is mark_write("file.write", "b")


def test_recording_numbers_the_writes_from_one(tmp_path: Path) -> None:
    with record_writes() as steps:
        write_three(tmp_path)
    assert steps == [WriteStep(1, "file.write", "a"), WriteStep(2, "file.write", "b"), WriteStep(3, "file.write", "c")]


def test_numbers_are_unique_over_threads() -> None:
    def write(_: int) -> None:
        with mark_write("thread"):
            pass

    with record_writes() as steps, ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(500)))
    assert [step.number for step in steps] == list(range(1, 501))


@pytest.mark.parametrize(("when", "written"), [("before", ["a"]), ("after", ["a", "b"])])
def test_an_injected_fault_comes_before_or_after_the_write(tmp_path: Path, when: When, written: list[str]) -> None:
    with fail_at(2, when), pytest.raises(InjectedFault, match=f"{when} write 2: file.write b"):
        write_three(tmp_path)
    assert names_in(tmp_path) == written


def test_a_given_error_is_raised_as_it_is(tmp_path: Path) -> None:
    error = OSError(28, "No space left on device")
    with fail_at(1, "before", error), pytest.raises(OSError, match="No space left") as raised:
        write_three(tmp_path)
    assert raised.value is error


def test_a_write_that_fails_itself_has_no_after() -> None:
    with fail_at(1, "after"), pytest.raises(KeyError), mark_write("fails"):
        raise KeyError


def test_arming_ends_with_its_block_and_does_not_nest(tmp_path: Path) -> None:
    with record_writes(), pytest.raises(RuntimeError, match="armed already"), fail_at(1, "before"):
        pass
    write_three(tmp_path)
    assert names_in(tmp_path) == ["a", "b", "c"]


def test_a_crash_matrix_kills_at_every_write(tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.mkdir()
    steps = record(write_three, fresh_copy(template))
    seen: dict[tuple[int, When], list[str]] = {}
    for number, when in every_fault(steps):
        folder = fresh_copy(template)
        kill_at(write_three, (folder,), number, when)
        seen[number, when] = names_in(folder)
    assert seen == {
        (1, "before"): [],
        (1, "after"): ["a"],
        (2, "before"): ["a"],
        (2, "after"): ["a", "b"],
        (3, "before"): ["a", "b"],
        (3, "after"): ["a", "b", "c"],
    }


def test_a_kill_at_a_write_that_never_comes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not killed before write 4: exit code 0"):
        kill_at(write_three, (tmp_path,), 4, "before")


def raise_injected() -> None:
    raise InjectedFault("before", WriteStep(3, "name", "detail"))


def test_a_child_hands_back_its_result_and_its_error() -> None:
    assert run(os.getpid) != os.getpid()
    with pytest.raises(InjectedFault, match="before write 3: name detail"):
        run(raise_injected)


def run_python(armed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = (
        "import pathlib, sys\n"
        "from omnigraph.storage.failpoints import mark_write\n"
        "for name in 'abc':\n"
        "    with mark_write('file.write', name): pathlib.Path(sys.argv[1], name).touch()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={**os.environ, failpoints.VARIABLE: armed},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_kills_a_child_process(tmp_path: Path) -> None:
    assert run_python("kill:after:2", tmp_path).returncode == -signal.SIGKILL
    assert names_in(tmp_path) == ["a", "b"]


def test_the_environment_raises_in_a_child_process(tmp_path: Path) -> None:
    assert "InjectedFault: injected before write 1: file.write a" in run_python("raise:before:1", tmp_path).stderr
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("armed", ["kill", "kill:before:0", "kill:during:1", "burn:before:1", "kill:before:x"])
def test_a_misspelt_variable_is_refused(tmp_path: Path, armed: str) -> None:
    assert "kill|raise:before|after:NUMBER" in run_python(armed, tmp_path).stderr
    assert names_in(tmp_path) == []

"""Functions run in child processes that record their durable writes, or die by SIGKILL at one of them.

The children come from one fork server that has the slow modules imported and no dataset open, so a child costs
milliseconds. A function that runs there stands at the top of a module, and its arguments pickle.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeAlias, TypeVar, TypeVarTuple, cast

from omnigraph.storage import failpoints
from omnigraph.storage.failpoints import When, WriteStep, record_writes
from omnigraph.storage.lance_internals.base_folders import replace_base_folders
from tests.selection import LARGE

Args = TypeVarTuple("Args")
Result = TypeVar("Result")

Pipe: TypeAlias = "Connection[object, object]"
_ROOT = str(Path(__file__).parents[1])
_PRELOADED = ["tests.preloaded"]
_PATIENCE = 180.0


class ChildDied(AssertionError):
    """A child ended without an answer."""

    def __init__(self, exitcode: int | None) -> None:
        super().__init__(f"the child died without an answer: exit code {exitcode}")
        self.exitcode = exitcode


def run(function: Callable[[*Args], Result], *args: *Args) -> Result:
    """Call the function in a child process. What it returns is returned here, what it raises is raised here."""
    ours, theirs = pipe()
    child = start(_call, theirs, function, args)
    theirs.close()
    try:
        assert ours.poll(_PATIENCE), f"no answer in {_PATIENCE} s"
        succeeded, answer = cast("tuple[bool, object]", ours.recv())
    except EOFError:
        child.join(_PATIENCE)
        raise ChildDied(child.exitcode) from None
    finally:
        ours.close()
    child.join(_PATIENCE)
    if not succeeded:
        raise cast("BaseException", answer)
    return cast("Result", answer)


def record(function: Callable[[*Args], object], *args: *Args) -> list[WriteStep]:
    """The durable writes of one clean run in a child process."""
    return run(_call_recording, function, args)


def kill_at(function: Callable[[*Args], object], args: tuple[*Args], number: int, when: When) -> None:
    """Call the function in a child process that must die by SIGKILL before or after its write ``number``."""
    child = start(_call_killing, function, args, number, when)
    child.join(_PATIENCE)
    assert child.exitcode == -signal.SIGKILL, f"not killed {when} write {number}: exit code {child.exitcode}"


def kill_after_subset(
    function: Callable[[*Args], object], args: tuple[*Args], name: str, details: Sequence[str]
) -> None:
    """Call the function in a child that must die when, of its writes of a kind, those of some targets are done."""
    child = start(_call_killing_subset, function, args, name, details)
    child.join(_PATIENCE)
    assert child.exitcode == -signal.SIGKILL, f"not killed after {details}: exit code {child.exitcode}"


def attempt(function: Callable[[*Args], object], args: tuple[*Args], number: int, when: When) -> bool:
    """Call the function in a child that dies at its write ``number``, if it gets there; whether it came to its end."""
    try:
        run(_call_killing, function, args, number, when)
    except ChildDied as died:
        if died.exitcode != -signal.SIGKILL:
            raise
        return False
    return True


def start(function: Callable[[*Args], object], *args: *Args) -> ForkServerProcess:
    """Start a child process and do not wait for it."""
    child = _context().Process(target=function, args=args, daemon=True)
    child.start()
    return child


def pipe() -> tuple[Pipe, Pipe]:
    """Two connected ends, to talk with a child: one stays here, the other is an argument of its function."""
    return cast("tuple[Pipe, Pipe]", _context().Pipe())


def every_crash(steps: Iterable[WriteStep]) -> Generator[tuple[int, When]]:
    """Where to kill: in large runs before and after each recorded write; else once per state that lies on the disk.

    What lies there after one write is what lies there before the next. A lock leaves nothing, and what was staged is
    named by nobody: one staging stands for all.
    """
    if LARGE:
        yield from every_fault(steps)
        return
    staged, number = False, 0
    for step in steps:
        number = step.number
        if step.name != "locks.flock" and not (staged and step.name == "table.stage"):
            yield number, "before"
        staged = staged or step.name == "table.stage"
    if number:
        yield number, "after"


def some_crashes(steps: Iterable[WriteStep]) -> Generator[tuple[int, When]]:
    """Where to kill a writer whose phases are killed everywhere in tests of the commit section: every fifth state.

    The first and the last state are among them, and in large runs all of them.
    """
    found = list(every_crash(steps))
    yield from found if LARGE else [*found[:-1:5], *found[-1:]]


def every_fault(steps: Iterable[WriteStep]) -> Generator[tuple[int, When]]:
    """Where to fail: each recorded write, before and after."""
    for step in steps:
        yield step.number, "before"
        yield step.number, "after"


def fresh_copy(template: Path) -> Path:
    """A copy of a template folder, in a new folder beside it, that has no file in common with it."""
    copy = shutil.copytree(template, Path(mkdtemp(dir=template.parent)) / template.name)
    for file in copy.glob("**/tree/**/_versions/*.manifest"):
        file.write_bytes(replace_base_folders(file.read_bytes(), lambda noted: noted.replace(str(template), str(copy))))
    return copy


def _call(answer: Pipe, function: Callable[[*Args], object], args: tuple[*Args]) -> None:
    try:
        answer.send((True, function(*args)))
    except BaseException as error:  # noqa: BLE001  the parent raises it
        answer.send((False, error))


def _call_recording(function: Callable[[*Args], object], args: tuple[*Args]) -> list[WriteStep]:
    with record_writes() as steps:
        function(*args)
    return steps


def _call_killing(function: Callable[[*Args], object], args: tuple[*Args], number: int, when: When) -> None:
    with failpoints.kill_at(number, when):
        function(*args)


def _call_killing_subset(
    function: Callable[[*Args], object], args: tuple[*Args], name: str, details: Sequence[str]
) -> None:
    with failpoints.kill_after_subset(name, details):
        function(*args)


@cache
def _context() -> ForkServerContext:
    made = multiprocessing.get_context("forkserver")
    # Children import the functions by name, as ``tests.…``; pytest itself finds them without a search path.
    if _ROOT not in sys.path:
        sys.path.append(_ROOT)
    made.set_forkserver_preload(_PRELOADED)
    # Lance warns of every fork after its import. It is safe here, since the server never opens a dataset.
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore:lance is not fork-safe"
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before
    return made

"""A program of Python without the seconds that its imports take: a fork of the server that :mod:`tests.crash` has.

It is a process of its own, with its folder, environment, arguments and stderr: the fork is made before anything is
opened or read. ``make test-all`` starts an interpreter for each program, as users do.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from tests import crash
from tests.selection import LARGE


class Program(Protocol):
    """A process that runs: as :class:`subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...
    @property
    def stderr(self) -> IO[str] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float, /) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


def start_program(text: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Program:
    """``python -c TEXT ARGUMENTS``: warm in ``make test``."""
    if LARGE:
        return start_interpreter(text, arguments, environment)
    return _Fork(text, arguments, os.environ if environment is None else environment)


def start_interpreter(text: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Program:
    """``python -c TEXT ARGUMENTS``, as users start it."""
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments], stderr=subprocess.PIPE, text=True, env=environment
    )


class _Fork:
    def __init__(self, text: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        ours, theirs = crash.pipe()
        self._child = crash.start(_run, text, [*arguments], dict(environment), str(Path.cwd()), theirs)
        theirs.close()
        self.stderr = os.fdopen(os.dup(ours.fileno()), encoding="utf-8")
        ours.close()
        assert self._child.pid is not None
        self.pid = self._child.pid

    def poll(self) -> int | None:
        return self._child.exitcode

    def wait(self, timeout: float, /) -> int:
        self._child.join(timeout)
        code = self.poll()
        assert code is not None, f"it did not end in {timeout} s"
        return code

    def send_signal(self, number: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._child.kill()


def _run(text: str, arguments: list[str], environment: dict[str, str], folder: str, stderr: crash.Pipe) -> None:
    os.dup2(stderr.fileno(), 2)
    stderr.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    try:
        exec(text, {"__name__": "__main__"})  # noqa: S102 that is what an interpreter does
    finally:
        # Children of multiprocessing leave these out.
        atexit._run_exitfuncs()

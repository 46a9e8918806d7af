"""A mark that says which process made something, so that another one on the same machine can tell when it is gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import cast

import orjson


def describe_process() -> bytes:
    """Return the mark of this process: machine, number, and when it was started, because numbers are used again."""
    return orjson.dumps(_describe(os.getpid()))


def is_dead_process(mark: bytes) -> bool:
    """Whether the process of a mark is gone. Of another machine nobody knows: then it is taken to be alive."""
    try:
        found = cast("object", orjson.loads(mark))
    except orjson.JSONDecodeError:
        return False
    if not isinstance(found, dict):
        return False
    given = cast("dict[str, object]", found)
    number = given.get("pid")
    if not isinstance(number, int) or given.get("machine") != _name_machine():
        return False
    return _describe(number) != given


def _describe(number: int) -> dict[str, object]:
    return {"machine": _name_machine(), "pid": number, "started": _find_start(number)}


def _name_machine() -> str:
    """Return a name of the machine, or of the container: processes of several have the same numbers."""
    try:
        return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _find_start(number: int) -> str | None:
    """Return when a process was started; None if there is none, or if it is only waited for."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self").exists() else _ask_system(number)
    return None if fields[0] in ("Z", "X") else fields[19]


def _ask_system(number: int) -> str | None:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "running"

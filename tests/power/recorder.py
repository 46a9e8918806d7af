"""Records every change that a process makes to the files under a folder: ``recorder.c`` compiled, loaded, and read.

The process that writes makes a ``Recorder`` before anything else and then works as always. Several processes may
append to one record, one after the other. The record is read by the parent.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("recorder.c")
_MACHINES: Final = ("x86_64", "aarch64")
_HEADER: Final = struct.Struct("<IIQQQ")


class Kind(IntEnum):
    """What a call did, as numbered in ``recorder.c``."""

    CREATE = 1
    """A file was opened with O_CREAT: it may have been there before."""
    WRITE = 2
    TRUNCATE = 3
    RENAME = 4
    LINK = 5
    UNLINK = 6
    MKDIR = 7
    RMDIR = 8
    SYNC = 9
    SYNC_ALL = 10
    MARK = 11


@dataclass(frozen=True, slots=True)
class Event:
    """One change, one sync, or one mark of the writer."""

    kind: Kind
    inode: int
    offset: int
    """Where bytes were written, or the new size of a truncated file."""
    first: bytes
    """The path, or the text of a mark."""
    second: bytes
    """The new path, or the bytes written."""

    @property
    def path(self) -> str:
        return os.fsdecode(self.first)

    @property
    def target(self) -> str:
        return os.fsdecode(self.second)

    def __str__(self) -> str:
        match self.kind:
            case Kind.RENAME | Kind.LINK:
                detail = f"{self.path} -> {self.target}"
            case Kind.WRITE:
                detail = f"inode {self.inode}: {len(self.second)} bytes at {self.offset}"
            case Kind.SYNC | Kind.TRUNCATE:
                detail = f"inode {self.inode}"
            case _:
                detail = self.path
        return f"{self.kind.name.lower()} {detail}"


def find_obstacle() -> str | None:
    """Return why nothing can be recorded here, or None."""
    if sys.platform != "linux":
        return f"power cuts are recorded by seccomp, and this is {sys.platform}"
    if platform.machine() not in _MACHINES:
        return f"the recorder knows {' and '.join(_MACHINES)}, and this is {platform.machine()}"
    if shutil.which("cc") is None:
        return "power cuts are recorded by a small C library, and there is no C compiler (cc)"
    return None


def compile_recorder(folder: Path) -> Path:
    """Compile the recorder into a folder."""
    library = folder / "recorder.so"
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True)
    return library


class Recorder:
    """The recorder of this process. It cannot be stopped: start it in a child process."""

    def __init__(self, library: Path, root: Path, record: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.recorder_mark.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        failed: int = self._library.recorder_start(os.fsencode(root), os.fsencode(record))
        if failed:
            raise OSError(failed, os.strerror(failed), "seccomp")

    def mark(self, text: str) -> None:
        """Put a remark into the record, after everything that this thread has done."""
        encoded = text.encode()
        self._library.recorder_mark(encoded, len(encoded))


def probe_recorder(library: Path, folder: Path) -> str | None:
    """Return why this process cannot be recorded, or None. Call it in a child process."""
    try:
        Recorder(library, folder, folder / "probe")
    except OSError as error:
        return f"seccomp is not allowed here: {error}"
    return None


def read_record(record: Path) -> list[Event]:
    """Read all events of a record."""
    return list(_events(record.read_bytes()))


def _events(data: bytes) -> Generator[Event]:
    at = 0
    while at < len(data):
        kind, first_length, inode, offset, second_length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        end = at + first_length + second_length
        assert end <= len(data), "the record ends within an event"
        yield Event(Kind(kind), inode, offset, data[at : at + first_length], data[at + first_length : end])
        at = end

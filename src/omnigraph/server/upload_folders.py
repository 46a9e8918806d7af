"""Where the bodies of loads are kept while they are read: in the state folder of a server, a folder for each process.

A process that dies leaves its folder. It holds a lock as long as it lives, so that the next one knows what to remove.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import Final

from ulid import ULID

_PREFIX: Final = "uploads-"
_LOCK: Final = ".lock"


class UploadFolder:
    """The folder of this process."""

    def __init__(self, state: Path) -> None:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(state)
        self.path: Final = state / f"{_PREFIX}{ULID()}"
        self._lock_file = self.path.with_suffix(_LOCK)
        self._lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove the folder, when nothing more is uploaded."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock_file.unlink(missing_ok=True)
        os.close(self._lock)


def _remove_abandoned(state: Path) -> None:
    """Remove the folders of processes that died."""
    for lock_file in state.glob(f"{_PREFIX}*{_LOCK}"):
        try:
            lock = os.open(lock_file, os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
            lock_file.unlink(missing_ok=True)
        except BlockingIOError:
            # Its process lives.
            continue
        finally:
            os.close(lock)

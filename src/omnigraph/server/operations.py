"""Operations: work that goes on after its request was answered, known to every worker through files.

An operation is a file in the state folder that is replaced as a whole, beside a lock that the process that works on it
holds. A file that says "running" whose lock is free belongs to a process that died: the operation is lost, unless its
key is found in a commit of the graph.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Final, Literal, cast

import orjson
from ulid import ULID

from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

OperationState = Literal["running", "succeeded", "failed", "cancelled", "lost"]

_KEPT_SECONDS: Final = 7 * 24 * 3600
_PRIVATE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as its file has it."""

    id: str
    graph: str
    kind: str
    actor: str
    state: OperationState
    started_at: str
    ended_at: str | None = None
    branch: str | None = None
    key: str | None = None
    """The key that its commit has, if it makes one."""
    progress: Json = None
    result: Json = None
    error: Json = None
    commit: str | None = None

    def with_commit(self, commit: str) -> Operation:
        """Return the operation as one that made a commit, though nobody could record it."""
        return replace(self, state="succeeded", commit=commit)

    def to_wire(self) -> dict[str, Json]:
        """Return what clients see."""
        shown = ("id", "kind", "actor", "state", "progress", "result", "error", "commit", "started_at", "ended_at")
        return {name: getattr(self, name) for name in shown}


class RunningOperation:
    """An operation that this process works on. It holds the lock until it ends."""

    def __init__(self, store: OperationStore, operation: Operation, lock: int) -> None:
        self._store = store
        self._lock = lock
        self.operation = operation

    def end(self, state: OperationState, *, result: Json = None, error: Json = None, commit: str | None = None) -> None:
        """Record how it ended."""
        self.operation = replace(
            self.operation, state=state, ended_at=_read_time(), result=result, error=error, commit=commit
        )
        self._store.write(self.operation)
        os.close(self._lock)


class OperationStore:
    """The operations of a state folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "operations"
        self._cancels = folder / "cancels"
        for each in (self._folder, self._cancels):
            each.mkdir(_PRIVATE, parents=True, exist_ok=True)

    def begin(
        self, graph: str, kind: str, actor: str, branch: str | None = None, key: str | None = None
    ) -> RunningOperation:
        """Begin an operation. Without a key its id is one. What is older than seven days is forgotten."""
        self._forget_old()
        operation_id = str(ULID())
        operation = Operation(
            operation_id, graph, kind, actor, "running", _read_time(), branch=branch, key=key or operation_id
        )
        lock = os.open(self._lock_path(operation_id), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.write(operation)
        return RunningOperation(self, operation, lock)

    def write(self, operation: Operation) -> None:
        """Replace the file of an operation."""
        path = self._path(operation.id)
        part = path.with_suffix(".part")
        part.write_bytes(orjson.dumps(operation, default=str))
        part.replace(path)

    def find(self, graph: str, operation_id: str) -> Operation | None:
        """Return an operation of a graph. One whose process died is lost."""
        # The id is part of a path only if it is one of ours.
        if not (len(operation_id) == len(str(ULID())) and operation_id.isascii() and operation_id.isalnum()):
            return None
        try:
            fields = cast("dict[str, Json]", orjson.loads(self._path(operation_id).read_bytes()))
        except FileNotFoundError:
            return None
        found = Operation(**cast("dict[str, str]", fields))  # pyright: ignore[reportArgumentType]  as it was written
        if found.graph != graph:
            return None
        return self._find_lost(found)

    def list_operations(self, graph: str) -> list[Operation]:
        """Return the operations of a graph, newest first."""
        ids = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True)
        found = (self.find(graph, each) for each in ids)
        return [each for each in found if each is not None]

    def request_cancel(self, name: str) -> None:
        """Ask the process that works on an operation or a request, whichever it is, to cancel it."""
        (self._cancels / name).touch()

    def take_cancels(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that someone asked to cancel, and forget that they did."""
        taken: list[str] = []
        wanted = {path.name for path in self._cancels.iterdir()}
        for name in wanted.intersection(names):
            with suppress(FileNotFoundError):
                (self._cancels / name).unlink()
                taken.append(name)
        return taken

    def _find_lost(self, operation: Operation) -> Operation:
        if operation.state != "running":
            return operation
        lock = os.open(self._lock_path(operation.id), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return operation
        finally:
            os.close(lock)
        # It may have ended between the two looks.
        again = cast("dict[str, str]", orjson.loads(self._path(operation.id).read_bytes()))
        ended = Operation(**again)  # pyright: ignore[reportArgumentType]  as it was written
        return replace(operation, state="lost") if ended.state == "running" else ended

    def _forget_old(self) -> None:
        oldest = time() - _KEPT_SECONDS
        for path in (*self._folder.iterdir(), *self._cancels.iterdir()):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _path(self, operation_id: str) -> Path:
        return self._folder / f"{operation_id}.json"

    def _lock_path(self, operation_id: str) -> Path:
        return self._folder / f"{operation_id}.lock"


def _read_time() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

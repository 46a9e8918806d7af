"""Answers that are kept for a day, so that a write without a commit can be sent again with its key.

Branches, tags, settings and operations make no commit that could carry a key: their answers are files of the state
folder, which all workers share. If the process died between the work and its file, a repeat is refused as any second
attempt is: the branch exists already, the tag is gone. Nothing happens twice either way.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from pathlib import Path
from time import time
from typing import Final, cast
from uuid import uuid4

import orjson

from omnigraph.errors import Json, KeyReused
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.rows import WriteKey

_PRIVATE: Final = 0o700
_KEPT_SECONDS: Final = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer to a write, and what was asked for."""

    fingerprint: str
    status: int
    commit: str | None
    fields: dict[str, Json]
    headers: dict[str, str] = field(default_factory=dict[str, str])


class AnswerStore:
    """The kept answers of a state folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "answers"
        self._folder.mkdir(_PRIVATE, parents=True, exist_ok=True)

    def find(self, graph_id: str, key: WriteKey) -> KeptAnswer | None:
        """Return the answer of a key. Raise ``KeyReused`` if something else was asked for with it."""
        path = self._path(graph_id, key)
        try:
            if path.stat().st_mtime < time() - _KEPT_SECONDS:
                return None
            found = KeptAnswer(**cast("dict[str, str]", orjson.loads(path.read_bytes())))  # pyright: ignore[reportArgumentType]  as it was written
        except FileNotFoundError:
            return None
        if found.fingerprint != key.fingerprint:
            raise KeyReused(found.commit)
        return found

    def keep(self, graph_id: str, key: WriteKey, answer: KeptAnswer) -> None:
        """Keep an answer, and forget those that are too old."""
        oldest = time() - _KEPT_SECONDS
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()
        part = self._folder / f"{uuid4().hex}.part"
        part.write_bytes(orjson.dumps(answer))
        part.replace(self._path(graph_id, key))

    def _path(self, graph_id: str, key: WriteKey) -> Path:
        return self._folder / f"{graph_id}-{key.digest}.json"

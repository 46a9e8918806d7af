"""Where incoming rows stood: file and line of each, by its number, in a file of this machine."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnigraph.storage.columns import Values

RecordPosition: TypeAlias = "tuple[str | None, int | None]"
"""A file, if the row came from one, and a line of it, if it has lines."""

RowNumbers: TypeAlias = npt.NDArray[np.int64]
"""Rows by their numbers, in the order in which they came, from 0."""


class RowPositions(Protocol):
    """Where the rows of one type stood, whoever keeps it."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        ...

    def find(self, numbers: RowNumbers) -> list[RecordPosition]:
        """Where these rows stood."""
        ...


class PositionFile:
    """The lines of all rows lie on disk, and in memory only which rows came from which file.

    Inside a ``with`` it is written, after it it is read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = path.open("wb")
        self._starts: list[int] = []
        self._files: list[str | None] = []
        self.count = 0

    def add(self, file: str | None, lines: Values) -> None:
        """Note where the next rows stood."""
        if not self._files or self._files[-1] != file:
            self._starts.append(self.count)
            self._files.append(file)
        self._written.write(lines.to_numpy(zero_copy_only=False).astype(np.int64).tobytes())
        self.count += len(lines)

    def find(self, numbers: RowNumbers) -> list[RecordPosition]:
        """Where these rows stood."""
        if not len(numbers):
            return []
        lines = np.memmap(self._path, np.int64, "r")[numbers]
        files = np.searchsorted(self._starts, numbers, side="right") - 1
        return [
            (self._files[file], line)
            for file, line in zip(cast("list[int]", files.tolist()), cast("list[int]", lines.tolist()), strict=True)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._written.close()

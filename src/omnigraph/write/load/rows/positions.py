"""What is known of incoming rows by row number: the file and line of each, and whether its id was generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values

RecordPosition: TypeAlias = "tuple[str | None, int | None]"
"""The file of a record, and its line or record number; None if unknown."""

RowNumbers: TypeAlias = npt.NDArray[np.int64]
"""Row numbers in input order, from 0."""


@dataclass(slots=True)
class GeneratedIds:
    """Which rows of one type have ids that this load generated, as runs of rows in input order."""

    _ends: list[int] = field(default_factory=list[int])
    _flags: list[bool] = field(default_factory=list[bool])
    count: int = 0
    """The number of generated ids."""

    def add(self, rows: int, *, generated: bool) -> None:
        """Add the next rows."""
        if not rows:
            return
        self.count += rows if generated else 0
        end = (self._ends[-1] if self._ends else 0) + rows
        if self._flags and self._flags[-1] is generated:
            self._ends[-1] = end
        else:
            self._ends.append(end)
            self._flags.append(generated)

    def mark(self, numbers: RowNumbers) -> npt.NDArray[np.bool_]:
        """Return for each of some rows whether its id was generated."""
        runs = np.searchsorted(np.array(self._ends, np.int64), numbers, side="right")
        return np.array(self._flags, np.bool_)[runs]

    def iterate_runs(self) -> Iterator[tuple[int, bool]]:
        """Yield the length of each run, and whether its ids were generated."""
        for start, end, generated in zip([0, *self._ends], self._ends, self._flags, strict=False):
            yield end - start, generated


class RowPositions(Protocol):
    """Knows the position of every row of one type."""

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    def find(self, numbers: RowNumbers) -> list[RecordPosition]:
        """Return the positions of some rows."""
        ...


class PositionFile:
    """Keeps line numbers in a local file; memory holds only which range of rows came from which input file.

    Write inside a ``with`` block; read after it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._starts: list[int] = []
        self._files: list[str | None] = []
        self.count = 0

    def add(self, file: str | None, lines: Values) -> None:
        """Add the positions of the next rows."""
        if not self._files or self._files[-1] != file:
            self._starts.append(self.count)
            self._files.append(file)
        self._file.write(lines.to_numpy(zero_copy_only=False).astype(np.int64).tobytes())
        self.count += len(lines)

    def find(self, numbers: RowNumbers) -> list[RecordPosition]:
        """Return the positions of some rows."""
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
        self._file.close()

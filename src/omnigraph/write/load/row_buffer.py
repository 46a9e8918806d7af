"""Gathers the rows that are let through while the input is being read, in memory as long as they are few.

When they become many, the type that has most is written as a fragment: on its own table, if the branch has it and
may be written to, or else on a table in a folder of this machine. So memory does not grow with the input, whatever
the number of types, and a small load writes nothing before it is known to be good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.objects import Objects
from omnigraph.storage.staging import FragmentText, discard
from omnigraph.write.load.incoming_rows import FragmentTarget, IncomingRows, InMemoryRows, StagedRows
from omnigraph.write.load.positions import PositionFile
from omnigraph.write.load.validation import ValidatedBatch

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""So many bytes of rows are held in memory at most, of all types together. Fragments have about that size."""
_log = logging.getLogger("omnigraph")


class RowBuffer:
    """Takes rows of any number of types. Inside a ``with`` it is given rows, after it they are there to be read."""

    def __init__(self, folder: Path, home_of: Callable[[str], FragmentTarget | None]) -> None:
        self._folder = folder
        self._home_of = home_of
        self._types: dict[str, _TypeBuffer] = {}
        self._held = 0
        self._open = ExitStack()
        self._writer = self._open.enter_context(ThreadPoolExecutor(1, "omnigraph-load"))
        self._writing: Future[None] | None = None

    def add(self, admitted: ValidatedBatch) -> None:
        """Take rows."""
        self.buffer_of(admitted.type).add(admitted)
        self._held += admitted.rows.nbytes
        while self._held > MAX_BUFFERED_BYTES:
            self._write(max(self._types.values(), key=lambda each: each.size))

    def buffer_of(self, type_: NodeType | EdgeType) -> _TypeBuffer:
        """Note that there are rows of a type, even if there are none."""
        known = self._types.get(type_.table_key)
        if known is None:
            # Names of types may differ in case only, which not every file system tells apart.
            folder = self._folder / str(len(self._types))
            folder.mkdir()
            known = self._types[type_.table_key] = _TypeBuffer(type_, folder, self._open)
        return known

    def incoming_rows(self) -> Mapping[str, IncomingRows]:
        """What was taken, by table key."""
        return {key: gathered.incoming_rows() for key, gathered in sorted(self._types.items())}

    def discard(self, objects: Objects) -> None:
        """Delete what was written to the graph, as far as possible. No commit may ever have been asked to show it."""
        for gathered in self._types.values():
            if gathered.target is not None and gathered.target.folder is not None:
                try:
                    discard(objects, gathered.target.folder, gathered.fragments)
                except OmniGraphError as error:
                    # It belongs to no version, so cleanup takes it when it is old.
                    _log.warning("what a failed load wrote to %s stays for now: %s", gathered.target.folder, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            if error is not None:
                with suppress(Exception):
                    self._wait()
                return
            for gathered in self._types.values():
                if gathered.target is not None and gathered.size:
                    self._write(gathered)
            self._wait()

    def _write(self, gathered: _TypeBuffer) -> None:
        """Begin to write what is held of a type. One fragment is written at a time, while the next is read."""
        self._wait()
        self._held -= gathered.size
        if gathered.target is None:
            gathered.target = self._home_of(gathered.type.table_key) or gathered.create_local_target()
        self._writing = self._writer.submit(gathered.write, gathered.take())

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


class _TypeBuffer:
    """The rows of one type while others may come: those that are held, and the fragments of those before them."""

    def __init__(self, type_: NodeType | EdgeType, folder: Path, open_: ExitStack) -> None:
        self.type = type_
        self.target: FragmentTarget | None = None
        self.fragments: list[FragmentText] = []
        self.size = 0
        self._folder = folder
        self._batches: list[pa.RecordBatch] = []
        self._fresh = True
        self._places = open_.enter_context(PositionFile(folder / "places"))

    def add(self, admitted: ValidatedBatch) -> None:
        """Hold rows."""
        if not admitted.rows.num_rows:
            return
        self._batches.append(admitted.rows)
        self._places.add(admitted.file, admitted.lines)
        self._fresh = self._fresh and admitted.fresh
        self.size += admitted.rows.nbytes

    def take(self) -> pa.Table:
        """The rows that were held."""
        rows = pa.Table.from_batches(self._batches, arrow_schema(self.type))
        self._batches, self.size = [], 0
        return rows

    def write(self, rows: pa.Table) -> None:
        """Write the next fragment."""
        assert self.target is not None
        self.fragments += tables.write_rows(self.target.table, rows, self.target.mode)

    def create_local_target(self) -> FragmentTarget:
        """A new table of this machine."""
        return FragmentTarget(
            tables.create_empty(str(self._folder / "rows"), arrow_schema(self.type), "load"), "append"
        )

    def incoming_rows(self) -> IncomingRows:
        """All that was taken."""
        if self.target is None:
            source = InMemoryRows(pa.Table.from_batches(self._batches, arrow_schema(self.type)))
        else:
            source = StagedRows(self.type, self.target, tuple(self.fragments))
        return IncomingRows(self.type, self._fresh, self._places, source)

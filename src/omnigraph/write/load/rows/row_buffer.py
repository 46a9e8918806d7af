"""Buffer validated rows while the input is read: in memory first, in fragments if they become many.

When the buffer is full, the type with the most bytes is written as a fragment: to its own table if the branch owns it
and it may be written to, else to a local table. So memory grows neither with the input nor with the number of types,
and a small load writes nothing before it is validated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.storage import tables
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import FragmentText
from omnigraph.write.load.rows.incoming_rows import FragmentTarget, IncomingRows, InMemoryRows, StagedRows
from omnigraph.write.load.rows.partial_rows import RowForm, schema_of
from omnigraph.write.load.rows.positions import GeneratedIds, PositionFile
from omnigraph.write.load.rows.validation import ValidatedBatch

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""The limit of bytes in memory, over all types. Fragments have about this size."""


class RowBuffer:
    """Buffers rows of any number of types. Add rows inside a ``with`` block; read them after it."""

    def __init__(
        self, folder: Path, find_target: Callable[[str], FragmentTarget | None], form: RowForm = RowForm.WHOLE
    ) -> None:
        self._folder = folder
        self._form = form
        self._find_target = find_target
        self._buffers: dict[str, _TypeBuffer] = {}
        self._size = 0
        self._open = ExitStack()
        self._writer = self._open.enter_context(ThreadPoolExecutor(1, "omnigraph-load"))
        self._writing: Future[None] | None = None

    def add(self, batch: ValidatedBatch) -> None:
        """Add validated rows."""
        self.buffer_of(batch.type).add(batch)
        self._size += batch.rows.nbytes
        while self._size > MAX_BUFFERED_BYTES:
            self._write(max(self._buffers.values(), key=lambda each: each.size))

    def buffer_of(self, type_: NodeType | EdgeType) -> _TypeBuffer:
        """Return the buffer of a type. A type that was requested counts as loaded even if it has no rows."""
        known = self._buffers.get(type_.table_key)
        if known is None:
            # Type names may differ only in case, which some file systems do not distinguish.
            folder = self._folder / str(len(self._buffers))
            folder.mkdir()
            known = self._buffers[type_.table_key] = _TypeBuffer(
                type_, schema_of(self._form, type_), folder, self._open
            )
        return known

    def to_incoming_rows(self) -> Mapping[str, IncomingRows]:
        """Return the buffered rows by table key."""
        return {key: buffer.to_incoming_rows() for key, buffer in sorted(self._buffers.items())}

    def discard(self, objects: Objects) -> None:
        """Delete the fragments written to the graph. Call it only if no commit was ever asked to show them."""
        for buffer in self._buffers.values():
            if buffer.target is not None:
                buffer.target.discard(objects, buffer.fragments)

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
            for buffer in self._buffers.values():
                if buffer.target is not None and buffer.size:
                    self._write(buffer)
            self._wait()

    def _write(self, buffer: _TypeBuffer) -> None:
        """Start writing the buffered rows of a type. One fragment is written at a time, while reading goes on."""
        self._wait()
        self._size -= buffer.size
        if buffer.target is None:
            buffer.target = self._find_target(buffer.type.table_key) or buffer.create_local_target()
        self._writing = self._writer.submit(buffer.write, buffer.take())

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


class _TypeBuffer:
    """The rows of one type: the buffered ones, and the fragments written before."""

    def __init__(self, type_: NodeType | EdgeType, schema: pa.Schema, folder: Path, open_: ExitStack) -> None:
        self.type = type_
        self._schema = schema
        self.target: FragmentTarget | None = None
        self.fragments: list[FragmentText] = []
        self.size = 0
        self._folder = folder
        self._batches: list[pa.RecordBatch] = []
        self._generated = GeneratedIds()
        self._positions = open_.enter_context(PositionFile(folder / "positions"))

    def add(self, batch: ValidatedBatch) -> None:
        """Buffer rows."""
        if not batch.rows.num_rows:
            return
        self._batches.append(batch.rows)
        self._positions.add(batch.file, batch.lines)
        self._generated.add(batch.rows.num_rows - batch.generated, generated=False)
        self._generated.add(batch.generated, generated=True)
        self.size += batch.rows.nbytes

    def take(self) -> pa.Table:
        """Remove and return the buffered rows."""
        rows = pa.Table.from_batches(self._batches, self._schema)
        self._batches, self.size = [], 0
        return rows

    def write(self, rows: pa.Table) -> None:
        """Write the next fragment."""
        assert self.target is not None
        self.fragments += tables.write_rows(self.target.table, rows, self.target.mode)

    def create_local_target(self) -> FragmentTarget:
        """Create a new local table."""
        return FragmentTarget(tables.create_empty_table(str(self._folder / "rows"), self._schema, "load"), "append")

    def to_incoming_rows(self) -> IncomingRows:
        """Return all rows that were added."""
        if self.target is None:
            storage = InMemoryRows(pa.Table.from_batches(self._batches, self._schema))
        else:
            storage = StagedRows(self.type, self._schema, self.target, tuple(self.fragments))
        return IncomingRows(self.type, self._generated, self._positions, storage)

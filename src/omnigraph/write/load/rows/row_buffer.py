"""Buffer validated rows while the input is read: in memory first, in fragments if they become many.

Once a type has many rows, they stream into fragments: of its own table if the branch owns it and it may be written to,
else of a local table. Rows of other types are buffered meanwhile; when the buffers are full, the type with the most
bytes streams next. So memory grows neither with the input nor with the number of types, and a small load writes nothing
before it is validated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Condition
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.storage import tables
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import FragmentText
from omnigraph.worker_threads import WorkerThreads
from omnigraph.write.load.rows.incoming_rows import FragmentTarget, IncomingRows, InMemoryRows, StagedRows
from omnigraph.write.load.rows.partial_rows import RowForm, schema_of
from omnigraph.write.load.rows.positions import GeneratedIds, PositionFile
from omnigraph.write.load.rows.validation import ValidatedBatch

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""The limit of bytes in memory, over all types."""
MANY_BYTES: Final = 16 * 1024 * 1024
"""A type with so many bytes is streamed; so many bytes may wait for the stream."""
MAX_STREAM_BYTES: Final = 512 * 1024 * 1024
"""The next fragment begins after so many bytes, or where Lance begins one."""


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
        self._writer = self._open.enter_context(WorkerThreads(1, "omnigraph-load"))
        self._streaming: tuple[_TypeBuffer, _FragmentStream] | None = None

    def add(self, batch: ValidatedBatch) -> None:
        """Add validated rows."""
        buffer = self.buffer_of(batch.type)
        if not batch.rows.num_rows:
            return
        buffer.note(batch)
        if self._streaming is not None and self._streaming[0] is buffer:
            self._feed(buffer, [batch.rows])
            return
        buffer.keep(batch.rows)
        self._size += batch.rows.nbytes
        if self._streaming is None and buffer.size > min(MANY_BYTES, MAX_BUFFERED_BYTES):
            self._write(buffer)
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
                    self._end_stream()
                return
            for buffer in self._buffers.values():
                if buffer.target is not None and buffer.size:
                    self._write(buffer)
            self._end_stream()

    def _write(self, buffer: _TypeBuffer) -> None:
        """Stream the buffered rows of a type, and those that follow. One type is written at a time, as it is read."""
        self._size -= buffer.size
        self._feed(buffer, buffer.take())

    def _feed(self, buffer: _TypeBuffer, batches: list[pa.RecordBatch]) -> None:
        if self._streaming is not None and (self._streaming[0] is not buffer or self._streaming[1].is_full):
            self._end_stream()
        if self._streaming is None:
            target = buffer.target or self._find_target(buffer.type.table_key) or buffer.create_local_target()
            buffer.target = target
            self._streaming = buffer, _FragmentStream(self._writer, target, buffer.schema)
        for batch in batches:
            self._streaming[1].put(batch)

    def _end_stream(self) -> None:
        streaming, self._streaming = self._streaming, None
        if streaming is not None:
            buffer, stream = streaming
            buffer.fragments += stream.end()


class _FragmentStream:
    """Writes batches as fragments in another thread, while more are put in. Few bytes wait."""

    def __init__(self, writer: WorkerThreads, target: FragmentTarget, schema: pa.Schema) -> None:
        self._waiting: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._total = 0
        self._has_ended = False
        self._changed = Condition()
        reader = pa.RecordBatchReader.from_batches(schema, self._take_all())
        self._writing = writer.submit(tables.write_rows, target.table, reader, target.mode)
        self._writing.add_done_callback(self._notice_end)

    @property
    def is_full(self) -> bool:
        """Whether the next rows belong into another fragment."""
        return self._total >= MAX_STREAM_BYTES

    def put(self, batch: pa.RecordBatch) -> None:
        """Put rows in; wait while many bytes are there. Raise what the write raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes <= MANY_BYTES or self._writing.done())
            if self._writing.done():
                self._writing.result()
            self._waiting.append(batch)
            self._bytes += batch.nbytes
            self._total += batch.nbytes
            self._changed.notify_all()

    def end(self) -> tuple[FragmentText, ...]:
        """Wait until all rows are written, and return the fragments."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        return self._writing.result()

    def _take_all(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows to the write, as they come."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._has_ended)
                if not self._waiting:
                    return
                batch = self._waiting.popleft()
                self._bytes -= batch.nbytes
                self._changed.notify_all()
            yield batch

    def _notice_end(self, _writing: Future[tuple[FragmentText, ...]]) -> None:
        with self._changed:
            self._changed.notify_all()


class _TypeBuffer:
    """The rows of one type: the buffered ones, and the fragments written before."""

    def __init__(self, type_: NodeType | EdgeType, schema: pa.Schema, folder: Path, open_: ExitStack) -> None:
        self.type = type_
        self.schema = schema
        self.target: FragmentTarget | None = None
        self.fragments: list[FragmentText] = []
        self.size = 0
        self._folder = folder
        self._batches: list[pa.RecordBatch] = []
        self._generated = GeneratedIds()
        self._positions = open_.enter_context(PositionFile(folder / "positions"))

    def note(self, batch: ValidatedBatch) -> None:
        """Note where the next rows come from."""
        self._positions.add(batch.file, batch.lines)
        self._generated.add(batch.rows.num_rows - batch.generated, generated=False)
        self._generated.add(batch.generated, generated=True)

    def keep(self, rows: pa.RecordBatch) -> None:
        """Buffer rows."""
        self._batches.append(rows)
        self.size += rows.nbytes

    def take(self) -> list[pa.RecordBatch]:
        """Remove and return the buffered rows."""
        batches, self._batches, self.size = self._batches, [], 0
        return batches

    def create_local_target(self) -> FragmentTarget:
        """Create a new local table."""
        return FragmentTarget(tables.create_empty_table(str(self._folder / "rows"), self.schema, "load"), "append")

    def to_incoming_rows(self) -> IncomingRows:
        """Return all rows that were added."""
        if self.target is None:
            storage = InMemoryRows(pa.Table.from_batches(self._batches, self.schema))
        else:
            storage = StagedRows(self.type, self.schema, self.target, tuple(self.fragments))
        return IncomingRows(self.type, self._generated, self._positions, storage)

"""Rows on their way in, kept in files of this machine until the commit path asks for them.

A load reads its input once, but may have to stage it more than once: on a newer version, or on a fork that does not
exist before the lock is held. Rows that are let through are therefore written down first, one Arrow file per table,
and mapped into memory when they are read: whatever their number, they take none of it. What fails a rule is never
written to the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.language.schema.arrow import arrow_schema
from omnigraph.language.schema.catalog import EdgeType, NodeType
from omnigraph.storage.columns import Values, column_of, is_not_among
from omnigraph.write.intake import Admitted

FILE: Final = "_file"
LINE: Final = "_line"
_PLACE: Final = [pa.field(FILE, pa.int32()), pa.field(LINE, pa.int64())]


@dataclass(frozen=True, slots=True)
class SpooledTable:
    """The rows of one type, in the columns of its table, and besides where each came from.

    ``fresh``: their ids were all made here. Files are numbered; ``files`` are their names.
    """

    type: NodeType | EdgeType
    path: Path
    files: tuple[str | None, ...]
    fresh: bool
    num_rows: int

    def rows(self) -> pa.Table:
        """All of them, mapped from disk."""
        with pa.memory_map(str(self.path)) as mapped:
            return ipc.open_file(mapped).read_all()

    def reader(self, without: Values) -> pa.RecordBatchReader:
        """A stream of the rows for their table, without those of some ids."""
        schema = arrow_schema(self.type)
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema, without))

    def _batches(self, schema: pa.Schema, without: Values) -> Iterator[pa.RecordBatch]:
        for batch in self.rows().to_batches():
            kept = batch.filter(is_not_among(column_of(batch, "id"), without)) if len(without) else batch
            yield pa.RecordBatch.from_arrays([kept.column(name) for name in schema.names], schema=schema)


class Spool:
    """Takes rows of any number of types. Inside a ``with`` it is written, after it it is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._files: dict[str | None, int] = {}
        self._tables: dict[str, _Writing] = {}

    def add(self, admitted: Admitted) -> None:
        """Write rows down."""
        file = self._files.setdefault(admitted.file, len(self._files))
        self.touch(admitted.type).write(admitted, file)

    def touch(self, type_: NodeType | EdgeType) -> _Writing:
        """Note that there are rows of a type, even if there are none."""
        known = self._tables.get(type_.table_key)
        if known is None:
            path = self._folder / f"{len(self._tables)}.arrow"
            known = self._tables[type_.table_key] = _Writing(type_, path, self._open)
        return known

    def tables(self) -> Mapping[str, SpooledTable]:
        """What was written, by table key."""
        files = tuple(self._files)
        return {key: table.written(files) for key, table in sorted(self._tables.items())}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


class _Writing:
    """The file of one table while rows are added to it."""

    def __init__(self, type_: NodeType | EdgeType, path: Path, open_: ExitStack) -> None:
        # Without their metadata: blobs would come back from the file as another type.
        schema = arrow_schema(type_)
        columns = [pa.field(name, column) for name, column in zip(schema.names, schema.types, strict=True)]
        self._type = type_
        self._path = path
        self._schema = pa.schema([*columns, *_PLACE])
        self._writer = open_.enter_context(ipc.new_file(open_.enter_context(pa.OSFile(str(path), "wb")), self._schema))
        self._fresh = True
        self._num_rows = 0

    def write(self, admitted: Admitted, file: int) -> None:
        """Add rows."""
        count = admitted.rows.num_rows
        if not count:
            return
        place = [pa.array(np.full(count, file, np.int32)), admitted.lines]
        columns = [*cast("list[Values]", admitted.rows.columns), *place]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._fresh = self._fresh and admitted.fresh
        self._num_rows += count

    def written(self, files: tuple[str | None, ...]) -> SpooledTable:
        """What can be read when the file is closed."""
        return SpooledTable(self._type, self._path, files, self._fresh, self._num_rows)

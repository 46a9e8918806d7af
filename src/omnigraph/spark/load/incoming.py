"""The rows of one type on their way in, once the executors wrote them; and where each of them stood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.spark.executor import map_fragments
from omnigraph.spark.load.load_task import PLACES
from omnigraph.storage import table_writes as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, to_list
from omnigraph.storage.lance_internals import translated
from omnigraph.storage.staging import FragmentText
from omnigraph.storage.table import Table
from omnigraph.storage.table_writes import WriteMode
from omnigraph.write.load import RecordPosition, RowNumbers, StagedRows, attach_blobs, to_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_LOAD_ROWS: Final = 100
"""So few incoming rows this process handles itself, in less time than a job takes to begin. More are not looked up by
their values in every case, and then whole columns of the tables would have to come here."""
_WRITTEN: Final = pa.schema(
    [pa.field("fragment", pa.int64()), pa.field("kept", pa.bool_()), pa.field("fragments", pa.string())]
)


@dataclass
class DistributedRows(StagedRows):
    """Rows in fragments that executors wrote, and write again where they have to lie elsewhere."""

    session: SparkSession | None = field(default=None, repr=False)

    @property
    def own_fragments(self) -> Mapping[int, int]:
        """The fragments of these rows in the detached version, and how many rows each has."""
        found = self.detached.fragment_rows()
        return {
            id_: rows
            for id_, rows in found.items()
            if self.last_other_fragment is None or id_ > self.last_other_fragment
        }

    def written_on(self, table: Table, mode: WriteMode, without: Values) -> tuple[FragmentText, ...]:
        """The rows but those of some ids, in the folder of a table. Fragments that lie there and lose none stay."""
        if self.session is None or sum(self.own_fragments.values()) <= LOCAL_LOAD_ROWS:
            return super().write_to(table, mode, without)
        at_home = self.target.is_usable_by(table, mode)
        schema = arrow_schema(self.type)
        work = partial(_rewrite_fragments, schema=schema, target=table, mode=mode, without=without, at_home=at_home)
        columns = "fragment long, kept boolean, fragments string"
        groups = [[fragment] for fragment in sorted(self.own_fragments)]
        # Evaluated once: each time it writes files.
        told = map_fragments(self.session, self.detached, groups, work, columns).collect()
        known = dict(zip(sorted(self.own_fragments), self.fragments, strict=True))
        return tuple(
            text
            for fragment, kept, texts in sorted(cast("list[tuple[int, bool, str]]", told))
            for text in ([known[fragment]] if kept else cast("list[FragmentText]", orjson.loads(texts)))
        )


def _rewrite_fragments(
    audit: Table,
    fragments: Sequence[int],
    *,
    schema: pa.Schema,
    target: Table,
    mode: WriteMode,
    without: Values,
    at_home: bool,
) -> Iterator[pa.RecordBatch]:
    """The task of one fragment."""
    for fragment in fragments:
        kept = at_home and not _contains_any(audit, fragment, without)
        written: Sequence[FragmentText] = ()
        if not kept:
            read = audit.scan(with_row_address=True, in_fragments=[fragment])
            pieces = (pa.Table.from_batches([batch]) for batch in read)
            rows = to_reader(schema, attach_blobs(audit, schema, pieces), without)
            written = tables.write_rows(target, rows, mode)
        columns = [pa.array([fragment], pa.int64()), pa.array([kept]), pa.array([orjson.dumps(written).decode()])]
        yield pa.RecordBatch.from_arrays(columns, schema=_WRITTEN)


def _contains_any(audit: Table, fragment: int, ids: Values) -> bool:
    read = audit.scan(["id"], in_fragments=[fragment])
    return any(cast("bool", is_among(column_of(batch, "id"), ids).true_count) for batch in read)


# --------------------------------------------------------------------------------------------- where rows stood


@dataclass(frozen=True)
class BlockLines:
    """How many lines the blocks of files have: tasks count the lines of theirs, and know of no other."""

    lines: Mapping[tuple[str, int], int]

    @cached_property
    def _lines_before(self) -> Mapping[tuple[str, int], int]:
        """For each block the number of lines of its file that come before it."""
        found: dict[tuple[str, int], int] = {}
        for file in {file for file, _ in self.lines}:
            blocks = sorted(block for name, block in self.lines if name == file)
            counts = accumulate((self.lines[file, block] for block in blocks), initial=0)
            found |= {(file, block): count for block, count in zip(blocks, counts, strict=False)}
        return found

    def line_in_file(self, file: str | None, block: int | None, line: int | None) -> int | None:
        """The line of a file, for a line of one of its blocks."""
        if file is None or block is None or line is None:
            return line
        return self._lines_before[file, block] + line


@dataclass(frozen=True, slots=True)
class SourceRun:
    """Rows that came one after the other: of one file, or with places of their own in the scratch table."""

    count: int
    file: str | None = None
    has_places: bool = False


@dataclass
class StagedPlaces:
    """Where rows stood: runs of them, and fragments of a scratch table in the order of those that are noted there."""

    scratch: Table
    runs: Sequence[SourceRun]
    fragments: Sequence[FragmentText]
    blocks: BlockLines

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self._run_ends[-1]) if self.runs else 0

    def find(self, numbers: RowNumbers) -> list[RecordPosition]:
        """Where these rows stood."""
        found: list[RecordPosition] = []
        noted: list[int] = []
        at = np.searchsorted(self._run_ends, numbers, side="right")
        for run, number in zip(cast("list[int]", at.tolist()), cast("list[int]", numbers.tolist()), strict=True):
            found.append((self.runs[run].file, None))
            if self.runs[run].has_places:
                noted.append(number - int(self._rows_without_places[run]))
        places = iter(self._read_places(noted))
        return [next(places) if self.runs[run].has_places else place for run, place in zip(at, found, strict=True)]

    @cached_property
    def _run_ends(self) -> RowNumbers:
        """For each run the number of the row after its last."""
        return np.cumsum([run.count for run in self.runs], dtype=np.int64)

    @cached_property
    def _rows_without_places(self) -> RowNumbers:
        """For each run how many rows up to it are not in the scratch table."""
        return np.cumsum([0 if run.has_places else run.count for run in self.runs], dtype=np.int64)

    def _read_places(self, rows: Sequence[int]) -> list[RecordPosition]:
        if not rows:
            return []
        with translated(self._audit.subject):
            found = self._audit.dataset.take(list(rows))
        columns = [to_list(column_of(found, name)) for name in PLACES.names]
        places = cast("Iterator[tuple[str | None, int | None, int | None]]", zip(*columns, strict=True))
        return [(file, self.blocks.line_in_file(file, block, line)) for file, block, line in places]

    @cached_property
    def _audit(self) -> Table:
        staged = tables.overwrite_fragments(self.scratch, PLACES, self.fragments)
        return tables.audit_version(self.scratch, staged)

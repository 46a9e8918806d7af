"""The incoming rows of one table after executors wrote them as fragments, and the position of each row in the input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from itertools import accumulate
from typing import Final, cast

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.load.load_task import PLACES, SourceRun
from omnigraph.spark.sized_frames import divide_fragments
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, find_true, is_among, to_list
from omnigraph.storage.filters import MAX_LISTED_VALUES, list_filter
from omnigraph.storage.lance_internals import translate_errors
from omnigraph.storage.tables import (
    FragmentText,
    Table,
    WriteMode,
    combine_batches,
    estimate_row_bytes,
    link_fragments,
)
from omnigraph.write.load import (
    FragmentTarget,
    NumberedRows,
    RecordPosition,
    RowNumbers,
    StagedRows,
    attach_blobs,
    to_reader,
)

LOCAL_LOAD_ROWS: Final = 100
"""Up to this many rows are handled in this process, which takes less time than starting a job. More rows are not always
looked up by value, and then whole columns of the tables would be read into this process."""
_WRITTEN: Final = pa.schema(
    [pa.field("fragment", pa.int64()), pa.field("kept", pa.bool_()), pa.field("fragments", pa.string())]
)


@dataclass
class DistributedRows(StagedRows):
    """Rows in fragments that executors wrote, and rewrite if they are needed in another table's folder."""

    executor: SparkExecutor | None = field(default=None, repr=False)

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield the rows of some ids with their row numbers. Executors look for them; only these rows come here."""
        if self.executor is None or sum(self.own_fragments.values()) <= LOCAL_LOAD_ROWS:
            yield from super().find_rows(ids, names)
            return
        columns = self.schema.names if names is None else ["id", *names]
        row_bytes = estimate_row_bytes(self.schema, columns)
        groups = divide_fragments(self.own_fragments, row_bytes, self.executor.parallelism)
        for found in self.executor.run(partial(_find_rows, self.select_fragments(()), ids, names), groups):
            yield from found

    def select_fragments(self, fragments: Sequence[int]) -> RowsOfFragments:
        """Return the rows of some fragments, for a task. Row numbers stay those among all rows."""
        rows = RowsOfFragments(self.type, self.schema, self.target, self.fragments, selected=tuple(fragments))
        # A task does not commit another detached version.
        rows.detached = self.detached
        return rows

    def write_to(self, table: Table, mode: WriteMode, excluded_ids: Values) -> tuple[FragmentText, ...]:
        """Write the rows but those ids to the folder of a table; keep fragments that are there and lose no row.

        Those that wait beside the graph are linked there where possible, so that no row is written twice.
        """
        schema = arrow_schema(self.type)
        is_linked = (self.target.mode, mode) == ("overwrite", "append") and link_fragments(
            self.target.table, table, schema, self.fragments
        )
        if is_linked and not len(excluded_ids):
            return self.fragments
        if self.executor is None or sum(self.own_fragments.values()) <= LOCAL_LOAD_ROWS:
            return super().write_to(table, mode, excluded_ids)
        known = dict(zip(sorted(self.own_fragments), self.fragments, strict=True))
        return rewrite_fragments(
            self.executor,
            self.detached,
            known,
            FragmentTarget(table, mode),
            schema,
            excluded_ids,
            in_place=is_linked or self.target.is_usable_by(table, mode),
        )


@dataclass(eq=False)
class RowsOfFragments(StagedRows):
    """The rows of some fragments, which a task reads. Any number of ids may be looked for."""

    selected: tuple[int, ...] = ()

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield the rows of some ids with their row numbers, fragment by fragment."""
        for fragment in self.selected:
            own = self._find_ids(fragment, ids)
            if not len(own):
                continue
            condition = list_filter("id", own) if len(own) <= MAX_LISTED_VALUES else None
            reader = self.detached.scan(
                None if names is None else list(dict.fromkeys(["id", *names])),
                filter=condition,
                with_row_address=True,
                in_fragments=[fragment],
                one_by_one=True,
            )
            for piece in combine_batches(reader.schema, reader):
                found = piece.filter(is_among(column_of(piece, "id"), own))
                yield self._number_rows(found), self._load_blobs(found) if names is None else found.select(list(names))

    def _find_ids(self, fragment: int, ids: Values) -> pa.StringArray:
        """Return those of some ids that a fragment has."""
        reader = self.detached.scan(["id"], in_fragments=[fragment])
        found = [column_of(piece, "id") for piece in combine_batches(reader.schema, reader)]
        pieces = [each.take(find_true(cast("Values", is_among(each, ids)))) for each in found]
        return cast("pa.StringArray", pa.concat_arrays([pa.array([], pa.string()), *pieces]))


def _find_rows(
    rows: RowsOfFragments, ids: Values, names: Sequence[str] | None, fragments: Sequence[int]
) -> list[NumberedRows]:
    """Task over fragments: return the rows of some ids with their row numbers."""
    rows.selected = tuple(fragments)
    return list(rows.find_rows(ids, names))


def rewrite_fragments(
    executor: SparkExecutor,
    source: Table,
    fragments: Mapping[int, FragmentText],
    target: FragmentTarget,
    schema: pa.Schema,
    excluded_ids: Values,
    *,
    in_place: bool,
) -> tuple[FragmentText, ...]:
    """Write fragments of a table, except some ids, to the folder of the target.

    ``in_place``: they are there already, so those that lose no row are kept.
    """
    task = partial(
        _rewrite_fragments,
        schema=schema,
        target=target.table,
        mode=target.mode,
        excluded_ids=excluded_ids,
        in_place=in_place,
    )
    columns = "fragment long, kept boolean, fragments string"
    groups = [[fragment] for fragment in sorted(fragments)]
    reports = executor.collect(executor.map_fragments(source, groups, task, columns))
    return tuple(
        text
        for fragment, kept, texts in sorted(cast("list[tuple[int, bool, str]]", reports))
        for text in ([fragments[fragment]] if kept else cast("list[FragmentText]", orjson.loads(texts)))
    )


def _rewrite_fragments(
    detached: Table,
    fragments: Sequence[int],
    *,
    schema: pa.Schema,
    target: Table,
    mode: WriteMode,
    excluded_ids: Values,
    in_place: bool,
) -> Iterator[pa.RecordBatch]:
    """Task over fragments: rewrite those that are not in the target's folder or lose rows."""
    for fragment in fragments:
        kept = in_place and not _contains_any(detached, fragment, excluded_ids)
        written: Sequence[FragmentText] = ()
        if not kept:
            read = detached.scan(with_row_address=True, in_fragments=[fragment])
            pieces = (pa.Table.from_batches([batch]) for batch in read)
            rows = to_reader(schema, attach_blobs(detached, schema, pieces), excluded_ids)
            written = tables.write_rows(target, rows, mode)
        columns = [pa.array([fragment], pa.int64()), pa.array([kept]), pa.array([orjson.dumps(written).decode()])]
        yield pa.RecordBatch.from_arrays(columns, schema=_WRITTEN)


def _contains_any(detached: Table, fragment: int, ids: Values) -> bool:
    read = detached.scan(["id"], in_fragments=[fragment])
    return any(cast("bool", is_among(column_of(batch, "id"), ids).true_count) for batch in read)


# --------------------------------------------------------------------------------------------- positions of rows


@dataclass(frozen=True)
class BlockLines:
    """The number of lines in each block of each file. A task only counts the lines of its own blocks."""

    lines: Mapping[tuple[str, int], int]

    @cached_property
    def _lines_before(self) -> Mapping[tuple[str, int], int]:
        """For each block, the number of lines before it in its file."""
        found: dict[tuple[str, int], int] = {}
        for file in {file for file, _ in self.lines}:
            blocks = sorted(block for name, block in self.lines if name == file)
            counts = accumulate((self.lines[file, block] for block in blocks), initial=0)
            found |= {(file, block): count for block, count in zip(blocks, counts, strict=False)}
        return found

    def line_in_file(self, file: str | None, block: int | None, line: int | None) -> int | None:
        """Convert a line number in a block to a line number in the file."""
        if file is None or block is None or line is None:
            return line
        return self._lines_before[file, block] + line


@dataclass
class StagedPlaces:
    """The positions of rows in the input: runs, and the fragments of the scratch table with the places of some runs."""

    scratch: Table
    runs: Sequence[SourceRun]
    fragments: Sequence[FragmentText]
    blocks: BlockLines

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self._run_ends[-1]) if self.runs else 0

    def find(self, numbers: RowNumbers) -> list[RecordPosition]:
        """Return the positions of these rows."""
        found: list[RecordPosition] = []
        with_places: list[int] = []
        at = np.searchsorted(self._run_ends, numbers, side="right")
        for index, number in zip(cast("list[int]", at.tolist()), cast("list[int]", numbers.tolist()), strict=True):
            run = self.runs[index]
            row = number - (int(self._run_ends[index]) - run.count)
            found.append((run.file, None if run.first is None else run.first + row))
            if run.has_places:
                with_places.append(number - int(self._rows_without_places[index]))
        places = iter(self._read_places(with_places))
        return [next(places) if self.runs[run].has_places else place for run, place in zip(at, found, strict=True)]

    @cached_property
    def _run_ends(self) -> RowNumbers:
        """For each run, the number of the row after its last."""
        return np.cumsum([run.count for run in self.runs], dtype=np.int64)

    @cached_property
    def _rows_without_places(self) -> RowNumbers:
        """For each run, the number of rows up to its end that have no place in the scratch table."""
        return np.cumsum([0 if run.has_places else run.count for run in self.runs], dtype=np.int64)

    def _read_places(self, rows: Sequence[int]) -> list[RecordPosition]:
        if not rows:
            return []
        with translate_errors(self._places.subject):
            found = self._places.dataset.take(list(rows))
        columns = [to_list(column_of(found, name)) for name in PLACES.names]
        places = cast("Iterator[tuple[str | None, int | None, int | None]]", zip(*columns, strict=True))
        return [(file, self.blocks.line_in_file(file, block, line)) for file, block, line in places]

    @cached_property
    def _places(self) -> Table:
        staged = tables.overwrite_fragments(self.scratch, PLACES, self.fragments)
        return tables.audit_version(self.scratch, staged)

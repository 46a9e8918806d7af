"""The rows of a result whose ids are in files: made for one range of nodes at a time, here or by tasks.

Values are arrays of this process, as algorithms return them. Nodes that stand for groups are named in a job: each task
has the ids of one range, and writes those that each range of rows needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa
from ulid import ULID

from omnigraph.analytics import FrameMaker, RowSelection, find_column_type, rank_values, take_ids, take_types
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions, sort_distinct
from omnigraph.spark.analytics.id_files import IDS, IdFile, dump_batch, find_places, read_messages
from omnigraph.spark.analytics.node_numbers import StoredNodes
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.scratch import ScratchFolder
from omnigraph.spark.source import arrow_schema_of, to_spark
from omnigraph.storage.columns import Values, column_of, take_where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_ROWS: Final = 65_536
"""How many rows are made at a time, about."""
_NAMES: Final = pa.schema([pa.field("number", pa.int64()), pa.field("id", pa.large_string())])


@dataclass(frozen=True, slots=True)
class _NameFile:
    """Ids of one range of nodes, by their numbers, for each range of rows that needs some of them."""

    path: str
    offsets: tuple[int, ...]
    """The byte that the names for each range begin at, and their number."""


@dataclass(frozen=True, slots=True)
class _RowRange:
    """The rows of one range of nodes of a type."""

    type_name: str
    ids: IdFile
    first: int
    names: tuple[tuple[str, int, int], ...] = ()
    """The parts of files with the ids that groups need here."""
    values: str = ""
    """The file with the values, if a task reads them."""

    @property
    def end(self) -> int:
        """The number behind the last node."""
        return self.first + len(self.ids)


@dataclass(frozen=True, slots=True)
class _RowLayout:
    """What is made of each range: the columns, those that come from the algorithm, and how groups are named."""

    folder: ScratchFolder
    schema: pa.Schema
    values: pa.Schema
    groups: str | None
    """The column with the numbers of nodes whose names are wanted."""
    types: tuple[str, ...]
    firsts: tuple[int, ...]
    """The number of the first node of each type."""

    def make(self, part: _RowRange, values: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, some pieces of its ids at a time."""
        names = self._read_names(part)
        for pieces in part.ids.group_pieces(BATCH_ROWS):
            begin, end = (part.ids.begins[piece] for piece in pieces)
            some = values.slice(begin, end - begin)
            columns: dict[str, Values] = {name: column_of(some, name) for name in some.column_names}
            columns["type"] = cast("Values", pa.repeat(part.type_name, end - begin))
            if "id" in self.schema.names:
                columns["id"] = column_of(part.ids.read(self.folder, IDS, pieces), "id")
            if self.groups is not None:
                numbers = columns[self.groups].to_numpy()
                columns[f"{self.groups}_type"] = self._take_types(numbers)
                columns[f"{self.groups}_id"] = _take_names(names, numbers)
            chosen = zip(self.schema.names, self.schema.types, strict=True)
            arrays = [columns[name].cast(type_) for name, type_ in chosen]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _take_types(self, numbers: Positions) -> Values:
        parts, _ = find_places(np.array(self.firsts, np.int64), numbers)
        return take_where(cast("Values", pa.array(self.types, pa.string())), np.where(numbers < 0, -1, parts))

    def _read_names(self, part: _RowRange) -> pa.Table:
        """Read the ids that groups need in a range, by their numbers."""
        if self.groups is None:
            return _NAMES.empty_table()
        found = [read_messages(self.folder.get_range(path, begin, end), _NAMES, 1) for path, begin, end in part.names]
        # Files are in the order of the numbers, and each has its own in order.
        return pa.concat_tables([_NAMES.empty_table(), *found]).combine_chunks()


def _take_names(names: pa.Table, numbers: Positions) -> Values:
    """Return the ids of some numbers, null where one is negative."""
    places = np.searchsorted(column_of(names, "number").to_numpy(), numbers)
    return take_where(column_of(names, "id"), np.where(numbers < 0, -1, places))


@dataclass(frozen=True)
class RangedRows:
    """A row for each node of a projection, in files and arrays. Values of the column ``groups`` are nodes."""

    executor: SparkExecutor
    nodes: tuple[StoredNodes, ...]
    values: Mapping[str, Values] = field(repr=False)
    groups: str | None
    _stored: dict[int, _RowRange] = field(default_factory=dict[int, _RowRange], repr=False)
    """The ranges whose values are in files, by their first number."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        fields = [("type", pa.string()), ("id", pa.string()), *((name, v.type) for name, v in self.values.items())]
        fields += [(name, pa.string()) for name in self._named]
        return pa.schema([pa.field(name, type_) for name, type_ in fields])

    @property
    def _named(self) -> list[str]:
        """The columns with the names of groups."""
        return [] if self.groups is None else [f"{self.groups}_type", f"{self.groups}_id"]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return sum(len(part) for part in self.nodes)

    @property
    def types(self) -> list[str]:
        """The types that the nodes of the rows have, sorted."""
        return sorted(part.type.name for part in self.nodes if len(part))

    @property
    def _folder(self) -> ScratchFolder:
        return self.nodes[0].folder

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, one range of nodes after the other."""
        return self._read(self.schema.names, None)

    def _read(self, columns: Sequence[str], type_name: str | None) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, or of those of one type."""
        form = self._choose(columns)
        for part in self._list_ranges(form):
            if type_name in (None, part.type_name):
                check_deadline()
                yield from form.make(part, self._cut_values(form, part))

    def find_largest(self, column: str, count: int) -> pa.Table:
        """Return the rows with the largest values of a column, equal ones in their order. Only theirs are named."""
        values = self.values.get(column)
        if values is None:
            # Names have an order of their own, so all are read.
            rows = pa.Table.from_batches(self.read_batches(), self.schema)
            return rows.take(rank_values(rows, column).slice(0, count))
        order = rank_values(pa.table({column: values}), column).slice(0, count)
        return self._take(order.to_numpy().astype(np.int64))

    def _take(self, numbers: Positions) -> pa.Table:
        """Return the rows of some nodes."""
        names = [take_types(self.nodes, numbers), take_ids(self.nodes, numbers)]
        found = [*names, *(values.take(numbers) for values in self.values.values())]
        if self.groups is not None:
            groups = self.values[self.groups].take(numbers).to_numpy()
            known = np.flatnonzero(groups >= 0)
            places = np.full(len(groups), -1, np.int64)
            places[known] = np.arange(len(known))
            found += [take_where(take(self.nodes, groups[known]), places) for take in (take_types, take_ids)]
        columns = zip(found, self.schema.types, strict=True)
        return pa.Table.from_arrays([column.cast(type_) for column, type_ in columns], schema=self.schema)

    def select_nodes(self, type_name: str, columns: Mapping[str, str]) -> RowSelection:
        """Return some columns of the rows of one type, with new names."""
        schema = pa.schema([pa.field(new, find_column_type(self, name)) for name, new in columns.items()])
        count = sum(len(part) for part in self.nodes if part.type.name == type_name)

        def read() -> Iterator[pa.RecordBatch]:
            for batch in self._read(list(columns), type_name):
                yield pa.RecordBatch.from_arrays([column_of(batch, name) for name in columns], schema=schema)

        return RowSelection(schema, count, read)

    def make_frame(self, make: FrameMaker) -> DataFrame:  # noqa: ARG002  no table is made
        """Return the rows as a DataFrame, which reads the files of the folder."""
        from pyspark.sql.pandas.types import from_arrow_schema

        form = self._choose(self.schema.names)
        parts = [self._store_values(form, part) for part in self._list_ranges(form)]
        schema = from_arrow_schema(form.schema)
        executor = self.executor.doing("reading a result")
        if not parts:
            return executor.session.createDataFrame([], schema)
        run = executor.map_many if executor.can_map_many else executor.map_items
        return run(partial(_read_rows, form, arrow_schema_of(schema)), parts, schema)

    def _choose(self, columns: Sequence[str]) -> _RowLayout:
        """Return how some columns are made."""
        pairs = zip(self.schema.names, self.schema.types, strict=True)
        schema = pa.schema([pa.field(name, type_) for name, type_ in pairs if name in columns])
        groups = self.groups if any(name in columns for name in self._named) else None
        used = [name for name in self.values if name in columns or name == groups]
        values = pa.schema([pa.field(name, self.values[name].type) for name in used])
        types, firsts = [part.type.name for part in self.nodes], [part.first for part in self.nodes]
        return _RowLayout(self._folder, schema, values, groups, tuple(types), tuple(firsts))

    def _list_ranges(self, form: _RowLayout) -> list[_RowRange]:
        return self._ranges if form.groups is None else self._named_ranges

    @cached_property
    def _ranges(self) -> list[_RowRange]:
        found: list[_RowRange] = []
        for part in self.nodes:
            firsts = np.cumsum([part.first, *(len(file) for file in part.ranges)]).tolist()
            found += [_RowRange(part.type.name, file, first) for file, first in zip(part.ranges, firsts, strict=False)]
        return found

    @cached_property
    def _named_ranges(self) -> list[_RowRange]:
        """The ranges with the ids that their groups need, which one task for each range of ids writes."""
        assert self.groups is not None
        check_deadline()
        path = f"groups-{ULID()}.bin"
        self._folder.put(path, self.values[self.groups].to_numpy().astype(np.int32).tobytes())
        starts = (*(part.first for part in self._ranges), self.num_rows)
        try:
            task = partial(_write_names, self._folder, path, starts)
            files = self.executor.doing("naming groups").run(task, self._ranges)
        finally:
            self._folder.delete(path)
        return [
            replace(
                part,
                names=tuple(
                    (file.path, file.offsets[at], file.offsets[at + 1])
                    for file in files
                    if file.offsets[at] < file.offsets[at + 1]
                ),
            )
            for at, part in enumerate(self._ranges)
        ]

    def _cut_values(self, form: _RowLayout, part: _RowRange) -> pa.Table:
        columns = [self.values[name].slice(part.first, len(part.ids)) for name in form.values.names]
        return pa.Table.from_arrays(columns, schema=form.values)

    def _store_values(self, form: _RowLayout, part: _RowRange) -> _RowRange:
        """Write the values of a range for tasks, unless they are written already."""
        if part.first not in self._stored:
            check_deadline()
            path = f"result-{ULID()}.bin"
            self._folder.put(path, dump_batch(self._cut_values(form, part)))
            self._stored[part.first] = replace(part, values=path)
        return self._stored[part.first]


# --------------------------------------------------------------------------------------------- on executors


def _write_names(folder: ScratchFolder, path: str, starts: Sequence[int], part: _RowRange) -> _NameFile:
    """Task: write the ids of one range of nodes that stand for groups, once for each range of rows that has them."""
    groups = np.frombuffer(folder.get(path), np.int32)
    ids = part.ids.read_ids(folder)
    bodies: list[bytes] = []
    for begin, end in pairwise(starts):
        own = groups[begin:end]
        numbers = sort_distinct(own[(own >= part.first) & (own < part.end)].astype(np.int64))
        rows = pa.Table.from_arrays([pa.array(numbers), ids.take(numbers - part.first)], schema=_NAMES)
        bodies.append(dump_batch(rows))
    name = f"names-{ULID()}.bin"
    if any(bodies):
        folder.put(name, b"".join(bodies))
    return _NameFile(name, (0, *np.cumsum([len(body) for body in bodies]).tolist()))


def _read_rows(form: _RowLayout, target: pa.Schema, part: _RowRange) -> Iterator[pa.RecordBatch]:
    """Task: make the rows of one range."""
    values = read_messages(form.folder.get(part.values), form.values, 1)
    for batch in form.make(part, values):
        yield to_spark(batch, target)

"""Number the nodes of a projection on executors, by type and id, and find ids and numbers again in files.

One job reads the ids of groups of fragments and writes each group in order; the first ids of its pieces come back. They
say how to divide all ids of a type into ranges of about the same size (sorting by regular sampling). A second job sorts
each range. So this process never has more than the rows of one range, and the number of each row in the end, which
tasks that read edges need as a file. Numbers are those of one process, whatever the ranges are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import Final, cast

import numpy as np
import orjson
import pyarrow as pa
from ulid import ULID

from omnigraph.analytics import (
    Numbers,
    ProjectionPlan,
    evaluate_condition,
    has_numbers,
    join_ids,
    refuse_beyond,
    to_numbers,
)
from omnigraph.deadlines import check_deadline
from omnigraph.language.schema import NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import CompactPositions, Positions, find_positions
from omnigraph.read.rows import TypeRows, open_type_rows
from omnigraph.spark.analytics.edge_pieces import NodeNumbers
from omnigraph.spark.analytics.id_files import (
    IDS,
    PLACED_IDS,
    IdFile,
    find_places,
    keep_between,
    sort_rows_by_id,
    write_id_file,
)
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.scratch import FolderUse, ScratchFolder
from omnigraph.spark.sized_frames import MAX_TASK_ROWS
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.filters import Condition
from omnigraph.storage.tables import TableFragment, list_fragments
from omnigraph.write.executor import group_evenly

PIECE_IDS: Final = 16_384
"""How many ids a piece has: the larger, the more is read for one id; the smaller, the more pieces are to be known."""
RANGE_NODES: Final = 500_000
"""How many nodes a range has, about: results are made of so many rows at a time."""
_INDEX: Final = "nodes.json"


@dataclass(frozen=True)
class StoredNodes:
    """The nodes of one type, with their ids in files. ``use`` keeps the folder while this is referred to."""

    type: NodeType
    rows: TypeRows
    use: FolderUse
    first: int
    path: str
    """The file with the number of each row of the table, -1 for one that is not in the projection."""
    ranges: tuple[IdFile, ...]

    def __len__(self) -> int:
        return sum(len(file) for file in self.ranges)

    @property
    def folder(self) -> ScratchFolder:
        """The folder of the files."""
        return self.use.folder

    @property
    def row_numbers(self) -> NodeNumbers:
        """What tasks need to number the ends of edges."""
        return NodeNumbers(self.folder, self.path, self.type, self.rows.table if len(self) else None)

    @cached_property
    def _pieces(self) -> list[tuple[IdFile, int]]:
        return [(file, at) for file in self.ranges for at in range(len(file.lows))]

    @cached_property
    def _piece_starts(self) -> Positions:
        """The place of the first id of each piece."""
        firsts = np.cumsum([0, *(len(file) for file in self.ranges)])
        parts = [first + np.array(file.begins[:-1], np.int64) for first, file in zip(firsts, self.ranges, strict=False)]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def load_ids(self) -> Values:
        """Return all ids, in the order of the numbers."""
        return join_ids([_shorten(file.read_ids(self.folder)) for file in self.ranges])

    def take_ids(self, places: Positions) -> Values:
        """Return the ids at some places. Only the pieces are read that have them, one after the other."""
        pieces, within = find_places(self._piece_starts, places)
        arranged = np.argsort(pieces, kind="stable")
        found: list[Values] = []
        for piece, own in _group_by(pieces, arranged):
            check_deadline()
            found.append(_shorten(self._read_piece(piece).take(within[own])))
        back = np.empty(len(arranged), np.int64)
        back[arranged] = np.arange(len(arranged))
        return join_ids(found).take(back)

    def locate(self, ids: pa.StringArray) -> Positions:
        """Return the number of each id, -1 if the projection does not have it."""
        lows = [file.lows[at] for file, at in self._pieces]
        pieces = np.array([bisect_right(lows, text) - 1 for text in cast("list[str]", ids.to_pylist())], np.int64)
        numbers = np.full(len(pieces), -1, np.int64)
        for piece, own in _group_by(pieces, np.argsort(pieces, kind="stable")):
            check_deadline()
            if piece >= 0:
                places = find_positions(cast("Values", ids).take(own), self._read_piece(piece))
                numbers[own] = np.where(places < 0, -1, self.first + self._piece_starts[piece] + places)
        return numbers

    def _read_piece(self, piece: int) -> Values:
        file, at = self._pieces[piece]
        return column_of(file.read(self.folder, IDS, (at, at + 1)), "id")

    def read_numbers(self, property_: str) -> Numbers:
        """Return a property as numbers, not a number where it is null or the type does not have it."""
        found = np.full(len(self), np.nan)
        if not has_numbers(self.type, property_):
            return found
        numbers = np.frombuffer(self.folder.get(self.path), np.int32)
        at = 0
        for batch in self.rows.read([property_], one_by_one=True):
            check_deadline()
            own = numbers[at : at + batch.num_rows]
            at += batch.num_rows
            kept = np.flatnonzero(own >= 0)
            found[own[kept] - self.first] = to_numbers(column_of(batch, property_))[kept]
        return found


def _group_by(keys: Positions, arranged: Positions) -> Iterator[tuple[int, Positions]]:
    """Yield each key with the places that have it; ``arranged`` sorts the keys."""
    if len(arranged):
        ordered = keys[arranged]
        for own in np.split(arranged, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1):
            yield int(keys[own[0]]), own


def _shorten(ids: Values) -> Values:
    """Return ids of one range with 32-bit offsets, as they are stored in tables, unless they are too large."""
    return ids.cast(pa.string()) if ids.nbytes < 2**31 else ids


@dataclass(frozen=True, slots=True)
class _NumberedType:
    """What is kept of the nodes of one type for the next run."""

    path: str
    ranges: tuple[IdFile, ...]


@dataclass(frozen=True, slots=True)
class _NodeTable:
    """The table of one type, and the conditions of the projection on its nodes."""

    rows: TypeRows
    conditions: tuple[Condition, ...]
    fragments: tuple[TableFragment, ...]

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted."""
        return sum(each.num_rows for each in self.fragments)


@dataclass(frozen=True, slots=True)
class _Group:
    """Some fragments of one table; ``rows`` has for each the place of its first row in the table, and their number."""

    number: int
    """Which of the tables."""
    fragments: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _RangePlan:
    """The ids from one to another, and the files that may have some of them."""

    low: str | None
    high: str | None
    files: tuple[IdFile, ...]


@dataclass(frozen=True, slots=True)
class _SortedRange:
    """The ids of a range in order, and the file with their rows in the table."""

    ids: IdFile
    rows_path: str


def number_stored_nodes(
    executor: SparkExecutor, use: FolderUse, snapshot: Snapshot, plan: ProjectionPlan
) -> tuple[StoredNodes, ...]:
    """Number the nodes of a projection by type and id, or find what an earlier run left in the folder."""
    numbered = _find_numbered(use.folder)
    if numbered is None:
        numbered = _number_all(executor.doing("numbering nodes"), use.folder, _open_tables(snapshot, plan))
        # Written last: whoever finds it finds all files.
        use.folder.put(_INDEX, orjson.dumps([asdict(each) for each in numbered]))
    found: list[StoredNodes] = []
    first = 0
    for (node, _), each in zip(plan.nodes, numbered, strict=True):
        found.append(StoredNodes(node, open_type_rows(snapshot, node), use, first, each.path, each.ranges))
        first += len(found[-1])
    return tuple(found)


def _find_numbered(folder: ScratchFolder) -> list[_NumberedType] | None:
    data = folder.find(_INDEX)
    if data is None:
        return None
    return [
        _NumberedType(
            cast(str, each["path"]),
            tuple(
                IdFile(
                    cast(str, file["path"]),
                    tuple(cast("list[str]", file["lows"])),
                    tuple(cast("list[int]", file["begins"])),
                    tuple(cast("list[int]", file["offsets"])),
                )
                for file in cast("list[dict[str, object]]", each["ranges"])
            ),
        )
        for each in cast("list[dict[str, object]]", orjson.loads(data))
    ]


def _open_tables(snapshot: Snapshot, plan: ProjectionPlan) -> list[_NodeTable]:
    found: list[_NodeTable] = []
    for node, conditions in plan.nodes:
        rows = open_type_rows(snapshot, node)
        table = _NodeTable(rows, tuple(conditions), () if rows.table is None else list_fragments(rows.table))
        refuse_beyond(table.num_rows, "nodes")
        found.append(table)
    return found


def _number_all(executor: SparkExecutor, folder: ScratchFolder, tables: Sequence[_NodeTable]) -> list[_NumberedType]:
    """Sort the ids of all types in two jobs, and write the number of each row."""
    check_deadline()
    groups = [group for number, table in enumerate(tables) for group in _group_fragments(number, table)]
    chosen = [(each.rows, each.conditions) for each in tables]
    sorted_groups = executor.run(partial(_sort_group, folder, chosen, PIECE_IDS), groups)
    check_deadline()
    plans: list[list[_RangePlan]] = []
    for number in range(len(tables)):
        own = [file for group, file in zip(groups, sorted_groups, strict=True) if group.number == number]
        plans.append(plan_ranges([file for file in own if len(file)], RANGE_NODES))
    ranges = iter(executor.run(partial(_sort_range, folder, PIECE_IDS), [each for own in plans for each in own]))
    found: list[_NumberedType] = []
    first = 0
    for table, own in zip(tables, plans, strict=True):
        check_deadline()
        refuse_beyond(first + table.num_rows, "nodes")
        parts = [next(ranges) for _ in own]
        found.append(_number_rows(folder, table, first, parts))
        first += sum(len(part.ids) for part in parts)
    for file in sorted_groups:
        folder.delete(file.path)
    return found


def _group_fragments(number: int, table: _NodeTable) -> Iterator[_Group]:
    """Divide the fragments of a table among tasks."""
    starts = np.cumsum([0, *(part.num_rows for part in table.fragments)]).tolist()
    places = {part.id: (start, part.num_rows) for part, start in zip(table.fragments, starts, strict=False)}
    if not starts[-1]:
        return
    order = {part.id: at for at, part in enumerate(table.fragments)}
    for group in group_evenly({part.id: part.num_rows for part in table.fragments}, MAX_TASK_ROWS):
        # A scan has the fragments in the order of the table.
        fragments = sorted(group, key=lambda each: order[each])
        yield _Group(number, tuple(fragments), tuple(places[each] for each in fragments))


def plan_ranges(files: Sequence[IdFile], most: int) -> list[_RangePlan]:
    """Divide the ids of sorted files into ranges of about ``most``, by the first ids of their pieces."""
    samples = sorted(
        (low, end - begin)
        for file in files
        for low, begin, end in zip(file.lows, file.begins, file.begins[1:], strict=False)
    )
    if not samples:
        return []
    total = sum(count for _, count in samples)
    share = total / -(-total // most)
    bounds: list[str] = []
    before = 0
    for low, count in samples:
        # Equal samples are one bound, and the first one is none: all ids from there on are in the first range.
        if before >= share * (len(bounds) + 1) and low != (bounds[-1] if bounds else samples[0][0]):
            bounds.append(low)
        before += count
    pairs = zip([None, *bounds], [*bounds, None], strict=True)
    return [_RangePlan(low, high, tuple(_touch(files, low, high))) for low, high in pairs]


def _touch(files: Sequence[IdFile], low: str | None, high: str | None) -> Iterator[IdFile]:
    """Yield the files with pieces that may have ids of a range, cut to those pieces."""
    for file in files:
        begin, end = file.find_pieces(low, high)
        if begin < end:
            yield IdFile(
                file.path,
                file.lows[begin:end],
                tuple(each - file.begins[begin] for each in file.begins[begin : end + 1]),
                file.offsets[begin : end + 1],
            )


def _number_rows(folder: ScratchFolder, table: _NodeTable, first: int, parts: Sequence[_SortedRange]) -> _NumberedType:
    """Write the number of each row of a table."""
    numbers: CompactPositions = np.full(table.num_rows, -1, np.int32)
    for part in parts:
        check_deadline()
        rows = np.frombuffer(folder.get(part.rows_path), np.int32)
        numbers[rows] = np.arange(first, first + len(rows), dtype=np.int32)
        first += len(rows)
        folder.delete(part.rows_path)
    path = f"numbers-{ULID()}.bin"
    folder.put(path, numbers.tobytes())
    return _NumberedType(path, tuple(part.ids for part in parts))


# --------------------------------------------------------------------------------------------- on executors


def _sort_group(
    folder: ScratchFolder, tables: Sequence[tuple[TypeRows, tuple[Condition, ...]]], piece: int, group: _Group
) -> IdFile:
    """Task: read the ids of some fragments that satisfy all conditions, and write them in order, with their rows."""
    stored, conditions = tables[group.number]
    columns = list(dict.fromkeys(["id", *(name for each in conditions for name in each.columns)]))
    places = np.concatenate([np.arange(start, start + count, dtype=np.int32) for start, count in group.rows])
    found: list[pa.Table] = [PLACED_IDS.empty_table()]
    at = 0
    for batch in stored.read(columns, in_fragments=frozenset(group.fragments)):
        rows = pa.Table.from_batches([batch])
        mask = np.ones(batch.num_rows, np.bool_)
        for condition in conditions:
            mask &= evaluate_condition(rows, condition)
        ids = column_of(batch, "id").cast(pa.large_string())
        placed = pa.Table.from_arrays([ids, pa.array(places[at : at + batch.num_rows])], schema=PLACED_IDS)
        at += batch.num_rows
        found.append(placed.filter(pa.array(mask)))
    assert at == len(places), (at, len(places))
    return write_id_file(folder, sort_rows_by_id(pa.concat_tables(found)), piece)


def _sort_range(folder: ScratchFolder, piece: int, plan: _RangePlan) -> _SortedRange:
    """Task: sort the ids of a range. What is kept is their order alone: their numbers follow from it."""
    parts = [
        keep_between(file.read(folder, PLACED_IDS, (0, len(file.lows))), plan.low, plan.high) for file in plan.files
    ]
    rows = sort_rows_by_id(pa.concat_tables([PLACED_IDS.empty_table(), *parts]))
    path = f"rows-{ULID()}.bin"
    folder.put(path, column_of(rows, "row").to_numpy().tobytes())
    return _SortedRange(write_id_file(folder, rows.select(["id"]), piece), path)

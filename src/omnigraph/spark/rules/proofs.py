"""Prove on Spark that a load breaks no set rule, so that valid rows need no SQL.

Rules on keys, unique values, edge ends and cardinalities say one of two things: a value occurs at most so many times,
or a value exists. Executors read the values as the texts that rules compare, and hash-partition them; in a partition
Arrow counts them and looks them up. Ends of edges are sent once for each node, so a node with very many edges is no
more than a text. Stored ids are read and sent too, unless few are needed: those are looked up in their index. If the
ids of all nodes fit the memory of a task, nothing is shuffled: tasks read them, and look up the ends of their edges.

Texts are shuffled packed, many in one row, because unpacking them would cost Spark more than everything else here.
Rules that are not proven run as SQL, which also finds the violations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import SparkExecutor, union_all
from omnigraph.spark.id_lookup import can_look_up_ids, find_present_ids
from omnigraph.spark.rules.changed_table import ChangedSparkTable, FragmentRows, RowReader
from omnigraph.spark.shuffle import PACK_COLUMNS, assign_partitions, gather_packs, list_packs, make_pack, split_order
from omnigraph.spark.sized_frames import MAX_PARTITIONS
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.keys import to_canonical_text
from omnigraph.storage.tables import Table, estimate_stored_row_bytes
from omnigraph.write.executor import group_evenly
from omnigraph.write.rules import IncomingMode, RuleKind, SetRule, TablePart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXTS_PER_PARTITION: Final = 1_000_000
_TEXTS_AT_ONCE: Final = 524_288
"""A task partitions this many texts at a time. More would make larger packs, but need more memory."""

MAX_HELD_BYTES: Final = 128 * 1024 * 1024
"""Values up to this size in total are read by each task that looks up others among them. It looks up about as many
bytes at a time, because Arrow hashes the held values each time."""
_MAX_LOOKED_UP_ROWS: Final = 16_000_000
"""A task looks up the values of so many rows; a larger one would take long to repeat."""

_SAMPLED_TEXTS: Final = 8_192
_MAX_DISTINCT_SHARE: Final = 0.9
"""Repeated texts are left out if more than one in ten is repeated among those that are sampled."""

_TEXT: Final = pa.schema([pa.field("text", pa.string())])
_FAILED: Final = pa.schema([pa.field("check", pa.int32())])


_Columns: TypeAlias = tuple[str, TablePart, tuple[str, ...]]
"""Columns of one part of a table."""


class _Role(IntEnum):
    """What a check does with the values of some rows."""

    COUNTED = 0
    """They exist, and each may occur only so many times."""
    PRESENT = 1
    """They exist."""
    REQUIRED = 2
    """They must exist."""


@dataclass(slots=True)
class _ValueCheck:
    """A condition on the values in some columns of a table, and the rules that it proves.

    ``columns`` are the values that it reads, by table key, part and columns, and their roles.
    """

    max_count: int | None = None
    rules: list[SetRule] = field(default_factory=list[SetRule])
    columns: dict[_Columns, _Role] = field(default_factory=dict["_Columns", _Role])

    def count_lookups(self, stored: _Columns, changed: Mapping[str, ChangedSparkTable]) -> int:
        """Return how many of the stored ids could be asked for, at most."""
        return sum(_rows_of(changed[key], part).count for key, part, _ in self.columns.keys() - {stored})

    def add_counted(self, table_key: str, parts: Iterable[TablePart], columns: tuple[str, ...], most: int) -> None:
        """Require that none of these values occurs more than ``most`` times."""
        self.max_count = most if self.max_count is None else min(self.max_count, most)
        for part in parts:
            self.columns[table_key, part, columns] = _Role.COUNTED

    def add_present(self, table_key: str, parts: Iterable[TablePart]) -> None:
        """Add nodes that exist."""
        for part in parts:
            self.columns.setdefault((table_key, part, ("id",)), _Role.PRESENT)

    def add_required(self, table_key: str, part: TablePart, end: str) -> None:
        """Require that the nodes at this end of edges exist."""
        self.columns[table_key, part, (end,)] = _Role.REQUIRED


def find_unproven_rules(
    executor: SparkExecutor, rules: Sequence[SetRule], changed: Mapping[str, ChangedSparkTable]
) -> tuple[SetRule, ...]:
    """Return the rules that could not be proven to hold; one job runs all checks."""
    checks = _plan_checks(rules, changed)
    failed = _find_failed_checks(executor, checks, changed) if checks else frozenset[int]()
    proven = {id(rule) for number, check in enumerate(checks) if number not in failed for rule in check.rules}
    return tuple(rule for rule in rules if id(rule) not in proven)


# --------------------------------------------------------------------------------------------- checks


def _plan_checks(rules: Iterable[SetRule], changed: Mapping[str, ChangedSparkTable]) -> list[_ValueCheck]:
    """Plan one check for each set of columns; it serves all rules about these columns."""
    found: dict[tuple[str, tuple[str, ...]], _ValueCheck] = {}
    for rule in rules:
        subject = _subject_of(rule)
        if _can_prove(rule, changed):
            check = found.setdefault(subject, _ValueCheck())
            check.rules.append(rule)
            _add_rule(check, rule, subject, changed)
    return list(found.values())


def _subject_of(rule: SetRule) -> tuple[str, tuple[str, ...]]:
    """The table and columns whose values a rule restricts; for edge ends these are the ids of nodes."""
    incoming = rule.relations[0]
    match rule.kind:
        case RuleKind.UNIQUE:
            return incoming.table_key, incoming.columns["value"]
        case RuleKind.ENDS:
            return rule.relations[1].table_key, ("id",)
        case RuleKind.CARDINALITY:
            return incoming.table_key, incoming.columns["node"]


def _can_prove(rule: SetRule, changed: Mapping[str, ChangedSparkTable]) -> bool:
    """Return whether a check can prove a rule. It cannot if rows are deleted or replaced: that needs a join by id."""
    if any(
        relation.part in (TablePart.SUPERSEDED, TablePart.DELETED)
        and not changed[relation.table_key].is_empty(relation.part)
        for relation in rule.relations
    ):
        return False
    table = changed[rule.relations[0].table_key]
    replaces = table.mode is IncomingMode.UPSERT and not table.is_empty(TablePart.KEPT)
    match rule.kind:
        case RuleKind.UNIQUE:
            return not replaces or rule.relations[0].columns["value"] == ("id",)
        case RuleKind.ENDS:
            return True
        case RuleKind.CARDINALITY:
            return rule.limits.minimum == 0 and not replaces


def _add_rule(
    check: _ValueCheck, rule: SetRule, subject: tuple[str, tuple[str, ...]], changed: Mapping[str, ChangedSparkTable]
) -> None:
    table_key, columns = subject
    incoming = rule.relations[0]
    parts = [part for part in (TablePart.INCOMING, TablePart.KEPT) if not changed[table_key].is_empty(part)]
    if rule.kind is RuleKind.ENDS:
        check.add_present(table_key, parts)
        if not changed[incoming.table_key].is_empty(TablePart.INCOMING):
            check.add_required(incoming.table_key, TablePart.INCOMING, incoming.columns["node"][0])
        return
    if changed[table_key].mode is IncomingMode.UPSERT:
        # An existing id is replaced, so it does not count.
        parts = [TablePart.INCOMING]
    check.add_counted(table_key, parts, columns, 1 if rule.limits.maximum is None else rule.limits.maximum)


# --------------------------------------------------------------------------------------------- the job


@dataclass(frozen=True, slots=True)
class _ColumnRead:
    """Columns whose values a task reads for a check, and their role in it."""

    check: int
    role: _Role
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _IdLookup:
    """Stored ids that are looked up for a check instead of read, and their role in it."""

    table: Table
    role: _Role
    stored: _Columns

    def count(self, ids: pa.ChunkedArray[pa.StringScalar]) -> int:
        """Return how many of some ids are stored."""
        return len(find_present_ids(self.table, cast("Values", ids.unique())))


def _find_failed_checks(
    executor: SparkExecutor, checks: Sequence[_ValueCheck], changed: Mapping[str, ChangedSparkTable]
) -> frozenset[int]:
    """Run the checks; return the numbers of those that fail."""
    lookups = {number: found for number, check in enumerate(checks) for found in _plan_lookup(check, changed)}
    held = [number for number, check in enumerate(checks) if number not in lookups and _can_hold(check, changed)]
    failed = _find_failed_held(executor, {number: checks[number] for number in held}, changed)
    shuffled = {number: check for number, check in enumerate(checks) if number not in held}
    return failed | _find_failed_shuffled(executor, shuffled, lookups, changed)


def _plan_lookup(check: _ValueCheck, changed: Mapping[str, ChangedSparkTable]) -> Iterator[_IdLookup]:
    """Yield the stored ids that are looked up for a check, if it has some and few are needed."""
    for stored, role in check.columns.items():
        table_key, part, columns = stored
        if part is TablePart.KEPT and columns == ("id",):
            table = _rows_of(changed[table_key], part).table
            if can_look_up_ids(table, check.count_lookups(stored, changed)):
                yield _IdLookup(table, role, stored)


def _find_failed_shuffled(
    executor: SparkExecutor,
    checks: Mapping[int, _ValueCheck],
    lookups: Mapping[int, _IdLookup],
    changed: Mapping[str, ChangedSparkTable],
) -> frozenset[int]:
    """Run checks in hash partitions of their values."""
    reads: dict[tuple[str, TablePart], list[_ColumnRead]] = {}
    for number, check in checks.items():
        for stored, role in check.columns.items():
            if number not in lookups or stored != lookups[number].stored:
                table_key, part, columns = stored
                reads.setdefault((table_key, part), []).append(_ColumnRead(number, role, columns))
    if not reads:
        return frozenset()
    rows = {key: _rows_of(changed[key[0]], key[1]) for key in reads}
    texts = sum(rows[key].count * len(each) for key, each in reads.items())
    partitions = max(1, min(MAX_PARTITIONS, texts // _TEXTS_PER_PARTITION))
    packs = union_all(_map_packs(executor, rows[key], each, partitions) for key, each in reads.items())
    task = partial(_run_checks, {number: check.max_count for number, check in checks.items()}, lookups)
    failed = executor.collect(map_batches(gather_packs(packs, partitions), task, "check int"))
    return frozenset(check for (check,) in cast("list[tuple[int]]", failed))


def _rows_of(changed: ChangedSparkTable, part: TablePart) -> FragmentRows:
    return changed.incoming() if part is TablePart.INCOMING else changed.pinned()


def _map_packs(executor: SparkExecutor, rows: FragmentRows, reads: Sequence[_ColumnRead], partitions: int) -> DataFrame:
    task = partial(_partition_values, reader=rows.reader, reads=reads, partitions=partitions)
    return rows.map(executor, task, _list_columns(reads), PACK_COLUMNS)


def _list_columns(reads: Iterable[_ColumnRead]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for each in reads for column in each.columns))


def _partition_values(
    table: Table, fragments: Sequence[int], *, reader: RowReader, reads: Sequence[_ColumnRead], partitions: int
) -> Iterator[pa.RecordBatch]:
    """Task over fragments: read the values and pack them by hash partition."""
    columns = _list_columns(reads)
    buffered: dict[_ColumnRead, list[pa.StringArray]] = {each: [] for each in reads}
    count = 0
    for rows in reader.read(table, fragments, columns):
        for each in reads:
            buffered[each].append(to_canonical_text(rows, each.columns).drop_null())
        count += rows.num_rows
        if count * len(reads) >= _TEXTS_AT_ONCE:
            yield from _pack_values(buffered, partitions)
            for pieces in buffered.values():
                pieces.clear()
            count = 0
    yield from _pack_values(buffered, partitions)


def _pack_values(buffered: Mapping[_ColumnRead, Sequence[pa.StringArray]], partitions: int) -> Iterator[pa.RecordBatch]:
    for read, pieces in buffered.items():
        if not sum(map(len, pieces)):
            continue
        if read.role is _Role.REQUIRED:
            pieces = _drop_repeated(pieces)
        numbers = np.concatenate([assign_partitions(piece, partitions) for piece in pieces])
        # NumPy uses a radix sort for 16-bit integers.
        order = np.argsort(numbers, kind="stable")
        texts = pa.chunked_array(pieces, pa.string()).combine_chunks().take(order)
        for partition, part in split_order(numbers, partitions):
            pack = pa.RecordBatch.from_arrays([texts.slice(part.start, part.stop - part.start)], schema=_TEXT)
            yield make_pack(partition, read.check, read.role, pack.serialize())


def _drop_repeated(pieces: Sequence[pa.StringArray]) -> Sequence[pa.StringArray]:
    """Return each text once if many are repeated, which the first of them tell."""
    first = pieces[0].slice(0, _SAMPLED_TEXTS)
    if len(first.unique()) > len(first) * _MAX_DISTINCT_SHARE:
        return pieces
    return [cast("pa.StringArray", pc.unique(pa.chunked_array(pieces, pa.string())))]


# --------------------------------------------------------------------------------------------- without a shuffle


@dataclass(frozen=True, slots=True)
class _ValueRead:
    """The values of some rows, which a task reads whole or in part: each value is in one or more columns."""

    rows: FragmentRows
    values: tuple[tuple[str, ...], ...]
    role: _Role

    def read(self, fragments: Sequence[int] | None = None) -> Iterator[Values]:
        """Yield the values as texts, without nulls."""
        chosen = tuple(self.rows.fragments) if fragments is None else fragments
        columns = tuple(dict.fromkeys(column for each in self.values for column in each))
        for batch in self.rows.reader.read(self.rows.table, chosen, columns):
            for each in self.values:
                yield to_canonical_text(batch, each).drop_null()


@dataclass(frozen=True, slots=True)
class _HeldCheck:
    """A check whose values, but those that are required, a task holds in memory."""

    number: int
    max_count: int | None
    held: tuple[_ValueRead, ...]
    required: tuple[_ValueRead, ...]

    def divide(self, parallelism: int) -> Iterator[_HeldTask]:
        """Yield one task that counts, and some that look values up: each at least as many as it holds."""
        if self.max_count is not None:
            yield _HeldTask(self, None)
        held = sum(each.rows.count for each in self.held)
        for number, each in enumerate(self.required):
            share = max(1, held, -(-each.rows.count // parallelism))
            for group in group_evenly(each.rows.fragments, min(share, _MAX_LOOKED_UP_ROWS)):
                yield _HeldTask(self, (number, group))

    def read_held(self, role: _Role) -> list[Values]:
        return [texts for each in self.held if each.role is role for texts in each.read()]


@dataclass(frozen=True, slots=True)
class _HeldTask:
    """Part of a check: to count, or to look up the required values of some fragments."""

    check: _HeldCheck
    required: tuple[int, Sequence[int]] | None

    def run(self) -> bool:
        """Return whether the values pass."""
        counted, present = (self.check.read_held(role) for role in (_Role.COUNTED, _Role.PRESENT))
        if self.required is None:
            return _check_holds(self.check.max_count, (counted, (), ()), None)
        number, fragments = self.required
        pieces = _gather_texts(self.check.required[number].read(fragments))
        return all(_check_holds(None, (counted, present, piece), None) for piece in pieces)


def _gather_texts(pieces: Iterable[Values]) -> Iterator[Sequence[Values]]:
    """Yield pieces together, as many as a task may hold."""
    pending: list[Values] = []
    size = 0
    for piece in pieces:
        pending.append(piece)
        size += piece.nbytes
        if size >= MAX_HELD_BYTES:
            yield pending
            pending, size = [], 0
    yield pending


def _can_hold(check: _ValueCheck, changed: Mapping[str, ChangedSparkTable]) -> bool:
    """Return whether a task can hold all values of a check but those that are required."""
    size = 0
    for (table_key, part, columns), role in check.columns.items():
        if role is not _Role.REQUIRED:
            rows = _rows_of(changed[table_key], part)
            size += rows.count * estimate_stored_row_bytes(rows.table, columns)
    return size <= MAX_HELD_BYTES


def _find_failed_held(
    executor: SparkExecutor, checks: Mapping[int, _ValueCheck], changed: Mapping[str, ChangedSparkTable]
) -> frozenset[int]:
    """Run checks in tasks that hold what they look values up in."""
    planned = [_plan_held(number, check, changed) for number, check in checks.items()]
    tasks = [task for check in planned for task in check.divide(executor.parallelism)]
    outcomes = executor.run(_HeldTask.run, tasks)
    return frozenset(task.check.number for task, holds in zip(tasks, outcomes, strict=True) if not holds)


def _plan_held(number: int, check: _ValueCheck, changed: Mapping[str, ChangedSparkTable]) -> _HeldCheck:
    values: dict[tuple[str, TablePart, _Role], list[tuple[str, ...]]] = {}
    for (table_key, part, columns), role in check.columns.items():
        values.setdefault((table_key, part, role), []).append(columns)
    reads = [
        _ValueRead(_rows_of(changed[table_key], part), tuple(each), role)
        for (table_key, part, role), each in values.items()
    ]
    held = tuple(each for each in reads if each.role is not _Role.REQUIRED)
    return _HeldCheck(number, check.max_count, held, tuple(each for each in reads if each.role is _Role.REQUIRED))


# --------------------------------------------------------------------------------------------- in a partition


def _run_checks(
    max_counts: Mapping[int, int | None], lookups: Mapping[int, _IdLookup], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Task over one partition: yield the numbers of the checks that its values fail."""
    buffered: dict[tuple[int, int], list[Values]] = {}
    for check, role, pack in list_packs(batches):
        texts = column_of(pa.ipc.read_record_batch(pa.py_buffer(pack), _TEXT), "text")
        buffered.setdefault((check, role), []).append(texts)
    failed = [
        check
        for check, limit in max_counts.items()
        if not _check_holds(limit, [buffered.get((check, role), ()) for role in _Role], lookups.get(check))
    ]
    yield pa.RecordBatch.from_arrays([pa.array(failed, pa.int32())], schema=_FAILED)


def _check_holds(most: int | None, values: Sequence[Sequence[Values]], stored: _IdLookup | None) -> bool:
    """Return whether values, by their roles, pass a check. ``stored`` are further ids, which are looked up."""
    counted, present, required = values
    if most is not None and not _occur_at_most(counted, most):
        return False
    if stored is not None and stored.role is _Role.COUNTED and stored.count(_to_chunked(counted)):
        return False
    if not required:
        return True
    ends = _to_chunked(required)
    missing = ends.filter(pc.invert(pc.is_in(ends, value_set=_to_chunked([*counted, *present]))))
    if not len(missing) or stored is None:
        return not len(missing)
    return stored.count(missing) == len(missing.unique())


def _occur_at_most(texts: Sequence[Values], most: int) -> bool:
    if most == 1:
        return len(pc.unique(_to_chunked(texts))) == sum(map(len, texts))
    counts = cast("Values", pc.value_counts(_to_chunked(texts)).field("counts"))
    return not len(counts) or pc.max(cast("pa.Int64Array", counts)).as_py() <= most


def _to_chunked(pieces: Sequence[Values]) -> pa.ChunkedArray[pa.StringScalar]:
    """Combine pieces without copying: as one array they could exceed its size limit."""
    return pa.chunked_array(cast("Sequence[pa.StringArray]", pieces), pa.string())

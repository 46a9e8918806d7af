"""Proofs that a load on Spark breaks no set rule: rows that are right, as most are, need no SQL.

Rules on keys, unique values, ends and numbers of edges say one of two things: that a value stands somewhere no more
than so often, or that it stands somewhere at all. Executors read the values, as the texts that rules compare, and send
each to the part that its text belongs to. There all equal texts are together, and Arrow counts them and looks them up.
They travel packed, many in one row: to take them apart would cost Spark more than everything else here. What is not
proven is left to the SQL of the rule, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.spark.load.changed_table import ChangedSparkTable, FragmentRows, RowReader
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.storage.keys import canonical_text
from omnigraph.storage.table import Table
from omnigraph.write.rules import IncomingMode, RuleKind, SetRule, TablePart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TEXTS_PER_PARTITION: Final = 1_000_000
_MAX_PARTITIONS: Final = 4_096
_TEXTS_AT_ONCE: Final = 524_288
"""A task parts so many texts at a time: with more of them packs become larger, and so does its memory."""

_TEXT: Final = pa.schema([pa.field("text", pa.string())])
_PACKS: Final = pa.schema(
    [
        pa.field("part", pa.int32()),
        pa.field("claim", pa.int32()),
        pa.field("role", pa.int32()),
        pa.field("texts", pa.binary()),
    ]
)
_FAILED: Final = pa.schema([pa.field("claim", pa.int32())])

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)
_WORD: Final = 8
_MASKS: Final = np.array([(1 << 8 * length) - 1 for length in range(_WORD + 1)], np.uint64)
"""The bytes of a word that belong to a text which ends in it, by how many they are."""

_Words: TypeAlias = npt.NDArray[np.uint64]
_PartitionNumbers: TypeAlias = npt.NDArray[np.uint16]


class _Role(IntEnum):
    """What the values of some rows are to a claim."""

    COUNTED = 0
    """They stand there, and none may do so too often."""
    PRESENT = 1
    """They stand there."""
    REQUIRED = 2
    """They must stand there."""


@dataclass(slots=True)
class _ValueCheck:
    """What has to be shown about the values in some columns of a table, and which rules follow from it.

    ``looks`` are the rows that it is about, by table key, part and columns.
    """

    max_count: int | None = None
    rules: list[SetRule] = field(default_factory=list[SetRule])
    columns: dict[tuple[str, TablePart, tuple[str, ...]], _Role] = field(
        default_factory=dict[tuple[str, TablePart, tuple[str, ...]], _Role]
    )

    def add_counted(self, table_key: str, parts: Iterable[TablePart], columns: tuple[str, ...], most: int) -> None:
        """None of these values stands there more than so often."""
        self.max_count = most if self.max_count is None else min(self.max_count, most)
        for part in parts:
            self.columns[table_key, part, columns] = _Role.COUNTED

    def add_present(self, table_key: str, parts: Iterable[TablePart]) -> None:
        """These are nodes."""
        for part in parts:
            self.columns.setdefault((table_key, part, ("id",)), _Role.PRESENT)

    def add_required(self, table_key: str, part: TablePart, end: str) -> None:
        """These are ends of edges, which must be among the nodes."""
        self.columns[table_key, part, (end,)] = _Role.REQUIRED


def find_unproven_rules(
    session: SparkSession, rules: Sequence[SetRule], changed: Mapping[str, ChangedSparkTable]
) -> tuple[SetRule, ...]:
    """The rules that may be broken, once it was tried to show that they hold; one job shows all that it can."""
    claims = _plan_checks(rules, changed)
    doubted = _find_failed_checks(session, claims, changed) if claims else frozenset[int]()
    shown = {id(rule) for number, claim in enumerate(claims) if number not in doubted for rule in claim.rules}
    return tuple(rule for rule in rules if id(rule) not in shown)


# --------------------------------------------------------------------------------------------- what is to be shown


def _plan_checks(rules: Iterable[SetRule], changed: Mapping[str, ChangedSparkTable]) -> list[_ValueCheck]:
    """One claim for each set of columns that rules speak of; it serves all of these rules."""
    found: dict[tuple[str, tuple[str, ...]], _ValueCheck] = {}
    for rule in rules:
        about = _subject_of(rule)
        if _can_prove(rule, changed):
            claim = found.setdefault(about, _ValueCheck())
            claim.rules.append(rule)
            _add_rule(claim, rule, about, changed)
    return list(found.values())


def _subject_of(rule: SetRule) -> tuple[str, tuple[str, ...]]:
    """The table and the columns whose values a rule is about: for the ends of edges those are the ids of nodes."""
    incoming = rule.relations[0]
    match rule.kind:
        case RuleKind.UNIQUE:
            return incoming.table_key, incoming.columns["value"]
        case RuleKind.ENDS:
            return rule.relations[1].table_key, ("id",)
        case RuleKind.CARDINALITY:
            return incoming.table_key, incoming.columns["node"]


def _can_prove(rule: SetRule, changed: Mapping[str, ChangedSparkTable]) -> bool:
    """Rows that go are not looked at here; and which rows a merge replaces only a join with their ids could tell."""
    if any(
        relation.part in (TablePart.SUPERSEDED, TablePart.DELETED)
        and not changed[relation.table_key].is_empty(relation.part)
        for relation in rule.relations
    ):
        return False
    table = changed[rule.relations[0].table_key]
    replaces = table.arrival is IncomingMode.UPSERT and not table.is_empty(TablePart.KEPT)
    match rule.kind:
        case RuleKind.UNIQUE:
            return not replaces or rule.relations[0].columns["value"] == ("id",)
        case RuleKind.ENDS:
            return True
        case RuleKind.CARDINALITY:
            return rule.limits.minimum == 0 and not replaces


def _add_rule(
    claim: _ValueCheck, rule: SetRule, about: tuple[str, tuple[str, ...]], changed: Mapping[str, ChangedSparkTable]
) -> None:
    table_key, columns = about
    incoming = rule.relations[0]
    parts = [part for part in (TablePart.INCOMING, TablePart.KEPT) if not changed[table_key].is_empty(part)]
    if rule.kind is RuleKind.ENDS:
        claim.add_present(table_key, parts)
        if not changed[incoming.table_key].is_empty(TablePart.INCOMING):
            claim.add_required(incoming.table_key, TablePart.INCOMING, incoming.columns["node"][0])
        return
    if changed[table_key].arrival is IncomingMode.UPSERT:
        # An id that is there already is replaced.
        parts = [TablePart.INCOMING]
    claim.add_counted(table_key, parts, columns, 1 if rule.limits.maximum is None else rule.limits.maximum)


# --------------------------------------------------------------------------------------------- the job


@dataclass(frozen=True, slots=True)
class _ColumnRead:
    """Columns whose values a task reads, and what they are to a claim."""

    check: int
    role: _Role
    columns: tuple[str, ...]


def _find_failed_checks(
    session: SparkSession, claims: Sequence[_ValueCheck], changed: Mapping[str, ChangedSparkTable]
) -> frozenset[int]:
    """The claims that do not hold, by their numbers."""
    wanted: dict[tuple[str, TablePart], list[_ColumnRead]] = {}
    for number, claim in enumerate(claims):
        for (table_key, part, columns), role in claim.columns.items():
            wanted.setdefault((table_key, part), []).append(_ColumnRead(number, role, columns))
    rows = {key: _rows_of(changed[key[0]], key[1]) for key in wanted}
    texts = sum(rows[key].count * len(each) for key, each in wanted.items())
    parts = max(1, min(_MAX_PARTITIONS, texts // _TEXTS_PER_PARTITION))
    packs = reduce(
        lambda some, others: some.unionByName(others),
        (_map_packs(session, rows[key], each, parts) for key, each in wanted.items()),
    )
    most = [claim.max_count for claim in claims]
    told = packs.repartitionById(parts, "part").mapInArrow(partial(_run_checks, most), "claim int").collect()
    return frozenset(claim for (claim,) in cast("list[tuple[int]]", told))


def _rows_of(changed: ChangedSparkTable, part: TablePart) -> FragmentRows:
    return changed.incoming() if part is TablePart.INCOMING else changed.pinned()


def _map_packs(session: SparkSession, rows: FragmentRows, wanted: Sequence[_ColumnRead], parts: int) -> DataFrame:
    work = partial(_partition_values, reading=rows.reader, wanted=wanted, parts=parts)
    return rows.map(session, work, "part int, claim int, role int, texts binary")


def _partition_values(
    table: Table, fragments: Sequence[int], *, reading: RowReader, wanted: Sequence[_ColumnRead], parts: int
) -> Iterator[pa.RecordBatch]:
    """The task of some fragments: the values that are wanted of their rows, packed for the parts they belong to."""
    columns = tuple(dict.fromkeys(column for each in wanted for column in each.columns))
    held: dict[_ColumnRead, list[pa.StringArray]] = {each: [] for each in wanted}
    count = 0
    for rows in reading.read(table, fragments, columns):
        for each in wanted:
            held[each].append(canonical_text(rows, each.columns).drop_null())
        count += rows.num_rows
        if count * len(wanted) >= _TEXTS_AT_ONCE:
            yield from _pack_values(held, parts)
            for pieces in held.values():
                pieces.clear()
            count = 0
    yield from _pack_values(held, parts)


def _pack_values(held: Mapping[_ColumnRead, Sequence[pa.StringArray]], parts: int) -> Iterator[pa.RecordBatch]:
    for wanted, pieces in held.items():
        if not sum(map(len, pieces)):
            continue
        belong = np.concatenate([assign_partitions(piece, parts) for piece in pieces])
        # Of numbers as small as these NumPy sorts by their bytes.
        order = np.argsort(belong, kind="stable")
        texts = pa.chunked_array(pieces, pa.string()).combine_chunks().take(order)
        bounds = [0, *np.cumsum(np.bincount(belong, minlength=parts)).tolist()]
        for part, (start, end) in enumerate(pairwise(bounds)):
            if end > start:
                pack = pa.RecordBatch.from_arrays([texts.slice(start, end - start)], schema=_TEXT).serialize()
                row = ([part], [wanted.check], [int(wanted.role)], [pack.to_pybytes()])
                columns = [pa.array(value, type_) for value, type_ in zip(row, _PACKS.types, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=_PACKS)


def assign_partitions(texts: pa.StringArray, parts: int) -> _PartitionNumbers:
    """The part that each text belongs to: the same one for equal texts, and about as many texts for each part."""
    _, offsets, data = texts.buffers()
    if parts == 1 or offsets is None:
        return np.zeros(len(texts), np.uint16)
    bounds = np.frombuffer(memoryview(offsets), np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    # A word is read at any byte, and the last one reaches beyond the texts.
    padded = np.zeros(size + _WORD, np.uint8)
    if data is not None:
        padded[:size] = np.frombuffer(memoryview(data), np.uint8)[first : first + size]
    words: _Words = np.ndarray((size + 1,), np.dtype("<u8"), padded, strides=(1,))
    starts, lengths = (bounds[:-1] - first).astype(np.int64), np.diff(bounds).astype(np.int64)
    mixed: _Words = lengths.astype(np.uint64) * _MULTIPLIER
    for at in range(0, int(lengths.max(initial=0)), _WORD):
        longer = np.flatnonzero(lengths > at)
        word = words[starts[longer] + at] & _MASKS[np.minimum(lengths[longer] - at, _WORD)]
        step = (mixed[longer] ^ word) * _MULTIPLIER
        mixed[longer] = step ^ (step >> _SHIFT)
    return ((mixed >> _SHIFT) % np.uint64(parts)).astype(np.uint16)


# --------------------------------------------------------------------------------------------- the parts


def _run_checks(most: Sequence[int | None], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task of one part: the claims that its values do not bear out."""
    held: dict[tuple[int, int], list[Values]] = {}
    for batch in batches:
        claims, roles, packs = (to_list(column_of(batch, name)) for name in ("claim", "role", "texts"))
        for claim, role, pack in zip(cast("list[int]", claims), cast("list[int]", roles), packs, strict=True):
            texts = column_of(pa.ipc.read_record_batch(pa.py_buffer(cast(bytes, pack)), _TEXT), "text")
            held.setdefault((claim, role), []).append(texts)
    doubted = [claim for claim, limit in enumerate(most) if not _check_holds(claim, limit, held)]
    yield pa.RecordBatch.from_arrays([pa.array(doubted, pa.int32())], schema=_FAILED)


def _check_holds(claim: int, most: int | None, held: Mapping[tuple[int, int], Sequence[Values]]) -> bool:
    counted, there, needed = (held.get((claim, role), ()) for role in _Role)
    if most is not None and not _occur_at_most(counted, most):
        return False
    found = pc.is_in(_to_chunked(needed), value_set=_to_chunked([*counted, *there]))
    return bool(pc.all(found).as_py()) if needed else True


def _occur_at_most(texts: Sequence[Values], most: int) -> bool:
    if most == 1:
        return len(pc.unique(_to_chunked(texts))) == sum(map(len, texts))
    counts = cast("Values", pc.value_counts(_to_chunked(texts)).field("counts"))
    return not len(counts) or pc.max(cast("pa.Int64Array", counts)).as_py() <= most


def _to_chunked(pieces: Sequence[Values]) -> pa.ChunkedArray[pa.StringScalar]:
    """As they are: copied into one piece they could be too long for it."""
    return pa.chunked_array(cast("Sequence[pa.StringArray]", pieces), pa.string())

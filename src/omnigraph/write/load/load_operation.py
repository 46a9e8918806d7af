"""A load as a write operation: check incoming rows against a snapshot, and stage them table by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Literal, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import KeyConflict, ValidationError, Violation
from omnigraph.language.schema import Catalog, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.storage import table_writes as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.storage.row_search import find_addresses
from omnigraph.storage.staging import StagedChange
from omnigraph.storage.table import Table
from omnigraph.storage.table_writes import Addresses
from omnigraph.write.commit import PreparedWrite, TableChange, WriterKind
from omnigraph.write.load.incoming_rows import IncomingRows
from omnigraph.write.load.positions import RecordPosition, RowNumbers
from omnigraph.write.load.quarantine import MAX_VIOLATIONS, RejectDelivery, build_load_error, format_records
from omnigraph.write.load.validation import RejectedRecord
from omnigraph.write.row_values import can_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.rules import (
    IncomingMode,
    RowChanges,
    RuleCheckResult,
    ViolationCounts,
    check_changes,
    format_key,
    list_rule_columns,
)

LoadMode: TypeAlias = Literal["append", "merge", "overwrite"]
_MAX_FURTHER_VIOLATIONS: Final = 10_000
"""A load that already fails checks at most so many further violations of set rules."""
_INCOMING_MODES: Final[Mapping[LoadMode, IncomingMode]] = {
    "append": IncomingMode.INSERT,
    "merge": IncomingMode.UPSERT,
    "overwrite": IncomingMode.OVERWRITE,
}


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The outcome of a load on a snapshot: row counts by table key, and the rejected records."""

    rows: Mapping[str, int]
    rejected: int = 0
    rejects_path: str | None = None


@dataclass(frozen=True, slots=True)
class IncomingTable:
    """The incoming rows of one table without the excluded ids, and how they combine with the existing rows."""

    rows: IncomingRows
    mode: IncomingMode
    excluded_ids: Values

    @property
    def table_key(self) -> str:
        """The table the rows go to."""
        return self.rows.type.table_key


class LoadEngine(Protocol):
    """Does the work that touches every row of a load: in this process, or on Spark's executors."""

    def check(
        self, catalog: Catalog, snapshot: Snapshot, incoming: Sequence[IncomingTable], limit: int | None
    ) -> RuleCheckResult:
        """Run the set rules that the incoming rows could break. Return at most ``limit`` violations."""
        ...

    def stage(self, table: Table, incoming: IncomingTable) -> StagedChange | None:
        """Stage the rows on a pinned table. A retry on another pin looks up the replaced rows again."""
        ...


class LocalLoadEngine:
    """Does everything in this process."""

    def check(
        self, catalog: Catalog, snapshot: Snapshot, incoming: Sequence[IncomingTable], limit: int | None
    ) -> RuleCheckResult:
        """Run the set rules on this machine."""
        return check_changes(catalog, snapshot, (_to_row_changes(catalog, each) for each in incoming), limit)

    def stage(self, table: Table, incoming: IncomingTable) -> StagedChange | None:
        """Stage the rows on this machine."""
        return stage_rows(table, incoming)


LOCAL_LOAD_ENGINE: Final = LocalLoadEngine()


@dataclass(frozen=True, slots=True)
class LoadOperation:
    """A load as a write operation. Rows that break a rule go to the quarantine; without one, they fail the load.

    ``check_only`` reports every violation and delivers nothing to the quarantine. ``keeps_txn`` makes a commit even if
    there are no rows, so that a retry with the same ``txn`` finds it.
    """

    catalog: Catalog
    tables: Mapping[str, IncomingRows]
    mode: LoadMode
    quarantine: RejectDelivery | None = None
    check_only: bool = False
    engine: LoadEngine = LOCAL_LOAD_ENGINE
    keeps_txn: bool = False
    kind: WriterKind = WriterKind.LOAD

    @property
    def strict(self) -> bool:
        """Whether the rows of the snapshot must not have changed: an overwrite replaces them without reading them."""
        return self.mode == "overwrite"

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[LoadOutcome]:
        """Run the set rules and return the changes that stage the accepted rows."""
        self._refuse_legacy_ids(snapshot)
        rejected_ids, reads = self._reject_violating(snapshot)
        changes = tuple(
            TableChange(each.table_key, partial(self._stage, each), each.rows.is_large)
            for each in self._without_rejected(rejected_ids)
            if each.rows.count > rejected_ids[each.table_key].count or self.mode == "overwrite"
        )
        counts = {key: rows.count - rejected_ids[key].count for key, rows in self.tables.items()}
        outcome = self._deliver_rejects(counts, rejected_ids)
        return PreparedWrite(changes, reads, outcome, force_commit=self.keeps_txn)

    def _stage(self, incoming: IncomingTable, table: Table) -> StagedChange | None:
        return self.engine.stage(table, incoming)

    def _refuse_legacy_ids(self, snapshot: Snapshot) -> None:
        for key, table in self.tables.items():
            type_ = table.type
            if self.mode != "overwrite" and isinstance(type_, NodeType) and can_have_legacy_ids(type_):
                refuse_legacy_ids(type_, snapshot.table(key))

    def _mode_of(self, table: IncomingRows) -> IncomingMode:
        return (
            IncomingMode.FRESH if table.has_generated_ids and self.mode != "overwrite" else _INCOMING_MODES[self.mode]
        )

    def _reject_violating(self, snapshot: Snapshot) -> tuple[Mapping[str, _RejectedIds], frozenset[str]]:
        """Return the ids that break set rules, and the tables that were read to know.

        Rejecting one row may make others invalid, so the rules run until nothing more is rejected.
        """
        rejected_ids = {key: _RejectedIds(table) for key, table in self.tables.items()}
        reads: frozenset[str] = frozenset()
        while True:
            result = self.engine.check(self.catalog, snapshot, self._without_rejected(rejected_ids), self._limit)
            reads |= result.reads
            if not result.violations:
                return rejected_ids, reads
            if self.quarantine is None:
                raise self._build_error(result.violations, result.counts)
            known = sum(len(each.ids) for each in rejected_ids.values())
            handled = set[int]().union(*(each.add(result.violations) for each in rejected_ids.values()))
            unhandled = [each for at, each in enumerate(result.violations) if at not in handled]
            if unhandled or known == sum(len(each.ids) for each in rejected_ids.values()):
                raise self._build_error(unhandled or result.violations, {})

    def find_set_violations(self, snapshot: Snapshot, known: Sequence[Violation]) -> list[Violation]:
        """Return the violations of set rules among the accepted rows, except those that follow from ``known`` ones."""
        missing = {each.id for each in known if each.id is not None}
        incoming = self._without_rejected({key: _RejectedIds(rows) for key, rows in self.tables.items()})
        limit = None if self.check_only else _MAX_FURTHER_VIOLATIONS
        result = self.engine.check(self.catalog, snapshot, incoming, limit)
        found = (each for each in result.violations if each.property not in PUBLIC_NAMES or each.value not in missing)
        return [_add_position(each, positions) for each, positions in self._locate(list(islice(found, self._limit)))]

    def _build_error(self, violations: Sequence[Violation], counts: ViolationCounts) -> ValidationError:
        found = self._locate(violations)
        exist = all(len(at) == 1 and _is_id_conflict(self.tables.values(), violation) for violation, at in found)
        placed = [_add_position(violation, positions) for violation, positions in found]
        kind = KeyConflict if exist else ValidationError
        more = self._limit is not None and len(placed) >= self._limit
        return build_load_error(placed, kind, more=more, counts=counts)

    def _locate(self, violations: Sequence[Violation]) -> list[tuple[Violation, list[RecordPosition]]]:
        """Return each violation with the positions of its records; several if its id came in several times."""
        by_table = [_locate_rows(rows, violations) for rows in self.tables.values()]
        return [
            (each, [position for found in by_table for position in found.get((each.type, each.id), [])])
            for each in violations
        ]

    @property
    def _limit(self) -> int | None:
        return None if self.check_only or self.quarantine is not None else MAX_VIOLATIONS

    def _without_rejected(self, rejected_ids: Mapping[str, _RejectedIds]) -> list[IncomingTable]:
        return [IncomingTable(rows, self._mode_of(rows), rejected_ids[key].ids) for key, rows in self.tables.items()]

    def _deliver_rejects(self, counts: Mapping[str, int], rejected_ids: Mapping[str, _RejectedIds]) -> LoadOutcome:
        if self.quarantine is None:
            return LoadOutcome(counts)
        rejected = self.quarantine.count + sum(each.count for each in rejected_ids.values())
        if self.check_only or not rejected:
            return LoadOutcome(counts, rejected)
        path = self.quarantine.deliver(record for each in rejected_ids.values() for record in each.to_records())
        return LoadOutcome(counts, rejected, path)


# --------------------------------------------------------------------------------------------- rejected ids


class _RejectedIds:
    """The ids of one table whose incoming rows are rejected. All rows of an id are rejected together."""

    def __init__(self, rows: IncomingRows) -> None:
        self._rows = rows
        self._reasons: dict[str, list[Violation]] = {}
        self._counts: Counter[str] = Counter()

    @property
    def ids(self) -> Values:
        """The rejected ids."""
        return cast("Values", pa.array(list(self._reasons), pa.string()))

    @property
    def count(self) -> int:
        """How many rows have a rejected id."""
        return self._counts.total()

    def add(self, violations: Sequence[Violation]) -> set[int]:
        """Reject the rows involved in violations. Return the indexes of the violations that involve such rows."""
        own = {at: each for at, each in enumerate(violations) if each.type == self._rows.type.name}
        required = {id_ for each in own.values() for id_ in each.ids}.difference(self._counts)
        for _, found in _find_incoming(self._rows, required, ["id"]):
            self._counts.update(_to_texts(found, "id"))
        handled: set[int] = set()
        for at, violation in own.items():
            for id_ in sorted(self._counts.keys() & set(violation.ids)):
                self._reasons.setdefault(id_, []).append(violation)
                handled.add(at)
        return handled

    def to_records(self) -> Iterator[RejectedRecord]:
        """Yield each rejected row as a record with its violations."""
        with_id = not self._rows.has_generated_ids and getattr(self._rows.type, "key", None) is None
        for numbers, found in _find_incoming(self._rows, self._reasons, None):
            texts = format_records(self._rows.type, found, with_id=with_id)
            positions = self._rows.positions.find(numbers)
            for text, id_, (file, line) in zip(texts, _to_texts(found, "id"), positions, strict=True):
                reasons = (replace(each, id=id_, file=file, line=line) for each in self._reasons[id_])
                yield RejectedRecord(text, tuple(reasons))


def _find_incoming(
    rows: IncomingRows, ids: Iterable[str], columns: Sequence[str] | None
) -> Iterator[tuple[RowNumbers, pa.Table]]:
    """Find the incoming rows of some ids, with their row numbers."""
    required = cast("Values", pa.array(sorted(ids), pa.string()))
    return rows.storage.find_rows(required, columns) if len(required) and rows.count else iter(())


def _locate_rows(
    rows: IncomingRows, violations: Iterable[Violation]
) -> Mapping[tuple[str, str | None], list[RecordPosition]]:
    """Find the positions of the records of one table that violations name, by type and id."""
    ids = {each.id for each in violations if each.id is not None and each.type == rows.type.name}
    positions: dict[tuple[str, str | None], list[RecordPosition]] = {}
    for numbers, found in _find_incoming(rows, ids, ["id"]):
        for id_, position in zip(_to_texts(found, "id"), rows.positions.find(numbers), strict=True):
            positions.setdefault((rows.type.name, id_), []).append(position)
    return positions


def _add_position(violation: Violation, found: Sequence[RecordPosition]) -> Violation:
    """Add the file and line of the record to a violation; name the other records that have the same id."""
    if not found:
        return violation
    file, line = found[-1]
    before = ", ".join(f"{name or 'record'}{'' if number is None else f':{number}'}" for name, number in found[:-1])
    message = f"{violation.message}, first in {before}" if before else violation.message
    return replace(violation, file=file, line=line, message=message)


def _is_id_conflict(incoming: Iterable[IncomingRows], violation: Violation) -> bool:
    """Whether a violation says that an id exists already, or comes in twice."""
    keys = {format_key(rows.type) for rows in incoming if rows.type.name == violation.type}
    return violation.rule in keys and len(set(violation.ids)) == 1


def _to_texts(rows: pa.Table, column: str) -> list[str]:
    return cast("list[str]", to_list(column_of(rows, column)))


# --------------------------------------------------------------------------------------------- on this machine


def _to_row_changes(catalog: Catalog, incoming: IncomingTable) -> RowChanges:
    columns = incoming.rows.storage.read_columns(list_rule_columns(catalog, incoming.table_key), incoming.excluded_ids)
    return RowChanges(incoming.table_key, columns, mode=incoming.mode)


def stage_rows(table: Table, incoming: IncomingTable) -> StagedChange | None:
    """Stage incoming rows on a pinned table.

    A retry on another pin reuses the fragments and looks up again which rows they replace.
    """
    rows, excluded_ids = incoming.rows, incoming.excluded_ids
    if incoming.mode is IncomingMode.OVERWRITE:
        fragments = rows.write_new_rows(table, "overwrite", excluded_ids)
        return tables.overwrite_fragments(table, arrow_schema(rows.type), fragments)
    fragments = rows.write_new_rows(table, "append", excluded_ids)
    is_upsert = incoming.mode is IncomingMode.UPSERT
    replaced = _find_replaced(table, rows, excluded_ids) if is_upsert else np.zeros(0, np.uint64)
    if len(replaced):
        return tables.replace_by_fragments(table, replaced, fragments)
    return tables.append_fragments(table, fragments)


def _find_replaced(table: Table, rows: IncomingRows, excluded_ids: Values) -> Addresses:
    """Return the addresses of the existing rows that have the id of an incoming row."""
    if not table.count_rows():
        return np.zeros(0, np.uint64)
    return find_addresses(table, rows.storage.read_columns(["id"], excluded_ids))

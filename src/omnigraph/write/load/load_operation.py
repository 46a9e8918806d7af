"""A load as a write operation: check incoming rows against a snapshot, and stage them table by table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import islice
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.errors import Json, ParameterError, Violation
from omnigraph.language.schema import Catalog, NodeType, TableKey, split_by_kind
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import column_of
from omnigraph.storage.tables import Addresses, StagedChange, Table, find_addresses
from omnigraph.violation_groups import MAX_PLACES, ViolationCounts, ViolationGroup, count_violations
from omnigraph.write.commit import PreparedWrite, TableChange, WriterKind
from omnigraph.write.load.matching import (
    MATCHING_MODES,
    LoadMode,
    RowIdentity,
    UpdatedRows,
    choose_identity,
    complete_rows,
    match_stored_rows,
    stage_column_update,
)
from omnigraph.write.load.rows import (
    MAX_VIOLATIONS,
    NO_IDS,
    NO_TYPE,
    IncomingRows,
    IncomingTable,
    RejectDelivery,
    RejectedPart,
    RejectedRecord,
    RejectedRows,
    RowAdmission,
    StagedRows,
    UnmatchedRecords,
    build_load_error,
)
from omnigraph.write.row_values import can_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.rules import (
    IncomingMode,
    NodeIds,
    PreparedRows,
    RowChanges,
    RowLocations,
    RuleCheckResult,
    check_changes,
    is_independent,
    list_rule_columns,
)

_INCOMING_MODES: Final[Mapping[LoadMode, IncomingMode]] = {
    "append": IncomingMode.INSERT,
    "merge": IncomingMode.UPSERT,
    "update": IncomingMode.UPSERT,
    "overwrite": IncomingMode.OVERWRITE,
}


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """What became of the records of one type. Each record that was read counts once."""

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    rejected: int = 0
    skipped: int = 0
    """Records that were neither loaded nor rejected."""

    @property
    def read(self) -> int:
        """The number of records that were read."""
        return self.accepted + self.rejected + self.skipped

    @property
    def accepted(self) -> int:
        """The number of records that the graph has now, whether it had them before or not."""
        return self.inserted + self.updated + self.unchanged

    def to_json(self) -> dict[str, Json]:
        """Return the counts of the JSON interface."""
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "rejected": self.rejected,
            "skipped": self.skipped,
        }

    def __add__(self, other: RecordCounts) -> RecordCounts:
        return RecordCounts(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.rejected + other.rejected,
            self.skipped + other.skipped,
        )


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The outcome of a load on a snapshot: what became of the records, by table key, and where rejected ones are.

    Rejected records of no known type are counted as :data:`NO_TYPE`.
    """

    counts: Mapping[str, RecordCounts]
    rejects_path: str | None = None

    @property
    def rows(self) -> Mapping[str, int]:
        """The number of accepted records by table key."""
        return {key: each.accepted for key, each in self.counts.items() if key != NO_TYPE}

    @property
    def changed(self) -> int:
        """The number of records that the graph did not have already."""
        return sum(each.inserted + each.updated for each in self.counts.values())


class LoadEngine(Protocol):
    """Does the work that touches every row of a load: in this process, or on Spark's executors."""

    def check(
        self,
        catalog: Catalog,
        snapshot: Snapshot,
        incoming: Sequence[IncomingTable],
        limit: int | None,
        rejected: NodeIds,
    ) -> RuleCheckResult:
        """Run the set rules that the incoming rows could break. Return at most ``limit`` violations, and count all.

        Edges that end at a ``rejected`` node are not reported.
        """
        ...

    def reject(
        self, catalog: Catalog, snapshot: Snapshot, admission: RowAdmission
    ) -> tuple[Mapping[str, RejectedRows], frozenset[str]]:
        """Return the rows that break set rules, see :meth:`RowAdmission.reject_violating`."""
        ...

    def match(self, table: Table, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
        """Find the stored rows of incoming ones, see :func:`match_stored_rows`."""
        ...

    def complete(self, table: Table | None, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
        """Complete the partial rows of an update, see :func:`complete_rows`."""
        ...

    def stage(self, table: Table, incoming: IncomingTable) -> StagedChange | None:
        """Stage the rows on a pinned table. A retry on another pin looks up the replaced rows again."""
        ...

    def list_row_changes(self, catalog: Catalog, incoming: Sequence[IncomingTable]) -> tuple[RowChanges, ...] | None:
        """Return the rows as the rules check them; None if they are not on this machine."""
        ...


class LocalLoadEngine:
    """Does everything in this process."""

    def check(
        self,
        catalog: Catalog,
        snapshot: Snapshot,
        incoming: Sequence[IncomingTable],
        limit: int | None,
        rejected: NodeIds,
    ) -> RuleCheckResult:
        """Run the set rules on this machine."""
        changes = (_to_row_changes(catalog, each) for each in incoming if _can_break_rules(catalog, each))
        counts = None if limit is None else ViolationCounts()
        return check_changes(catalog, snapshot, changes, limit, counts=counts, rejected=rejected)

    def reject(
        self,
        catalog: Catalog,  # noqa: ARG002  the admission has it
        snapshot: Snapshot,  # noqa: ARG002  the admission has it
        admission: RowAdmission,
    ) -> tuple[Mapping[str, RejectedRows], frozenset[str]]:
        """Find the rows on this machine."""
        return admission.reject_violating()

    def match(self, table: Table, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
        """Find the stored rows on this machine."""
        return match_stored_rows(table, rows, identity)

    def complete(self, table: Table | None, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
        """Complete the rows on this machine."""
        return complete_rows(table, rows, identity)

    def stage(self, table: Table, incoming: IncomingTable) -> StagedChange | None:
        """Stage the rows on this machine."""
        return stage_rows(table, incoming)

    def list_row_changes(self, catalog: Catalog, incoming: Sequence[IncomingTable]) -> tuple[RowChanges, ...] | None:
        """Return the rows of all tables."""
        return tuple(_to_row_changes(catalog, each) for each in incoming)


LOCAL_LOAD_ENGINE: Final = LocalLoadEngine()


@dataclass(frozen=True, slots=True)
class UnmatchedPart:
    """The rows of an update whose stored rows were not found; at most ``limit`` of them are yielded."""

    incoming: IncomingRows
    unmatched: UnmatchedRecords
    limit: int | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.unmatched.count

    def to_records(self) -> Iterator[RejectedRecord]:
        """Yield each row as a rejected record."""
        return self.unmatched.to_records(self.incoming, self.limit)


@dataclass(frozen=True, slots=True)
class LoadOperation:
    """A load as a write operation. Rows that break a rule go to the quarantine; without one, they fail the load.

    ``check_only`` reports every violation and delivers nothing to the quarantine. ``keeps_txn`` makes a commit even if
    there are no rows, so that a retry with the same ``txn`` finds it. ``identity`` has the columns that the load names,
    by table key. Without ``allow_empty`` an overwrite is refused if it would leave a table without rows.
    """

    catalog: Catalog
    tables: Mapping[str, IncomingRows]
    mode: LoadMode
    quarantine: RejectDelivery | None = None
    check_only: bool = False
    engine: LoadEngine = LOCAL_LOAD_ENGINE
    keeps_txn: bool = False
    identity: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    kind: WriterKind = WriterKind.LOAD
    allow_empty: bool = False

    @property
    def strict(self) -> bool:
        """Whether the rows of the snapshot must not have changed: an overwrite replaces them without reading them."""
        return self.mode == "overwrite"

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[LoadOutcome]:
        """Find the rows that change, run the set rules, and return the changes that stage the accepted rows."""
        self._refuse_legacy_ids(snapshot)
        tables = self._match_stored(snapshot)
        admission = self._check_rules(snapshot, tables)
        if self.quarantine is None:
            self._refuse_unmatched(tables, admission)
        rejected, reads = self.engine.reject(self.catalog, snapshot, admission)
        accepted = admission.list_accepted(rejected)
        changes = tuple(
            TableChange(each.table_key, partial(self._stage, each), each.rows.is_large)
            for each in accepted
            if each.rows.count > rejected[each.table_key].count or self.mode == "overwrite"
        )
        counts = {key: self._count_records(snapshot, rows, rejected[key]) for key, rows in tables.items()}
        if self.mode == "overwrite" and not self.allow_empty:
            _refuse_emptying(counts, self.quarantine)
        outcome = self._deliver_rejects(LoadOutcome(counts), rejected, tables)
        nodes, edges = (sum(each.values()) for each in split_by_kind(outcome.rows))
        prepared = PreparedWrite(
            changes,
            reads | self._list_matched(snapshot),
            outcome,
            force_commit=self.keeps_txn,
            affected=(nodes, edges),
        )
        # A rejected row may be valid on a newer snapshot.
        if any(each.count for each in rejected.values()) or self._list_unmatched(tables, 1):
            return prepared
        return replace(prepared, carry_over=partial(self._carry_over, prepared, accepted))

    def _carry_over(
        self, prepared: PreparedWrite[LoadOutcome], accepted: Sequence[IncomingTable], before: Snapshot, after: Snapshot
    ) -> PreparedWrite[LoadOutcome] | None:
        """Return the prepared load if it is still valid on a newer snapshot, judged by the rows that changed."""
        changes = self.engine.list_row_changes(self.catalog, accepted)
        if changes is None:
            return None
        matching = {key: rows for key, rows in self.tables.items() if rows.given and self.mode in MATCHING_MODES}
        # Rows of an update, and rows without an id of their own, were found by other columns.
        by_columns = frozenset(key for key, rows in matching.items() if self.mode == "update" or rows.generated.count)
        ids = {
            key: column_of(rows.storage.read_columns(["id"], NO_IDS), "id")
            for key, rows in matching.items()
            if key not in by_columns
        }
        rows = PreparedRows(changes, ids, by_columns)
        return prepared if is_independent(self.catalog, rows, before, after) else None

    def find_set_violations(
        self, snapshot: Snapshot, rejected: NodeIds
    ) -> tuple[list[Violation], list[ViolationGroup]]:
        """Return the violations of set rules among the accepted rows, except edges that end at a ``rejected`` node."""
        tables = self._match_stored(snapshot)
        unmatched, groups = self._find_unmatched(tables)
        unknown = count_violations(unmatched).ids
        nodes = {key: rejected.get(key, frozenset()) | unknown.get(key, frozenset()) for key in {**rejected, **unknown}}
        found, others = self._check_rules(snapshot, tables).find_violations(nodes)
        return [*unmatched, *found], [*groups, *others]

    def _match_stored(self, snapshot: Snapshot) -> Mapping[str, IncomingRows]:
        """Return the rows of each table that the graph does not have already, whole."""
        if self.mode not in MATCHING_MODES:
            return self.tables
        found: dict[str, IncomingRows] = {}
        for key, rows in self.tables.items():
            chosen = choose_identity(rows.type, self.identity.get(key)) if rows.generated.count else None
            has_rows = key in snapshot.pins and snapshot.pins[key].row_count
            table = snapshot.table(key) if has_rows else None
            if not rows.count:
                found[key] = rows
            elif self.mode == "update":
                found[key] = self.engine.complete(table, rows, chosen and chosen.for_update)
            else:
                found[key] = rows if table is None else self.engine.match(table, rows, chosen)
        return found

    def _find_unmatched(self, tables: Mapping[str, IncomingRows]) -> tuple[list[Violation], list[ViolationGroup]]:
        """Return the violations of records whose stored rows were not found, and their groups."""
        limit = None if self.check_only else MAX_VIOLATIONS
        violations: list[Violation] = []
        groups: list[ViolationGroup] = []
        for part in self._list_unmatched(tables, limit):
            found = [each for record in islice(part.to_records(), limit) for each in record.violations]
            violations += found
            groups += _group_unmatched(found, part.count)
        return violations[:limit], groups

    def _list_unmatched(self, tables: Mapping[str, IncomingRows], limit: int | None) -> list[UnmatchedPart]:
        return [
            UnmatchedPart(self.tables[key], rows.unmatched, limit)
            for key, rows in tables.items()
            if rows.unmatched is not None
        ]

    def _refuse_unmatched(self, tables: Mapping[str, IncomingRows], admission: RowAdmission) -> None:
        """Raise an error if the stored rows of records were not found, with what else is wrong."""
        unmatched, groups = self._find_unmatched(tables)
        if not unmatched:
            return
        found, others = admission.find_violations(count_violations(unmatched).ids)
        limit = None if self.check_only else MAX_VIOLATIONS
        raise build_load_error([*unmatched, *found][:limit], [*groups, *others])

    def _list_matched(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the tables that were read to match rows. One without rows counts: others may insert them meanwhile."""
        if self.mode not in MATCHING_MODES:
            return frozenset()
        return frozenset(key for key, rows in self.tables.items() if rows.count and key in snapshot.pins)

    def _check_rules(self, snapshot: Snapshot, tables: Mapping[str, IncomingRows]) -> RowAdmission:
        incoming = {key: IncomingTable(rows, self._mode_of(rows), NO_IDS) for key, rows in tables.items()}
        check = partial(self.engine.check, self.catalog, snapshot)
        return RowAdmission(incoming, check, self.check_only, self.quarantine is not None)

    def _stage(self, incoming: IncomingTable, table: Table) -> StagedChange | None:
        return self.engine.stage(table, incoming)

    def _refuse_legacy_ids(self, snapshot: Snapshot) -> None:
        for key, table in self.tables.items():
            type_ = table.type
            if self.mode != "overwrite" and isinstance(type_, NodeType) and can_have_legacy_ids(type_):
                refuse_legacy_ids(type_, snapshot.table(key))

    def _count_records(self, snapshot: Snapshot, rows: IncomingRows, rejected: RejectedRows) -> RecordCounts:
        """Return what becomes of the rows of one type. Those that were rejected before are not among them."""
        written = rows.count - rejected.count
        updated = written if self.mode == "update" else rows.replaced
        if rows.replaced and rejected.count:
            updated -= len(find_addresses(snapshot.table(rows.type.table_key), pa.table({"id": rejected.ids})))
        return RecordCounts(
            inserted=written - updated,
            updated=updated,
            unchanged=rows.unchanged_count,
            rejected=rejected.count + rows.unmatched_count,
        )

    def _mode_of(self, table: IncomingRows) -> IncomingMode:
        return (
            IncomingMode.FRESH if table.has_generated_ids and self.mode != "overwrite" else _INCOMING_MODES[self.mode]
        )

    def _deliver_rejects(
        self, outcome: LoadOutcome, broken: Mapping[str, RejectedRows], tables: Mapping[str, IncomingRows]
    ) -> LoadOutcome:
        if self.quarantine is None:
            return outcome
        counts = dict(outcome.counts)
        for key, count in self.quarantine.counts.items():
            counts[key] = counts.get(key, RecordCounts()) + RecordCounts(rejected=count)
        outcome = replace(outcome, counts=counts)
        if self.check_only or not any(each.rejected for each in counts.values()):
            return outcome
        parts: list[RejectedPart] = [*self._list_unmatched(tables, None), *broken.values()]
        path = self.quarantine.deliver(parts)
        return replace(outcome, rejects_path=path)


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """A load that was prepared on the point where its branch begins, and is committed to that branch.

    While the branch has the same table versions and is read with the same schema, rows are not checked again.
    """

    operation: LoadOperation
    basis: Snapshot
    result: PreparedWrite[LoadOutcome]

    @property
    def kind(self) -> WriterKind:
        """What writes."""
        return self.operation.kind

    @property
    def strict(self) -> bool:
        """Whether the rows of the snapshot must not have changed."""
        return self.operation.strict

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[LoadOutcome]:
        """Return what was prepared, or prepare it again on another snapshot."""
        known, now = ((each.pins, each.schema_ir_hash, each.lag) for each in (self.basis, snapshot))
        return self.result if known == now else self.operation.prepare(snapshot)


def _group_unmatched(violations: Sequence[Violation], count: int) -> Sequence[ViolationGroup]:
    """Return the groups of records of one type without a stored row. Of very many only some were looked at."""
    if len(violations) == count:
        return count_violations(violations).to_groups()
    first = violations[0]
    message = f"{first.message}, and other values"
    places = tuple(violations[:MAX_PLACES])
    return [ViolationGroup(first.type, first.rule, None, None, message, count, places, first.table_key)]


def _refuse_emptying(counts: Mapping[str, RecordCounts], quarantine: RejectDelivery | None) -> None:
    """Raise an error if an overwrite would leave a table without rows, or if it read nothing at all."""
    empty = [TableKey(key).type_name for key, each in counts.items() if not each.accepted]
    if counts and not empty:
        return
    rejected = sum(each.rejected for each in counts.values())
    rejected += 0 if quarantine is None else sum(quarantine.counts.values())
    names = f" of {', '.join(empty)}" if empty else ""
    reason = f"; {rejected} record{'' if rejected == 1 else 's'} would be rejected" if rejected else ""
    hint = "allow_empty=True removes all rows"
    if rejected:
        hint = f'on_error="fail" reports what is wrong with the records; {hint}'
    raise ParameterError(f"the overwrite has no rows{names}{reason}", hint=hint)


# --------------------------------------------------------------------------------------------- on this machine


def _can_break_rules(catalog: Catalog, incoming: IncomingTable) -> bool:
    """Whether a set rule reads what the rows change. To the rules, a table with other changes is as it was."""
    changed = incoming.rows.changed_columns
    return changed is None or not changed.isdisjoint(list_rule_columns(catalog, incoming.table_key))


def _to_row_changes(catalog: Catalog, incoming: IncomingTable) -> RowChanges:
    names, rows = list_rule_columns(catalog, incoming.table_key), incoming.rows
    if isinstance(rows.storage, StagedRows) and not len(incoming.excluded_ids):
        return RowChanges(incoming.table_key, _StagedColumns(rows.storage, rows.count, names), mode=incoming.mode)
    columns = rows.storage.read_columns(names, incoming.excluded_ids)
    return RowChanges(incoming.table_key, columns, mode=incoming.mode)


@dataclass(frozen=True, slots=True)
class _StagedColumns:
    """The columns of staged rows that set rules read. Only a rule that no proof settles needs all of them."""

    storage: StagedRows
    num_rows: int
    names: tuple[str, ...]

    def select(self, columns: list[str]) -> pa.Table:
        """Return some columns of all rows, in a local file."""
        return self.storage.read_columns(self.names, NO_IDS).select(columns)

    def iterate(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield some columns of all rows, as they are read."""
        return self.storage.iterate_columns(columns)


def stage_rows(table: Table, incoming: IncomingTable) -> StagedChange | None:
    """Stage incoming rows on a pinned table.

    A retry on another pin reuses the fragments and looks up again which rows they replace.
    """
    rows, excluded_ids = incoming.rows, incoming.excluded_ids
    if incoming.mode is IncomingMode.OVERWRITE:
        fragments = rows.write_new_rows(table, "overwrite", excluded_ids)
        return tables.overwrite_fragments(table, arrow_schema(rows.type), fragments)
    if isinstance(rows.storage, UpdatedRows) and not len(excluded_ids):
        by_columns = stage_column_update(table, rows.storage)
        if by_columns is not None:
            return by_columns
    fragments = rows.write_new_rows(table, "append", excluded_ids)
    is_upsert = incoming.mode is IncomingMode.UPSERT
    replaced = _find_replaced(table, incoming) if is_upsert else np.zeros(0, np.uint64)
    if len(replaced):
        return tables.replace_by_fragments(table, replaced, fragments)
    return tables.append_fragments(table, fragments)


def _find_replaced(table: Table, incoming: IncomingTable) -> Addresses:
    """Return the addresses of the existing rows that have the id of an incoming row.

    They are looked up once. A write is staged again on a later version only if no other writer changed its rows, so
    the rows have the same addresses there, unless their files were rewritten.
    """
    if not table.count_rows():
        return np.zeros(0, np.uint64)
    known = incoming.replaced.locations
    addresses = None if known is None else known.find_in(table)
    if addresses is None:
        addresses = find_addresses(table, incoming.rows.storage.read_columns(["id"], incoming.excluded_ids))
    incoming.replaced.locations = RowLocations(table, addresses)
    return addresses

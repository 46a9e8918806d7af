"""A load as the commit path takes it: incoming rows, held against a snapshot, and staged table by table."""

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
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.storage.locating import addresses_of
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.storage.table import Addresses
from omnigraph.write.commit import PreparedWrite, TableChange, WriterKind
from omnigraph.write.legacy_ids import may_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.load.incoming_rows import IncomingRows
from omnigraph.write.load.positions import RecordPosition, RowNumbers
from omnigraph.write.load.quarantine import MOST_VIOLATIONS, RejectDelivery, build_load_error, format_records
from omnigraph.write.load.validation import RejectedRecord
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
_MOST_LOOKED_AT: Final = 10_000
"""Of what goes wrong with the other rows of a load that fails anyway, so much is looked at."""
_ARRIVALS: Final[Mapping[LoadMode, IncomingMode]] = {
    "append": IncomingMode.INSERT,
    "merge": IncomingMode.UPSERT,
    "overwrite": IncomingMode.OVERWRITE,
}


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What a load does on a snapshot: rows by table key, and what it turns away."""

    rows: Mapping[str, int]
    rejected: int = 0
    rejects_path: str | None = None


@dataclass(frozen=True, slots=True)
class IncomingTable:
    """The incoming rows of one table but those of some ids, and how they meet the rows that are there."""

    rows: IncomingRows
    arrival: IncomingMode
    excluded_ids: Values

    @property
    def table_key(self) -> str:
        """The table that they come to."""
        return self.rows.type.table_key


class LoadEngine(Protocol):
    """Who does the work on all rows of a load: this process, or the executors of Spark."""

    def check(
        self, catalog: Catalog, snapshot: Snapshot, coming: Sequence[IncomingTable], limit: int | None
    ) -> RuleCheckResult:
        """Run the set rules that these rows could break; at most ``limit`` violations are given."""
        ...

    def stage(self, table: Table, coming: IncomingTable) -> Staged | None:
        """Stage the rows on a pinned table. On another pin only which rows they replace is found anew."""
        ...


class LocalLoadEngine:
    """Everything is done in this process."""

    def check(
        self, catalog: Catalog, snapshot: Snapshot, coming: Sequence[IncomingTable], limit: int | None
    ) -> RuleCheckResult:
        return check_changes(catalog, snapshot, (_image(catalog, each) for each in coming), limit)

    def stage(self, table: Table, coming: IncomingTable) -> Staged | None:
        return stage_rows(table, coming)


LOCAL_LOAD_ENGINE: Final = LocalLoadEngine()


@dataclass(frozen=True, slots=True)
class LoadOperation:
    """The work of one load. With a quarantine, what breaks a rule goes there; else it fails the load.

    A ``trial`` finds everything that is wrong, and delivers nothing.
    """

    catalog: Catalog
    tables: Mapping[str, IncomingRows]
    mode: LoadMode
    quarantine: RejectDelivery | None = None
    check_only: bool = False
    engine: LoadEngine = LOCAL_LOAD_ENGINE
    kind: WriterKind = WriterKind.LOAD

    @property
    def strict(self) -> bool:
        """Rows that are replaced unseen must be the ones that were there."""
        return self.mode == "overwrite"

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[LoadOutcome]:
        """Run the set rules; what is left of the rows will be staged."""
        self._refuse_legacy_ids(snapshot)
        away, reads = self._turned_away(snapshot)
        changes = tuple(
            TableChange(each.table_key, partial(self.engine.stage, coming=each), each.rows.is_large)
            for each in self._coming(away)
            if each.rows.count > away[each.table_key].count or self.mode == "overwrite"
        )
        counts = {key: rows.count - away[key].count for key, rows in self.tables.items()}
        return PreparedWrite(changes, reads, self._delivered(counts, away))

    def _refuse_legacy_ids(self, snapshot: Snapshot) -> None:
        for key, table in self.tables.items():
            type_ = table.type
            if self.mode != "overwrite" and isinstance(type_, NodeType) and may_have_legacy_ids(type_):
                refuse_legacy_ids(type_, snapshot.table(key))

    def _arrival(self, table: IncomingRows) -> IncomingMode:
        return IncomingMode.FRESH if table.fresh and self.mode != "overwrite" else _ARRIVALS[self.mode]

    def _turned_away(self, snapshot: Snapshot) -> tuple[Mapping[str, _RejectedIds], frozenset[str]]:
        """The rows that cannot stay, and the tables that were read to know. Turning one away may make others wrong."""
        away = {key: _RejectedIds(table) for key, table in self.tables.items()}
        reads: frozenset[str] = frozenset()
        while True:
            checked = self.engine.check(self.catalog, snapshot, self._coming(away), self._limit)
            reads |= checked.reads
            if not checked.violations:
                return away, reads
            if self.quarantine is None:
                raise self._error(checked.violations, checked.counts)
            known = sum(len(each.ids) for each in away.values())
            helped = set[int]().union(*(part.add(checked.violations) for part in away.values()))
            helpless = [each for at, each in enumerate(checked.violations) if at not in helped]
            if helpless or known == sum(len(each.ids) for each in away.values()):
                raise self._error(helpless or checked.violations, {})

    def find_set_violations(self, snapshot: Snapshot, known: Sequence[Violation]) -> list[Violation]:
        """What the rows that came this far break together, without what follows from what is known already."""
        missing = {each.id for each in known if each.id is not None}
        coming = self._coming({key: _RejectedIds(rows) for key, rows in self.tables.items()})
        checked = self.engine.check(self.catalog, snapshot, coming, None if self.check_only else _MOST_LOOKED_AT)
        found = (each for each in checked.violations if each.property not in PUBLIC_NAMES or each.value not in missing)
        return [_placed(each, places) for each, places in self._places(list(islice(found, self._limit)))]

    def _error(self, violations: Sequence[Violation], counts: ViolationCounts) -> ValidationError:
        found = self._places(violations)
        exist = all(len(places) == 1 and _is_of_id(self.tables.values(), violation) for violation, places in found)
        placed = [_placed(violation, places) for violation, places in found]
        kind = KeyConflict if exist else ValidationError
        more = self._limit is not None and len(placed) >= self._limit
        return build_load_error(placed, kind, more=more, counts=counts)

    def _places(self, violations: Sequence[Violation]) -> list[tuple[Violation, list[RecordPosition]]]:
        """Each violation with where its row stands; several places when its id came in several times."""
        found = [_places_of(rows, violations) for rows in self.tables.values()]
        return [
            (each, [place for places in found for place in places.get((each.type, each.id), [])]) for each in violations
        ]

    @property
    def _limit(self) -> int | None:
        return None if self.check_only or self.quarantine is not None else MOST_VIOLATIONS

    def _coming(self, away: Mapping[str, _RejectedIds]) -> list[IncomingTable]:
        return [IncomingTable(rows, self._arrival(rows), away[key].ids) for key, rows in self.tables.items()]

    def _delivered(self, counts: Mapping[str, int], away: Mapping[str, _RejectedIds]) -> LoadOutcome:
        if self.quarantine is None:
            return LoadOutcome(counts)
        rejected = self.quarantine.count + sum(each.count for each in away.values())
        if self.check_only or not rejected:
            return LoadOutcome(counts, rejected)
        path = self.quarantine.deliver(record for each in away.values() for record in each.records())
        return LoadOutcome(counts, rejected, path)


# --------------------------------------------------------------------------------------------- what breaks set rules


class _RejectedIds:
    """The incoming rows of one table that are turned away, by id: all rows of an id share its fate."""

    def __init__(self, rows: IncomingRows) -> None:
        self._rows = rows
        self._reasons: dict[str, list[Violation]] = {}
        self._counts: Counter[str] = Counter()

    @property
    def ids(self) -> Values:
        """Their ids."""
        return cast("Values", pa.array(list(self._reasons), pa.string()))

    @property
    def count(self) -> int:
        """How many rows they are."""
        return self._counts.total()

    def add(self, violations: Sequence[Violation]) -> set[int]:
        """Turn away the rows that have a part in violations; which violations those are, by their place in the list."""
        mine = {at: each for at, each in enumerate(violations) if each.type == self._rows.type.name}
        wanted = {id_ for each in mine.values() for id_ in each.ids}.difference(self._counts)
        for _, found in _found(self._rows, wanted, ["id"]):
            self._counts.update(_texts(found, "id"))
        helped: set[int] = set()
        for at, violation in mine.items():
            for id_ in sorted(self._counts.keys() & set(violation.ids)):
                self._reasons.setdefault(id_, []).append(violation)
                helped.add(at)
        return helped

    def records(self) -> Iterator[RejectedRecord]:
        """Each row with the reasons."""
        with_id = not self._rows.fresh and getattr(self._rows.type, "key", None) is None
        for numbers, found in _found(self._rows, self._reasons, None):
            texts = format_records(self._rows.type, found, with_id=with_id)
            for text, id_, place in zip(texts, _texts(found, "id"), self._rows.positions.find(numbers), strict=True):
                reasons = (replace(each, id=id_, file=place[0], line=place[1]) for each in self._reasons[id_])
                yield RejectedRecord(text, tuple(reasons))


def _found(
    rows: IncomingRows, ids: Iterable[str], columns: Sequence[str] | None
) -> Iterator[tuple[RowNumbers, pa.Table]]:
    """The incoming rows of some ids, with their numbers."""
    wanted = cast("Values", pa.array(sorted(ids), pa.string()))
    return rows.storage.find_rows(wanted, columns) if len(wanted) and rows.count else iter(())


def _places_of(
    rows: IncomingRows, violations: Iterable[Violation]
) -> Mapping[tuple[str, str | None], list[RecordPosition]]:
    """Where the rows of one table stand that violations are about, by type and id."""
    ids = {each.id for each in violations if each.id is not None and each.type == rows.type.name}
    places: dict[tuple[str, str | None], list[RecordPosition]] = {}
    for numbers, found in _found(rows, ids, ["id"]):
        for id_, place in zip(_texts(found, "id"), rows.positions.find(numbers), strict=True):
            places.setdefault((rows.type.name, id_), []).append(place)
    return places


def _placed(violation: Violation, found: Sequence[RecordPosition]) -> Violation:
    """A violation with the file and line of its record, and of the other records where several have one id."""
    if not found:
        return violation
    file, line = found[-1]
    before = ", ".join(f"{name or 'record'}{'' if number is None else f':{number}'}" for name, number in found[:-1])
    message = f"{violation.message}, first in {before}" if before else violation.message
    return replace(violation, file=file, line=line, message=message)


def _is_of_id(incoming: Iterable[IncomingRows], violation: Violation) -> bool:
    """Whether a violation is about an id that is there already, or comes twice."""
    keys = {format_key(rows.type) for rows in incoming if rows.type.name == violation.type}
    return violation.rule in keys and len(set(violation.ids)) == 1


def _texts(rows: pa.Table, column: str) -> list[str]:
    return cast("list[str]", to_list(column_of(rows, column)))


# --------------------------------------------------------------------------------------------- in this process


def _image(catalog: Catalog, coming: IncomingTable) -> RowChanges:
    columns = coming.rows.storage.read_columns(list_rule_columns(catalog, coming.table_key), coming.excluded_ids)
    return RowChanges(coming.table_key, columns, mode=coming.arrival)


def stage_rows(table: Table, coming: IncomingTable) -> Staged | None:
    """Stage incoming rows on a pinned table.

    On another pin only the fragments stay the same: which rows they replace is looked up there.
    """
    rows, arrival, without = coming.rows, coming.arrival, coming.excluded_ids
    if arrival is IncomingMode.OVERWRITE:
        fragments = rows.write_fragments(table, "overwrite", without)
        return tables.overwrite_fragments(table, arrow_schema(rows.type), fragments)
    fragments = rows.write_fragments(table, "append", without)
    replaced = _addresses(table, rows, without) if arrival is IncomingMode.UPSERT else np.zeros(0, np.uint64)
    if len(replaced):
        return tables.replace_by_fragments(table, replaced, fragments)
    return tables.append_fragments(table, fragments)


def _addresses(table: Table, rows: IncomingRows, without: Values) -> Addresses:
    """Where the rows lie that have the id of an incoming one."""
    if not table.count_rows():
        return np.zeros(0, np.uint64)
    return addresses_of(table, rows.storage.read_columns(["id"], without))

"""Admit incoming rows to the graph: run the set rules, and reject the rows that break one, or fail with all of them.

Violations are reported with the positions of their records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import KeyConflict, ValidationError, Violation
from omnigraph.language.schema import NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values, column_of, compute, to_list
from omnigraph.violation_groups import ViolationCounts, ViolationGroup, count_violations
from omnigraph.write.load.rows.incoming_rows import IncomingRows
from omnigraph.write.load.rows.partial_rows import Mask, mark_without
from omnigraph.write.load.rows.positions import RecordPosition, RowNumbers, RowPositions
from omnigraph.write.load.rows.quarantine import MAX_VIOLATIONS, RejectedPart, build_load_error, format_records
from omnigraph.write.load.rows.validation import RejectedRecord
from omnigraph.write.rules import MAX_NAMED_IDS, IncomingMode, NodeIds, RowLocations, RuleCheckResult, format_key

_MAX_NAMED_RECORDS: Final = 3
"""How many records a violation names that have the id of the last one."""
NO_IDS: Final = cast("Values", pa.array([], pa.string()))


@dataclass(slots=True)
class ReplacedRows:
    """Where the rows are that incoming ones replace, once they were looked up."""

    locations: RowLocations | None = None


@dataclass(frozen=True, slots=True)
class IncomingTable:
    """The incoming rows of one table without the excluded ids, and how they combine with the existing rows."""

    rows: IncomingRows
    mode: IncomingMode
    excluded_ids: Values
    replaced: ReplacedRows = field(init=False, default_factory=lambda: ReplacedRows(), repr=False, compare=False)

    @property
    def table_key(self) -> str:
        """The table the rows go to."""
        return self.rows.type.table_key


RuleCheck: TypeAlias = "Callable[[Sequence[IncomingTable], int | None, NodeIds], RuleCheckResult]"
"""Runs the set rules that incoming rows could break; returns at most so many violations, and counts all.

Edges that end at one of some rejected nodes are not reported.
"""


class RejectedRows(RejectedPart, Protocol):
    """The incoming rows of one table that break set rules. All rows of an id are rejected together."""

    @property
    def ids(self) -> Values:
        """The rejected ids."""
        ...


@dataclass(frozen=True, slots=True)
class RowAdmission:
    """Decides which incoming rows a load may write, by table key.

    ``is_check`` finds all violations. With ``rejects_rows`` the rows that break a rule are rejected, and the others
    are admitted; without it they fail the load.
    """

    tables: Mapping[str, IncomingTable]
    check: RuleCheck
    is_check: bool
    rejects_rows: bool

    def reject_violating(self) -> tuple[Mapping[str, RejectedRows], frozenset[str]]:
        """Return the rows that break set rules, and the tables that were read to know.

        Rejecting one row may make others invalid, so the rules run until nothing more is rejected.
        """
        rejected = {key: RejectedIds(each.rows) for key, each in self.tables.items()}
        reads: frozenset[str] = frozenset()
        while True:
            result = self.check(self.list_accepted(rejected), self._limit, {})
            reads |= result.reads
            if not result.violations:
                return rejected, reads
            if not self.rejects_rows:
                raise self.build_error(result.violations, result.counts)
            known = sum(len(each.ids) for each in rejected.values())
            handled = set[int]().union(*(each.add(result.violations) for each in rejected.values()))
            unhandled = [each for at, each in enumerate(result.violations) if at not in handled]
            if unhandled or known == sum(len(each.ids) for each in rejected.values()):
                raise self.build_error(unhandled or result.violations)

    def find_violations(self, rejected: NodeIds) -> tuple[list[Violation], tuple[ViolationGroup, ...]]:
        """Return the violations of set rules with their groups, except edges that end at a ``rejected`` node."""
        result = self.check(list(self.tables.values()), self._limit, rejected)
        found = [_add_position(each, records) for each, records in self._locate(result.violations)]
        return found, self._place_groups(result.counts or count_violations(result.violations))

    def list_accepted(self, rejected: Mapping[str, RejectedRows]) -> list[IncomingTable]:
        """Return the rows of all tables without the rejected ones."""
        return [replace(each, excluded_ids=rejected[key].ids) for key, each in self.tables.items()]

    def build_error(self, violations: Sequence[Violation], counts: ViolationCounts | None = None) -> ValidationError:
        """Build the error of a load that these violations fail, with the positions of their records."""
        found = self._locate(violations)
        incoming = [each.rows for each in self.tables.values()]
        exist = all(records.count == 1 and _is_id_conflict(incoming, violation) for violation, records in found)
        placed = [_add_position(violation, records) for violation, records in found]
        kind = KeyConflict if exist else ValidationError
        return build_load_error(placed, self._place_groups(counts or count_violations(violations)), kind)

    def _place_groups(self, counts: ViolationCounts) -> tuple[ViolationGroup, ...]:
        """Return the groups of violations, with the positions of their first records."""
        groups = counts.to_groups()
        found = self._locate([violation for group in groups for violation in group.first])
        records = {id(violation): each for violation, each in found}
        return tuple(group.rewrite(lambda each: _add_position(each, records[id(each)])) for group in groups)

    def _locate(self, violations: Sequence[Violation]) -> list[tuple[Violation, _RecordsOfId]]:
        """Return each violation with the positions of its records; several if its id came in several times."""
        located: dict[tuple[str | None, str | None], _RecordsOfId] = {}
        for each in self.tables.values():
            _locate_rows(each.rows, violations, located)
        return [(each, located.get((each.table_key, each.id), _NO_RECORDS)) for each in violations]

    @property
    def _limit(self) -> int | None:
        return None if self.is_check or self.rejects_rows else MAX_VIOLATIONS


# --------------------------------------------------------------------------------------------- rejected ids


class RejectedIds:
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
        own = {at: each for at, each in enumerate(violations) if each.table_key == self._rows.type.table_key}
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
        for each in find_records(self._rows, _to_sorted(self._reasons)):
            reasons = self._reasons[each.id]
            yield RejectedRecord(
                each.text, tuple(replace(reason, id=each.id, file=each.file, line=each.line) for reason in reasons)
            )


class FoundRecord(NamedTuple):
    """An incoming row as the record that would load it, and its position."""

    text: str
    id: str
    file: str | None
    line: int | None


def find_records(rows: IncomingRows, ids: Values) -> Iterator[FoundRecord]:
    """Find the incoming rows of some ids and format them as records."""
    for numbers, found in rows.storage.find_rows(ids, None) if len(ids) and rows.count else ():
        texts = format_records(rows.type, found, with_id=_mark_with_id(rows, found))
        positions = rows.positions.find(numbers)
        for text, id_, (file, line) in zip(texts, _to_texts(found, "id"), positions, strict=True):
            yield FoundRecord(text, id_, file, line)


def _mark_with_id(rows: IncomingRows, found: pa.Table) -> Mask:
    """Return which rows need their id in a record: those without a key, if it was not generated."""
    type_ = rows.type
    if not isinstance(type_, NodeType) or type_.key is None:
        return np.full(found.num_rows, not rows.generated.count)
    return mark_without(type_, type_.key, found)


def _find_incoming(
    rows: IncomingRows, ids: Iterable[str], columns: Sequence[str]
) -> Iterator[tuple[RowNumbers, pa.Table]]:
    """Find some columns of the incoming rows of some ids, with their row numbers."""
    required = _to_sorted(ids)
    return rows.storage.find_rows(required, columns) if len(required) and rows.count else iter(())


def _to_sorted(ids: Iterable[str]) -> Values:
    return cast("Values", pa.array(sorted(ids), pa.string()))


@dataclass(slots=True)
class _RecordsOfId:
    """The records that have one id: the positions of the first few and of the last, and how many there are."""

    first: list[RecordPosition] = field(default_factory=list[RecordPosition])
    last: RecordPosition | None = None
    count: int = 0

    def add(self, numbers: RowNumbers, positions: RowPositions) -> None:
        """Add records that follow the others."""
        self.first += positions.find(numbers[: _MAX_NAMED_RECORDS - len(self.first)])
        (self.last,) = positions.find(numbers[-1:])
        self.count += len(numbers)


_NO_RECORDS: Final = _RecordsOfId()


def _locate_rows(
    rows: IncomingRows, violations: Iterable[Violation], located: dict[tuple[str | None, str | None], _RecordsOfId]
) -> None:
    """Add the records of one table that violations name, by type and id."""
    ids = {each.id for each in violations if each.id is not None and each.table_key == rows.type.table_key}
    for numbers, found in _find_incoming(rows, ids, ["id"]):
        values = column_of(found, "id")
        names = values.unique()
        place_of = compute("index_in", values, options=pc.SetLookupOptions(names)).to_numpy()
        # Stable, so that the records of each id stay in order.
        order = np.argsort(place_of, kind="stable")
        starts = np.searchsorted(place_of[order], np.arange(1, len(names)))
        for id_, own in zip(cast("list[str]", to_list(names)), np.split(numbers[order], starts), strict=False):
            located.setdefault((rows.type.table_key, id_), _RecordsOfId()).add(own, rows.positions)


def _add_position(violation: Violation, found: _RecordsOfId) -> Violation:
    """Add the file and line of the record to a violation; name some of the other records that have the same id."""
    violation = replace(violation, ids=violation.ids[:MAX_NAMED_IDS])
    if found.last is None:
        return violation
    file, line = found.last
    named = found.first[: found.count - 1]
    before = ", ".join(f"{name or 'record'}{'' if number is None else f':{number}'}" for name, number in named)
    more = found.count - 1 - len(named)
    before += f" and {more} more" if more else ""
    message = f"{violation.message}, first in {before}" if before else violation.message
    return replace(violation, file=file, line=line, message=message)


def _is_id_conflict(incoming: Iterable[IncomingRows], violation: Violation) -> bool:
    """Whether a violation says that an id exists already, or comes in twice."""
    keys = {format_key(rows.type) for rows in incoming if rows.type.table_key == violation.table_key}
    return violation.rule in keys and len(set(violation.ids)) == 1


def _to_texts(rows: pa.Table, column: str) -> list[str]:
    return cast("list[str]", to_list(column_of(rows, column)))

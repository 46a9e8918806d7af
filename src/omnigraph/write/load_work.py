"""A load as the commit path takes it: spooled rows, held against a snapshot, and staged table by table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.dataset as datasets

from omnigraph.errors import KeyConflict, ValidationError, Violation
from omnigraph.language.schema.catalog import Catalog, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import table as tables
from omnigraph.storage.columns import Values, column_of, is_among, is_not_among, to_list
from omnigraph.storage.filters import AnyOf
from omnigraph.storage.pinned import ROW_ADDRESS, Table
from omnigraph.storage.staging import Staged
from omnigraph.storage.table import Addresses
from omnigraph.write.commit import Change, Prepared
from omnigraph.write.intake import ENDS, Rejected
from omnigraph.write.legacy_ids import may_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.quarantine import MOST_VIOLATIONS, Quarantine, record_texts, rejected_load
from omnigraph.write.rule_texts import key_text
from omnigraph.write.rules import Arrival, Image, check_changes, rule_columns
from omnigraph.write.sidecars import WriterKind
from omnigraph.write.spool import FILE, LINE, SpooledTable

Mode: TypeAlias = Literal["append", "merge", "overwrite"]
_Place: TypeAlias = "tuple[str | None, int]"
"""A file and a line of it."""

_ARRIVALS: Final[Mapping[Mode, Arrival]] = {
    "append": Arrival.INSERT,
    "merge": Arrival.UPSERT,
    "overwrite": Arrival.OVERWRITE,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load does on a snapshot: rows by table key, and what it turns away."""

    rows: Mapping[str, int]
    rejected: int = 0
    rejects_path: str | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """The work of one load. With a quarantine, what breaks a rule goes there; else it fails the load.

    A ``trial`` finds everything that is wrong, and delivers nothing.
    """

    catalog: Catalog
    tables: Mapping[str, SpooledTable]
    mode: Mode
    quarantine: Quarantine | None = None
    trial: bool = False
    kind: WriterKind = WriterKind.LOAD

    @property
    def strict(self) -> bool:
        """Rows that are replaced unseen must be the ones that were there."""
        return self.mode == "overwrite"

    def prepare(self, snapshot: Snapshot) -> Prepared[Loaded]:
        """Run the set rules; what is left of the rows will be staged."""
        self._refuse_legacy_ids(snapshot)
        away, reads = self._turned_away(snapshot)
        changes = tuple(
            Change(key, partial(stage_rows, rows=table, arrival=self._arrival(table), without=away[key].ids))
            for key, table in self.tables.items()
            if table.num_rows > away[key].count or self.mode == "overwrite"
        )
        counts = {key: table.num_rows - away[key].count for key, table in self.tables.items()}
        return Prepared(changes, reads, self._delivered(counts, away))

    def _refuse_legacy_ids(self, snapshot: Snapshot) -> None:
        for key, table in self.tables.items():
            type_ = table.type
            if self.mode != "overwrite" and isinstance(type_, NodeType) and may_have_legacy_ids(type_):
                refuse_legacy_ids(type_, snapshot.table(key))

    def _arrival(self, table: SpooledTable) -> Arrival:
        return Arrival.FRESH if table.fresh and self.mode != "overwrite" else _ARRIVALS[self.mode]

    def _turned_away(self, snapshot: Snapshot) -> tuple[Mapping[str, _Away], frozenset[str]]:
        """The rows that cannot stay, and the tables that were read to know. Turning one away may make others wrong."""
        away = {key: _Away(table) for key, table in self.tables.items()}
        reads: frozenset[str] = frozenset()
        while True:
            checked = check_changes(self.catalog, snapshot, self._images(away), self._limit)
            reads |= checked.reads
            if not checked.violations:
                return away, reads
            if self.quarantine is None:
                raise self._error(checked.violations)
            known = sum(len(each.ids) for each in away.values())
            helpless = [each for each in checked.violations if not sum([part.add(each) for part in away.values()])]
            if helpless or known == sum(len(each.ids) for each in away.values()):
                raise self._error(helpless or checked.violations)

    def also_wrong(self, snapshot: Snapshot, known: Sequence[Violation]) -> list[Violation]:
        """What the rows that came this far break together, without what follows from what is known already."""
        missing = {each.id for each in known if each.id is not None}
        checked = check_changes(
            self.catalog, snapshot, self._images({key: _Away(self.tables[key]) for key in self.tables})
        )
        found = (each for each in checked.violations if each.property not in ENDS or each.value not in missing)
        return [_placed(each, _places_of(self.tables.values(), each)) for each in islice(found, self._limit)]

    def _error(self, violations: Sequence[Violation]) -> ValidationError:
        found = [(violation, _places_of(self.tables.values(), violation)) for violation in violations]
        exist = all(len(places) == 1 and _is_of_id(self.tables.values(), violation) for violation, places in found)
        placed = [_placed(violation, places) for violation, places in found]
        kind = KeyConflict if exist else ValidationError
        return rejected_load(placed, kind, more=self._limit is not None and len(placed) >= self._limit)

    @property
    def _limit(self) -> int | None:
        return None if self.trial or self.quarantine is not None else MOST_VIOLATIONS

    def _images(self, away: Mapping[str, _Away]) -> Iterator[Image]:
        for key, table in self.tables.items():
            rows = table.rows().select(list(rule_columns(self.catalog, key)))
            yield Image(key, away[key].rest(rows), arrival=self._arrival(table))

    def _delivered(self, counts: Mapping[str, int], away: Mapping[str, _Away]) -> Loaded:
        if self.quarantine is None:
            return Loaded(counts)
        rejected = self.quarantine.count + sum(each.count for each in away.values())
        if self.trial or not rejected:
            return Loaded(counts, rejected)
        path = self.quarantine.deliver(record for each in away.values() for record in each.rejected())
        return Loaded(counts, rejected, path)


# --------------------------------------------------------------------------------------------- what breaks set rules


class _Away:
    """The spooled rows of one table that are turned away, by id: all rows of an id share its fate."""

    def __init__(self, table: SpooledTable) -> None:
        self.table = table
        self._reasons: dict[str, list[Violation]] = {}

    @property
    def ids(self) -> Values:
        """Their ids."""
        return cast("Values", pa.array(list(self._reasons), pa.string()))

    @property
    def count(self) -> int:
        """How many rows they are."""
        return self._rows().num_rows if self._reasons else 0

    def add(self, violation: Violation) -> int:
        """Turn away the rows that have a part in a violation; how many ids those are."""
        if violation.type != self.table.type.name:
            return 0
        found = _ids_in(self.table, violation.ids)
        for id_ in found:
            self._reasons.setdefault(id_, []).append(violation)
        return len(found)

    def rest(self, rows: pa.Table) -> pa.Table:
        """The rows that stay."""
        return rows.filter(is_not_among(column_of(rows, "id"), self.ids)) if self._reasons else rows

    def rejected(self) -> Iterator[Rejected]:
        """Each row with the reasons."""
        if not self._reasons:
            return
        rows = self._rows()
        with_id = not self.table.fresh and getattr(self.table.type, "key", None) is None
        texts = record_texts(self.table.type, rows, with_id=with_id)
        for text, id_, place in zip(texts, _texts(rows, "id"), _places(self.table, rows), strict=True):
            reasons = (replace(each, id=id_, file=place[0], line=place[1]) for each in self._reasons[id_])
            yield Rejected(text, tuple(reasons))

    def _rows(self) -> pa.Table:
        rows = self.table.rows()
        return rows.filter(is_among(column_of(rows, "id"), self.ids))


def _ids_in(table: SpooledTable, ids: Iterable[str]) -> list[str]:
    """Which of the ids a spooled table has."""
    wanted = cast("Values", pa.array(sorted(set(ids)), pa.string()))
    if not table.num_rows:
        return []
    found = is_among(wanted, column_of(table.rows(), "id"))
    return cast("list[str]", to_list(wanted.filter(found)))


def _places_of(spooled: Iterable[SpooledTable], violation: Violation) -> list[_Place]:
    """Where the row stands that a violation is about; several places when its id came in several times."""
    if violation.id is None:
        return []
    wanted = cast("Values", pa.array([violation.id], pa.string()))
    found: list[_Place] = []
    for table in spooled:
        if table.type.name == violation.type and table.num_rows:
            rows = table.rows().select(["id", FILE, LINE])
            found += _places(table, rows.filter(is_among(column_of(rows, "id"), wanted)))
    return found


def _placed(violation: Violation, found: Sequence[_Place]) -> Violation:
    """A violation with the file and line of its record, and of the other records where several have one id."""
    if not found:
        return violation
    file, line = found[-1]
    before = ", ".join(f"{name or 'record'}:{number}" for name, number in found[:-1])
    message = f"{violation.message}, first in {before}" if before else violation.message
    return replace(violation, file=file, line=line, message=message)


def _is_of_id(spooled: Iterable[SpooledTable], violation: Violation) -> bool:
    """Whether a violation is about an id that is there already, or comes twice."""
    keys = {key_text(table.type) for table in spooled if table.type.name == violation.type}
    return violation.rule in keys and len(set(violation.ids)) == 1


def _places(table: SpooledTable, rows: pa.Table) -> list[_Place]:
    files, lines = to_list(column_of(rows, FILE)), to_list(column_of(rows, LINE))
    return [(table.files[cast(int, file)], cast(int, line)) for file, line in zip(files, lines, strict=True)]


def _texts(rows: pa.Table, column: str) -> list[str]:
    return cast("list[str]", to_list(column_of(rows, column)))


# --------------------------------------------------------------------------------------------- staging


def stage_rows(table: Table, *, rows: SpooledTable, arrival: Arrival, without: Values) -> Staged | None:
    """Write spooled rows to a pinned table.

    On another pin it is all done again: which rows are replaced is looked up there.
    """
    incoming = rows.reader(without)
    if arrival is Arrival.OVERWRITE:
        return tables.overwrite(table, incoming)
    replaced = _addresses(table, rows, without) if arrival is Arrival.UPSERT else np.zeros(0, np.uint64)
    return tables.replace_rows(table, replaced, incoming) if len(replaced) else tables.append(table, incoming)


def _addresses(table: Table, rows: SpooledTable, without: Values) -> Addresses:
    """Where the rows lie that have the id of an incoming one."""
    ids = rows.rows().select(["id"])
    ids = ids.filter(is_not_among(column_of(ids, "id"), without)) if len(without) else ids
    listed = AnyOf(("id",), cast("pa.StringArray", column_of(ids, "id"))).sql() if ids.num_rows else "false"
    if listed is not None:
        found = table.scan(["id"], filter=listed, with_row_address=True).read_all()
    else:
        found = _semi_join(table.scan(["id"], with_row_address=True), ids)
    return found[ROW_ADDRESS].to_numpy()


def _semi_join(stream: pa.RecordBatchReader, ids: pa.Table) -> pa.Table:
    """The rows of a stream whose id is one of these; the stream is not kept."""
    scan = acero.Declaration(
        "scan",
        acero.ScanNodeOptions(datasets.InMemoryDataset(stream)),  # pyright: ignore  the stubs lack both
    )
    other = acero.Declaration("table_source", acero.TableSourceNodeOptions(ids))
    join = acero.HashJoinNodeOptions("left semi", ["id"], ["id"])
    return acero.Declaration("hashjoin", join, inputs=[scan, other]).to_table()

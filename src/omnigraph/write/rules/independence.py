"""Decide whether a checked write is still valid after other commits, from the rows that these commits changed.

The write and the other commits were checked on the same snapshot. If they share no row, and no rule relates a row of
the write to a row of the other commits, then the graph with both obeys all rules, and the write is not prepared again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import HistoryGone
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import ChangedRows, Op, compare_sides, find_changed_tables, find_table_candidates
from omnigraph.storage.columns import Values, column_of, is_among
from omnigraph.write.rules.changed_table import IncomingMode, RowChanges
from omnigraph.write.rules.set_rules import RuleKind, SetRule, list_rule_columns, list_set_rules

MAX_MOVED_ROWS: Final = 200_000
"""If other writers may have changed more rows of a table than this, counted before and after, the write is prepared
again. The rows that a compaction rewrote count too."""


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """The changes of a prepared write, and the ids of all rows that it depends on, by table key.

    ``matched`` are the tables whose stored rows it found by other columns than the id: any changed row may matter.
    """

    changes: tuple[RowChanges, ...]
    ids: Mapping[str, Values] = field(default_factory=dict[str, Values])
    matched: frozenset[str] = frozenset()


@dataclass(slots=True)
class _MovedRows:
    """The rows of one table that other writers changed: their ids, and the images in the columns that rules read."""

    ids: list[Values] = field(default_factory=list[Values])
    deleted: list[Values] = field(default_factory=list[Values])
    before: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    after: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    count: int = 0
    is_complete: bool = True
    """Whether all changed rows were read: not if there are too many."""

    def add(self, part: ChangedRows) -> None:
        """Add changed rows."""
        ids = column_of(part.rows, "id")
        self.ids.append(ids)
        self.count += part.num_rows
        if part.op is Op.DELETED:
            self.deleted.append(ids)
        self.before += [] if part.before is None else [part.before]
        self.after += [] if part.after is None else [part.after]

    def list_values(self, column: str) -> list[Values]:
        """Return the values of a column, before and after."""
        return [column_of(rows, column) for rows in (*self.before, *self.after)]


def is_independent(catalog: Catalog, prepared: PreparedRows, before: Snapshot, after: Snapshot) -> bool:
    """Whether changes that were prepared on one snapshot hold on a later one. False if that is not certain."""
    try:
        moved = {key: _read_moved(catalog, before, after, key) for key in find_changed_tables(before, after)}
    except HistoryGone:
        return False
    if not all(rows.is_complete for rows in moved.values()) or not prepared.matched.isdisjoint(moved):
        return False
    known = {key: [ids] for key, ids in prepared.ids.items()}
    if any(_share(known[key], moved[key].ids) for key in moved.keys() & known.keys()):
        return False
    return not any(_depends_on(catalog, change, moved) for change in prepared.changes)


def _read_moved(catalog: Catalog, before: Snapshot, after: Snapshot, key: str) -> _MovedRows:
    moved, candidates = _MovedRows(), find_table_candidates(before, after, key)
    sides = candidates.sides()
    if sum(side.num_rows for side in sides) > MAX_MOVED_ROWS:
        moved.is_complete = False
        return moved
    for parts in compare_sides(candidates.pair, *sides, list_rule_columns(catalog, key)):
        for part in parts:
            moved.add(part)
    return moved


def _depends_on(catalog: Catalog, change: RowChanges, moved: Mapping[str, _MovedRows]) -> bool:
    """Whether a changed table has rows that others changed too, or that a rule relates to such rows."""
    own = moved.get(change.table_key)
    if own is not None and _share([change.removed], own.ids):
        return True
    if own is not None and change.mode is not IncomingMode.FRESH and _share(_read(change, "id"), own.ids):
        return True
    rules = list_set_rules(catalog, change.table_key)
    return any(_is_related(rule, change, moved) for rule in rules) or _removes_ends(catalog, change, moved)


def _is_related(rule: SetRule, change: RowChanges, moved: Mapping[str, _MovedRows]) -> bool:
    """Whether a rule of the changed table relates one of its rows to a row that others changed."""
    own = moved.get(rule.table_key)
    match rule.kind:
        case RuleKind.ENDS:
            nodes = moved.get(TableKey.of_node(rule.end_type))
            return nodes is not None and _share(_read(change, rule.property), nodes.deleted)
        case RuleKind.CARDINALITY if own is not None and own.count:
            # A replaced or removed edge may have left another node, which needs a lookup.
            removes = bool(len(change.removed)) or change.mode is IncomingMode.UPSERT
            may_lack = rule.limits.minimum > 0 and removes
            return may_lack or _share(_read(change, rule.property), own.list_values(rule.property))
        case RuleKind.UNIQUE if own is not None:
            return _share(_encode(rule, _iterate(change, rule)), _encode(rule, own.after))
        case _:
            return False


def _removes_ends(catalog: Catalog, change: RowChanges, moved: Mapping[str, _MovedRows]) -> bool:
    """Whether nodes are removed that others gave an edge."""
    if not len(change.removed):
        return False
    for key in moved:
        type_: NodeType | EdgeType | None = catalog.find_type(key)
        for rule in list_set_rules(catalog, key) if isinstance(type_, EdgeType) else ():
            is_end = rule.kind is RuleKind.ENDS and TableKey.of_node(rule.end_type) == change.table_key
            ends = (column_of(rows, rule.property) for rows in moved[key].after)
            if is_end and _share([change.removed], list(ends)):
                return True
    return False


# --------------------------------------------------------------------------------------------- values


def _share(many: Iterable[Values], few: list[Values]) -> bool:
    """Whether a value is on both sides. Only ``few`` are kept in memory."""
    values = pa.concat_arrays([pa.array([], pa.string()), *few]).drop_null()
    return bool(len(values)) and any(is_among(part, cast("Values", values)).true_count for part in many)


def _read(change: RowChanges, column: str) -> Iterator[Values]:
    return (column_of(rows, column) for rows in _iterate_columns(change, [column]))


def _iterate(change: RowChanges, rule: SetRule) -> Iterator[pa.Table]:
    return _iterate_columns(change, list(rule.relations[0].physical_columns))


def _iterate_columns(change: RowChanges, columns: list[str]) -> Iterator[pa.Table]:
    incoming = change.incoming
    return iter([incoming.select(columns)]) if isinstance(incoming, pa.Table) else incoming.iterate(columns)


def _encode(rule: SetRule, rows: Iterable[pa.Table | pa.RecordBatch]) -> list[Values]:
    """Return the values that a rule compares, as strings."""
    relation = rule.relations[0]
    return [column_of(relation.encode(part), relation.join_column) for part in rows]

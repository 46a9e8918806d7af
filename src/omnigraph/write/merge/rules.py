"""Rules over what a merge gives: what both sides keep alone and break together becomes a conflict like any other.

The rules are those of mutations and loads. A broken rule is about one entity, and has a part in it that goes with it:
the node that an edge misses, the others that hold the value, all edges of the node that has too many. Whoever decides
for ours or theirs gets that whole part as the one or the other side has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import Conflict, Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.columns import Values, column_of, is_among, to_list, truths
from omnigraph.write.merge.conflict_images import build_images_by_id, read_images, read_stored_rows, shown_name
from omnigraph.write.merge.deltas import Choice, Choose, TableDelta, empty_delta, replace_values
from omnigraph.write.merge.three_way import ConflictKind
from omnigraph.write.mutation import PendingTable, StagingArea
from omnigraph.write.rules import (
    RuleCheckResult,
    RuleKind,
    SetRule,
    check_changes,
    check_rows,
    list_set_rules,
    type_of_table,
)

_KINDS: Final = {
    RuleKind.UNIQUE: ConflictKind.UNIQUE,
    RuleKind.ENDS: ConflictKind.ORPHAN_EDGE,
    RuleKind.CARDINALITY: ConflictKind.CARDINALITY,
}


@dataclass(frozen=True, slots=True)
class RuledMerge:
    """What came of the rules: the tables as they may be written, what is open, and the tables that were read."""

    deltas: Mapping[str, TableDelta]
    pending: Sequence[PendingTable]
    checked: RuleCheckResult
    open: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class MergeSnapshots:
    """The three sides of a merge, and the schema that it is checked by."""

    catalog: Catalog
    base: Snapshot
    ours: Snapshot
    theirs: Snapshot


@dataclass(frozen=True, slots=True)
class _RuleConflict:
    """A conflict, the table that it is about, and the ids that have a part in it, by table key."""

    conflict: Conflict
    type: NodeType | EdgeType
    parts: Mapping[str, frozenset[str]]


def apply_rules(sides: MergeSnapshots, deltas: Mapping[str, TableDelta], choose: Choose) -> RuledMerge:
    """Check the merged tables; what is broken is decided, as far as somebody does, and checked again."""
    tried: set[tuple[object, ...]] = set()
    reads: frozenset[str] = frozenset()
    while True:
        pending = list(_build_pending(sides.ours, deltas))
        checked = check_changes(sides.catalog, sides.ours, [table.to_image() for table in pending])
        reads |= checked.reads
        broken = _find_rule_conflicts(sides, deltas, pending, checked)
        # What was decided before and is still broken is not helped by deciding the same again.
        fresh = [each for each in broken if each.conflict.key not in tried]
        choices: list[tuple[_RuleConflict, Choice | None]] = [
            (each, choose(each.conflict, each.type)) for each in fresh
        ]
        if all(choice is None for _, choice in choices):
            return RuledMerge(deltas, pending, replace(checked, reads=reads), tuple(each.conflict for each in broken))
        for each, choice in choices:
            if choice is not None:
                tried.add(each.conflict.key)
                deltas = _apply_choice(sides, deltas, each, choice)


def _build_pending(ours: Snapshot, deltas: Mapping[str, TableDelta]) -> Iterator[PendingTable]:
    staging = StagingArea(ours)
    for key in sorted(deltas):
        delta = deltas[key]
        if delta.has_changes:
            table = staging.table(delta.type)
            if len(delta.deleted_ids):
                table.delete(cast("pa.StringArray", delta.deleted_ids))
            if delta.rows.num_rows:
                table.upsert(delta.rows)
            yield table


# --------------------------------------------------------------------------------------------- what is broken


@dataclass(frozen=True, slots=True)
class _BrokenRule:
    """A violation, the type whose row it is about, and the set rule that is broken; None for a rule on one row."""

    type: NodeType | EdgeType
    violation: Violation
    rule: SetRule | None

    @property
    def id(self) -> str:
        """The entity that it is about."""
        return self.violation.id or min(self.violation.ids, default=str(self.violation.value))


def _find_rule_conflicts(
    sides: MergeSnapshots, deltas: Mapping[str, TableDelta], pending: Iterable[PendingTable], checked: RuleCheckResult
) -> list[_RuleConflict]:
    found = [_BrokenRule(table.type, each, None) for table in pending for each in check_rows(table.type, table.rows)]
    rules = _index_rules(sides.catalog)
    for violation in checked.violations:
        rule = rules[violation.type, violation.rule, violation.property]
        found.append(_BrokenRule(type_of_table(sides.catalog, rule.relations[0].table_key), violation, rule))
    by_table: dict[str, list[_BrokenRule]] = {}
    for each in found:
        by_table.setdefault(each.type.table_key, []).append(each)
    return [one for key, each in by_table.items() for one in _to_rule_conflicts(sides, deltas.get(key), each)]


def _to_rule_conflicts(
    sides: MergeSnapshots, delta: TableDelta | None, found: Sequence[_BrokenRule]
) -> Iterator[_RuleConflict]:
    """Violations of one table as conflicts."""
    type_ = found[0].type
    ids = [each.id for each in found]
    base, ours, theirs = (read_images(side, type_, ids) for side in (sides.base, sides.ours, sides.theirs))
    merged = build_images_by_id(type_, (delta or empty_delta(type_)).rows_of(ids))
    for each in found:
        named = (each.violation.property or "").split(", ")
        conflict = Conflict(
            str(ConflictKind.VALUE if each.rule is None else _KINDS[each.rule.kind]),
            type_.name,
            each.id,
            base.get(each.id),
            ours.get(each.id),
            theirs.get(each.id),
            each.violation.message,
            tuple(shown_name(name) for name in named if name),
        )
        yield _RuleConflict(conflict, type_, _find_involved_ids(sides, each, merged.get(each.id) or ours.get(each.id)))


def _index_rules(catalog: Catalog) -> Mapping[tuple[str, str, str | None], SetRule]:
    tables = (type_.table_key for type_ in (*catalog.nodes.values(), *catalog.edges.values()))
    return {(rule.type, rule.rule, rule.property): rule for key in tables for rule in list_set_rules(catalog, key)}


def _find_involved_ids(
    sides: MergeSnapshots, found: _BrokenRule, merged: Mapping[str, object] | None
) -> Mapping[str, frozenset[str]]:
    """Everything that has a part in a violation; ``merged`` is the entity that it is about."""
    key, rule = found.type.table_key, found.rule
    if rule is None:
        return {key: frozenset({found.id})}
    ids = frozenset(found.violation.ids)
    if rule.kind is RuleKind.UNIQUE:
        return {key: ids}
    # The value in a violation may be cut; the edge itself has the whole id of the node.
    node = str(found.violation.value if merged is None else merged[shown_name(rule.property)])
    if rule.kind is RuleKind.ENDS:
        return {key: frozenset({found.id}), TableKey.of_node(rule.about): frozenset({node})}
    edges = [read_stored_rows(side, found.type, [node], "src") for side in (sides.ours, sides.theirs)]
    return {key: ids.union(*(_list_ids(rows) for rows in edges))}


def _read_merged_row(
    sides: MergeSnapshots, deltas: Mapping[str, TableDelta], type_: NodeType | EdgeType, id_: str
) -> pa.Table:
    """The row of an entity as the merge gives it, or as ours has it."""
    delta = deltas.get(type_.table_key)
    merged = None if delta is None else delta.rows_of([id_])
    return merged if merged is not None and merged.num_rows else read_stored_rows(sides.ours, type_, [id_])


def _list_ids(rows: pa.Table) -> list[str]:
    return cast("list[str]", to_list(column_of(rows, "id")))


# --------------------------------------------------------------------------------------------- what was decided


def _apply_choice(
    sides: MergeSnapshots, deltas: Mapping[str, TableDelta], broken: _RuleConflict, choice: Choice
) -> Mapping[str, TableDelta]:
    """The tables once a conflict is decided: its part as one side has it, or its entity with other values."""
    found = dict(deltas)
    if not isinstance(choice, str):
        row = _read_merged_row(sides, deltas, broken.type, broken.conflict.id)
        if row.num_rows:
            key = broken.type.table_key
            delta = (found.get(key) or empty_delta(broken.type)).without(column_of(row, "id"))
            new = ~_exists_in(sides.ours, broken.type, column_of(row, "id"))
            found[key] = delta.with_rows(replace_values(row, choice), new)
        return found
    for key, ids in broken.parts.items():
        type_ = type_of_table(sides.catalog, key)
        part = cast("Values", pa.array(sorted(ids), pa.string()))
        delta = (found.get(key) or empty_delta(type_)).without(part)
        found[key] = delta if choice == "ours" else _take_theirs(sides, type_, delta, part)
    return found


def _take_theirs(sides: MergeSnapshots, type_: NodeType | EdgeType, delta: TableDelta, ids: Values) -> TableDelta:
    """The rows of some ids as theirs has them: written, or gone if theirs has none."""
    rows = read_stored_rows(sides.theirs, type_, cast("list[str]", to_list(ids)))
    there = column_of(rows, "id")
    mine = _exists_in(sides.ours, type_, ids)
    gone = ids.filter(pa.array(mine & ~truths(is_among(ids, there))))
    return delta.with_rows(rows, ~_exists_in(sides.ours, type_, there)).with_deleted(gone)


def _exists_in(
    snapshot: Snapshot, type_: NodeType | EdgeType, ids: Values
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    there = column_of(read_stored_rows(snapshot, type_, cast("list[str]", to_list(ids))), "id")
    return truths(is_among(ids, there))

"""Check the rules on merged tables: a rule that holds on both sides but breaks in the merge becomes a conflict.

The rules are those of mutations and loads. A conflict is about one entity, and other entities are involved in it: the
missing node of an edge, the other rows with the same value, all edges of a node that has too many. A decision for ours
or theirs takes all of them from that side.
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
from omnigraph.storage.columns import Values, column_of, is_among, to_bool_array, to_list
from omnigraph.write.merge.conflict_images import build_images_by_id, read_images, read_stored_rows, to_public_name
from omnigraph.write.merge.deltas import Choice, Choose, TableDelta, empty_delta
from omnigraph.write.merge.three_way import ConflictKind
from omnigraph.write.mutation import PendingTable, StagingArea, replace_columns
from omnigraph.write.rules import (
    RuleCheckResult,
    RuleKind,
    SetRule,
    check_changes,
    check_rows,
    list_set_rules,
    type_of_table,
)

_CONFLICT_KINDS: Final = {
    RuleKind.UNIQUE: ConflictKind.UNIQUE,
    RuleKind.ENDS: ConflictKind.ORPHAN_EDGE,
    RuleKind.CARDINALITY: ConflictKind.CARDINALITY,
}


@dataclass(frozen=True, slots=True)
class RuledMerge:
    """The merged tables after checking the rules: what to write, the unresolved conflicts, and the check's result."""

    deltas: Mapping[str, TableDelta]
    pending: Sequence[PendingTable]
    result: RuleCheckResult
    open: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class MergeSnapshots:
    """The three sides of a merge, and the catalog whose rules the result must obey."""

    catalog: Catalog
    base: Snapshot
    ours: Snapshot
    theirs: Snapshot


@dataclass(frozen=True, slots=True)
class _RuleConflict:
    """A conflict, the type of its entity, and the ids involved, by table key."""

    conflict: Conflict
    type: NodeType | EdgeType
    parts: Mapping[str, frozenset[str]]


def apply_rules(sides: MergeSnapshots, deltas: Mapping[str, TableDelta], choose: Choose) -> RuledMerge:
    """Check the merged tables. Resolve conflicts as far as someone decides them, and check again."""
    tried: set[tuple[object, ...]] = set()
    reads: frozenset[str] = frozenset()
    while True:
        pending = list(_build_pending(sides.ours, deltas))
        result = check_changes(sides.catalog, sides.ours, [table.to_row_changes() for table in pending])
        reads |= result.reads
        conflicts = _find_rule_conflicts(sides, deltas, pending, result)
        # A conflict that was decided and is still there is not helped by the same decision.
        undecided = [each for each in conflicts if each.conflict.key not in tried]
        choices: list[tuple[_RuleConflict, Choice | None]] = [
            (each, choose(each.conflict, each.type)) for each in undecided
        ]
        if all(choice is None for _, choice in choices):
            return RuledMerge(deltas, pending, replace(result, reads=reads), tuple(each.conflict for each in conflicts))
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


# --------------------------------------------------------------------------------------------- broken rules


@dataclass(frozen=True, slots=True)
class _BrokenRule:
    """A violation, the type of its row, and the broken set rule; None for a rule on a single row."""

    type: NodeType | EdgeType
    violation: Violation
    rule: SetRule | None

    @property
    def id(self) -> str:
        """The id of the entity that the violation is about."""
        return self.violation.id or min(self.violation.ids, default=str(self.violation.value))


def _find_rule_conflicts(
    sides: MergeSnapshots, deltas: Mapping[str, TableDelta], pending: Iterable[PendingTable], result: RuleCheckResult
) -> list[_RuleConflict]:
    found = [_BrokenRule(table.type, each, None) for table in pending for each in check_rows(table.type, table.rows)]
    rules = _index_rules(sides.catalog)
    for violation in result.violations:
        rule = rules[violation.type, violation.rule, violation.property]
        found.append(_BrokenRule(type_of_table(sides.catalog, rule.relations[0].table_key), violation, rule))
    by_table: dict[str, list[_BrokenRule]] = {}
    for each in found:
        by_table.setdefault(each.type.table_key, []).append(each)
    return [one for key, each in by_table.items() for one in _to_rule_conflicts(sides, deltas.get(key), each)]


def _to_rule_conflicts(
    sides: MergeSnapshots, delta: TableDelta | None, found: Sequence[_BrokenRule]
) -> Iterator[_RuleConflict]:
    """Convert the violations of one table to conflicts."""
    type_ = found[0].type
    ids = [each.id for each in found]
    base, ours, theirs = (read_images(side, type_, ids) for side in (sides.base, sides.ours, sides.theirs))
    merged = build_images_by_id(type_, (delta or empty_delta(type_)).rows_of(ids))
    for each in found:
        named = (each.violation.property or "").split(", ")
        conflict = Conflict(
            str(ConflictKind.VALUE if each.rule is None else _CONFLICT_KINDS[each.rule.kind]),
            type_.name,
            each.id,
            base.get(each.id),
            ours.get(each.id),
            theirs.get(each.id),
            each.violation.message,
            tuple(to_public_name(name) for name in named if name),
        )
        yield _RuleConflict(conflict, type_, _find_involved_ids(sides, each, merged.get(each.id) or ours.get(each.id)))


def _index_rules(catalog: Catalog) -> Mapping[tuple[str, str, str | None], SetRule]:
    tables = (type_.table_key for type_ in (*catalog.nodes.values(), *catalog.edges.values()))
    return {(rule.type, rule.rule, rule.property): rule for key in tables for rule in list_set_rules(catalog, key)}


def _find_involved_ids(
    sides: MergeSnapshots, found: _BrokenRule, merged: Mapping[str, object] | None
) -> Mapping[str, frozenset[str]]:
    """Return the ids involved in a violation, by table key; ``merged`` is the entity that it is about."""
    key, rule = found.type.table_key, found.rule
    if rule is None:
        return {key: frozenset({found.id})}
    ids = frozenset(found.violation.ids)
    if rule.kind is RuleKind.UNIQUE:
        return {key: ids}
    # The value in a violation may be shortened; the edge has the whole id of the node.
    node = str(found.violation.value if merged is None else merged[to_public_name(rule.property)])
    if rule.kind is RuleKind.ENDS:
        return {key: frozenset({found.id}), TableKey.of_node(rule.end_type): frozenset({node})}
    edges = [read_stored_rows(side, found.type, [node], "src") for side in (sides.ours, sides.theirs)]
    return {key: ids.union(*(_list_ids(rows) for rows in edges))}


def _read_merged_row(
    sides: MergeSnapshots, deltas: Mapping[str, TableDelta], type_: NodeType | EdgeType, id_: str
) -> pa.Table:
    """Read the row of an entity as merged, or else as ours has it."""
    delta = deltas.get(type_.table_key)
    merged = None if delta is None else delta.rows_of([id_])
    return merged if merged is not None and merged.num_rows else read_stored_rows(sides.ours, type_, [id_])


def _list_ids(rows: pa.Table) -> list[str]:
    return cast("list[str]", to_list(column_of(rows, "id")))


# --------------------------------------------------------------------------------------------- decisions


def _apply_choice(
    sides: MergeSnapshots, deltas: Mapping[str, TableDelta], decided: _RuleConflict, choice: Choice
) -> Mapping[str, TableDelta]:
    """Apply a decision: take the involved rows from one side, or give the entity other values."""
    found = dict(deltas)
    if not isinstance(choice, str):
        row = _read_merged_row(sides, deltas, decided.type, decided.conflict.id)
        if row.num_rows:
            key = decided.type.table_key
            delta = (found.get(key) or empty_delta(decided.type)).without(column_of(row, "id"))
            is_new = ~_exists_in(sides.ours, decided.type, column_of(row, "id"))
            found[key] = delta.with_rows(replace_columns(row, choice), is_new)
        return found
    for key, ids in decided.parts.items():
        type_ = type_of_table(sides.catalog, key)
        involved = cast("Values", pa.array(sorted(ids), pa.string()))
        delta = (found.get(key) or empty_delta(type_)).without(involved)
        found[key] = delta if choice == "ours" else _take_theirs(sides, type_, delta, involved)
    return found


def _take_theirs(sides: MergeSnapshots, type_: NodeType | EdgeType, delta: TableDelta, ids: Values) -> TableDelta:
    """Take the rows of some ids from theirs: write them, or delete those that theirs does not have."""
    rows = read_stored_rows(sides.theirs, type_, cast("list[str]", to_list(ids)))
    their_ids = column_of(rows, "id")
    in_ours = _exists_in(sides.ours, type_, ids)
    deleted = ids.filter(pa.array(in_ours & ~to_bool_array(is_among(ids, their_ids))))
    return delta.with_rows(rows, ~_exists_in(sides.ours, type_, their_ids)).with_deleted(deleted)


def _exists_in(
    snapshot: Snapshot, type_: NodeType | EdgeType, ids: Values
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    existing = column_of(read_stored_rows(snapshot, type_, cast("list[str]", to_list(ids))), "id")
    return to_bool_array(is_among(ids, existing))

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
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.columns import Values, column_of, is_among, to_list, truths
from omnigraph.write.merge.deltas import Choice, Choose, Delta, no_delta, with_values
from omnigraph.write.merge.images import entities, images_by_id, shown_name, stored_rows
from omnigraph.write.merge.three_way import ConflictKind
from omnigraph.write.mutation import PendingTable, Staging
from omnigraph.write.rules import Checked, RuleKind, SetRule, check_changes, check_rows, list_set_rules, type_of

_KINDS: Final = {
    RuleKind.UNIQUE: ConflictKind.UNIQUE,
    RuleKind.ENDS: ConflictKind.ORPHAN_EDGE,
    RuleKind.CARDINALITY: ConflictKind.CARDINALITY,
}


@dataclass(frozen=True, slots=True)
class Ruled:
    """What came of the rules: the tables as they may be written, what is open, and the tables that were read."""

    deltas: Mapping[str, Delta]
    pending: Sequence[PendingTable]
    checked: Checked
    open: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class Sides:
    """The three sides of a merge, and the schema that it is checked by."""

    catalog: Catalog
    base: Snapshot
    ours: Snapshot
    theirs: Snapshot


@dataclass(frozen=True, slots=True)
class _Broken:
    """A conflict, the table that it is about, and the ids that have a part in it, by table key."""

    conflict: Conflict
    type: NodeType | EdgeType
    parts: Mapping[str, frozenset[str]]


def apply_rules(sides: Sides, deltas: Mapping[str, Delta], choose: Choose) -> Ruled:
    """Check the merged tables; what is broken is decided, as far as somebody does, and checked again."""
    tried: set[tuple[object, ...]] = set()
    reads: frozenset[str] = frozenset()
    while True:
        pending = list(_pending(sides.ours, deltas))
        checked = check_changes(sides.catalog, sides.ours, [table.image() for table in pending])
        reads |= checked.reads
        broken = _broken(sides, deltas, pending, checked)
        # What was decided before and is still broken is not helped by deciding the same again.
        fresh = [each for each in broken if each.conflict.key not in tried]
        choices: list[tuple[_Broken, Choice | None]] = [(each, choose(each.conflict, each.type)) for each in fresh]
        if all(choice is None for _, choice in choices):
            return Ruled(deltas, pending, replace(checked, reads=reads), tuple(each.conflict for each in broken))
        for each, choice in choices:
            if choice is not None:
                tried.add(each.conflict.key)
                deltas = _decided(sides, deltas, each, choice)


def _pending(ours: Snapshot, deltas: Mapping[str, Delta]) -> Iterator[PendingTable]:
    staging = Staging(ours)
    for key in sorted(deltas):
        delta = deltas[key]
        if delta.changes_anything:
            table = staging.table(delta.type)
            if len(delta.removed):
                table.remove(cast("pa.StringArray", delta.removed))
            if delta.rows.num_rows:
                table.put(delta.rows)
            yield table


# --------------------------------------------------------------------------------------------- what is broken


@dataclass(frozen=True, slots=True)
class _Found:
    """A violation, the type whose row it is about, and the set rule that is broken; None for a rule on one row."""

    type: NodeType | EdgeType
    violation: Violation
    rule: SetRule | None

    @property
    def id(self) -> str:
        """The entity that it is about."""
        return self.violation.id or min(self.violation.ids, default=str(self.violation.value))


def _broken(
    sides: Sides, deltas: Mapping[str, Delta], pending: Iterable[PendingTable], checked: Checked
) -> list[_Broken]:
    found = [_Found(table.type, each, None) for table in pending for each in check_rows(table.type, table.rows)]
    rules = _rules_of(sides.catalog)
    for violation in checked.violations:
        rule = rules[violation.type, violation.rule, violation.property]
        found.append(_Found(type_of(sides.catalog, rule.relations[0].table_key), violation, rule))
    by_table: dict[str, list[_Found]] = {}
    for each in found:
        by_table.setdefault(each.type.table_key, []).append(each)
    return [one for key, each in by_table.items() for one in _described(sides, deltas.get(key), each)]


def _described(sides: Sides, delta: Delta | None, found: Sequence[_Found]) -> Iterator[_Broken]:
    """Violations of one table as conflicts."""
    type_ = found[0].type
    ids = [each.id for each in found]
    base, ours, theirs = (entities(side, type_, ids) for side in (sides.base, sides.ours, sides.theirs))
    merged = images_by_id(type_, (delta or no_delta(type_)).rows_of(ids))
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
        yield _Broken(conflict, type_, _parts(sides, each, merged.get(each.id) or ours.get(each.id)))


def _rules_of(catalog: Catalog) -> Mapping[tuple[str, str, str | None], SetRule]:
    tables = (type_.table_key for type_ in (*catalog.nodes.values(), *catalog.edges.values()))
    return {(rule.type, rule.rule, rule.property): rule for key in tables for rule in list_set_rules(catalog, key)}


def _parts(sides: Sides, found: _Found, merged: Mapping[str, object] | None) -> Mapping[str, frozenset[str]]:
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
        return {key: frozenset({found.id}), f"node:{rule.about}": frozenset({node})}
    edges = [stored_rows(side, found.type, [node], "src") for side in (sides.ours, sides.theirs)]
    return {key: ids.union(*(_ids(rows) for rows in edges))}


def _row(sides: Sides, deltas: Mapping[str, Delta], type_: NodeType | EdgeType, id_: str) -> pa.Table:
    """The row of an entity as the merge gives it, or as ours has it."""
    delta = deltas.get(type_.table_key)
    merged = None if delta is None else delta.rows_of([id_])
    return merged if merged is not None and merged.num_rows else stored_rows(sides.ours, type_, [id_])


def _ids(rows: pa.Table) -> list[str]:
    return cast("list[str]", to_list(column_of(rows, "id")))


# --------------------------------------------------------------------------------------------- what was decided


def _decided(sides: Sides, deltas: Mapping[str, Delta], broken: _Broken, choice: Choice) -> Mapping[str, Delta]:
    """The tables once a conflict is decided: its part as one side has it, or its entity with other values."""
    found = dict(deltas)
    if not isinstance(choice, str):
        row = _row(sides, deltas, broken.type, broken.conflict.id)
        if row.num_rows:
            key = broken.type.table_key
            delta = (found.get(key) or no_delta(broken.type)).without(column_of(row, "id"))
            new = ~_are_in(sides.ours, broken.type, column_of(row, "id"))
            found[key] = delta.with_rows(with_values(row, choice), new)
        return found
    for key, ids in broken.parts.items():
        type_ = type_of(sides.catalog, key)
        part = cast("Values", pa.array(sorted(ids), pa.string()))
        delta = (found.get(key) or no_delta(type_)).without(part)
        found[key] = delta if choice == "ours" else _as_theirs(sides, type_, delta, part)
    return found


def _as_theirs(sides: Sides, type_: NodeType | EdgeType, delta: Delta, ids: Values) -> Delta:
    """The rows of some ids as theirs has them: written, or gone if theirs has none."""
    rows = stored_rows(sides.theirs, type_, cast("list[str]", to_list(ids)))
    there = column_of(rows, "id")
    mine = _are_in(sides.ours, type_, ids)
    gone = ids.filter(pa.array(mine & ~truths(is_among(ids, there))))
    return delta.with_rows(rows, ~_are_in(sides.ours, type_, there)).with_removed(gone)


def _are_in(snapshot: Snapshot, type_: NodeType | EdgeType, ids: Values) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    there = column_of(stored_rows(snapshot, type_, cast("list[str]", to_list(ids))), "id")
    return truths(is_among(ids, there))

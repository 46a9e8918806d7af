"""Check the rules on merged tables: a rule that holds on both sides but breaks in the merge becomes a conflict.

The rules are those of mutations and loads. A conflict is about one entity, and other entities are involved in it: the
missing node of an edge, the other rows with the same value, all edges of a node that has too many. A decision for ours
or theirs takes all of them from that side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Generic, Protocol, Self, TypeVar, cast

import pyarrow as pa

from omnigraph.errors import Conflict, ConflictKey, Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import Mask
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, to_bool_array, to_list
from omnigraph.write.merge.conflict_images import build_images_by_id, read_images, read_stored_rows, to_public_name
from omnigraph.write.merge.deltas import (
    Choice,
    Choose,
    NewValues,
    PreferredSide,
    TableDelta,
    combine_values,
    empty_delta,
)
from omnigraph.write.merge.three_way import ConflictKind, align_rows, compare_rows
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


class MergedTable(Protocol):
    """The rows to write to one table and the ids to delete, wherever they are: see :class:`TableDelta`."""

    def without(self, ids: Values) -> Self:
        """Return it without the rows of these ids: they stay as in ours."""
        ...

    def with_rows(self, rows: pa.Table, new: Mask) -> Self:
        """Return it with these rows added. Their ids must not be in it."""
        ...

    def with_deleted(self, ids: Values) -> Self:
        """Return it with these ids deleted."""
        ...

    def count_ids(self, ids: Values) -> int:
        """Return how many of some ids are written or deleted."""
        ...

    def rows_of(self, ids: Sequence[str]) -> pa.Table:
        """Return the rows to write that have some ids."""
        ...


Merged = TypeVar("Merged", bound=MergedTable)


@dataclass(frozen=True, slots=True)
class BrokenRules:
    """The violations in merged tables: of single rows, by table key, and of several rows."""

    rows: Mapping[str, Sequence[Violation]]
    result: RuleCheckResult


class RuleChecker(Protocol[Merged]):
    """Checks merged tables where their rows are."""

    def check(self, tables: Mapping[str, Merged]) -> BrokenRules:
        """Find all violations."""
        ...

    def make_empty(self, type_: NodeType | EdgeType) -> Merged:
        """Return a merged table without changes."""
        ...


@dataclass(frozen=True, slots=True)
class RuledMerge(Generic[Merged]):
    """The merged tables after checking the rules, the check's result, and the unresolved conflicts.

    ``resolved`` is how many more changes of theirs each table lost by the decisions.
    """

    tables: Mapping[str, Merged]
    result: RuleCheckResult
    reads: frozenset[str]
    open: tuple[Conflict, ...]
    resolved: Mapping[str, int]


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


def apply_rules(
    sides: MergeSnapshots, tables: Mapping[str, Merged], choose: Choose, checker: RuleChecker[Merged]
) -> RuledMerge[Merged]:
    """Check the merged tables. Resolve conflicts as far as someone decides them, and check again."""
    tried: set[ConflictKey] = set()
    reads: frozenset[str] = frozenset()
    resolved: Counter[str] = Counter()
    while True:
        found = checker.check(tables)
        reads |= found.result.reads
        conflicts = _find_rule_conflicts(sides, tables, found)
        # A conflict that was decided and is still there is not helped by the same decision.
        undecided = [each for each in conflicts if each.conflict.key not in tried]
        decided: list[tuple[_RuleConflict, Choice]] = []
        for each in undecided:
            choice = choose(each.conflict.key, each.type)
            if choice is not None:
                decided.append((each, choice))
        if not decided:
            return RuledMerge(tables, found.result, reads, tuple(each.conflict for each in conflicts), resolved)
        tried.update(each.conflict.key for each, _ in decided)
        tables, lost = _apply_choices(sides, tables, checker, decided)
        resolved.update(lost)


@dataclass(slots=True)
class LocalRuleChecker:
    """Checks merged tables in this process. ``pending`` are the changes that were checked last."""

    sides: MergeSnapshots
    pending: Sequence[PendingTable] = field(default_factory=list[PendingTable])

    def check(self, tables: Mapping[str, TableDelta]) -> BrokenRules:
        """Find all violations."""
        self.pending = list(self._build_pending(tables))
        result = check_changes(self.sides.catalog, self.sides.ours, [table.to_row_changes() for table in self.pending])
        return BrokenRules({each.type.table_key: check_rows(each.type, each.rows) for each in self.pending}, result)

    def make_empty(self, type_: NodeType | EdgeType) -> TableDelta:
        """Return a delta that changes nothing."""
        return empty_delta(type_)

    def _build_pending(self, tables: Mapping[str, TableDelta]) -> Iterator[PendingTable]:
        staging = StagingArea(self.sides.ours)
        for key in sorted(tables):
            delta = tables[key]
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

    @property
    def sort_key(self) -> tuple[str, bool, str, str, str]:
        """The order of violations: by table; rules of single rows first."""
        violation = self.violation
        return self.type.table_key, self.rule is not None, violation.rule, self.id, violation.property or ""


def _find_rule_conflicts(
    sides: MergeSnapshots, tables: Mapping[str, Merged], broken: BrokenRules
) -> list[_RuleConflict]:
    """Convert violations to conflicts, by table, rule and id, however an engine found them."""
    found = [
        _BrokenRule(type_of_table(sides.catalog, key), each, None) for key, own in broken.rows.items() for each in own
    ]
    rules = _index_rules(sides.catalog)
    for violation in broken.result.violations:
        rule = rules[violation.table_key, violation.rule, violation.property]
        found.append(_BrokenRule(type_of_table(sides.catalog, rule.relations[0].table_key), violation, rule))
    by_table: dict[str, list[_BrokenRule]] = {}
    for each in sorted(found, key=lambda each: each.sort_key):
        by_table.setdefault(each.type.table_key, []).append(each)
    return [one for key, each in by_table.items() for one in _to_rule_conflicts(sides, tables.get(key), each)]


def _to_rule_conflicts(
    sides: MergeSnapshots, table: MergedTable | None, found: Sequence[_BrokenRule]
) -> Iterator[_RuleConflict]:
    """Convert the violations of one table to conflicts."""
    type_ = found[0].type
    ids = [each.id for each in found]
    base, ours, theirs = (read_images(side, type_, ids) for side in (sides.base, sides.ours, sides.theirs))
    rows = arrow_schema(type_).empty_table() if table is None else table.rows_of(ids)
    merged = build_images_by_id(type_, rows)
    nodes = [_find_node(each, merged.get(each.id) or ours.get(each.id)) for each in found]
    edges = _list_edges_of(sides, found, nodes)
    for each, node in zip(found, nodes, strict=True):
        named = (each.violation.property or "").split(", ")
        conflict = Conflict(
            str(ConflictKind.VALUE if each.rule is None else _CONFLICT_KINDS[each.rule.kind]),
            type_.table_key,
            each.id,
            base.get(each.id),
            ours.get(each.id),
            theirs.get(each.id),
            each.violation.message,
            tuple(to_public_name(name) for name in named if name),
        )
        yield _RuleConflict(conflict, type_, _find_involved_ids(each, node, edges))


def _index_rules(catalog: Catalog) -> Mapping[tuple[str | None, str, str | None], SetRule]:
    tables = (type_.table_key for type_ in (*catalog.nodes.values(), *catalog.edges.values()))
    return {(rule.table_key, rule.rule, rule.property): rule for key in tables for rule in list_set_rules(catalog, key)}


def _find_node(found: _BrokenRule, merged: Mapping[str, object] | None) -> str | None:
    """Return the node that a rule about edges is about; ``merged`` is the edge."""
    if found.rule is None or found.rule.kind is RuleKind.UNIQUE:
        return None
    # The value in a violation may be shortened; the edge has the whole id of the node.
    return str(found.violation.value if merged is None else merged[to_public_name(found.rule.property)])


def _list_edges_of(
    sides: MergeSnapshots, found: Sequence[_BrokenRule], nodes: Sequence[str | None]
) -> Mapping[str, frozenset[str]]:
    """Return the ids of all edges of the nodes that have too many or too few, on both sides."""
    rules = ((each.rule, node) for each, node in zip(found, nodes, strict=True))
    sources = {node for rule, node in rules if node and rule and rule.kind is RuleKind.CARDINALITY}
    edges: dict[str, set[str]] = {node: set() for node in sources}
    for side in (sides.ours, sides.theirs) if sources else ():
        rows = read_stored_rows(side, found[0].type, sources, "src")
        for node, id_ in zip(cast("list[str]", to_list(column_of(rows, "src"))), _list_ids(rows), strict=True):
            edges[node].add(id_)
    return {node: frozenset(ids) for node, ids in edges.items()}


def _find_involved_ids(
    found: _BrokenRule, node: str | None, edges: Mapping[str, frozenset[str]]
) -> Mapping[str, frozenset[str]]:
    """Return the ids involved in a violation, by table key; ``edges`` are those of each node."""
    key, rule = found.type.table_key, found.rule
    if rule is None or node is None:
        return {key: frozenset({found.id} if rule is None else found.violation.ids)}
    if rule.kind is RuleKind.ENDS:
        return {key: frozenset({found.id}), TableKey.of_node(rule.end_type): frozenset({node})}
    return {key: edges[node].union(found.violation.ids)}


def _read_merged_rows(
    sides: MergeSnapshots, table: MergedTable, type_: NodeType | EdgeType, ids: list[str]
) -> pa.Table:
    """Read the rows of entities as merged, or else as ours has them."""
    merged = table.rows_of(ids)
    missing = set(ids).difference(_list_ids(merged))
    return pa.concat_tables([merged, read_stored_rows(sides.ours, type_, missing)]) if missing else merged


def _list_ids(rows: pa.Table) -> list[str]:
    return cast("list[str]", to_list(column_of(rows, "id")))


# --------------------------------------------------------------------------------------------- decisions


@dataclass(slots=True)
class _TableChoices:
    """The decisions about the rows of one table, by id: one side, and new values on top of it. The last one counts."""

    side: dict[str, PreferredSide] = field(default_factory=dict[str, "PreferredSide"])
    values: dict[str, NewValues] = field(default_factory=dict[str, "NewValues"])

    def list_all_ids(self) -> Values:
        """Return all decided ids."""
        return cast("Values", pa.array(sorted(self.side.keys() | self.values.keys()), pa.string()))

    def list_ids(self, side: PreferredSide) -> Values:
        """Return the ids that one side decides."""
        return cast("Values", pa.array(sorted(id_ for id_, own in self.side.items() if own == side), pa.string()))

    def add_side(self, ids: Iterable[str], side: PreferredSide) -> None:
        """Take some ids from one side."""
        for id_ in ids:
            self.side[id_] = side
            self.values.pop(id_, None)

    def add_values(self, id_: str, values: NewValues) -> None:
        """Give new values to an entity."""
        self.values[id_] = {**self.values.get(id_, {}), **values}


def _apply_choices(
    sides: MergeSnapshots,
    tables: Mapping[str, Merged],
    checker: RuleChecker[Merged],
    decided: Iterable[tuple[_RuleConflict, Choice]],
) -> tuple[Mapping[str, Merged], Mapping[str, int]]:
    """Apply decisions: take the involved rows from one side, or give entities other values.

    Also return how many changes of theirs each table loses by that.
    """
    by_table: dict[str, _TableChoices] = {}
    for each, choice in decided:
        if isinstance(choice, Mapping):
            by_table.setdefault(each.type.table_key, _TableChoices()).add_values(each.conflict.id, choice)
            continue
        for key, ids in each.parts.items():
            by_table.setdefault(key, _TableChoices()).add_side(ids, choice)
    merged = dict(tables)
    lost: dict[str, int] = {}
    for key, choices in by_table.items():
        type_ = type_of_table(sides.catalog, key)
        before = merged.get(key) or checker.make_empty(type_)
        theirs = choices.list_ids("theirs")
        table = before.without(choices.list_ids("ours")).without(theirs)
        table = _take_theirs(sides, type_, table, theirs)
        merged[key] = _replace_values(sides, type_, table, choices.values)
        brought = _find_brought_ids(sides, type_, choices.list_all_ids())
        lost[key] = before.count_ids(brought) - merged[key].count_ids(brought)
    return merged, lost


def _find_brought_ids(sides: MergeSnapshots, type_: NodeType | EdgeType, ids: Values) -> Values:
    """Return those of some ids that theirs changed, and that ours does not have in the same way."""
    base, ours, theirs = (
        align_rows(ids, read_stored_rows(side, type_, cast("list[str]", to_list(ids))))
        for side in (sides.base, sides.ours, sides.theirs)
    )
    return ids.filter(pa.array(~(compare_rows(base, theirs) | compare_rows(ours, theirs))))


def _replace_values(
    sides: MergeSnapshots, type_: NodeType | EdgeType, table: Merged, values: Mapping[str, NewValues]
) -> Merged:
    """Give new values to some entities, as far as they exist."""
    rows = _read_merged_rows(sides, table, type_, sorted(values)) if values else arrow_schema(type_).empty_table()
    if not rows.num_rows:
        return table
    parts = combine_values([values[id_] for id_ in _list_ids(rows)])
    replaced = pa.concat_tables([replace_columns(rows.take(positions), columns) for positions, columns in parts])
    ids = column_of(replaced, "id")
    return table.without(ids).with_rows(replaced, ~exists_in(sides.ours, type_, ids))


def _take_theirs(sides: MergeSnapshots, type_: NodeType | EdgeType, table: Merged, ids: Values) -> Merged:
    """Take the rows of some ids from theirs: write them, or delete those that theirs does not have."""
    if not len(ids):
        return table
    rows = read_stored_rows(sides.theirs, type_, cast("list[str]", to_list(ids)))
    their_ids = column_of(rows, "id")
    in_ours = exists_in(sides.ours, type_, ids)
    deleted = ids.filter(pa.array(in_ours & ~to_bool_array(is_among(ids, their_ids))))
    return table.with_rows(rows, ~exists_in(sides.ours, type_, their_ids)).with_deleted(deleted)


def exists_in(snapshot: Snapshot, type_: NodeType | EdgeType, ids: Values) -> Mask:
    """Return which of some ids a snapshot has."""
    existing = column_of(read_stored_rows(snapshot, type_, cast("list[str]", to_list(ids))), "id")
    return to_bool_array(is_among(ids, existing))

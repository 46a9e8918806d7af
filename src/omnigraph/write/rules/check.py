"""Checks a change against the rules of the schema, before anything is committed.

Row rules look at the incoming rows alone. Set rules run as SQL in DataFusion, over the incoming rows and those rows of
the pinned tables that they need. For a few rows a proof often replaces the SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.columns import Rows, column_of, to_list
from omnigraph.violation_groups import ViolationCounts
from omnigraph.write.rules.changed_table import (
    ChangedTable,
    IncomingMode,
    LargeChangedTable,
    RequiredValues,
    RowChanges,
    RowLocations,
)
from omnigraph.write.rules.proofs import drop_proven_ends, is_proven
from omnigraph.write.rules.row_rules import find_row_violations
from omnigraph.write.rules.set_rules import (
    NodeIds,
    Relation,
    RuleKind,
    SemiJoin,
    SetRule,
    SetViolation,
    bound_ids,
    count_ids,
    decode_set_violations,
    describe_violation,
    is_explained,
    list_rule_columns,
    list_set_rules,
    type_of_table,
)
from omnigraph.write.spill import spill_partitions

if TYPE_CHECKING:
    from datafusion import SessionContext

__all__ = [
    "IncomingMode",
    "RowChanges",
    "RuleCheckResult",
    "check_changes",
    "check_rows",
    "list_rule_columns",
    "select_set_rules",
]

_NO_NODES: Final[NodeIds] = {}
_FEW_ROWS: Final = 10_000
_PROVABLE_ROWS: Final = 1_000_000
"""Up to so many rows are hashed at once to prove a rule: far cheaper than its SQL, which starts a query engine."""
MANY_ROWS: Final = 250_000
"""Above this number of rows a change is checked in partitions on disk, not in memory."""
_ROWS_IN_A_PART: Final = 250_000
_MOST_PARTS: Final = 256
"""Each part is a file, and all are open while they are written."""


@dataclass(frozen=True, slots=True)
class RuleCheckResult:
    """The violations of set rules, and the tables that were read, which belong to the read set of the commit.

    ``locations`` are the addresses of replaced and removed rows, for the tables where a rule looked them up.
    ``counts`` has all violations, also those beyond the limit, if they were to be counted.
    """

    violations: tuple[Violation, ...]
    reads: frozenset[str]
    locations: Mapping[str, RowLocations] = field(default_factory=dict[str, RowLocations])
    counts: ViolationCounts | None = None


def check_rows(type_: NodeType | EdgeType, rows: Rows, limit: int | None = None) -> list[Violation]:
    """Check the row rules; return at most ``limit`` violations, each with the id of its row."""
    found = find_row_violations(type_, rows).slice(0, limit)
    if not found.num_rows:
        return []
    ids = column_of(rows, "id").take(found["row"].to_numpy())
    columns = [ids, *(column_of(found, name) for name in ("property", "rule", "value", "message"))]
    return [
        Violation(type_.name, rule, message, id=id_, property=name, value=value, table_key=type_.table_key)
        for id_, name, rule, value, message in zip(*(cast("list[str]", to_list(each)) for each in columns), strict=True)
    ]


def check_changes(
    catalog: Catalog,
    snapshot: Snapshot,
    changes: Iterable[RowChanges],
    limit: int | None = None,
    *,
    counts: ViolationCounts | None = None,
    rejected: NodeIds = _NO_NODES,
) -> RuleCheckResult:
    """Check the set rules that changes could break, one change for each table; return at most ``limit`` violations.

    Without a limit, each violation names all rows that take part in it; with one, ``MAX_NAMED_IDS`` of them.
    ``counts`` counts all of them. Edges that end at a ``rejected`` node are not reported. Row rules are not run: see
    :func:`check_rows`.
    """
    by_key = {change.table_key: change for change in changes}
    rules = tuple(select_set_rules(catalog, {key: change.mode for key, change in by_key.items()}))
    keys = {relation.table_key for rule in rules for relation in rule.relations}
    row_count = sum(change.incoming.num_rows + len(change.removed) for change in by_key.values())
    is_small, is_large = row_count <= _FEW_ROWS, row_count > MANY_ROWS
    table_class = LargeChangedTable if is_large else ChangedTable
    tables = {key: table_class(type_of_table(catalog, key), snapshot, by_key.get(key)) for key in keys}
    pending = _select_pending(drop_proven_ends(rules, tables) if is_large else rules, tables)
    pending = _announce_lookups(pending, tables) if is_small else pending
    read = _partition_relations if is_large else _read_relations
    inputs = ((each.rule, relations) for each in pending for relations in read(each, tables))
    create_context = partial(_create_context, is_small=is_small)
    found = _find_violations(inputs, create_context, rejected, is_bounded=limit is not None)
    violations = tuple(islice(found, limit) if counts is None else _count_all(found, limit, counts))
    locations = {
        key: found for key in by_key if key in tables and (found := tables[key].locate_changed_rows()) is not None
    }
    reads = frozenset(key for key, table in tables.items() if table.was_read)
    return RuleCheckResult(violations, reads, locations, counts)


def _count_all(violations: Iterable[Violation], limit: int | None, counts: ViolationCounts) -> list[Violation]:
    """Count all violations, and return the first of them."""
    listed: list[Violation] = []
    for each in violations:
        counts.add(each)
        if limit is None or len(listed) < limit:
            listed.append(each)
    return listed


def select_set_rules(catalog: Catalog, modes: Mapping[str, IncomingMode]) -> Iterator[SetRule]:
    """Select the rules on the changed tables, and those on edges whose end nodes may be deleted."""
    for table_key, mode in modes.items():
        # Fresh ids are unique by construction.
        is_fresh = mode is IncomingMode.FRESH
        yield from (rule for rule in list_set_rules(catalog, table_key) if not (is_fresh and _is_on_ids(rule)))
    for edge in catalog.edges.values():
        ends = (TableKey.of_node(edge.from_type), TableKey.of_node(edge.to_type))
        if edge.table_key not in modes and any(end in modes for end in ends):
            yield from list_set_rules(catalog, edge.table_key)


def _is_on_ids(rule: SetRule) -> bool:
    return rule.kind is RuleKind.UNIQUE and rule.relations[0].columns["value"] == ("id",)


@dataclass(frozen=True, slots=True)
class _PendingRule:
    """A rule that may be broken, and the rows of its relations that have no semi-join."""

    rule: SetRule
    rows: Mapping[str, pa.Table]


def _select_pending(rules: Iterable[SetRule], tables: Mapping[str, ChangedTable]) -> Iterator[_PendingRule]:
    """Select the rules that have a trigger with rows."""
    for rule in rules:
        rows = {
            relation.name: tables[relation.table_key].read_part(relation.part, relation.physical_columns)
            for relation in rule.relations
            if relation.semi_join is None
        }
        if any(rows[name].num_rows for name in rule.triggers):
            yield _PendingRule(rule, rows)


def _announce_lookups(pending: Iterable[_PendingRule], tables: Mapping[str, ChangedTable]) -> Iterator[_PendingRule]:
    """Announce the lookups of all rules to the tables before the first rule runs."""
    announced = list(pending)
    for each in announced:
        for relation in each.rule.relations:
            if relation.semi_join is not None:
                required = _collect_required(each.rule, relation, relation.semi_join, each.rows)
                tables[relation.table_key].announce(relation.physical_columns, required)
    return iter(announced)


def _find_violations(
    inputs: Iterable[tuple[SetRule, Mapping[str, pa.Table]]],
    create_context: Callable[[], SessionContext],
    rejected: NodeIds,
    *,
    is_bounded: bool,
) -> Iterator[Violation]:
    """Run each rule on its relations, unless a proof shows that it holds."""
    context: SessionContext | None = None
    for rule, relations in inputs:
        if sum(rows.num_rows for rows in relations.values()) <= _PROVABLE_ROWS and is_proven(rule, relations):
            continue
        context = context or create_context()
        found = _execute_rule(context, rule, relations, is_bounded=is_bounded)
        yield from (describe_violation(rule, each) for each in found if not is_explained(rule, each.value, rejected))


def _create_context(*, is_small: bool) -> SessionContext:
    from datafusion import SessionConfig, SessionContext

    # For a few rows, moving them between threads costs more than the work itself.
    config = SessionConfig()
    return SessionContext(config.with_target_partitions(1) if is_small else config)


# --------------------------------------------------------------------------------------------- one rule


def _read_relations(pending: _PendingRule, tables: Mapping[str, ChangedTable]) -> Iterator[Mapping[str, pa.Table]]:
    """Read the relations of a rule, in the columns of its SQL."""
    rows, relations = dict(pending.rows), dict[str, pa.Table]()
    for relation in pending.rule.relations:
        if relation.semi_join is not None:
            required = _collect_required(pending.rule, relation, relation.semi_join, rows)
            rows[relation.name] = tables[relation.table_key].read_part(
                relation.part, relation.physical_columns, required
            )
        # Piece by piece: the rows of a large load lie in a mapped file and must not be copied into memory.
        pieces = rows[relation.name].to_batches() or [rows[relation.name]]
        relations[relation.name] = pa.Table.from_batches([relation.encode(piece) for piece in pieces])
    yield relations


def _partition_relations(pending: _PendingRule, tables: Mapping[str, ChangedTable]) -> Iterator[Mapping[str, pa.Table]]:
    """Read the relations of a rule in partitions, of which one is in memory at a time.

    A rule compares rows by one value only, and all rows with that value are in one partition: the result is the same.
    """
    rows = {
        relation.name: pending.rows[relation.name]
        if relation.semi_join is None
        else tables[relation.table_key].read_part(relation.part, relation.physical_columns)
        for relation in pending.rule.relations
    }
    count = min(_MOST_PARTS, 1 + sum(each.num_rows for each in rows.values()) // _ROWS_IN_A_PART)
    partitions: list[list[pa.Table]] = []
    for relation in pending.rule.relations:
        empty = pa.Table.from_batches([relation.encode(rows[relation.name].slice(0, 0))])
        pieces = (pa.Table.from_batches([relation.encode(piece)]) for piece in rows[relation.name].to_batches())
        partitions.append(spill_partitions(empty.schema, pieces, relation.join_column, count))
    for part in zip(*partitions, strict=True):
        yield dict(zip(rows, part, strict=True))


def _collect_required(
    rule: SetRule, relation: Relation, semi_join: SemiJoin, rows: Mapping[str, pa.Table]
) -> RequiredValues:
    """Collect the values of a semi-join. Of several columns only the first narrows the lookup; the SQL compares all."""
    relations = {each.name: each for each in rule.relations}
    values = [column_of(rows[name], relations[name].columns[column][0]) for name, column in semi_join.values]
    return RequiredValues(relation.columns[semi_join.column][0], pa.concat_arrays(values))


def _execute_rule(
    context: SessionContext, rule: SetRule, relations: Mapping[str, pa.Table], *, is_bounded: bool
) -> Iterator[SetViolation]:
    for batch in _query_violations(context, rule, relations).to_batches(max_chunksize=1_000):
        rows = pa.Table.from_batches([batch])
        yield from decode_set_violations(bound_ids(rows) if is_bounded else rows)


def query_violations(rule: SetRule, relations: Mapping[str, pa.Table]) -> pa.Table:
    """Run the SQL of one rule on its relations, in the columns of the SQL; return :data:`SET_VIOLATIONS`, sorted."""
    return _query_violations(_create_context(is_small=True), rule, relations)


def _query_violations(context: SessionContext, rule: SetRule, relations: Mapping[str, pa.Table]) -> pa.Table:
    for name, rows in relations.items():
        context.deregister_table(name)
        context.register_record_batches(name, [rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]])
    check_deadline()
    found = count_ids(context.sql(rule.sql).to_arrow_table())
    return found.sort_by([("value", "ascending"), ("id", "ascending")])

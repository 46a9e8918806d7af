"""Checking a change against the rules of the schema, before anything is committed.

Row rules look at the incoming rows alone. Set rules run as SQL in DataFusion, over the incoming rows and what they
need of the pinned tables; of few rows it is often proven without SQL that they break none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.columns import Rows, column_of, to_list
from omnigraph.write.rules.changed_table import ChangedTable, IncomingMode, RequiredValues, RowChanges, RowLocations
from omnigraph.write.rules.large_changed_table import LargeChangedTable
from omnigraph.write.rules.proofs import is_proven
from omnigraph.write.rules.row_rules import find_row_violations
from omnigraph.write.rules.set_rules import (
    SET_VIOLATIONS,
    Relation,
    RuleKind,
    SemiJoin,
    SetRule,
    SetViolation,
    ViolationCounts,
    decode_set_violations,
    describe_violation,
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

_FEW_ROWS: Final = 10_000
MANY_ROWS: Final = 250_000
"""A change of more rows than this is not looked at in memory as a whole."""
_ROWS_IN_A_PART: Final = 250_000
_MOST_PARTS: Final = 256
"""Each is a file, and all are open at once while they are written."""


@dataclass(frozen=True, slots=True)
class RuleCheckResult:
    """What set rules found, and the tables that they read to find it: those belong to the read set of the commit.

    ``standing`` says where rows lie that a change replaces or removes, for the tables where that was seen on the way.
    ``counts`` says how often each rule is broken, by type and rule, where that was counted beyond the limit.
    """

    violations: tuple[Violation, ...]
    reads: frozenset[str]
    locations: Mapping[str, RowLocations] = field(default_factory=dict[str, RowLocations])
    counts: ViolationCounts = field(default_factory=dict[tuple[str, str], int])


def check_rows(type_: NodeType | EdgeType, rows: Rows, limit: int | None = None) -> list[Violation]:
    """The row rules that rows break, each with the row's id; at most ``limit`` of them."""
    found = find_row_violations(type_, rows).slice(0, limit)
    if not found.num_rows:
        return []
    ids = column_of(rows, "id").take(found["row"].to_numpy())
    columns = [ids, *(column_of(found, name) for name in ("property", "rule", "value", "message"))]
    return [
        Violation(type_.name, rule, message, id=id_, property=name, value=value)
        for id_, name, rule, value, message in zip(*(cast("list[str]", to_list(each)) for each in columns), strict=True)
    ]


def check_changes(
    catalog: Catalog, snapshot: Snapshot, images: Iterable[RowChanges], limit: int | None = None
) -> RuleCheckResult:
    """Run the set rules that a change of these tables could break, on what the tables will be; one image per table.

    Row rules are not run: see :func:`check_rows`. At most ``limit`` violations are given.
    """
    by_key = {image.table_key: image for image in images}
    rules = tuple(select_set_rules(catalog, {key: image.mode for key, image in by_key.items()}))
    keys = {relation.table_key for rule in rules for relation in rule.relations}
    row_count = sum(image.incoming.num_rows + len(image.removed) for image in by_key.values())
    few, many = row_count <= _FEW_ROWS, row_count > MANY_ROWS
    changed = LargeChangedTable if many else ChangedTable
    tables = {key: changed(type_of_table(catalog, key), snapshot, by_key.get(key)) for key in keys}
    asked = _announced(_asked(rules, tables), tables) if few else _asked(rules, tables)
    related = ((each.rule, relations) for each in asked for relations in (_parts if many else _whole)(each, tables))
    found = tuple(islice(_violations(related, partial(_new_context, few=few)), limit))
    standing = {
        key: where for key in by_key if key in tables and (where := tables[key].locate_changed_rows()) is not None
    }
    return RuleCheckResult(found, frozenset(key for key, table in tables.items() if table.was_read), standing)


def select_set_rules(catalog: Catalog, arrivals: Mapping[str, IncomingMode]) -> Iterator[SetRule]:
    """The rules on the changed tables, and those on edges whose nodes may be lost."""
    for table_key, arrival in arrivals.items():
        # Ids that were just made for the rows are not compared with each other.
        fresh = arrival is IncomingMode.FRESH
        yield from (rule for rule in list_set_rules(catalog, table_key) if not (fresh and _compares_ids(rule)))
    for edge in catalog.edges.values():
        ends = (TableKey.of_node(edge.from_type), TableKey.of_node(edge.to_type))
        if edge.table_key not in arrivals and any(end in arrivals for end in ends):
            yield from list_set_rules(catalog, edge.table_key)


def _compares_ids(rule: SetRule) -> bool:
    return rule.kind is RuleKind.UNIQUE and rule.relations[0].columns["value"] == ("id",)


@dataclass(frozen=True, slots=True)
class _PendingRule:
    """A rule that may be broken, and the rows of those of its relations that match no others."""

    rule: SetRule
    rows: Mapping[str, pa.Table]


def _asked(rules: Iterable[SetRule], tables: Mapping[str, ChangedTable]) -> Iterator[_PendingRule]:
    for rule in rules:
        rows = {
            relation.name: tables[relation.table_key].read_part(relation.part, relation.physical_columns)
            for relation in rule.relations
            if relation.semi_join is None
        }
        if any(rows[name].num_rows for name in rule.triggers):
            yield _PendingRule(rule, rows)


def _announced(asked: Iterable[_PendingRule], tables: Mapping[str, ChangedTable]) -> Iterator[_PendingRule]:
    """The same; what each rule will look for is known to the tables before the first one does."""
    together = list(asked)
    for each in together:
        for relation in each.rule.relations:
            if relation.semi_join is not None:
                wanted = _wanted(each.rule, relation, relation.semi_join, each.rows)
                tables[relation.table_key].announce(relation.physical_columns, wanted)
    return iter(together)


def _violations(
    related: Iterable[tuple[SetRule, Mapping[str, pa.Table]]], new_context: Callable[[], SessionContext]
) -> Iterator[Violation]:
    context: SessionContext | None = None
    for rule, relations in related:
        if sum(rows.num_rows for rows in relations.values()) <= _FEW_ROWS and is_proven(rule, relations):
            continue
        context = context or new_context()
        yield from (describe_violation(rule, answer) for answer in _answers(context, rule, relations))


def _new_context(*, few: bool) -> SessionContext:
    from datafusion import SessionConfig, SessionContext

    # For a few rows, moving them between threads costs more than the work itself.
    config = SessionConfig()
    return SessionContext(config.with_target_partitions(1) if few else config)


# --------------------------------------------------------------------------------------------- one rule


def _whole(asked: _PendingRule, tables: Mapping[str, ChangedTable]) -> Iterator[Mapping[str, pa.Table]]:
    """The relations of a rule, in the columns that its SQL uses."""
    rows, found = dict(asked.rows), dict[str, pa.Table]()
    for relation in asked.rule.relations:
        if relation.semi_join is not None:
            wanted = _wanted(asked.rule, relation, relation.semi_join, rows)
            rows[relation.name] = tables[relation.table_key].read_part(relation.part, relation.physical_columns, wanted)
        # In the pieces that they come in: the rows of a large load lie in a file, and are not copied out of it.
        pieces = rows[relation.name].to_batches() or [rows[relation.name]]
        found[relation.name] = pa.Table.from_batches([relation.encode(piece) for piece in pieces])
    yield found


def _parts(asked: _PendingRule, tables: Mapping[str, ChangedTable]) -> Iterator[Mapping[str, pa.Table]]:
    """The same for many rows, in parts that each hold all rows of the values in them: the answers are the same.

    Rules compare rows by one value only, so no part needs to know of another, and only one is in memory.
    """
    rows = {
        relation.name: asked.rows[relation.name]
        if relation.semi_join is None
        else tables[relation.table_key].read_part(relation.part, relation.physical_columns)
        for relation in asked.rule.relations
    }
    count = min(_MOST_PARTS, 1 + sum(each.num_rows for each in rows.values()) // _ROWS_IN_A_PART)
    parted: list[list[pa.Table]] = []
    for relation in asked.rule.relations:
        none = pa.Table.from_batches([relation.encode(rows[relation.name].slice(0, 0))])
        pieces = (pa.Table.from_batches([relation.encode(piece)]) for piece in rows[relation.name].to_batches())
        parted.append(spill_partitions(none.schema, pieces, relation.join_column, count))
    for part in zip(*parted, strict=True):
        yield dict(zip(rows, part, strict=True))


def _wanted(rule: SetRule, relation: Relation, matching: SemiJoin, rows: Mapping[str, pa.Table]) -> RequiredValues:
    """Of values made of several columns the first one narrows the search; the SQL compares the whole."""
    named = {each.name: each for each in rule.relations}
    found = [column_of(rows[name], named[name].columns[column][0]) for name, column in matching.values]
    return RequiredValues(relation.columns[matching.column][0], pa.concat_arrays(found))


def _answers(context: SessionContext, rule: SetRule, relations: Mapping[str, pa.Table]) -> Iterator[SetViolation]:
    for name, rows in relations.items():
        context.deregister_table(name)
        context.register_record_batches(name, [rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]])
    answers = (
        context.sql(rule.sql)
        .to_arrow_table()
        .cast(SET_VIOLATIONS)
        .sort_by([("value", "ascending"), ("id", "ascending")])
    )
    for batch in answers.to_batches(max_chunksize=1_000):
        yield from decode_set_violations(batch)

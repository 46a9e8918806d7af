"""Checking a change against the rules of the schema, before anything is committed.

Row rules look at the incoming rows alone. Set rules run as SQL in DataFusion, over the incoming rows and what they
need of the pinned tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.columns import Rows, column_of, to_list
from omnigraph.write.images import Arrival, ChangedTable, Image, Wanted
from omnigraph.write.row_rules import row_violations
from omnigraph.write.set_rules import (
    ANSWERS,
    Answer,
    Matching,
    Relation,
    RuleKind,
    SetRule,
    answers_of,
    rule_columns,
    set_rules,
    type_of,
    violation_of,
)

if TYPE_CHECKING:
    from datafusion import SessionContext

__all__ = ["Arrival", "Checked", "Image", "check_changes", "check_rows", "rule_columns"]

_FEW_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Checked:
    """What set rules found, and the tables that they read to find it: those belong to the read set of the commit."""

    violations: tuple[Violation, ...]
    reads: frozenset[str]


def check_rows(type_: NodeType | EdgeType, rows: Rows, limit: int | None = None) -> list[Violation]:
    """The row rules that rows break, each with the row's id; at most ``limit`` of them."""
    found = row_violations(type_, rows).slice(0, limit)
    if not found.num_rows:
        return []
    ids = column_of(rows, "id").take(found["row"].to_numpy())
    columns = [ids, *(column_of(found, name) for name in ("property", "rule", "value", "message"))]
    return [
        Violation(type_.name, rule, message, id=id_, property=name, value=value)
        for id_, name, rule, value, message in zip(*(cast("list[str]", to_list(each)) for each in columns), strict=True)
    ]


def check_changes(catalog: Catalog, snapshot: Snapshot, images: Iterable[Image], limit: int | None = None) -> Checked:
    """Run the set rules that a change of these tables could break, on what the tables will be; one image per table.

    Row rules are not run: see :func:`check_rows`. At most ``limit`` violations are given.
    """
    by_key = {image.table_key: image for image in images}
    rules = tuple(_rules_at_stake(catalog, by_key))
    keys = {relation.table_key for rule in rules for relation in rule.relations}
    tables = {key: ChangedTable(type_of(catalog, key), snapshot, by_key.get(key)) for key in keys}
    context = partial(_new_context, sum(image.incoming.num_rows for image in by_key.values()))
    found = tuple(islice(_violations(rules, tables, context), limit))
    return Checked(found, frozenset(key for key, table in tables.items() if table.was_read))


def _rules_at_stake(catalog: Catalog, images: Mapping[str, Image]) -> Iterator[SetRule]:
    """The rules on the changed tables, and those on edges whose nodes may be lost."""
    for table_key, image in images.items():
        # Ids that were just made for the rows are not compared with each other.
        fresh = image.arrival is Arrival.FRESH
        yield from (rule for rule in set_rules(catalog, table_key) if not (fresh and _compares_ids(rule)))
    for edge in catalog.edges.values():
        ends = (f"node:{edge.from_type}", f"node:{edge.to_type}")
        if edge.table_key not in images and any(end in images for end in ends):
            yield from set_rules(catalog, edge.table_key)


def _compares_ids(rule: SetRule) -> bool:
    return rule.kind is RuleKind.UNIQUE and rule.relations[0].columns["value"] == ("id",)


def _violations(
    rules: Iterable[SetRule], tables: Mapping[str, ChangedTable], new_context: Callable[[], SessionContext]
) -> Iterator[Violation]:
    context: SessionContext | None = None
    for rule in rules:
        rows = _relations(rule, tables)
        if rows is not None:
            context = context or new_context()
            yield from (violation_of(rule, answer) for answer in _answers(context, rule, rows))


def _new_context(row_count: int) -> SessionContext:
    from datafusion import SessionConfig, SessionContext

    # For a few rows, moving them between threads costs more than the work itself.
    config = SessionConfig()
    return SessionContext(config.with_target_partitions(1) if row_count <= _FEW_ROWS else config)


# --------------------------------------------------------------------------------------------- one rule


def _relations(rule: SetRule, tables: Mapping[str, ChangedTable]) -> dict[str, pa.Table] | None:
    """The rows of a rule's relations, in the columns of their tables. None when nothing can be wrong."""
    rows: dict[str, pa.Table] = {}
    changing = [relation for relation in rule.relations if relation.matching is None]
    for relation in changing:
        rows[relation.name] = tables[relation.table_key].part(relation.part, relation.physical_columns)
    if not any(rows[name].num_rows for name in rule.triggers):
        return None
    for relation in rule.relations:
        if relation.matching is not None:
            wanted = _wanted(rule, relation, relation.matching, rows)
            rows[relation.name] = tables[relation.table_key].part(relation.part, relation.physical_columns, wanted)
    if rule.kind is RuleKind.UNIQUE and sum(found.num_rows for found in rows.values()) < 2:
        return None
    return rows


def _wanted(rule: SetRule, relation: Relation, matching: Matching, rows: Mapping[str, pa.Table]) -> Wanted:
    """Of values made of several columns the first one narrows the search; the SQL compares the whole."""
    named = {each.name: each for each in rule.relations}
    found = [column_of(rows[name], named[name].columns[column][0]) for name, column in matching.values]
    return Wanted(relation.columns[matching.column][0], pa.concat_arrays(found))


def _answers(context: SessionContext, rule: SetRule, rows: Mapping[str, pa.Table]) -> Iterator[Answer]:
    for relation in rule.relations:
        # In the pieces that they come in: the rows of a large load lie in a file, and are not copied out of it.
        pieces = rows[relation.name].to_batches() or [rows[relation.name]]
        context.deregister_table(relation.name)
        context.register_record_batches(relation.name, [[relation.texts(piece) for piece in pieces]])
    answers = (
        context.sql(rule.sql).to_arrow_table().cast(ANSWERS).sort_by([("value", "ascending"), ("id", "ascending")])
    )
    for batch in answers.to_batches(max_chunksize=1_000):
        yield from answers_of(batch)

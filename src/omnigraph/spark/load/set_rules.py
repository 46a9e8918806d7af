"""Check set rules on Spark: rules that are not proven run as SQL, the same SQL as in one process.

Executors read the columns that a rule needs; staged rows are read through their detached version. One job runs all
rules that are left. It returns only violations: their number for each rule, and a limited number of examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.executor import union_all
from omnigraph.spark.load.changed_table import ChangedSparkTable, FragmentRows
from omnigraph.spark.load.proofs import find_unproven_rules
from omnigraph.write.load import IncomingTable
from omnigraph.write.rules import (
    SET_VIOLATIONS,
    Relation,
    RuleCheckResult,
    SetRule,
    ViolationCounts,
    decode_set_violations,
    describe_violation,
    select_set_rules,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RULE: Final = "rule"


def check_changes(
    session: SparkSession,
    catalog: Catalog,
    snapshot: Snapshot,
    incoming: Sequence[IncomingTable],
    limit: int | None,
    removed: Mapping[str, FragmentRows] | None = None,
) -> RuleCheckResult:
    """Run the set rules that incoming rows could break, on the tables as they will be.

    ``removed`` are the ids of rows that are deleted without a replacement, by table key.
    """
    deleted = removed or {}
    by_key = {each.table_key: each for each in incoming}
    rules = tuple(select_set_rules(catalog, {key: each.mode for key, each in by_key.items()}))
    keys = {relation.table_key for rule in rules for relation in rule.relations}
    changed = {
        key: ChangedSparkTable(session, catalog, snapshot, key, by_key.get(key), deleted.get(key)) for key in keys
    }
    triggered = [rule for rule in rules if any(not _is_empty(rule, name, changed) for name in rule.triggers)]
    reads = frozenset(
        relation.table_key
        for rule in triggered
        for relation in rule.relations
        if changed[relation.table_key].depends_on_pin(relation.part)
    )
    found, counts = _find_violations(session, find_unproven_rules(session, triggered, changed), changed, limit)
    return RuleCheckResult(tuple(found), reads, counts=counts)


def _is_empty(rule: SetRule, name: str, changed: Mapping[str, ChangedSparkTable]) -> bool:
    relation = next(each for each in rule.relations if each.name == name)
    return changed[relation.table_key].is_empty(relation.part)


def _find_violations(
    session: SparkSession, rules: Sequence[SetRule], changed: Mapping[str, ChangedSparkTable], limit: int | None
) -> tuple[list[Violation], ViolationCounts]:
    """Return examples of violations, in the order of the rules, and the number of violations of each rule."""
    if not rules:
        return [], {}
    each_rule = (_query_rule(session, number, rule, changed) for number, rule in enumerate(rules))
    found = union_all(each_rule).persist()
    try:
        counted = cast("list[tuple[int, int]]", found.groupBy(_RULE).count().collect())
        if not counted:
            return [], {}
        ordered = found.orderBy(_RULE, "value", "id")
        examples = (ordered if limit is None else ordered.limit(limit)).toArrow()
    finally:
        found.unpersist()
    numbers = cast("list[int]", examples[_RULE].to_pylist())
    decoded = decode_set_violations(examples.select(SET_VIOLATIONS.names).cast(SET_VIOLATIONS))
    violations = [
        describe_violation(rules[number], violation) for number, violation in zip(numbers, decoded, strict=True)
    ]
    counts: Counter[tuple[str, str]] = Counter()
    for number, count in counted:
        counts[rules[number].type, rules[number].rule] += count
    return violations, counts


def _query_rule(
    session: SparkSession, number: int, rule: SetRule, changed: Mapping[str, ChangedSparkTable]
) -> DataFrame:
    """Query the violations of one rule. Its relations are defined in the query, so they hide no view of the session."""
    from pyspark.sql import functions

    present = {each.name: each for each in rule.relations if not changed[each.table_key].is_empty(each.part)}
    named = ", ".join(f"{each.name} as ({_relation_sql(each, present)})" for each in rule.relations)
    query = rule.sql.replace("with ", f"with {named}, ", 1)
    # Spark declares these arguments as Any.
    rows: dict[str, Any] = {name: changed[each.table_key].read_relation(each) for name, each in present.items()}
    return session.sql(query, **rows).select(functions.lit(number).alias(_RULE), *SET_VIOLATIONS.names)


def _relation_sql(relation: Relation, present: Mapping[str, Relation]) -> str:
    """Return the SQL of a relation. If it is empty, Spark drops it and everything that is joined with it."""
    if relation.name in present:
        return f"select * from {{{relation.name}}}"  # noqa: S608  the names of relations are ours
    columns = ", ".join(f"cast(null as string) as {name}" for name in relation.columns)
    return f"select {columns} where false"

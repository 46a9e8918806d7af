"""Set rules of a load on Spark: what is not proven to hold is asked in the same SQL as everywhere.

Executors read the columns that a rule needs, of staged rows through their detached version. All rules that are left
are one job; what comes back is violations only, counted for each rule, with as many examples as are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, cast

from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog
from omnigraph.manifest.snapshot import Snapshot
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
    coming: Sequence[IncomingTable],
    limit: int | None,
    removed: Mapping[str, FragmentRows] | None = None,
) -> RuleCheckResult:
    """Run the set rules that incoming rows could break, on what the tables will be.

    ``removed`` are the ids of rows that only go, by table key.
    """
    gone = removed or {}
    by_key = {each.table_key: each for each in coming}
    rules = tuple(select_set_rules(catalog, {key: each.mode for key, each in by_key.items()}))
    keys = {relation.table_key for rule in rules for relation in rule.relations}
    changed = {key: ChangedSparkTable(session, catalog, snapshot, key, by_key.get(key), gone.get(key)) for key in keys}
    asked = [rule for rule in rules if any(not _is_empty(rule, name, changed) for name in rule.triggers)]
    reads = frozenset(
        relation.table_key
        for rule in asked
        for relation in rule.relations
        if changed[relation.table_key].depends_on_pin(relation.part)
    )
    found, counts = _find_violations(session, find_unproven_rules(session, asked, changed), changed, limit)
    return RuleCheckResult(tuple(found), reads, counts=counts)


def _is_empty(rule: SetRule, name: str, changed: Mapping[str, ChangedSparkTable]) -> bool:
    relation = next(each for each in rule.relations if each.name == name)
    return changed[relation.table_key].is_empty(relation.part)


def _find_violations(
    session: SparkSession, rules: Sequence[SetRule], changed: Mapping[str, ChangedSparkTable], limit: int | None
) -> tuple[list[Violation], ViolationCounts]:
    """Examples of what is wrong, in the order of the rules, and how often each rule is broken."""
    if not rules:
        return [], {}
    each_rule = (_query_rule(session, number, rule, changed) for number, rule in enumerate(rules))
    answers = reduce(lambda some, others: some.unionByName(others), each_rule).persist()
    try:
        counted = cast("list[tuple[int, int]]", answers.groupBy(_RULE).count().collect())
        if not counted:
            return [], {}
        ordered = answers.orderBy(_RULE, "value", "id")
        found = (ordered if limit is None else ordered.limit(limit)).toArrow()
    finally:
        answers.unpersist()
    numbers = cast("list[int]", found[_RULE].to_pylist())
    given = decode_set_violations(found.select(SET_VIOLATIONS.names).cast(SET_VIOLATIONS))
    violations = [describe_violation(rules[number], answer) for number, answer in zip(numbers, given, strict=True)]
    counts: Counter[tuple[str, str]] = Counter()
    for number, count in counted:
        counts[rules[number].type, rules[number].rule] += count
    return violations, counts


def _query_rule(
    session: SparkSession, number: int, rule: SetRule, changed: Mapping[str, ChangedSparkTable]
) -> DataFrame:
    """The answers of one rule. Its relations are named inside of the query, where no view of the session is hidden."""
    from pyspark.sql import functions

    known = {each.name: each for each in rule.relations if not changed[each.table_key].is_empty(each.part)}
    named = ", ".join(f"{each.name} as ({_relation_sql(each, known)})" for each in rule.relations)
    query = rule.sql.replace("with ", f"with {named}, ", 1)
    # Spark's own type for them, which it declares for all that may be named in a query.
    rows: dict[str, Any] = {name: changed[each.table_key].read_relation(each) for name, each in known.items()}
    return session.sql(query, **rows).select(functions.lit(number).alias(_RULE), *SET_VIOLATIONS.names)


def _relation_sql(relation: Relation, known: Mapping[str, Relation]) -> str:
    """A relation inside of a query. What is known to be empty Spark leaves out, and all that is joined with it."""
    if relation.name in known:
        return f"select * from {{{relation.name}}}"  # noqa: S608  the names of relations are ours
    columns = ", ".join(f"cast(null as string) as {name}" for name in relation.columns)
    return f"select {columns} where false"

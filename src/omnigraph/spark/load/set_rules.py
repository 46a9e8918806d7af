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
from omnigraph.spark.load.changed_table import ChangedOnSpark, PartRows
from omnigraph.spark.load.proofs import unproven
from omnigraph.write.load import IncomingTable
from omnigraph.write.rules import ANSWERS, Checked, Counts, Relation, SetRule, answers_of, rules_at_stake, violation_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RULE: Final = "rule"


def check_on_spark(
    session: SparkSession,
    catalog: Catalog,
    snapshot: Snapshot,
    coming: Sequence[IncomingTable],
    limit: int | None,
    removed: Mapping[str, PartRows] | None = None,
) -> Checked:
    """Run the set rules that incoming rows could break, on what the tables will be.

    ``removed`` are the ids of rows that only go, by table key.
    """
    gone = removed or {}
    by_key = {each.table_key: each for each in coming}
    rules = tuple(rules_at_stake(catalog, {key: each.arrival for key, each in by_key.items()}))
    keys = {relation.table_key for rule in rules for relation in rule.relations}
    changed = {key: ChangedOnSpark(session, catalog, snapshot, key, by_key.get(key), gone.get(key)) for key in keys}
    asked = [rule for rule in rules if any(not _is_empty(rule, name, changed) for name in rule.triggers)]
    reads = frozenset(
        relation.table_key
        for rule in asked
        for relation in rule.relations
        if changed[relation.table_key].depends_on_pin(relation.part)
    )
    found, counts = _violations(session, unproven(session, asked, changed), changed, limit)
    return Checked(tuple(found), reads, counts=counts)


def _is_empty(rule: SetRule, name: str, changed: Mapping[str, ChangedOnSpark]) -> bool:
    relation = next(each for each in rule.relations if each.name == name)
    return changed[relation.table_key].is_empty(relation.part)


def _violations(
    session: SparkSession, rules: Sequence[SetRule], changed: Mapping[str, ChangedOnSpark], limit: int | None
) -> tuple[list[Violation], Counts]:
    """Examples of what is wrong, in the order of the rules, and how often each rule is broken."""
    if not rules:
        return [], {}
    each_rule = (_answers(session, number, rule, changed) for number, rule in enumerate(rules))
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
    given = answers_of(found.select(ANSWERS.names).cast(ANSWERS))
    violations = [violation_of(rules[number], answer) for number, answer in zip(numbers, given, strict=True)]
    counts: Counter[tuple[str, str]] = Counter()
    for number, count in counted:
        counts[rules[number].type, rules[number].rule] += count
    return violations, counts


def _answers(session: SparkSession, number: int, rule: SetRule, changed: Mapping[str, ChangedOnSpark]) -> DataFrame:
    """The answers of one rule. Its relations are named inside of the query, where no view of the session is hidden."""
    from pyspark.sql import functions

    known = {each.name: each for each in rule.relations if not changed[each.table_key].is_empty(each.part)}
    named = ", ".join(f"{each.name} as ({_selected(each, known)})" for each in rule.relations)
    query = rule.sql.replace("with ", f"with {named}, ", 1)
    # Spark's own type for them, which it declares for all that may be named in a query.
    rows: dict[str, Any] = {name: changed[each.table_key].relation(each) for name, each in known.items()}
    return session.sql(query, **rows).select(functions.lit(number).alias(_RULE), *ANSWERS.names)


def _selected(relation: Relation, known: Mapping[str, Relation]) -> str:
    """A relation inside of a query. What is known to be empty Spark leaves out, and all that is joined with it."""
    if relation.name in known:
        return f"select * from {{{relation.name}}}"  # noqa: S608  the names of relations are ours
    columns = ", ".join(f"cast(null as string) as {name}" for name in relation.columns)
    return f"select {columns} where false"

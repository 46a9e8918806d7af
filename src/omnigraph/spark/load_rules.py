"""Set rules of a load on Spark: the same SQL as everywhere, over the rows that came in and the pinned snapshot.

Executors read the columns that a rule needs, of staged rows through their detached version. All rules are one job;
what comes back is violations only, counted for each rule, with as many examples as are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema.arrow import arrow_schema
from omnigraph.language.schema.catalog import Catalog
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.load_fragments import ROWS_IN_A_TASK, on_fragments
from omnigraph.spark.load_rows import DistributedRows
from omnigraph.spark.reading import even_groups
from omnigraph.storage.columns import Values, absent, column_of, is_not_among
from omnigraph.storage.pinned import Table
from omnigraph.write.load_work import Coming
from omnigraph.write.rules import Arrival, Checked, rules_at_stake
from omnigraph.write.set_rules import ANSWERS, Counts, Part, Relation, SetRule, answers_of, type_of, violation_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RULE: Final = "rule"
_IDS: Final = Relation("incoming", "", Part.INCOMING, {"id": ("id",)})
_NONE: Final[Values] = cast("Values", pa.array([], pa.string()))


def check_on_spark(
    session: SparkSession, catalog: Catalog, snapshot: Snapshot, coming: Sequence[Coming], limit: int | None
) -> Checked:
    """Run the set rules that incoming rows could break, on what the tables will be."""
    by_key = {each.table_key: each for each in coming}
    rules = tuple(rules_at_stake(catalog, {key: each.arrival for key, each in by_key.items()}))
    keys = {relation.table_key for rule in rules for relation in rule.relations}
    changed = {key: _Changed(session, catalog, snapshot, key, by_key.get(key)) for key in keys}
    asked = [rule for rule in rules if any(not _is_empty(rule, name, changed) for name in rule.triggers)]
    reads = frozenset(
        relation.table_key
        for rule in asked
        for relation in rule.relations
        if changed[relation.table_key].depends_on_pin(relation.part)
    )
    found, counts = _violations(session, asked, changed, limit)
    return Checked(tuple(found), reads, counts=counts)


def _is_empty(rule: SetRule, name: str, changed: Mapping[str, _Changed]) -> bool:
    relation = next(each for each in rule.relations if each.name == name)
    return changed[relation.table_key].is_empty(relation.part)


def _violations(
    session: SparkSession, rules: Sequence[SetRule], changed: Mapping[str, _Changed], limit: int | None
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


def _answers(session: SparkSession, number: int, rule: SetRule, changed: Mapping[str, _Changed]) -> DataFrame:
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


@dataclass(frozen=True, slots=True)
class _Changed:
    """One table before and after a load, in the parts that set rules speak of."""

    session: SparkSession
    catalog: Catalog
    snapshot: Snapshot
    table_key: str
    coming: Coming | None

    def relation(self, relation: Relation) -> DataFrame:
        """One part of the table, in the columns of a rule; one that is not known to be empty."""
        if relation.part is Part.INCOMING:
            return self._incoming(relation)
        pinned = self._pinned(relation)
        match relation.part, self._arrival:
            case (Part.KEPT, Arrival.UPSERT) | (Part.LOST, _) if not self.is_empty(Part.INCOMING):
                return pinned.join(self._incoming(_IDS), "id", "left_anti")
            case Part.GONE, Arrival.UPSERT:
                return pinned.join(self._incoming(_IDS), "id", "left_semi")
            case _:
                return pinned

    def is_empty(self, part: Part) -> bool:
        """Whether it is known without a look that a part has no rows."""
        if part is Part.INCOMING:
            return self.coming is None or not self.coming.rows.count
        if part is Part.GONE and self._arrival is Arrival.UPSERT and self.is_empty(Part.INCOMING):
            return True
        return not self.depends_on_pin(part) or not self.snapshot.pins[self.table_key].row_count

    def depends_on_pin(self, part: Part) -> bool:
        """Whether a part is made of rows of the pinned version."""
        if self.table_key not in self.snapshot.pins:
            return False
        match part:
            case Part.INCOMING:
                return False
            case Part.KEPT:
                return self._arrival is not Arrival.OVERWRITE
            case Part.GONE:
                return self._arrival in (Arrival.UPSERT, Arrival.OVERWRITE)
            case Part.LOST:
                return self._arrival is Arrival.OVERWRITE

    @property
    def _arrival(self) -> Arrival | None:
        return self.coming and self.coming.arrival

    def _incoming(self, relation: Relation) -> DataFrame:
        assert self.coming is not None
        rows = cast("DistributedRows", self.coming.rows.source)
        return self._read(rows.audit, rows.own, relation, self.coming.without)

    def _pinned(self, relation: Relation) -> DataFrame:
        table = self.snapshot.table(self.table_key)
        return self._read(table, table.fragment_rows(), relation, _NONE)

    def _read(self, table: Table, fragments: Mapping[int, int], relation: Relation, without: Values) -> DataFrame:
        schema = arrow_schema(type_of(self.catalog, self.table_key))
        work = partial(_texts, relation=relation, schema=schema, without=without)
        return on_fragments(self.session, table, even_groups(fragments, ROWS_IN_A_TASK), work, _columns(relation))


def _columns(relation: Relation) -> str:
    return ", ".join(f"{name} string" for name in relation.columns)


def _texts(
    table: Table, fragments: Sequence[int], *, relation: Relation, schema: pa.Schema, without: Values
) -> Iterator[pa.RecordBatch]:
    """The task of some fragments: a relation of a rule, made of their rows."""
    there = set(table.schema.names)
    names = [name for name in relation.physical_columns if name in there]
    for batch in table.scan(names, in_fragments=fragments):
        rows = batch.filter(is_not_among(column_of(batch, "id"), without)) if len(without) else batch
        yield relation.texts(_shaped(rows, relation.physical_columns, schema))


def _shaped(rows: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the types of the schema: a table of a branch may lag behind it."""
    shaped: dict[str, Values] = {}
    for name in names:
        type_ = cast("pa.DataType", schema.field(name).type)
        there = name in rows.schema.names
        shaped[name] = column_of(rows, name).cast(type_) if there else absent(rows.num_rows, type_)
    return pa.record_batch(shaped)

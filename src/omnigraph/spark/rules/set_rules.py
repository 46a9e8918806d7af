"""Check set rules on Spark: the SQL of rules that are not proven runs in partitions, the same SQL as in one process.

Executors read the columns that a rule needs; staged rows are read through their detached version. A rule compares rows
by one value only, so the rows are shuffled by it, and each partition is checked by itself. One job runs all rules that
are left. It returns only violations: their number for each rule, and a limited number of examples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.executor import SparkExecutor, union_all
from omnigraph.spark.rules.changed_table import ChangedSparkTable, FragmentRows, RuleTable, StoredSparkTable
from omnigraph.spark.rules.merge_proofs import find_unproven_merges
from omnigraph.spark.rules.proofs import find_unproven_rules
from omnigraph.spark.shuffle import Packer, ReceivedRows, gather_packs, receive_rows
from omnigraph.spark.sized_frames import SizedFrame, count_partitions
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.columns import column_of, to_list
from omnigraph.violation_groups import ViolationCounts, decode_counts, encode_counts
from omnigraph.write.evolve import MAX_VIOLATIONS, FoundViolations, ReshapedRows
from omnigraph.write.load import IncomingTable
from omnigraph.write.rules import (
    SET_VIOLATIONS,
    NodeIds,
    Relation,
    RuleCheckResult,
    SetRule,
    bound_ids,
    decode_set_violations,
    describe_violation,
    is_explained,
    list_set_rules,
    query_violations,
    select_set_rules,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOUND: Final = pa.schema(
    [
        pa.field("rule", pa.int32()),
        pa.field("count", pa.int64()),
        *cast("Iterable[pa.Field[pa.DataType]]", SET_VIOLATIONS),
    ]
)
"""A violation of a rule, or, with a count, the number of its violations in a partition and of the ids in them.

Where there is a limit, the value of a row with a count is the encoded counts.
"""
_DESCRIBED_AT_ONCE: Final = 1_000
_FoundRow: TypeAlias = tuple[int, int | None, str, str | None, list[str], int, int]
_FOUND_COLUMNS: Final = "rule int, count long, value string, id string, ids array<string>, found long, total long"


def check_changes(
    executor: SparkExecutor,
    catalog: Catalog,
    snapshot: Snapshot,
    incoming: Sequence[IncomingTable],
    limit: int | None,
    removed: Mapping[str, FragmentRows] | None = None,
    rejected: NodeIds | None = None,
) -> RuleCheckResult:
    """Run the set rules that incoming rows could break, on the tables as they will be.

    ``removed`` are the ids of rows that are deleted without a replacement, by table key. Edges that end at a
    ``rejected`` node are not reported.
    """
    planned = _plan_rules(executor, catalog, snapshot, incoming, removed or {})
    found, counts = _find_violations(executor, planned.rules, planned.changed, limit, rejected or {})
    return RuleCheckResult(tuple(found), planned.reads, counts=counts)


@dataclass(frozen=True, slots=True)
class _PlannedRules:
    """The rules that incoming rows may break, the tables that they read, and which of those are in the snapshot."""

    rules: Sequence[SetRule]
    changed: Mapping[str, ChangedSparkTable]
    reads: frozenset[str]


def _plan_rules(
    executor: SparkExecutor,
    catalog: Catalog,
    snapshot: Snapshot,
    incoming: Sequence[IncomingTable],
    deleted: Mapping[str, FragmentRows],
) -> _PlannedRules:
    by_key = {each.table_key: each for each in incoming}
    rules = tuple(select_set_rules(catalog, {key: each.mode for key, each in by_key.items()}))
    keys = {relation.table_key for rule in rules for relation in rule.relations}
    changed = {
        key: ChangedSparkTable(executor, catalog, snapshot, key, by_key.get(key), deleted.get(key)) for key in keys
    }
    triggered = [rule for rule in rules if any(not _is_empty(rule, name, changed) for name in rule.triggers)]
    reads = frozenset(
        relation.table_key
        for rule in triggered
        for relation in rule.relations
        if changed[relation.table_key].depends_on_pin(relation.part)
    )
    unproven = find_unproven_merges(executor, find_unproven_rules(executor, triggered, changed), changed)
    return _PlannedRules(unproven, changed, reads)


@dataclass(frozen=True, slots=True)
class ViolationFrame:
    """All violations of set rules in a DataFrame as :data:`FOUND`, the tables that were read, and the totals."""

    rules: Sequence[SetRule]
    reads: frozenset[str]
    frame: DataFrame | None
    count: int
    id_count: int
    """How many ids the violations name."""


def find_all_violations(
    executor: SparkExecutor,
    catalog: Catalog,
    snapshot: Snapshot,
    incoming: Sequence[IncomingTable],
    keep: Callable[[DataFrame], SizedFrame],
) -> ViolationFrame:
    """Find all violations of the set rules. They stay on executors; ``keep`` computes their frame once."""
    planned = _plan_rules(executor, catalog, snapshot, incoming, {})
    if not planned.rules:
        return ViolationFrame((), planned.reads, None, 0, 0)
    found = keep(_query_partitions(executor, planned.rules, planned.changed, None, {})).frame
    counts = executor.collect(found.where("count is not null").selectExpr("sum(count)", "sum(found)"))
    ((count, ids),) = cast("list[tuple[int | None, int | None]]", counts)
    return ViolationFrame(planned.rules, planned.reads, found.where("count is null"), count or 0, ids or 0)


def check_stored_rows(
    executor: SparkExecutor, catalog: Catalog, snapshot: Snapshot, rows: ReshapedRows, rules: Collection[str]
) -> FoundViolations:
    """Check set rules that are new in a schema on the stored rows of a type; see ``write/evolve/rules.py``."""
    del snapshot
    own = [rule for rule in list_set_rules(catalog, rows.type.table_key) if rule.rule in rules]
    keys = {relation.table_key for rule in own for relation in rule.relations}
    stored = {key: StoredSparkTable(executor, rows if key == rows.type.table_key else None) for key in keys}
    found, counts = _find_violations(executor, own, stored, MAX_VIOLATIONS, {})
    return FoundViolations(tuple(found), len(found) if counts is None else counts.total)


def _is_empty(rule: SetRule, name: str, changed: Mapping[str, ChangedSparkTable]) -> bool:
    relation = next(each for each in rule.relations if each.name == name)
    return changed[relation.table_key].is_empty(relation.part)


def _find_violations(
    executor: SparkExecutor,
    rules: Sequence[SetRule],
    changed: Mapping[str, RuleTable],
    limit: int | None,
    rejected: NodeIds,
) -> tuple[list[Violation], ViolationCounts | None]:
    """Return examples of violations, in the order of the rules, and the counts of all; None if all are returned."""
    counts = None if limit is None else ViolationCounts()
    if not rules:
        return [], counts
    frame = _query_partitions(executor, rules, changed, limit, rejected)
    found = [cast("_FoundRow", row) for row in executor.collect(frame)]
    if counts is not None:
        for _, count, text, *_ in found:
            if count is not None:
                counts.merge(decode_counts(text))
    examples = sorted((row for row in found if row[1] is None), key=lambda row: (row[0], row[2], row[3] or ""))[:limit]
    texts = pa.Table.from_pylist([dict(zip(FOUND.names, row, strict=True)) for row in examples], FOUND)
    return list(describe_found(rules, texts)), counts


def describe_found(rules: Sequence[SetRule], found: pa.Table) -> Iterator[Violation]:
    """Describe violations, given as :data:`FOUND`, in words."""
    numbers = cast("list[int]", to_list(column_of(found, "rule")))
    decoded = decode_set_violations(found.select(SET_VIOLATIONS.names))
    return (describe_violation(rules[number], each) for number, each in zip(numbers, decoded, strict=True))


def _query_partitions(
    executor: SparkExecutor,
    rules: Sequence[SetRule],
    changed: Mapping[str, RuleTable],
    limit: int | None,
    rejected: NodeIds,
) -> DataFrame:
    """Shuffle the relations of the rules by the values that they compare, and query each partition."""
    from pyspark.sql import functions

    present = [
        (section, stream, relation)
        for section, rule in enumerate(rules)
        for stream, relation in enumerate(rule.relations)
        if not changed[relation.table_key].is_empty(relation.part)
    ]
    size = sum(changed[relation.table_key].size_relation(relation) for _, _, relation in present)
    partitions = count_partitions(size, executor.parallelism)
    packs = union_all(
        changed[relation.table_key].pack_relation(relation, Packer(section, stream, relation.join_column, partitions))
        for section, stream, relation in present
    )
    check = partial(_check_partition, rules, limit, rejected)
    found = map_batches(gather_packs(packs, partitions), check, _FOUND_COLUMNS)
    if limit is None:
        return found
    # Counts come first, one for each rule and partition.
    first = found.orderBy(functions.col("count").isNull(), "rule", "value", "id")
    return first.limit(partitions * len(rules) + limit)


# --------------------------------------------------------------------------------------------- in a partition


def _check_partition(
    rules: Sequence[SetRule], limit: int | None, rejected: NodeIds, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Task over one partition: yield the number of violations of each rule, and examples of them."""
    with TemporaryDirectory(prefix="omnigraph-rules-") as folder:
        received = receive_rows(Path(folder), batches)
        for section, rule in enumerate(rules):
            relations = {
                relation.name: _to_relation(relation, received.get((section, stream)))
                for stream, relation in enumerate(rule.relations)
            }
            if any(relations[name].num_rows for name in rule.triggers):
                violations = _drop_explained(rule, query_violations(rule, relations), rejected)
                yield from _to_found(section, rule, violations, limit)


def _to_relation(relation: Relation, received: ReceivedRows | None) -> pa.Table:
    schema = pa.schema([pa.field(name, pa.string()) for name in relation.columns])
    return schema.empty_table() if received is None else pa.Table.from_batches(received.batches()).cast(schema)


def _drop_explained(rule: SetRule, violations: pa.Table, rejected: NodeIds) -> pa.Table:
    if not violations.num_rows or not rejected:
        return violations
    values = cast("list[str]", to_list(column_of(violations, "value")))
    return violations.filter(pa.array([not is_explained(rule, value, rejected) for value in values]))


def _to_found(section: int, rule: SetRule, violations: pa.Table, limit: int | None) -> Iterator[pa.RecordBatch]:
    count = violations.num_rows
    if count:
        ids = int(column_of(violations, "total").to_numpy().sum())
        counts = None if limit is None else encode_counts(_count_violations(rule, violations))
        yield pa.RecordBatch.from_pylist([{"rule": section, "count": count, "value": counts, "found": ids}], FOUND)
    examples = violations if limit is None else bound_ids(violations.slice(0, limit))
    for batch in examples.to_batches():
        rows = batch.num_rows
        numbers, counts = pa.array([section] * rows, pa.int32()), pa.nulls(rows, pa.int64())
        yield pa.RecordBatch.from_arrays([numbers, counts, *batch.columns], schema=FOUND)


def _count_violations(rule: SetRule, violations: pa.Table) -> ViolationCounts:
    counts = ViolationCounts()
    for batch in violations.to_batches(max_chunksize=_DESCRIBED_AT_ONCE):
        for each in decode_set_violations(bound_ids(pa.Table.from_batches([batch]))):
            counts.add(describe_violation(rule, each))
    return counts

"""What a proof shows about a merge is so: where it says that a rule holds, the SQL of the rule finds nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from omnigraph.language.schema import TableKey, parse_schema
from omnigraph.spark.rules.merge_proofs import _MergeSide, _PartitionCheck, _run_checks
from omnigraph.spark.shuffle import Packer
from omnigraph.write.rules import RuleKind, SetRule, list_set_rules, query_violations

Pairs: TypeAlias = "Sequence[tuple[str, str | None]]"
"""Rows by id and value."""

CATALOG: Final = parse_schema("node Ship { name: String? @unique }  edge Tows: Ship -> Ship @card(0..2)").catalog
RULES: Final = {
    rule.kind: rule
    for key in (TableKey.of_node("Ship"), TableKey.of_edge("Tows"))
    for rule in list_set_rules(CATALOG, key)
    if rule.kind is RuleKind.CARDINALITY or rule.property == "name"
}
LIMITS: Final = {RuleKind.UNIQUE: 1, RuleKind.CARDINALITY: 2}
ROWS: Final = st.lists(st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.sampled_from("xyz"))), max_size=7)


@pytest.mark.parametrize("kind", LIMITS)
@given(incoming=ROWS, stored=ROWS, partitions=st.integers(1, 3))
@example(incoming=[("a", "x"), ("a", "x")], stored=[], partitions=1)
@example(incoming=[("a", "x"), ("b", "y")], stored=[("a", "y"), ("b", "x")], partitions=1)
def test_a_rule_that_is_proven_holds(kind: RuleKind, incoming: Pairs, stored: Pairs, partitions: int) -> None:
    rule, stored = RULES[kind], list(dict(stored).items())
    if kind is RuleKind.CARDINALITY:
        # Every edge has a source.
        incoming, stored = ([(id_, value or "x") for id_, value in rows] for rows in (incoming, stored))
    # What is stored obeys the rule: no commit is made that breaks one.
    assume(not count_violations(rule, stored, []))
    proven = is_proven(rule, incoming, stored, partitions)
    assert not proven or not count_violations(rule, incoming, stored)
    given_ids = [id_ for id_, _ in incoming]
    before = dict(stored)
    moves_nothing = all(before.get(id_, value) == value for id_, value in incoming)
    if moves_nothing and len(set(given_ids)) == len(given_ids):
        # If no row gives up its value, nothing is left to SQL that holds.
        assert proven == (not count_violations(rule, incoming, stored))


def is_proven(rule: SetRule, incoming: Pairs, stored: Pairs, partitions: int) -> bool:
    """Run the check of a rule in the partitions of a shuffle."""
    check = _PartitionCheck(rule.relations[0], LIMITS[rule.kind], None)
    packs: dict[int, list[pa.RecordBatch]] = {number: [] for number in range(partitions)}
    for side, rows in zip(_MergeSide, (incoming, stored), strict=True):
        packer = Packer(0, side, rule.relations[0].join_column, partitions)
        for pack in packer.pack(to_table(rule.relations[0].columns, rows)):
            packs[pack["partition"][0].as_py()].append(pack)
    return not any(batch.num_rows for own in packs.values() for batch in _run_checks([check], own))


def count_violations(rule: SetRule, incoming: Pairs, stored: Pairs) -> int:
    """Run the SQL of a rule on all rows."""
    replaced = {id_ for id_, _ in incoming}
    parts: dict[str, Pairs] = {
        "incoming": incoming,
        "kept": [row for row in stored if row[0] not in replaced],
        "superseded": [row for row in stored if row[0] in replaced],
        "deleted_nodes": [],
    }
    relations = {each.name: to_table(each.columns, parts[each.name]) for each in rule.relations}
    return query_violations(rule, relations).num_rows


def to_table(columns: Iterable[str], rows: Pairs) -> pa.Table:
    values = zip(columns, range(2), strict=False)
    return pa.table({name: pa.array([row[at] for row in rows], pa.string()) for name, at in values})

"""If a proof says that a rule holds, its SQL finds nothing; without nulls every rule that holds is proven."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.language.schema import parse_schema
from omnigraph.write.rules.check import _create_context, _execute_rule
from omnigraph.write.rules.proofs import is_proven
from omnigraph.write.rules.set_rules import Relation, RuleKind, SetRule, list_set_rules
from tests.selection import sized

SCHEMA = """
node Ship { code: String @key  name: String?  @unique(name) }
node Port { code: String @key }
edge CallsAt: Ship -> Port @card(0..2)
edge HomePort: Ship -> Port @card(1..1)
edge Insures: Ship -> Port @card(2..)
"""
CATALOG = parse_schema(SCHEMA).catalog
RULES = [
    list_set_rules(CATALOG, "node:Ship")[-1],
    *list_set_rules(CATALOG, "edge:CallsAt")[-2:],
    *(list_set_rules(CATALOG, f"edge:{name}")[-1] for name in ("HomePort", "Insures")),
]
CONTEXT = _create_context(is_small=True)

Texts = Mapping[str, str | None]


def _named(rule: SetRule) -> str:
    return f"{rule.type} {rule.kind} {rule.property}"


def _rows(relation: Relation, texts: st.SearchStrategy[str | None]) -> st.SearchStrategy[pa.Table]:
    schema = pa.schema([(name, pa.string()) for name in relation.columns])
    row: st.SearchStrategy[Texts] = st.fixed_dictionaries(dict.fromkeys(relation.columns, texts))

    def table(rows: Sequence[Texts]) -> pa.Table:
        return pa.Table.from_pylist([dict(each) for each in rows], schema=schema)

    # Mostly nothing is deleted, superseded or kept: some changes must hold.
    return st.one_of(st.just(schema.empty_table()), st.lists(row, max_size=3).map(table))


def _relations(rule: SetRule, texts: st.SearchStrategy[str | None]) -> st.SearchStrategy[Mapping[str, pa.Table]]:
    return st.fixed_dictionaries({relation.name: _rows(relation, texts) for relation in rule.relations})


def _breaks(rule: SetRule, relations: Mapping[str, pa.Table]) -> bool:
    return any(True for _ in _execute_rule(CONTEXT, rule, relations, is_bounded=False))


@pytest.mark.parametrize("rule", RULES, ids=_named)
@settings(max_examples=sized(10, 200))
@given(st.data())
def test_what_is_proven_holds(rule: SetRule, data: st.DataObject) -> None:
    relations = data.draw(_relations(rule, st.sampled_from([None, "a", "b", "c"])))
    assert not (is_proven(rule, relations) and _breaks(rule, relations))


@pytest.mark.parametrize("rule", RULES, ids=_named)
@settings(max_examples=sized(10, 200))
@given(st.data())
def test_what_holds_is_proven(rule: SetRule, data: st.DataObject) -> None:
    relations = data.draw(_relations(rule, st.sampled_from(["a", "b", "c", "it's"])))
    assert is_proven(rule, relations) is not _breaks(rule, relations)


def test_the_rules_are_of_every_kind() -> None:
    assert {rule.kind for rule in RULES} == set(RuleKind)


CHILD = """
import sys, omnigraph, pyarrow as pa
from omnigraph.write.rules import check
schema = "node Person { name: String @key  email: String? @unique } edge Knows: Person -> Person @card(0..5)"
graph = omnigraph.init(sys.argv[1], schema)
add = '''query add($name: String, $friend: String) {
  insert Person { name: $name, email: $name }
  insert Knows { from: $name, to: $friend }
}'''
graph.mutate('query first() { insert Person { name: "ann" } }')
graph.mutate(add, params={"name": "bob", "friend": "ann"})
graph.mutate('query gone() { delete Person where name = "bob" }')
assert graph.snapshot().pin("Knows").row_count == 0
check.MANY_ROWS = 10
names = [f"p{number}" for number in range(50)]
people = pa.table({"name": names, "email": names})
graph.load(nodes={"Person": people}, edges={"Knows": pa.table({"from": names * 2, "to": names + names[::-1]})})
assert graph.snapshot().pin("Knows").row_count == 100
assert "datafusion" not in sys.modules
try:
    graph.mutate(add, params={"name": "cid", "friend": "nobody"})
except omnigraph.errors.ValidationError:
    assert "datafusion" in sys.modules
else:
    raise AssertionError("an edge to nobody went through")
"""


@pytest.mark.costly
def test_sql_runs_only_for_a_change_that_breaks_a_rule(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "graph.og")], check=True)

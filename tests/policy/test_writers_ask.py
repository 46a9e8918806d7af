"""A graph that is opened with a policy asks it before every write, also for the types that only the commit knows."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Forbidden

SCHEMA = """
node Person { name: String @key  age: I32? }
node Salary { name: String @key  amount: I32? }
edge Earns: Person -> Salary
"""
POLICY = """
version: 1
groups: {staff: [act-ann, act-lead], hr: [act-hr]}
protected_branches: [main]
rules:
  - {id: staff-change, allow: {actors: {group: staff}, actions: [change], branch_scope: unprotected}}
  - {id: staff-branch, allow: {actors: {group: staff}, actions: [branch_create, branch_delete, tag]}}
  - {id: lead-merge, allow: {actors: {actor: act-lead}, actions: [branch_merge, schema_apply, admin]}}
  - {id: hr-all, allow: {actors: {group: hr}, actions: [read, change, branch_merge, branch_create]}}
  - {id: no-salaries, deny: {actors: {any: true}, except: {group: hr}, actions: [read, change], types: ["node:Salary"]}}
"""
ADD = "query add($n: String) { insert Person { name: $n } }"
PAY = "query pay($n: String) { insert Salary { name: $n, amount: 3 } }"
PEOPLE = [{"type": "Person", "data": {"name": "ann"}}, {"type": "Salary", "data": {"name": "top", "amount": 9}}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with og.init(tmp_path / "g.og", SCHEMA) as graph:
        graph.load([*PEOPLE, {"edge": "Earns", "from": "ann", "to": "top"}])
    return tmp_path / "g.og"


def test_every_writer_asks_at_its_head(path: Path) -> None:
    graph = og.open(path, policy=POLICY, actor="act-ann")
    head = graph.info().head
    for write in (
        lambda: graph.mutate(ADD, params={"n": "x"}),
        lambda: graph.load([PEOPLE[0]], mode="merge"),
        lambda: graph.transaction(),
        lambda: graph.revert(head.id if head else ""),
        lambda: graph.apply_schema(SCHEMA + "node More { name: String @key }"),
        lambda: graph.merge("main", "other"),
        lambda: graph.optimize(),
        lambda: graph.cleanup(),
        lambda: graph.repair(),
        lambda: graph.ensure_indexes(),
    ):
        with pytest.raises(Forbidden, match="'act-ann' may not"):
            write()
    with pytest.raises(Forbidden, match="may not"):
        graph.create_branch("x", actor="act-stranger")
    assert graph.info().head == head
    assert graph.info().branches == ("main",)
    # Reads are not asked: whoever holds the files can read them.
    assert graph.query("query q() { match { $s: Salary } return { $s.name } }").rows == [{"s.name": "top"}]


def test_a_write_without_an_actor_is_refused(path: Path) -> None:
    with pytest.raises(Forbidden, match="no actor"):
        og.open(path, policy=POLICY).create_branch("x")
    reopened = pickle.loads(pickle.dumps(og.open(path, policy=POLICY)))  # noqa: S301  our own
    with pytest.raises(Forbidden, match="no actor"):
        reopened.delete_branch("x")


def test_types_are_asked_before_the_lock_by_all_that_touch_them(path: Path) -> None:
    graph = og.open(path, policy=POLICY, actor="act-ann")
    graph.create_branch("x")
    assert graph.mutate(ADD, params={"n": "bob"}, branch="x").commit is not None
    head = graph.snapshot("x").commit
    with pytest.raises(Forbidden, match=r"node:Salary.*'no-salaries' denies") as refused:
        graph.mutate(PAY, params={"n": "low"}, branch="x")
    assert refused.value.details["rule"] == "no-salaries"
    with pytest.raises(Forbidden, match="node:Salary"):
        graph.load([{"type": "Salary", "data": {"name": "low"}}], branch="x")
    with pytest.raises(Forbidden, match="node:Salary"):
        graph.load(PEOPLE, mode="overwrite", branch="x")
    paid = graph.mutate(PAY, params={"n": "mid"}, branch="x", actor="act-hr").commit
    assert paid is not None
    with pytest.raises(Forbidden, match="node:Salary"):
        graph.revert(paid.id, branch="x")
    with pytest.raises(Forbidden, match="node:Salary"):
        graph.merge("x", actor="act-lead")
    assert graph.snapshot("x").commit == paid != head
    assert graph.merge("x", actor="act-hr").commit is not None


def test_who_may_merge_into_a_protected_branch_need_not_change_it_directly(path: Path) -> None:
    graph = og.open(path, policy=POLICY, actor="act-lead")
    graph.create_branch("x")
    graph.mutate(ADD, params={"n": "bob"}, branch="x")
    with pytest.raises(Forbidden, match="change"):
        graph.mutate(ADD, params={"n": "eve"})
    assert graph.merge("x").commit is not None

"""What a transaction read belongs to its commit: if others changed it before the end, the end is a conflict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ConflictError, ExpectedVersionMismatch, QueryError, ValidationError
from omnigraph.graph import Graph
from omnigraph.storage.failpoints import record_writes
from omnigraph.write.mutation.transaction import Transaction
from tests.graphs import rows_of, written

VESSELS = "query n() { match { $v: Vessel } return { count($v) as n } }"
PORTS = "query n() { match { $p: Port } return { count($p) as n } }"
CALLS = "query n() { match { $v: Vessel  $v callsAt $p } return { $v, $p } }"
ADD_VESSEL = 'query add() { insert Vessel { code: "v9", name: "Nona", kind: "tug" } }'
ADD_PORT = 'query add() { insert Port { code: "p9", name: "Rostock" } }'
RENAME_VESSEL = 'query rename() { update Vessel set { name: "x" } where code = "v1" }'
RENAME_PORT = 'query rename() { update Port set { name: "x" } where code = "p2" }'
DROP_VESSEL = 'query drop() { delete Vessel where code = "v3" }'
DROP_PORT = 'query drop() { delete Port where code = "p2" }'
ADD_LEG = 'query add($seq: I32) { insert Leg { line: "a", seq: $seq } }'
ADD_TOW = 'query add() { insert Tows { from: "v3", to: "v2" } }'
ADD_CALL = 'query add() { insert CallsAt { from: "v2", to: "p1", at: datetime("2024-01-02T08:00:00Z") } }'

WRITES = {"insert": (ADD_VESSEL, ADD_PORT), "update": (RENAME_VESSEL, RENAME_PORT), "delete": (DROP_VESSEL, DROP_PORT)}


def commit_during(graph: Graph, work: Callable[[Transaction], object], other: str, branch: str = "main") -> None:
    """Commit a transaction while another process writes after its work."""
    with graph.transaction(branch) as tx:
        work(tx)
        omnigraph.open(graph.uri).mutate(other, branch=branch)


@pytest.mark.parametrize("kind", WRITES)
def test_of_two_that_write_what_the_other_read_one_commits(fleet: Graph, kind: str) -> None:
    write_vessel, write_port = WRITES[kind]

    def transact() -> None:
        with omnigraph.open(fleet.uri).transaction() as one, omnigraph.open(fleet.uri).transaction() as two:
            one.query(VESSELS)
            one.mutate(write_port)
            two.query(PORTS)
            two.mutate(write_vessel)

    before = fleet.snapshot().pins
    with pytest.raises(ExpectedVersionMismatch) as conflict:
        transact()
    # The inner block ends first.
    assert conflict.value.table_key == "node:Vessel"
    after = fleet.snapshot().pins
    assert {key for key in after if after[key].version != before[key].version} - {"edge:Tows", "edge:CallsAt"} == {
        "node:Vessel"
    }


def test_in_any_order_of_reads_and_writes(fleet: Graph) -> None:
    def transact() -> None:
        with omnigraph.open(fleet.uri).transaction() as one, omnigraph.open(fleet.uri).transaction() as two:
            one.mutate(ADD_PORT)
            two.mutate(ADD_VESSEL)
            one.query(VESSELS)
            two.query(PORTS)

    with pytest.raises(ExpectedVersionMismatch):
        transact()
    assert [row["id"] for row in rows_of(fleet, "Port")] == ["p1", "p2"]


READS = {
    "a count": (VESSELS, RENAME_VESSEL),
    "one row by its key": ('query q() { match { $v: Vessel { code: "v2" } } return { $v.name } }', ADD_VESSEL),
    "a traversal, its start": (CALLS, ADD_VESSEL),
    "a traversal, its edges": (CALLS, ADD_CALL),
    "a traversal, its end": (CALLS, ADD_PORT),
    "a negation": ("query q() { match { $p: Port  not { $v callsAt $p } } return { $p } }", ADD_CALL),
    "a closed cycle": ("query q() { match { $a: Vessel  $a tows $b  $b tows $a } return { $a } }", ADD_TOW),
    "several hops": ("query q() { match { $a: Vessel  $a tows{1,3} $b } return { $b } }", ADD_TOW),
    "a search": (
        'query q() { match { $v: Vessel  search($v.name, "aurora") } return { $v } }',
        RENAME_VESSEL,
    ),
}


@pytest.mark.parametrize("read", READS)
def test_what_a_query_read_must_not_change(fleet: Graph, read: str) -> None:
    query, other = READS[read]

    def work(tx: Transaction) -> None:
        tx.query(query)
        # No rule of this type reads another table.
        tx.mutate(ADD_LEG, params={"seq": 1})

    with pytest.raises(ExpectedVersionMismatch):
        commit_during(fleet, work, other)
    assert rows_of(fleet, "Leg") == []


@pytest.mark.parametrize("other", [ADD_VESSEL, ADD_TOW], ids=["node", "edge"])
def test_what_no_query_read_may_change(fleet: Graph, other: str) -> None:
    def work(tx: Transaction) -> None:
        tx.query(PORTS)
        tx.mutate(ADD_PORT)

    commit_during(fleet, work, other)
    assert "p9" in [row["id"] for row in rows_of(fleet, "Port")]


def test_without_a_query_inserts_are_repeated(fleet: Graph) -> None:
    commit_during(fleet, lambda tx: tx.mutate(ADD_TOW), ADD_VESSEL)
    commit_during(fleet, lambda tx: tx.mutate(ADD_PORT), RENAME_PORT)
    assert len(rows_of(fleet, "Tows")) == 2


def test_a_transaction_that_only_reads_never_fails(fleet: Graph) -> None:
    commit_during(fleet, lambda tx: tx.query(VESSELS), ADD_VESSEL)


def test_upkeep_of_what_was_read_is_no_conflict(fleet: Graph) -> None:
    with fleet.transaction() as tx:
        tx.query(VESSELS)
        tx.mutate(ADD_PORT)
        assert omnigraph.open(fleet.uri).ensure_indexes(types=["Vessel"]).commit is not None
    assert tx.result is not None
    assert tx.result.commit is not None


def test_on_a_branch_only_its_own_commits_count(fleet: Graph) -> None:
    def work(tx: Transaction) -> None:
        tx.query(VESSELS)
        tx.mutate(ADD_PORT)

    fleet.create_branch("draft")
    with fleet.transaction("draft") as tx:
        work(tx)
        omnigraph.open(fleet.uri).mutate(ADD_VESSEL)
    assert tx.result is not None
    assert tx.result.commit is not None
    with pytest.raises(ExpectedVersionMismatch):
        commit_during(fleet, work, ADD_VESSEL, "draft")


def test_a_query_that_was_refused_has_read_nothing(fleet: Graph) -> None:
    def work(tx: Transaction) -> None:
        with pytest.raises(QueryError):
            tx.query("query q() { match { $v: Vesel } return { $v } }")
        tx.mutate(ADD_PORT)

    commit_during(fleet, work, ADD_VESSEL)


def test_a_broken_rule_that_a_query_met_was_read(fleet: Graph) -> None:
    def work(tx: Transaction) -> None:
        tx.mutate('query tow() { insert Tows { from: "v9", to: "v1" } }')
        with pytest.raises(ValidationError):
            tx.query(PORTS)
        # There is no v9, so it is decided to add one.
        tx.mutate(ADD_VESSEL)

    state = written(fleet)["commit"]
    with pytest.raises(ExpectedVersionMismatch):
        commit_during(fleet, work, RENAME_VESSEL)
    assert fleet.commits()[1] == state


def test_a_mutation_that_found_no_row_has_read(fleet: Graph) -> None:
    def work(tx: Transaction) -> None:
        assert tx.mutate('query r() { update Vessel set { name: "x" } where code = "v9" }').affected_nodes == 0
        tx.mutate(ADD_PORT)

    with pytest.raises(ExpectedVersionMismatch):
        commit_during(fleet, work, ADD_VESSEL)


def test_a_dropped_type_that_was_read_is_a_conflict(tmp_path: Path) -> None:
    schema = "node Ship { code: String @key }\n"
    graph = omnigraph.init(tmp_path / "ships.og", schema + "node Pier { code: String @key }\n")

    def transact() -> None:
        with graph.transaction() as tx:
            tx.query("query n() { match { $p: Pier } return { count($p) as n } }")
            tx.mutate('query add() { insert Ship { code: "s1" } }')
            omnigraph.open(graph.uri).apply_schema(schema)

    with pytest.raises(ConflictError):
        transact()
    assert rows_of(graph, "Ship") == []


def test_the_comparison_costs_no_write(fleet: Graph) -> None:
    def steps(seq: int, query: str | None = None) -> list[str]:
        with record_writes() as made, fleet.transaction() as tx:
            if query is not None:
                tx.query(query)
            tx.mutate(ADD_LEG, params={"seq": seq})
        return [step.name for step in made]

    assert steps(1, CALLS) == steps(2)

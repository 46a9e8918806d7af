"""Transactions: several mutations that see each other and become one commit, or nothing."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.errors import ExpectedVersionMismatch, NotFound, ParameterError, QueryError, ValidationError
from omnigraph.graph import Graph
from tests.graphs import rows_of, written

ADD = 'query add($code: String) { insert Vessel { code: $code, name: $code, kind: "tug" } }'
RENAME = "query rename($code: String, $name: String) { update Vessel set { name: $name } where code = $code }"
DROP = "query drop($code: String) { delete Vessel where code = $code }"
TOW = "query tow($from: String, $to: String) { insert Tows { from: $from, to: $to } }"
HOME = 'query home($from: String) { insert HomePort { from: $from, to: "p1" } }'
MOVE_OUT = "query out($from: String) { delete HomePort where from = $from }"


def names(graph: Graph) -> dict[str, str]:
    return {str(row["id"]): str(row["name"]) for row in rows_of(graph, "Vessel")}


def tows(graph: Graph) -> list[tuple[str, str]]:
    return sorted((str(row["src"]), str(row["dst"])) for row in rows_of(graph, "Tows"))


def test_several_mutations_are_one_commit(fleet: Graph) -> None:
    before = fleet.commits()
    with fleet.transaction(message="a new tug") as tx:
        first = tx.mutate(ADD, params={"code": "v9"})
        second = tx.mutate(TOW, params={"from": "v9", "to": "v1"})
        assert fleet.commits() == before
    made, *older = fleet.commits()
    assert older == before
    assert made.message == "a new tug"
    assert (first.affected_nodes, second.affected_edges, first.commit) == (1, 1, None)
    assert tx.result is not None
    assert (tx.result.commit, tx.result.affected_nodes, tx.result.affected_edges) == (made, 1, 1)
    pins, past = fleet.snapshot().pins, fleet.snapshot(at=before[0].id).pins
    assert {key: pin.version - past[key].version for key, pin in pins.items() if pin != past[key]} == {
        "node:Vessel": 1,
        "edge:Tows": 1,
    }


def test_each_mutation_sees_those_before_it(fleet: Graph) -> None:
    with fleet.transaction() as tx:
        tx.mutate(ADD, params={"code": "v9"})
        assert tx.mutate(RENAME, params={"code": "v9", "name": "Nona"}).affected_nodes == 1
        assert tx.mutate(RENAME, params={"code": "v1", "name": "Gone"}).affected_nodes == 1
        dropped = tx.mutate(DROP, params={"code": "v1"})
        assert (dropped.affected_nodes, dropped.affected_edges) == (1, 2)
        assert tx.mutate(RENAME, params={"code": "v1", "name": "x"}).affected_nodes == 0
        assert tx.mutate(DROP, params={"code": "v1"}).affected_nodes == 0
    assert names(fleet) == {"v2": "Boreas", "v3": "Cetus", "v9": "Nona"}
    assert tows(fleet) == []


def test_deleted_and_inserted_again_is_replaced(fleet: Graph) -> None:
    with fleet.transaction() as tx:
        tx.mutate(DROP, params={"code": "v1"})
        tx.mutate(ADD, params={"code": "v1"})
    (row,) = [row for row in rows_of(fleet, "Vessel") if row["id"] == "v1"]
    assert (row["name"], row["tonnage"]) == ("v1", None)
    assert tows(fleet) == []


def test_inserted_and_deleted_again_was_never_there(fleet: Graph) -> None:
    state = written(fleet)
    with fleet.transaction() as tx:
        tx.mutate(ADD, params={"code": "v9"})
        tx.mutate(TOW, params={"from": "v9", "to": "v9"})
        dropped = tx.mutate(DROP, params={"code": "v9"})
        assert (dropped.affected_nodes, dropped.affected_edges) == (1, 1)
    assert tx.result is not None
    assert tx.result.commit is None
    assert written(fleet) == state


def test_rules_look_at_the_end_only(fleet: Graph) -> None:
    with fleet.transaction() as tx:
        tx.mutate(TOW, params={"from": "v9", "to": "v1"})
        tx.mutate(ADD, params={"code": "v9"})
        tx.mutate(HOME, params={"from": "v9"})
    with fleet.transaction() as tx:
        # For a moment the vessel has no home, which breaks its minimum of 1.
        tx.mutate(MOVE_OUT, params={"from": "v9"})
        tx.mutate(HOME, params={"from": "v9"})
    assert [row["src"] for row in rows_of(fleet, "HomePort")] == ["v9"]


def test_a_broken_rule_takes_all_of_it_back(fleet: Graph) -> None:
    def transact() -> None:
        with fleet.transaction() as tx:
            tx.mutate(ADD, params={"code": "v9"})
            tx.mutate(TOW, params={"from": "v9", "to": "nowhere"})

    state = written(fleet)
    with pytest.raises(ValidationError, match="'nowhere'"):
        transact()
    assert written(fleet) == state


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_takes_all_of_it_back(fleet: Graph, error: type[BaseException]) -> None:
    def transact() -> None:
        with fleet.transaction() as tx:
            tx.mutate(ADD, params={"code": "v9"})
            raise error

    state = written(fleet)
    with pytest.raises(error):
        transact()
    assert written(fleet) == state
    fleet.mutate(ADD, params={"code": "v9"})


def test_a_mutation_that_fails_leaves_no_trace_in_it(fleet: Graph) -> None:
    half = """query half($tonnage: I64) {
      insert Vessel { code: "v8", name: "half", kind: "tug" }
      insert Vessel { code: "v9", name: "half", kind: "tug", tonnage: $tonnage }
    }"""
    with fleet.transaction() as tx:
        with pytest.raises(ParameterError, match="does not fit"):
            tx.mutate(half, params={"tonnage": 2**40})
        with pytest.raises(QueryError):
            tx.mutate("query wrong() { delete Vesel where code = 1 }")
        tx.mutate(ADD, params={"code": "v7"})
    assert set(names(fleet)) == {"v1", "v2", "v3", "v7"}


def test_inserts_are_repeated_on_what_others_wrote(fleet: Graph) -> None:
    other = omnigraph.open(fleet.uri)
    with fleet.transaction() as tx:
        tx.mutate(ADD, params={"code": "v9"})
        other.mutate(ADD, params={"code": "v8"})
        tx.mutate(TOW, params={"from": "v9", "to": "v1"})
    assert set(names(fleet)) == {"v1", "v2", "v3", "v8", "v9"}


def test_inserts_are_checked_again_on_what_others_wrote(fleet: Graph) -> None:
    def transact() -> None:
        with fleet.transaction() as tx:
            tx.mutate(TOW, params={"from": "v3", "to": "v1"})
            omnigraph.open(fleet.uri).mutate(DROP, params={"code": "v1"})

    with pytest.raises(ValidationError, match="'v1'"):
        transact()
    assert tows(fleet) == []


def test_what_was_decided_on_older_rows_is_a_conflict(fleet: Graph) -> None:
    def transact() -> None:
        with fleet.transaction() as tx:
            assert tx.mutate(RENAME, params={"code": "v1", "name": "First"}).affected_nodes == 1
            omnigraph.open(fleet.uri).mutate(RENAME, params={"code": "v1", "name": "Second"})

    with pytest.raises(ExpectedVersionMismatch):
        transact()
    assert names(fleet)["v1"] == "Second"


def test_it_works_on_a_branch(fleet: Graph) -> None:
    fleet.create_branch("review")
    with fleet.transaction("review") as tx:
        tx.mutate(DROP, params={"code": "v1"})
        tx.mutate(ADD, params={"code": "v9"})
    assert set(names(fleet)) == {"v1", "v2", "v3"}
    assert {str(row["id"]) for row in rows_of(fleet, "Vessel", "review")} == {"v2", "v3", "v9"}
    with pytest.raises(NotFound), fleet.transaction("nowhere"):
        pass


def test_nothing_done_is_no_commit(fleet: Graph) -> None:
    state = written(fleet)
    with fleet.transaction() as tx:
        pass
    assert tx.result is not None
    assert (tx.result.commit, tx.result.affected_nodes) == (None, 0)
    assert written(fleet) == state


def test_it_is_open_in_its_block_only(fleet: Graph) -> None:
    tx = fleet.transaction()
    with pytest.raises(ParameterError, match="not open"):
        tx.mutate(ADD, params={"code": "v9"})
    with tx:
        pass
    with pytest.raises(ParameterError, match="not open"):
        tx.mutate(ADD, params={"code": "v9"})
    with pytest.raises(ParameterError, match="already used"), tx:
        pass


# --------------------------------------------------------------------------------------------- queries inside

TOWED = "query towed() { match { $a: Vessel  $a tows $b } return { $a, $b } order { $a.code, $b.code } }"
NAMES = "query names() { match { $v: Vessel } return { $v, $v.name as name } order { $v.code } }"


def test_a_query_sees_what_the_transaction_did_and_nobody_else_does(fleet: Graph) -> None:
    before = fleet.query(NAMES).rows
    with fleet.transaction() as tx:
        assert tx.query(NAMES).rows == before
        tx.mutate(ADD, params={"code": "v9"})
        tx.mutate(TOW, params={"from": "v9", "to": "v2"})
        tx.mutate(RENAME, params={"code": "v2", "name": "Bo"})
        tx.mutate(DROP, params={"code": "v1"})
        inside, towed = tx.query(NAMES), tx.query(TOWED)
        assert {"v": "v9", "name": "v9"} in inside.rows
        assert {"v": "v2", "name": "Bo"} in inside.rows
        assert "v1" not in [row["v"] for row in inside.rows]
        assert {"a": "v9", "b": "v2"} in towed.rows
        assert inside.commit == fleet.commits()[0]
        assert fleet.query(NAMES).rows == before
    assert fleet.query(NAMES).rows == inside.rows
    assert fleet.query(TOWED).rows == towed.rows


def test_a_query_in_a_transaction_on_a_branch_forks_nothing(fleet: Graph) -> None:
    fleet.create_branch("draft")
    with fleet.transaction("draft") as tx:
        tx.mutate(ADD, params={"code": "v9"})
        assert "v9" in [row["v"] for row in tx.query(NAMES).rows]
        assert {pin.branch for pin in fleet.snapshot("draft").pins.values()} == {None}
    assert "v9" in [row["v"] for row in fleet.query(NAMES, branch="draft").rows]
    assert "v9" not in [row["v"] for row in fleet.query(NAMES).rows]


def test_a_query_is_refused_while_a_rule_is_broken_and_the_transaction_goes_on(fleet: Graph) -> None:
    with fleet.transaction() as tx:
        tx.mutate(TOW, params={"from": "v9", "to": "v2"})
        with pytest.raises(ValidationError, match="v9"):
            tx.query(TOWED)
        tx.mutate(ADD, params={"code": "v9"})
        assert {"a": "v9", "b": "v2"} in tx.query(TOWED).rows
    assert ("v9", "v2") in tows(fleet)


def test_a_query_after_the_end_is_refused(fleet: Graph) -> None:
    with fleet.transaction() as tx:
        pass
    with pytest.raises(ParameterError, match="not open"):
        tx.query(NAMES)

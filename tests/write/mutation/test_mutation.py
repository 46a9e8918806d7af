"""Mutations through the public interface: commits, commit options, and values that case files cannot show."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import (
    ExpectedVersionMismatch,
    LegacyRowIds,
    NotFound,
    ParameterError,
    PreconditionFailed,
    ReadOnly,
    ValidationError,
)
from omnigraph.graph import Graph
from omnigraph.storage import filters, tables
from omnigraph.storage.tables import StagedChange, Table, row_search
from omnigraph.write.commit.section import CommitOptions, PreparedWrite, TableChange, commit_operation
from omnigraph.write.commit.sidecars import WriterKind
from omnigraph.write.mutation.run import retry_on_conflict
from tests.graphs import rows_of, written
from tests.write.mutation.interleaving import meanwhile

RENAME = "query rename($code: String, $name: String) { update Vessel set { name: $name } where code = $code }"
ADD_PORT = "query add($code: String) { insert Port { code: $code, name: $code } }"
CALL = "query call($vessel: String, $port: String) { insert CallsAt { from: $vessel, to: $port } }"
TOUCH = 'query touch($value: TYPE) { update All set { words: ["found"] } where NAME = $value }'
DROP_PORT = "query drop($code: String) { delete Port where code = $code }"


def names(graph: Graph, branch: str = "main") -> dict[str, str]:
    return {cast(str, row["id"]): cast(str, row["name"]) for row in rows_of(graph, "Vessel", branch)}


# --------------------------------------------------------------------------------------------- commit options


def test_a_mutation_is_one_commit(fleet: Graph) -> None:
    before = fleet.commits()
    result = fleet.mutate(ADD_PORT, params={"code": "p9"}, message="a new port", actor="ann")
    made, *older = fleet.commits()
    assert older == before
    assert result.commit == made
    assert (made.actor, made.message, made.parents) == ("ann", "a new port", (before[0].id,))
    assert (result.affected_nodes, result.affected_edges) == (1, 0)


def test_the_actor_of_the_graph_stands_in(fleet: Graph) -> None:
    graph = omnigraph.open(fleet.uri, actor="bob")
    result = graph.mutate(ADD_PORT, params={"code": "p9"})
    assert result.commit is not None
    assert result.commit.actor == "bob"


def test_only_what_is_touched_moves(fleet: Graph) -> None:
    before = fleet.snapshot().pins
    fleet.mutate(CALL, params={"vessel": "v2", "port": "p1"})
    after = fleet.snapshot().pins
    assert {key for key in after if after[key] != before[key]} == {"edge:CallsAt"}
    assert after["edge:CallsAt"].version == before["edge:CallsAt"].version + 1


def test_a_branch_has_its_own_rows(fleet: Graph) -> None:
    fleet.create_branch("review")
    fleet.mutate(RENAME, params={"code": "v1", "name": "Changed"}, branch="review")
    assert names(fleet)["v1"] == "Aurora"
    assert names(fleet, "review")["v1"] == "Changed"
    pins = fleet.snapshot("review").pins
    assert {key for key, pin in pins.items() if pin.branch == "review"} == {"node:Vessel"}


def test_the_precondition_is_the_head(fleet: Graph) -> None:
    head = fleet.commits(limit=1)[0].id
    first = fleet.mutate(ADD_PORT, params={"code": "p8"}, if_commit=head)
    assert first.commit is not None
    state = written(fleet)
    with pytest.raises(PreconditionFailed) as failed:
        fleet.mutate(ADD_PORT, params={"code": "p9"}, if_commit=head, retries=3)
    assert (failed.value.expected, failed.value.actual) == (head, first.commit.id)
    assert written(fleet) == state


def test_the_precondition_holds_for_what_changes_nothing_too(fleet: Graph) -> None:
    head = fleet.commits(limit=1)[0].id
    assert fleet.mutate(RENAME, params={"code": "nobody", "name": "x"}, if_commit=head).commit is None
    fleet.mutate(ADD_PORT, params={"code": "p8"})
    with pytest.raises(PreconditionFailed):
        fleet.mutate(RENAME, params={"code": "nobody", "name": "x"}, if_commit=head)


def test_a_query_is_chosen_by_its_name(fleet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "ports.gq"
    path.write_text(f"{ADD_PORT}\n{DROP_PORT}")
    with pytest.raises(NotFound, match="add, drop"):
        fleet.mutate(path)
    assert fleet.mutate(path, "drop", {"code": "p1"}).affected_edges == 1


def test_a_graph_for_reading_is_not_written(fleet: Graph) -> None:
    reader = omnigraph.open(fleet.uri, "ro")
    with pytest.raises(ReadOnly):
        reader.mutate(ADD_PORT, params={"code": "p9"})
    with pytest.raises(ReadOnly):
        reader.transaction()


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (ExpectedVersionMismatch("node:Port", 1, 2), 3),
        (PreconditionFailed("main", "a", "b"), 1),
        (ValidationError("no"), 1),
    ],
)
def test_only_a_conflict_is_worth_another_attempt(error: Exception, attempts: int) -> None:
    made = list[int]()

    def attempt() -> None:
        made.append(1)
        raise error

    with pytest.raises(type(error)):
        retry_on_conflict(attempt, 2)
    assert len(made) == attempts


def test_retries_are_counted_from_zero(fleet: Graph) -> None:
    with pytest.raises(ParameterError, match="retries is -1"):
        fleet.mutate(ADD_PORT, params={"code": "p9"}, retries=-1)


# ------------------------------------------------------------------------------------------------ other writers


def test_an_update_that_lost_a_race_is_a_conflict_without_retries(fleet: Graph) -> None:
    other = omnigraph.open(fleet.uri)
    with (
        pytest.raises(ExpectedVersionMismatch) as lost,
        meanwhile(lambda: other.mutate(RENAME, params={"code": "v2", "name": "Second"})),
    ):
        fleet.mutate(RENAME, params={"code": "v1", "name": "First"}, retries=0)
    assert lost.value.table_key == "node:Vessel"
    assert names(fleet) == {"v1": "Aurora", "v2": "Second", "v3": "Cetus"}


def test_a_conflict_is_retried_as_often_as_asked(fleet: Graph) -> None:
    other = omnigraph.open(fleet.uri)
    with meanwhile(lambda: other.mutate(RENAME, params={"code": "v2", "name": "Second"})):
        fleet.mutate(RENAME, params={"code": "v1", "name": "First"}, retries=1)
    assert names(fleet) == {"v1": "First", "v2": "Second", "v3": "Cetus"}


def test_a_keyed_insert_replaces_what_was_changed_meanwhile(fleet: Graph) -> None:
    other = omnigraph.open(fleet.uri)
    with meanwhile(lambda: other.mutate(RENAME, params={"code": "v1", "name": "Meanwhile"})):
        fleet.mutate('query put() { insert Vessel { code: "v1", name: "Last", kind: "tug" } }')
    (row,) = [row for row in rows_of(fleet, "Vessel") if row["id"] == "v1"]
    assert (row["name"], row["kind"], row["tonnage"]) == ("Last", "tug", None)


def test_an_edge_does_not_outlive_its_end(fleet: Graph) -> None:
    other = omnigraph.open(fleet.uri)
    with (
        pytest.raises(ValidationError, match="'p2'"),
        meanwhile(lambda: other.mutate(DROP_PORT, params={"code": "p2"})),
    ):
        fleet.mutate(CALL, params={"vessel": "v2", "port": "p2"})
    assert [row["dst"] for row in rows_of(fleet, "CallsAt")] == ["p1"]


def test_an_end_does_not_go_from_under_an_edge(fleet: Graph) -> None:
    other = omnigraph.open(fleet.uri)
    with (
        pytest.raises(ExpectedVersionMismatch) as lost,
        meanwhile(lambda: other.mutate(CALL, params={"vessel": "v2", "port": "p2"})),
    ):
        fleet.mutate(DROP_PORT, params={"code": "p2"}, retries=0)
    assert lost.value.table_key == "edge:CallsAt"
    assert sorted(str(row["id"]) for row in rows_of(fleet, "Port")) == ["p1", "p2"]


def test_a_unique_value_is_taken_once(fleet: Graph) -> None:
    other = omnigraph.open(fleet.uri)
    home = 'query home($port: String) { insert HomePort { from: "v1", to: $port } }'
    with (
        pytest.raises(ValidationError, match=r"@unique\(src\)"),
        meanwhile(lambda: other.mutate(home, params={"port": "p1"})),
    ):
        fleet.mutate(home, params={"port": "p2"})
    assert [row["dst"] for row in rows_of(fleet, "HomePort")] == ["p1"]


# ------------------------------------------------------------------------------------------------ values


def test_now_is_one_moment(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node Log { text: String  at: DateTime }\n")
    before = int(time.time() * 1000)
    graph.mutate('query add() { insert Log { text: "a", at: now() }  insert Log { text: "b", at: now() } }')
    after = int(time.time() * 1000)
    moments = {datetime.fromisoformat(cast(str, row["at"])).timestamp() * 1000 for row in rows_of(graph, "Log")}
    assert len(moments) == 1
    assert before <= round(moments.pop()) <= after
    assert graph.mutate("query old() { delete Log where at <= now() }").affected_nodes == 2


def test_every_type_is_stored_as_it_is_given(tmp_path: Path) -> None:
    schema = """node All {
      key: String @key  flag: Bool  small: I32  large: I64  usmall: U32  ularge: U64  single: F32  double: F64
      day: Date  moment: DateTime  days: [Date]  moments: [DateTime]  words: [String]  vector: Vector(2)
    }"""
    graph = omnigraph.init(tmp_path / "g.og", schema)
    values: dict[str, object] = {
        "key": "k",
        "flag": True,
        "small": -(2**31),
        "large": -(2**63),
        "usmall": 2**32 - 1,
        "ularge": 2**64 - 1,
        "single": 0.1,
        "double": 0.1,
        "day": "0001-01-01",
        "moment": "9999-12-31T23:59:59.999Z",
        "days": ["1969-12-31"],
        "moments": ["2024-01-01T08:00:00.123Z"],
        "words": [],
        "vector": [0.5, 1],
    }
    types = graph.schema.catalog.nodes["All"].properties
    declared = ", ".join(f"${name}: {types[name].type}" for name in values)
    assigned = ", ".join(f"{name}: ${name}" for name in values)
    graph.mutate(f"query add({declared}) {{ insert All {{ {assigned} }} }}", params=values)
    rows = graph.snapshot().table("All").scan().read_all()
    row = rows_of(graph, "All")[0]
    assert (row["small"], row["large"], row["usmall"], row["ularge"]) == (-(2**31), -(2**63), 2**32 - 1, 2**64 - 1)
    assert (row["single"], row["double"]) == (pytest.approx(0.1, abs=1e-8), 0.1)
    assert (row["day"], row["moment"]) == ("0001-01-01", "9999-12-31T23:59:59.999000+00:00")
    assert rows["moments"][0].values.cast(pa.int64()).to_pylist() == [1704096000123]
    assert (row["flag"], row["words"], row["vector"]) == (True, [], [0.5, 1.0])
    # Each row is found again by its value, if it can be compared.
    for name in ("flag", "small", "large", "usmall", "ularge", "double", "day", "moment"):
        touch = TOUCH.replace("TYPE", str(types[name].type)).replace("NAME", name)
        assert graph.mutate(touch, params={"value": values[name]}).affected_nodes == 1, name


# ------------------------------------------------------------------------------------------------ many rows


def test_many_ids_are_not_listed(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MAX_LISTED_VALUES", 1)
    monkeypatch.setattr(row_search, "MAX_LISTED_VALUES", 1)
    assert fleet.mutate('query all() { update Vessel set { name: "same" } where name > "A" }').affected_nodes == 3
    assert set(names(fleet).values()) == {"same"}
    result = fleet.mutate('query all() { delete Vessel where name = "same" }')
    assert (result.affected_nodes, result.affected_edges) == (3, 2)
    assert [rows_of(fleet, name) for name in ("Vessel", "Tows", "CallsAt")] == [[], [], []]


# ------------------------------------------------------------------------------------------------ ids of older releases


class OldRows:
    """Rows as an older release left them."""

    kind = WriterKind.LOAD
    strict = False

    def __init__(self, table_key: str, rows: list[dict[str, object]]) -> None:
        self._table_key, self._rows = table_key, rows

    def prepare(self, snapshot: object) -> PreparedWrite[None]:
        del snapshot
        return PreparedWrite((TableChange(self._table_key, self._stage),), frozenset(), None)

    def _stage(self, table: Table) -> StagedChange | None:
        return tables.append(table, pa.Table.from_pylist(self._rows, schema=table.schema))


@pytest.mark.parametrize(
    "statement",
    [
        'insert Leg { line: "N2", seq: 1 }',
        'update Leg set { note: "x" } where seq = 1',
        "delete Leg where seq = 1",
    ],
)
def test_ids_of_an_old_form_are_not_written_over(fleet: Graph, statement: str) -> None:
    old = OldRows("node:Leg", [{"id": "N1", "line": "N1", "seq": 7, "note": None}])
    commit_operation(fleet._manifest, old, CommitOptions())
    state = written(fleet)
    with pytest.raises(LegacyRowIds, match="--rewrite-ids"):
        fleet.mutate(f"query change() {{ {statement} }}")
    assert written(fleet) == state
    fleet.mutate(ADD_PORT, params={"code": "p9"})

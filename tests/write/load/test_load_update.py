"""Updates: rows must exist, the properties that a record mentions change, and all others stay as they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.storage.failpoints import record_writes
from omnigraph.write.load import LoadMode
from omnigraph.write.load.matching import column_updates, match_candidates
from omnigraph.write.load.run import LoadResult
from tests import crash
from tests.graphs import rows_of, written
from tests.selection import daily
from tests.write.mutation.interleaving import meanwhile

SCHEMA = """
node Ship {
  code: String @key
  name: String
  kind: enum(ferry, tug) @default("ferry")
  crew: I32?
  tags: [String]?
  shape: Vector(2)?
  photo: Blob?
  map: Blob?
  seen: DateTime?
  @unique(name)
  @range(crew, 0..99)
}
node Leg { line: String  seq: I32  note: String?  @key(line, seq) }
node Seal { number: I64  owner: String  grade: I32?  @unique(number)  @unique(owner) }
edge Meets: Ship -> Ship @card(0..2) { at: I32?  place: String?  score: F64? }
"""
Record = Mapping[str, object]
PAIR = {"Meets": ["from", "at"]}
OUTSIDE = Path(__file__).as_uri()
"""A blob that is a file outside of the graph."""

# Every test runs with its rows in memory, staged while they are read, divided into many parts, and written as columns.
pytestmark = pytest.mark.usefixtures("size")


@pytest.fixture(params=daily(["held", "staged", "divided", "columns"], ["divided"]))
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "columns":
        monkeypatch.setattr(column_updates, "LEAST_ROWS", 1)
    if request.param in ("staged", "divided"):
        from omnigraph.write.load.inputs import sources
        from omnigraph.write.load.rows import row_buffer

        monkeypatch.setattr(row_buffer, "MAX_BUFFERED_BYTES", 0)
        monkeypatch.setattr(sources, "BLOCK_RECORDS", 2)
    if request.param == "divided":
        monkeypatch.setattr(match_candidates, "ROWS_IN_A_PART", 1)
    return request.param


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ships") / "ships.og"
    graph = omnigraph.init(folder, SCHEMA)
    graph.load(
        [
            ship(
                "a",
                name="Anna",
                kind="tug",
                crew=3,
                tags=["x"],
                shape=[1, 2],
                photo="base64:aGVsbG8=",
                seen="2024-01-01T00:00:00.5Z",
            ),
            ship("b", name="Bea", map=OUTSIDE),
            meet("a", "b", id="first", at=1, place="Oslo", score=1.0),
            {"type": "Leg", "data": {"line": "x", "seq": 1, "note": "old"}},
        ]
    )
    # Other fragments than those of the first load.
    graph.load([ship("c", name="Cora", crew=5), meet("b", "c", at=2, place="Kiel")])
    return folder


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    return omnigraph.open(shutil.copytree(template, tmp_path / "ships.og"))


def ship(code: str, **data: object) -> Record:
    return {"type": "Ship", "data": {"code": code, **data}}


def meet(source: str, target: str, **data: object) -> Record:
    return {"edge": "Meets", "from": source, "to": target, "data": data}


def update(graph: Graph, records: Sequence[Record], **more: object) -> LoadResult:
    return graph.load(records, mode="update", **more)  # pyright: ignore[reportArgumentType]  the options of a load


def ships(graph: Graph, branch: str = "main") -> dict[str, dict[str, object]]:
    return {str(row["code"]): dict(row) for row in rows_of(graph, "Ship", branch)}


def told(error: ValidationError) -> list[tuple[int | None, str]]:
    return [(each.line, each.rule) for each in error.violations]


# --------------------------------------------------------------------------------------------- what changes


def test_only_what_a_record_mentions_changes(graph: Graph) -> None:
    before = ships(graph)
    result = update(graph, [ship("c", crew=6), ship("a", tags=None, seen=None), ship("b", kind="tug", shape=[3, 4])])
    assert (result.mode, result.nodes) == ("update", {"Ship": 3})
    assert ships(graph) == {
        "a": {**before["a"], "tags": None, "seen": None},
        "b": {**before["b"], "kind": "tug", "shape": [3.0, 4.0]},
        "c": {**before["c"], "crew": 6},
    }
    assert graph.blob("Ship", "a", "photo") == b"hello"


def test_blobs_are_kept_replaced_and_compared_by_their_bytes(graph: Graph) -> None:
    update(graph, [ship("a", map="base64:bWFw"), ship("b", photo="base64:aGVsbG8=")])
    assert graph.blob("Ship", "a", "photo") == graph.blob("Ship", "b", "photo") == b"hello"
    assert graph.blob("Ship", "a", "map") == b"map"
    assert update(graph, [ship("a", photo="base64:aGVsbG8="), ship("b", map=OUTSIDE)]).commit is None
    # As long as the other, and different.
    assert update(graph, [ship("a", photo="base64:aGVsbGE=")]).commit is not None
    assert graph.blob("Ship", "a", "photo") == b"hella"


def test_records_that_change_nothing_are_no_change(graph: Graph) -> None:
    before = written(graph)
    records = [
        ship("a", crew=3, tags=["x"], shape=[1, 2], kind="tug", seen="2024-01-01T00:00:00.5Z"),
        ship("b"),
        {"edge": "Meets", "data": {"id": "first", "score": 1}},
    ]
    with record_writes() as steps:
        result = update(graph, records)
    assert (result.commit, result.nodes, result.edges) == (None, {"Ship": 2}, {"Meets": 1})
    assert written(graph) == before
    assert [step.name for step in steps if graph.uri in step.detail] == []
    changed = update(graph, [*records, ship("c", crew=1)])
    assert changed.commit is not None
    (entity,) = graph.diff(changed.commit.parents[0], changed.commit.id).entities()
    assert (entity.id, entity.op) == ("c", "updated")


def test_a_txn_is_kept_and_replayed(graph: Graph) -> None:
    assert update(graph, [ship("b")], txn=("ranks", 1)).commit is not None
    assert update(graph, [ship("b", crew=9)], txn=("ranks", 1)).replayed
    assert ships(graph)["b"]["crew"] is None


def test_a_row_is_named_by_its_id_or_its_key(graph: Graph) -> None:
    leg = '["x","1"]'
    assert rows_of(graph, "Leg")[0]["id"] == leg
    update(
        graph, [{"type": "Leg", "data": {"id": leg, "note": "by id"}}, {"type": "Ship", "data": {"id": "a", "crew": 1}}]
    )
    assert rows_of(graph, "Leg")[0]["note"] == "by id"
    update(graph, [{"type": "Leg", "data": {"line": "x", "seq": 1, "id": leg, "note": "by both"}}])
    assert rows_of(graph, "Leg")[0]["note"] == "by both"
    before = written(graph)
    with pytest.raises(ValidationError) as caught:
        update(
            graph,
            [
                {"type": "Leg", "data": {"id": leg, "line": "y", "note": "z"}},
                ship("a", id="b"),
                {"type": "Ship", "data": {"code": None}},
            ],
        )
    assert told(caught.value) == [(1, "required"), (2, "@key(code)"), (3, "required")]
    assert written(graph) == before


def test_edges_change_their_ends_too(graph: Graph) -> None:
    update(graph, [{"edge": "Meets", "to": "c", "data": {"id": "first"}}, meet("b", "a", at=2, score=4)], identity=PAIR)
    found = sorted((row["src"], row["dst"], row["place"], row["score"]) for row in rows_of(graph, "Meets"))
    assert found == [("a", "c", "Oslo", 1.0), ("b", "a", "Kiel", 4.0)]


# --------------------------------------------------------------------------------------------- what is refused


def test_rows_that_are_not_stored_are_told_with_all_else(graph: Graph) -> None:
    before = written(graph)
    records = [
        ship("z", crew=1),
        ship("a", crew=100),
        meet("a", "b", score=1),
        meet("c", "b", id="second"),
        ship("b", name="Cora"),
        {"edge": "Meets", "from": "a", "to": "nobody", "data": {"id": "first"}},
        ship("c", name=None),
    ]
    with pytest.raises(ValidationError) as caught:
        update(graph, records)
    found = {each.line: (each.rule, each.value) for each in caught.value.violations}
    assert {line: rule for line, (rule, _) in found.items()} == {
        1: "update",
        2: "@range(crew, 0..99)",
        3: "update",
        4: "update",
        5: "@unique(name)",
        6: "edge Meets: Ship -> Ship",
        7: "required",
    }
    assert (found[1][1], found[4][1]) == ("z", "second")
    assert written(graph) == before


def test_an_identity_must_name_one_stored_row(graph: Graph) -> None:
    graph.load([meet("c", "a", at=2), meet("c", "b", at=2)])
    before = written(graph)
    records = [
        meet("c", "a", at=2, score=1),
        {"edge": "Meets", "from": "c", "data": {"score": 1}},
        meet("c", "a", at=3),
        meet("b", "c", at=2, score=1),
        {"edge": "Meets", "from": None, "data": {"at": 2}},
    ]
    with pytest.raises(ValidationError) as caught:
        update(graph, records, identity=PAIR)
    messages = {each.line: each.message for each in caught.value.violations}
    assert messages == {
        1: "there are several Meets with from, at = c, 2; give the id of one",
        2: "the record does not say which Meets it updates; give from, at, or its id",
        3: "there is no Meets to update with from, at = c, 3",
        5: "edge Meets: Ship -> Ship: 'from' is missing",
    }
    assert [each.id for each in caught.value.violations] == [None] * 4
    assert written(graph) == before


@pytest.mark.parametrize(
    "records",
    [
        [ship("a", crew=1), ship("a", crew=2)],
        [ship("b"), ship("b")],
        [ship("b"), {"type": "Ship", "data": {"id": "b", "crew": 2}}],
        [meet("a", "b", at=1), meet("a", "c", at=1, score=2)],
        [{"edge": "Meets", "data": {"id": "first"}}, meet("a", "c", at=1, score=2)],
    ],
)
def test_one_row_is_updated_by_one_record(graph: Graph, records: Sequence[Record]) -> None:
    with pytest.raises(ValidationError, match="is given 2 times"):
        update(graph, records, identity=PAIR)


def test_several_unique_sets_need_an_identity(graph: Graph) -> None:
    graph.load([{"type": "Seal", "data": {"number": 1, "owner": "Ann"}}])
    grade = {"type": "Seal", "data": {"number": 1, "grade": 5}}
    with pytest.raises(ParameterError, match=r"@unique\(number\), @unique\(owner\)"):
        update(graph, [grade])
    update(graph, [grade], identity={"Seal": ["number"]})
    assert [(row["owner"], row["grade"]) for row in rows_of(graph, "Seal")] == [("Ann", 5)]


def test_the_quarantine_takes_records_as_they_were_given(graph: Graph, tmp_path: Path) -> None:
    records = [
        ship("z", crew=None),
        ship("a", name="Bea", crew=7),
        ship("c", crew=1),
        meet("a", "nobody", at=1),
        {"edge": "Meets", "data": {"id": "none", "place": None}},
    ]
    result = update(graph, records, identity=PAIR, on_error="quarantine", rejects=tmp_path / "rejects.jsonl")
    assert (result.rejected, result.nodes, result.edges) == (4, {"Ship": 1}, {"Meets": 0})
    lines = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert {line["line"]: json.loads(line["record"]) for line in lines} == {
        1: records[0],
        2: records[1],
        4: records[3],
        5: records[4],
    }
    assert ships(graph)["c"]["crew"] == 1
    again = update(graph, records, identity=PAIR, on_error="quarantine", rejects=tmp_path / "again.jsonl")
    assert (again.commit, again.rejected) == (None, 4)


def test_a_check_tells_and_writes_nothing(graph: Graph) -> None:
    before = written(graph)
    assert update(graph, [ship("a", crew=9)], check=True).nodes == {"Ship": 1}
    with pytest.raises(ValidationError) as caught:
        update(graph, [ship(str(number)) for number in range(150)], check=True)
    assert len(caught.value.violations) == 150
    with pytest.raises(ValidationError) as caught:
        update(graph, [ship(str(number)) for number in range(150)])
    assert (len(caught.value.violations), caught.value.details["more"]) == (100, True)
    assert written(graph) == before


def test_a_type_without_rows_has_none_to_update(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "empty.og", SCHEMA)
    with pytest.raises(ValidationError) as caught:
        update(graph, [ship("a"), meet("a", "b")])
    assert told(caught.value) == [(1, "update"), (2, "update")]


# --------------------------------------------------------------------------------------------- tables


def test_a_table_has_the_key_and_what_changes(graph: Graph, tmp_path: Path) -> None:
    before = ships(graph)
    (tmp_path / "ranks.csv").write_text("code,crew\na,\nb,8\n")
    pq.write_table(pa.table({"id": ["c"], "tags": [["y"]]}), tmp_path / "ids.parquet")
    (tmp_path / "more.jsonl").write_text('{"code": "b", "kind": "tug"}\n{"code": "c", "crew": 2}\n')
    graph.load(nodes={"Ship": tmp_path / "ranks.csv"}, mode="update")
    graph.load(nodes={"Ship": tmp_path / "ids.parquet"}, mode="update")
    graph.load(nodes={"Ship": tmp_path / "more.jsonl"}, mode="update")
    scores = pa.table({"from": ["a"], "at": [1], "score": [9.0]})
    graph.load(edges={"Meets": scores}, mode="update", identity=PAIR)
    graph.load(edges={"Meets": pa.table({"id": ["first"], "place": ["Riga"]})}, mode="update")
    assert ships(graph) == {
        "a": {**before["a"], "crew": None},
        "b": {**before["b"], "crew": 8, "kind": "tug"},
        "c": {**before["c"], "crew": 2, "tags": ["y"]},
    }
    (first,) = [row for row in rows_of(graph, "Meets") if row["id"] == "first"]
    assert (first["dst"], first["place"], first["score"]) == ("b", "Riga", 9.0)


def test_a_table_without_what_names_its_rows_is_refused(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "ranks.csv").write_text("crew\n8\n")
    with pytest.raises(ParameterError, match="column 'code' is missing; give it, or id"):
        graph.load(nodes={"Ship": tmp_path / "ranks.csv"}, mode="update")


# --------------------------------------------------------------------------------------------- branches and others


def test_a_branch_is_updated_and_a_new_one_too(graph: Graph) -> None:
    main = ships(graph)
    graph.create_branch("june")
    update(graph, [ship("a", crew=8)], branch="june")
    update(graph, [ship("b", crew=7)], branch="july", from_branch="june")
    assert (ships(graph, "july")["a"]["crew"], ships(graph, "july")["b"]["crew"]) == (8, 7)
    assert ships(graph) == main
    with pytest.raises(ValidationError):
        update(graph, [ship("z")], branch="may", from_branch="june")
    assert "may" not in [each.name for each in graph.branches()]


@pytest.mark.parametrize("size", ["held"], indirect=True)
@pytest.mark.parametrize("mode", ["update", "merge"])
def test_a_small_load_on_a_branch_is_one_commit(graph: Graph, mode: LoadMode) -> None:
    graph.create_branch("june")
    before = len(graph.commits("june"))
    graph.load(
        [{"edge": "Meets", "from": "a", "to": "b", "data": {"at": 1, "score": 3}}, meet("b", "c", at=2, place="Kiel")],
        mode=mode,
        branch="june",
        identity=PAIR,
    )
    assert len(graph.commits("june")) == before + 1


def test_a_branch_that_lags_keeps_its_defaults(graph: Graph) -> None:
    graph.create_branch("june")
    graph.apply_schema(SCHEMA.replace("crew: I32?", "crew: I64?  rate: I64 @default(7)  plan: Blob?"))
    update(graph, [ship("a", crew=8, plan="base64:aGVsbG8=")], branch="july", from_branch="june")
    update(graph, [ship("a", crew=2**40 % 90), ship("b", rate=7)], branch="june")
    found = ships(graph, "june")
    assert (found["a"]["crew"], found["a"]["rate"], found["b"]["rate"]) == (2**40 % 90, 7, 7)
    assert graph.blob("Ship", "a", "plan", branch="july") == b"hello"
    assert graph.blob("Ship", "a", "photo", branch="july") == b"hello"


def test_what_others_change_meanwhile_stays(graph: Graph) -> None:
    with meanwhile(lambda: update(graph, [ship("a", kind="ferry"), ship("c", crew=8)])):
        update(graph, [ship("a", crew=9), ship("b", crew=8)])
    found = ships(graph)
    assert (found["a"]["kind"], found["a"]["crew"], found["b"]["crew"], found["c"]["crew"]) == ("ferry", 9, 8, 8)


def test_a_row_that_another_deletes_meanwhile_is_not_written(graph: Graph) -> None:
    delete = 'query drop() { delete Ship where code = "a" }'
    with meanwhile(lambda: graph.mutate(delete)), pytest.raises(ValidationError) as caught:
        update(graph, [ship("b", crew=9), ship("a", crew=9)])
    assert told(caught.value) == [(2, "update")]
    assert set(ships(graph)) == {"b", "c"}


def _update_once(uri: str) -> None:
    update(omnigraph.open(uri), [ship("a", crew=9), meet("b", "a", at=2)], identity=PAIR, txn=("ranks", 1))


@pytest.mark.parametrize("size", ["held"], indirect=True)
def test_killed_anywhere_its_retry_updates_once(graph: Graph) -> None:
    template = Path(graph.uri)
    steps = crash.record(_update_once, str(crash.fresh_copy(template)))
    assert len(steps) > 4
    for number, when in crash.some_crashes(steps):
        uri = str(crash.fresh_copy(template))
        crash.kill_at(_update_once, (uri,), number, when)
        crash.run(_update_once, uri)
        found = omnigraph.open(uri)
        assert (ships(found)["a"]["crew"], ships(found)["a"]["name"]) == (9, "Anna"), (when, steps[number - 1])
        assert {(row["src"], row["dst"]) for row in rows_of(found, "Meets")} == {("a", "b"), ("b", "a")}
        assert [each.txn for each in found.commits()].count(("ranks", 1)) == 1

"""Schema changes: what each step does to the rows, and that older commits stay unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from ulid import ULID

import omnigraph
from omnigraph.errors import (
    ConflictError,
    HistoryGone,
    LegacyRowIds,
    LockTimeout,
    ParameterError,
    ReadOnly,
    SchemaError,
    ValidationError,
)
from omnigraph.graph import Graph
from omnigraph.language.schema import parse_schema
from omnigraph.maintain.cleanup import cleanup
from omnigraph.maintain.orphans import ReclaimKind
from omnigraph.manifest import contract
from omnigraph.manifest.opening import ADOPTION_MESSAGE, SCHEMA_APPLY_LOCK
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.rows import MAIN, TableVersion
from omnigraph.manifest.snapshot import make_entry
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.failpoints import record_writes
from omnigraph.storage.locks import LockSettings, branch_lock, refs_lock
from tests.graphs import written
from tests.write.evolve.people_graph import BEFORE, head, load, make, people, with_change


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make(tmp_path)


def kinds(graph: Graph, schema: str) -> list[str]:
    applied = graph.apply_schema(schema)
    assert applied.applied
    assert applied.commit is not None
    assert applied.commit.id == head(graph)
    assert graph.verify().findings == ()
    return [step.kind for step in applied.steps]


def data_files_written(graph: Graph, schema: str) -> int:
    with record_writes() as steps:
        graph.apply_schema(schema)
    return sum(step.name == "table.stage" for step in steps)


# --------------------------------------------------------------------------------------------- steps


def test_the_same_schema_changes_nothing(graph: Graph) -> None:
    before = written(graph)
    applied = graph.apply_schema(f"// another comment\n{BEFORE}")
    assert (applied.applied, applied.commit, applied.steps) == (False, None, ())
    assert written(graph) == before


def test_metadata_touches_no_table(graph: Graph) -> None:
    pins = graph.snapshot().pins
    wanted = with_change("age: I32?", 'age: I32? @description("in years") @index')
    wanted = with_change("wild)?", "wild, tired)?", wanted)
    assert kinds(graph, wanted) == ["update_property_metadata", "extend_enum", "add_constraint"]
    assert graph.snapshot().pins == pins
    load(graph, {"type": "Person", "data": {"name": "dee", "mood": "tired"}})
    assert people(graph)["dee"]["mood"] == "tired"


def test_a_new_property_is_null_and_writes_no_rows(graph: Graph) -> None:
    wanted = with_change("age: I32?", "age: I32?\n  note: String?\n  home: Vector(2)?")
    assert data_files_written(graph, wanted) == 0
    assert people(graph)["ann"] | {"note": None, "home": None} == people(graph)["ann"]
    load(graph, {"type": "Person", "data": {"name": "dee", "note": "new", "home": [1.0, 2.0]}})
    assert people(graph)["dee"]["note"] == "new"
    assert len(people(graph)) == 4
    assert graph.verify().findings == ()


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ('I32 @default("7")', 7),
        ('String @default("x")', "x"),
        ("Bool @default(true)", True),
        ('F64 @default("0.5")', 0.5),
        ('Date @default("2024-01-31")', date(2024, 1, 31)),
        ('DateTime @default("2024-01-31T08:00:01Z")', datetime(2024, 1, 31, 8, 0, 1, tzinfo=UTC)),
        ("enum(low, high) @default(low)", "low"),
    ],
)
def test_a_required_property_is_filled_with_its_default(graph: Graph, declared: str, value: object) -> None:
    assert kinds(graph, with_change("age: I32?", f"age: I32?\n  rank: {declared}")) == ["add_property"]
    assert {row["rank"] for row in people(graph).values()} == {value}
    assert people(graph)["ann"]["age"] == 30


def test_a_number_gets_wider(graph: Graph) -> None:
    assert kinds(graph, with_change("age: I32?", "age: I64?")) == ["widen_property"]
    assert people(graph)["ann"]["age"] == 30
    load(graph, {"type": "Person", "data": {"name": "dee", "age": 2**40}})
    assert people(graph)["dee"]["age"] == 2**40


def test_a_property_gets_another_name_and_keeps_its_values(graph: Graph) -> None:
    wanted = with_change("nick: String?", 'alias: String? @rename_from("nick")')
    assert data_files_written(graph, wanted) == 0
    assert people(graph)["ann"]["alias"] == "a"
    assert "nick" not in people(graph)["ann"]


def test_a_dropped_property_comes_back_empty_and_stays_in_the_past(graph: Graph) -> None:
    before = head(graph)
    assert kinds(graph, with_change("  nick: String?\n", "")) == ["drop_property"]
    assert kinds(graph, BEFORE) == ["add_property"]
    assert {row["nick"] for row in people(graph).values()} == {None}
    assert people(graph, at=before)["ann"]["nick"] == "a"


def test_a_type_gets_another_name_and_keeps_rows_and_ids(graph: Graph) -> None:
    before = head(graph)
    wanted = BEFORE.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")')
    assert kinds(graph, wanted) == ["rename_type"]
    assert graph.nodes("Human").to_arrow()["id"].to_pylist() == ["ann", "bob", "cid"]
    assert graph.get("Human", "ann", ["age"]) == {"age": 30}
    found = graph.query("query q() { match { $a: Human $a knows $b } return { $b.name } order { $b.name } }")
    assert [row["b.name"] for row in found.to_arrow().to_pylist()] == ["bob", "cid"]
    assert people(graph, at=before)["ann"]["age"] == 30
    # And back: the old folder still has versions that a tombstone hides.
    assert kinds(graph, BEFORE.replace("node Person", 'node Person @rename_from("Human")')) == ["rename_type"]
    assert people(graph)["ann"]["age"] == 30


def test_types_come_and_go_and_come_back_empty(graph: Graph) -> None:
    before = head(graph)
    without = with_change("edge LivesIn: Person -> City\n", "").replace("node City { name: String @key }\n", "")
    assert kinds(graph, f"{without}node Boat {{ name: String @key }}") == ["add_type", "drop_type", "drop_type"]
    load(graph, {"type": "Boat", "data": {"name": "tub"}})
    assert graph.nodes("Boat").to_arrow()["id"].to_pylist() == ["tub"]
    assert [edge["from"] for edge in graph.edges("LivesIn", at=before).to_arrow().to_pylist()] == ["bob"]
    assert kinds(graph, BEFORE) == ["add_type", "drop_type", "add_type"]
    assert graph.nodes("City").to_arrow().num_rows == 0
    load(graph, {"type": "City", "data": {"name": "rome"}}, {"edge": "LivesIn", "from": "ann", "to": "rome"})
    assert graph.nodes("City").to_arrow()["id"].to_pylist() == ["rome"]
    assert graph.nodes("City", at=before).to_arrow()["id"].to_pylist() == ["oslo"]
    assert graph.verify().findings == ()


def test_what_may_be_null_and_what_may_not(graph: Graph) -> None:
    load(graph, {"type": "Person", "data": {"name": "cid", "age": 1, "nick": "c", "mood": "glad"}})
    assert kinds(graph, with_change("age: I32?", "age: I32")) == ["require_property"]
    with pytest.raises(ValidationError):
        load(graph, {"type": "Person", "data": {"name": "dee"}})
    assert kinds(graph, BEFORE) == ["relax_property"]
    load(graph, {"type": "Person", "data": {"name": "dee"}})
    assert people(graph)["dee"]["age"] is None


def test_blobs_and_lists_survive_a_rewrite(tmp_path: Path) -> None:
    schema = "node Doc { name: String @key  size: I32  scan: Blob?  tags: [String]? }"
    records = tuple(
        {"type": "Doc", "data": {"name": name, "size": 1, "scan": scan, "tags": tags}}
        for name, scan, tags in (("a", "base64:aGVsbG8=", ["x", "y"]), ("b", None, None))
    )
    graph = make(tmp_path, schema, records)
    graph.apply_schema(schema.replace("size: I32", "size: I64"))
    assert graph.blob("Doc", "a", "scan") == b"hello"
    graph.apply_schema(schema.replace("size: I32", "size: I64").replace("node Doc", 'node Text @rename_from("Doc")'))
    assert graph.blob("Text", "a", "scan") == b"hello"
    assert graph.get("Text", "a", ["size", "tags"]) == {"size": 1, "tags": ["x", "y"]}
    assert graph.blob("Text", "b", "scan") is None


def test_all_at_once_on_a_type_that_is_renamed_too(graph: Graph) -> None:
    wanted = BEFORE.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")')
    wanted = with_change("age: I32?", 'years: I64? @rename_from("age")\n  rank: I32 @default("7")', wanted)
    wanted = with_change("  nick: String?\n", "", wanted)
    graph.apply_schema(wanted)
    row = graph.get("Human", "ann")
    assert row == {"id": "ann", "name": "ann", "years": 30, "rank": 7, "mood": "calm"}
    assert graph.verify().findings == ()


# --------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("old", "new", "rule", "ids"),
    [
        ("age: I32?", "age: I32", None, {"cid"}),
        ("glad, wild)", "glad)", None, {"bob"}),
        ("nick: String?", "nick: String? @unique", "@unique", {"ann", "bob"}),
        ("mood: enum", "@range(age, 0..35)\n  mood: enum", "@range", {"bob"}),
        ("mood: enum", '@check(nick, "^b")\n  mood: enum', "@check", {"ann", "bob"}),
        ("Person -> Person", "Person -> Person @card(0..1)", "@card", {"ann"}),
    ],
)
def test_rows_that_break_a_new_rule_are_all_listed_and_nothing_changes(
    graph: Graph, old: str, new: str, rule: str | None, ids: set[str]
) -> None:
    before = written(graph)
    with pytest.raises(ValidationError) as caught:
        graph.apply_schema(with_change(old, new))
    found = caught.value.violations
    named = {name for each in found for name in (each.id, each.value, *each.ids) if name in ("ann", "bob", "cid")}
    assert named == ids
    assert all(each.rule.startswith(rule) for each in found if rule is not None)
    assert written(graph) == before
    assert graph.schema.text == BEFORE


def test_a_key_that_is_added_must_be_what_the_ids_are(tmp_path: Path) -> None:
    schema = "node Tag { name: String }"
    records = ({"type": "Tag", "data": {"id": "x", "name": "x"}}, {"type": "Tag", "data": {"id": "1", "name": "y"}})
    graph = make(tmp_path, schema, records)
    with pytest.raises(ValidationError) as caught:
        graph.apply_schema(schema.replace("String", "String @key"))
    assert [(each.id, each.rule, each.value) for each in caught.value.violations] == [("1", "@key(name)", "y")]
    graph.mutate('query q() { delete Tag where name = "y" }')
    graph.apply_schema(schema.replace("String", "String @key"))
    load(graph, {"type": "Tag", "data": {"name": "x"}})
    assert graph.nodes("Tag").to_arrow()["id"].to_pylist() == ["x"]


# --------------------------------------------------------------------------------------------- refused


def test_an_unsupported_plan_names_every_step(graph: Graph) -> None:
    before = written(graph)
    wanted = with_change("age: I32?", "age: String?\n  must: I32")
    with pytest.raises(SchemaError) as caught:
        graph.apply_schema(wanted)
    assert [problem.code for problem in caught.value.problems] == ["OG-MF-106", "OG-MF-103"]
    assert [problem.position.text.strip() for problem in caught.value.problems] == ["age: String?", "must: I32"]
    assert written(graph) == before


def test_the_schema_of_another_graph_needs_a_word(graph: Graph) -> None:
    with pytest.raises(ParameterError, match="another graph"):
        graph.apply_schema("node Boat { name: String @key }")
    assert len(people(graph)) == 3


def test_only_one_at_a_time_and_the_other_is_named(graph: Graph) -> None:
    other = omnigraph.open(graph.uri)
    other._manifest.locks = LockSettings(timeout=0.05)
    with refs_lock(graph._manifest.location), ThreadPoolExecutor(1) as pool:
        applying = pool.submit(other.apply_schema, with_change("age: I32?", "age: I64?"))
        with pytest.raises(LockTimeout, match="process"):
            applying.result()
    assert graph.schema.text == BEFORE


def test_read_only(graph: Graph) -> None:
    with pytest.raises(ReadOnly):
        omnigraph.open(graph.uri, "ro").apply_schema(BEFORE)


# --------------------------------------------------------------------------------------------- hard drops


def test_a_hard_drop_removes_the_past_too(graph: Graph) -> None:
    load(graph, {"type": "City", "data": {"name": "rome"}})
    parent, before = (commit.id for commit in reversed(graph.commits(limit=2)))
    wanted = with_change("  nick: String?\n", "")
    with pytest.raises(ConflictError, match=f"commit {parent} shows it") as caught:
        graph.apply_schema(wanted, allow_data_loss=True)
    assert "cleanup --keep 1" in str(caught.value.hint)
    assert "nick" in people(graph)["ann"]
    cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
    graph.apply_schema(wanted, allow_data_loss=True)
    assert people(graph)["ann"]["age"] == 30
    with pytest.raises(HistoryGone):
        people(graph, at=before)
    assert graph.nodes("City", at=before).to_arrow().num_rows == 2
    assert graph.verify().findings == ()


def size_of(graph: Graph, location: str) -> int:
    return sum(info.size for info in graph._manifest.objects.list(location))


@pytest.mark.parametrize("hard", [False, True])
def test_the_rows_of_a_dropped_type_go_when_no_commit_shows_them(graph: Graph, hard: bool) -> None:
    """Without data loss they are deleted with the last commit that shows them; with data loss, at once."""
    records = tuple({"type": "City", "data": {"name": f"{number:0>200}"}} for number in range(500))
    load(graph, *records)
    before, location = head(graph), graph.snapshot().pins["node:City"].location
    with_rows = size_of(graph, location)
    if hard:
        cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
    wanted = with_change("edge LivesIn: Person -> City\n", "").replace("node City { name: String @key }\n", "")
    graph.apply_schema(wanted, allow_data_loss=hard)
    if not hard:
        assert graph.nodes("City", at=before).to_arrow().num_rows == 501
        load(graph, {"type": "Person", "data": {"name": "dee"}})
        kept = cleanup(graph._manifest, 3, grace=timedelta(0), confirm=True)
        assert ReclaimKind.DROPPED not in {each.kind for each in kept.reclaimed}
        assert graph.nodes("City", at=before).to_arrow().num_rows == 501
        preview = cleanup(graph._manifest, 1, grace=timedelta(0))
        done = cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
        for found in (preview, done):
            assert {each.kind: each.count for each in found.reclaimed}[ReclaimKind.DROPPED] == 2
        assert done.bytes > with_rows / 2
        again = cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
        assert ReclaimKind.DROPPED not in {each.kind for each in again.reclaimed}
    assert size_of(graph, location) < with_rows / 5
    assert graph.verify().findings == ()
    graph.apply_schema(BEFORE)
    assert graph.nodes("City").to_arrow().num_rows == 0
    load(graph, {"type": "City", "data": {"name": "rome"}})
    assert graph.nodes("City").to_arrow()["id"].to_pylist() == ["rome"]
    assert graph.verify().findings == ()


@pytest.mark.parametrize("holder", ["branch", "tag"])
def test_a_hard_drop_is_refused_while_somebody_shows_the_data(graph: Graph, holder: str) -> None:
    if holder == "branch":
        graph.create_branch("held")
    else:
        graph.create_tag("held")
    wanted = with_change("edge LivesIn: Person -> City\n", "")
    with pytest.raises(ConflictError, match=f"{holder} 'held'"):
        graph.apply_schema(wanted, allow_data_loss=True)
    assert graph.apply_schema(wanted).applied


# --------------------------------------------------------------------------------------------- for release 0.8


def test_release_0_8_finds_the_schema_and_no_lock(graph: Graph) -> None:
    wanted = with_change("age: I32?", "age: I64?")
    with record_writes() as steps:
        graph.apply_schema(wanted)
    assert [step.name for step in steps if "branch" in step.name] == ["table.branch.create", "table.branch.delete"]
    assert SCHEMA_APPLY_LOCK not in graph._manifest.list_refs()
    assert contract.load_root_schema(graph._manifest.objects).text == wanted
    assert graph.schema.text == wanted
    assert omnigraph.open(graph.uri, "ro").schema.text == wanted


def test_a_schema_that_release_0_8_applied_is_adopted(graph: Graph) -> None:
    """That release writes the files at the root and commits without a schema row."""
    manifest = graph._manifest
    theirs = parse_schema(with_change("age: I32?", "age: I32?\n  note: String?"))
    pin = graph.snapshot().pins["node:Person"]
    table = graph.snapshot().table("Person")
    columns = arrow_schema(theirs.catalog.nodes["Person"])
    moved = tables.commit(table, tables.reshape(table, columns, {}), "0.8")
    contract.project_root_files(manifest.objects, theirs)
    with branch_lock(manifest.location, MAIN) as held:
        request = PublishRequest(CommitIntent(str(ULID()), None), updates=(make_entry(manifest, pin, moved),))
        publish(manifest, held, MAIN, request)
    again = omnigraph.open(graph.uri)
    assert again.schema.hash == theirs.hash
    assert again.commits()[0].message == ADOPTION_MESSAGE
    load(again, {"type": "Person", "data": {"name": "dee", "note": "n"}})
    assert again.verify().findings == ()


def test_files_at_the_root_that_nobody_applied_are_put_right(graph: Graph) -> None:
    contract.project_root_files(graph._manifest.objects, parse_schema(with_change("age: I32?", "age: I64?")))
    assert omnigraph.open(graph.uri).schema.text == BEFORE
    assert contract.load_root_schema(graph._manifest.objects).text == BEFORE


def test_ids_of_an_older_release_are_rewritten_with_the_edges_that_name_them(tmp_path: Path) -> None:
    """That release used only the first property of a key as the id."""
    schema = "node Room { house: String  number: I32  @key(house, number) }\nedge Next: Room -> Room\n"
    graph = omnigraph.init(tmp_path / "graph.og", schema)
    make_legacy(graph)
    record: dict[str, object] = {"type": "Room", "data": {"house": "c", "number": 3}}
    with pytest.raises(LegacyRowIds):
        load(graph, record)
    assert not graph.apply_schema(schema).applied
    assert graph.apply_schema(schema, rewrite_ids=True).applied
    assert graph.nodes("Room").to_arrow()["id"].to_pylist() == ['["a","1"]', '["b","2"]']
    assert [(row["from"], row["to"]) for row in graph.edges("Next").to_arrow().to_pylist()] == [
        ('["a","1"]', '["b","2"]')
    ]
    load(graph, record)
    assert not graph.apply_schema(schema, rewrite_ids=True).applied
    assert graph.verify().findings == ()


def test_ids_are_rewritten_while_the_key_gets_another_name(tmp_path: Path) -> None:
    schema = "node Room { house: String  number: I32  @key(house, number) }\nedge Next: Room -> Room\n"
    graph = omnigraph.init(tmp_path / "graph.og", schema)
    make_legacy(graph)
    wanted = schema.replace("number: I32", 'place: I64 @rename_from("number")').replace("house, number", "house, place")
    wanted = wanted.replace("Room", "Flat").replace("node Flat", 'node Flat @rename_from("Room")')
    graph.apply_schema(wanted, rewrite_ids=True)
    assert graph.nodes("Flat").to_arrow().to_pylist() == [
        {"id": '["a","1"]', "house": "a", "place": 1},
        {"id": '["b","2"]', "house": "b", "place": 2},
    ]
    assert [(row["from"], row["to"]) for row in graph.edges("Next").to_arrow().to_pylist()] == [
        ('["a","1"]', '["b","2"]')
    ]
    load(graph, {"type": "Flat", "data": {"house": "a", "place": 1}})
    assert len(graph.nodes("Flat").to_arrow()) == 2
    assert graph.verify().findings == ()


def test_ids_that_several_rows_share_are_not_rewritten(tmp_path: Path) -> None:
    schema = "node Room { house: String  number: I32  @key(house, number) }\nedge Next: Room -> Room\n"
    graph = omnigraph.init(tmp_path / "graph.og", schema)
    make_legacy(graph, houses=("a", "a", "b"))
    before = graph.commits()
    with pytest.raises(ValidationError) as caught:
        graph.apply_schema(schema, rewrite_ids=True)
    assert caught.value.message == "@key(house, number) on Room: 1 ids belong to several rows, such as 'a'"
    assert graph.commits() == before


def make_legacy(graph: Graph, houses: Sequence[str] = ("a", "b")) -> None:
    """Create rows with such ids, and an edge from the first room to the last."""
    manifest = graph._manifest
    numbers = pa.array(range(1, len(houses) + 1), pa.int32())
    rows = {
        "node:Room": pa.table({"id": list(houses), "house": list(houses), "number": numbers}),
        "edge:Next": pa.table({"id": ["e"], "src": [houses[0]], "dst": [houses[-1]]}),
    }
    with branch_lock(manifest.location, MAIN) as held:
        updates: list[TableVersion] = []
        for key, pin in graph.snapshot().pins.items():
            table = graph.snapshot().table(key)
            staged = tables.append(table, rows[key].cast(table.schema))
            assert staged is not None
            updates.append(make_entry(manifest, pin, tables.commit(table, staged, "0.8")))
        publish(manifest, held, MAIN, PublishRequest(CommitIntent(str(ULID()), None), updates=tuple(updates)))

"""A diff of two moments of a graph: what may be compared, what it says, and that it leads from one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import TypeAlias, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import HistoryGone, NotFound, ParameterError
from omnigraph.graph import Graph
from omnigraph.read.changes.compare_rows import Op
from omnigraph.read.changes.diff import Diff, EntityChange, TypeChanges
from omnigraph.storage import tables
from tests.graphs import rows_of
from tests.model import graph_writes
from tests.model.graph_writes import Insert, Link, Load, Mutate, Refused, Remove, Resize, Rows, Unlink, Write
from tests.selection import sized

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  born: Date?
  seen: DateTime?
  tags: [String]?
  place: Vector(2)?
  photo: Blob?
}
node City { name: String @key }
edge Knows: Person -> Person { since: I64? }
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "ann", "age": 41, "tags": ["a"], "place": [0.0, 1.0]}},
    {"type": "Person", "data": {"name": "bob", "seen": "2024-05-01T10:00:00Z", "photo": "base64:b25l"}},
    {"type": "Person", "data": {"name": "cid", "born": "1999-12-31"}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1", "since": 1990}},
]
CHANGE = """
query grow($photo: Blob) {
  update Person set { age: 42, tags: ["a", "b"] } where name = "ann"
  update Person set { seen: datetime("2024-05-02T10:00:00Z"), photo: $photo } where name = "bob"
  insert Person { name: "dot" }
  insert Knows { from: "dot", to: "ann" }
}
query cut() { delete Person where name = "cid" }
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "people.og"
    omnigraph.init(path, SCHEMA).load(PEOPLE)
    return path


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    """Some people on main, and a branch on which everything changed."""
    graph = omnigraph.open(copytree(template, tmp_path / "people.og"))
    graph.create_branch("review")
    graph.mutate(CHANGE, "grow", {"photo": "base64:dHdv"}, branch="review")
    graph.mutate(CHANGE, "cut", branch="review")
    return graph


def by_id(diff: Diff) -> dict[str, EntityChange]:
    return {change.id: change for change in diff.entities()}


# --------------------------------------------------------------------------------------------- what it says


def test_the_summary_counts_by_type(graph: Graph) -> None:
    assert graph.diff("main", "review").summary() == (
        TypeChanges("node", "Person", inserted=1, updated=2, deleted=1),
        TypeChanges("edge", "Knows", inserted=1, updated=0, deleted=0),
    )
    assert graph.diff("review", "review").summary() == ()


def test_entities_have_both_images_and_say_what_differs(graph: Graph) -> None:
    found = by_id(graph.diff("main", "review"))
    ann, bob, cid, dot = (found[name] for name in ("ann", "bob", "cid", "dot"))
    assert (ann.kind, ann.type, ann.op, ann.changed) == ("node", "Person", Op.UPDATED, ("age", "tags"))
    assert ann.before is not None
    assert ann.before == {
        "name": "ann",
        "age": 41,
        "born": None,
        "seen": None,
        "tags": ["a"],
        "place": [0.0, 1.0],
        "photo": None,
    }
    assert ann.after == {**ann.before, "age": 42, "tags": ["a", "b"]}
    assert bob.before is not None
    assert bob.after is not None
    assert (bob.before["photo"], bob.after["photo"], bob.changed) == (b"one", b"two", ("photo", "seen"))
    assert bob.after["seen"] == datetime(2024, 5, 2, 10, tzinfo=UTC)
    assert cid.before is not None
    assert (cid.op, cid.after, cid.changed, cid.before["born"]) == (Op.DELETED, None, (), date(1999, 12, 31))
    assert (dot.op, dot.before, dot.changed) == (Op.INSERTED, None, ())
    assert (dot.from_, dot.to) == (None, None)
    (knows,) = (change for change in found.values() if change.kind == "edge")
    assert (knows.op, knows.from_, knows.to) == (Op.INSERTED, "dot", "ann")
    assert knows.after == {"from": "dot", "to": "ann", "since": None}


def test_nodes_come_before_edges_and_ids_are_in_order(graph: Graph) -> None:
    order = [(change.kind, change.type, change.id) for change in graph.diff("main", "review").entities()]
    assert order == sorted(order, key=lambda each: (each[0] != "node", *each[1:]))
    assert len(order) == 5


def test_an_edge_that_was_led_elsewhere(graph: Graph) -> None:
    record = {"edge": "Knows", "from": "bob", "to": "ann", "data": {"id": "k1", "since": 1990}}
    before = graph.commits()[0].id
    graph.load([record], mode="merge")
    (change,) = graph.diff(before).entities()
    assert (change.op, change.changed, change.from_, change.to) == (Op.UPDATED, ("from", "to"), "bob", "ann")


def test_json_spells_the_values(graph: Graph) -> None:
    found = graph.diff("main", "review", types=["Person"]).to_json()
    assert [found["before"], found["after"]] == [
        {"branch": branch, "commit": head.id, "manifest_version": head.manifest_version}
        for branch in ("main", "review")
        if (head := graph.commits(branch)[0])
    ]
    assert found["summary"] == [{"kind": "node", "type": "Person", "inserted": 1, "updated": 2, "deleted": 1}]
    bob = cast("list[dict[str, Mapping[str, object]]]", found["entities"])[1]
    assert bob["id"] == "bob"
    assert (bob["before"]["photo"], bob["after"]["photo"]) == ("base64:b25l", "base64:dHdv")
    assert bob["after"]["seen"] == "2024-05-02T10:00:00.000Z"


def test_arrow_has_the_same(graph: Graph) -> None:
    diff = graph.diff("main", "review")
    rows = diff.to_arrow("Person").to_pylist()
    entities = [change for change in diff.entities() if change.kind == "node"]
    assert [(row["op"], row["id"], tuple(row["changed"])) for row in rows] == [
        (str(change.op), change.id, change.changed) for change in entities
    ]
    for row, change in zip(rows, entities, strict=True):
        for side, image in (("before", change.before), ("after", change.after)):
            assert (row[side] is None) == (image is None)
            for name in image or {}:
                if image is not None and name != "photo":
                    assert row[side][name] == image[name]
    assert rows[1]["after"]["photo"]["data"] == b"two"
    assert diff.to_arrow("City").num_rows == 0
    assert graph.diff("main", "review", types=["Knows"]).to_arrow("Person").num_rows == 0
    assert isinstance(diff.reader("Knows"), pa.RecordBatchReader)


# --------------------------------------------------------------------------------------------- what is compared


def test_moments_are_named_in_every_way(graph: Graph) -> None:
    first = graph.commits()[0]
    graph.mutate('query q() { insert City { name: "ulm" } }')
    graph.create_tag("done")
    now = graph.snapshot().manifest_version
    city = (TypeChanges("node", "City", inserted=1, updated=0, deleted=0),)
    for reference in (first.id, f"v{first.manifest_version}", first.manifest_version, first.created_at):
        assert graph.diff(reference, "main").summary() == city
        assert graph.diff(reference).summary() == city
        assert graph.diff(reference, "done").summary() == city
    assert graph.diff("done", f"v{now}").summary() == ()
    assert omnigraph.open(graph.uri, "ro").diff(first.id).summary() == city


def test_a_branch_alone_is_what_was_changed_on_it(graph: Graph) -> None:
    own = graph.diff("review").summary()
    assert own == graph.diff("main", "review").summary()
    city = TypeChanges("node", "City", inserted=1, updated=0, deleted=0)
    graph.mutate('query q() { insert City { name: "ulm" } }')
    assert graph.diff("review").summary() == own, "main went on since"
    gone = replace(city, inserted=0, deleted=1)
    assert graph.diff("review", tips=True).summary() == graph.diff("main", "review").summary() == (gone, *own)
    graph.merge("main", into="review")
    assert graph.diff("review").summary() == graph.diff("review", tips=True).summary() == own
    graph.mutate('query q() { insert City { name: "bonn" } }', branch="review")
    assert graph.diff("review").summary() == (city, *own)
    graph.merge("review")
    assert graph.diff("review").summary() == graph.diff("main").summary() == ()


def test_tips_is_about_one_branch(graph: Graph) -> None:
    for references in (("main", "review"), (graph.commits()[0].id,)):
        with pytest.raises(ParameterError, match="tips compares one branch with main"):
            graph.diff(*references, tips=True)


def test_versions_and_times_mean_those_of_a_branch(graph: Graph) -> None:
    grown, _ = graph.commits("review")[1::-1]
    found = graph.diff(f"v{grown.manifest_version}", branch="review")
    assert found.summary() == (TypeChanges("node", "Person", inserted=0, updated=0, deleted=1),)


def test_only_some_types(graph: Graph) -> None:
    assert {change.type for change in graph.diff("review", types=["Knows"]).entities()} == {"Knows"}
    assert {change.type for change in graph.diff("review", types=["node:Person", "City"]).entities()} == {"Person"}
    assert list(graph.diff("review", types=[]).entities()) == []


def test_what_does_not_exist(graph: Graph) -> None:
    with pytest.raises(NotFound, match="no branch, commit, version, date or tag 'reviw'") as unknown:
        graph.diff("main", "reviw")
    assert unknown.value.hint == "did you mean 'review'?"
    with pytest.raises(NotFound, match="no commit 01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        graph.diff("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(NotFound, match="has no manifest version 999"):
        graph.diff("v999")
    with pytest.raises(NotFound, match="neither snapshot has a type 'Persn'") as type_:
        graph.diff("review", types=["Persn"])
    assert type_.value.hint == "did you mean 'Person'?"
    with pytest.raises(ParameterError):
        graph.diff("review", types="Person")


def test_a_version_that_was_cleaned_up(graph: Graph) -> None:
    first = graph.commits()[0]
    graph.mutate('query q() { insert City { name: "ulm" } }')
    graph.mutate('query q() { insert City { name: "bonn" } }')
    city = graph.snapshot().table("City")
    tables.drop_versions(city, [graph.snapshot(at=first.id).pins["node:City"].version])
    with pytest.raises(HistoryGone, match="'node:City' cannot be read") as gone:
        omnigraph.open(graph.uri).diff(first.id).summary()
    assert gone.value.details["table_key"] == "node:City"
    # What did not change since is still there to be compared.
    assert omnigraph.open(graph.uri).diff(first.id, types=["Person"]).summary() == ()


# --------------------------------------------------------------------------------------------- histories

Table: TypeAlias = dict[str, Mapping[str, object]]


def some_write(chance: Random) -> Write:
    def person() -> str:
        return chance.choice("abcd")

    def size() -> int | None:
        return chance.choice([None, 1, 2, 3])

    match chance.randrange(6):
        case 0:
            return Mutate((Insert("Person", person(), size()), Insert("City", person(), size())))
        case 1:
            return Mutate((Resize("Person", 3, size()), Link(person(), person())))
        case 2:
            return Mutate((Remove("Person", person()), Unlink(person())))
        case 3:
            return Load("merge", {"Person": {person(): size(), "e": size()}})
        case 4:
            return Load("append", {"City": {person() + person(): size()}})
        case _:
            return Load("overwrite", {"Person": {name: size() for name in "abcde"}})


def tables_of(graph: Graph, commit: str) -> dict[str, Table]:
    """Everything at a commit, read without a diff."""
    names = ("Person", "City", "Knows")
    return {name: {cast(str, row["id"]): row for row in rows_of(graph, name, at=commit)} for name in names}


def applied(tables_: dict[str, Table], diff: Diff) -> dict[str, Table]:
    """The same with the changes of a diff made to it."""
    for change in diff.entities():
        table = tables_[change.type]
        assert (change.id in table) == (change.before is not None)
        if change.after is None:
            del table[change.id]
        else:
            ends = {"src": change.from_, "dst": change.to} if change.kind == "edge" else {}
            plain = {name: value for name, value in change.after.items() if name not in ("from", "to")}
            assert change.before != change.after
            table[change.id] = {"id": change.id, **ends, **plain}
    return tables_


def check_histories(template: Path, seed: int, steps: int) -> None:
    chance = Random(seed)  # noqa: S311  no secret
    with TemporaryDirectory() as folder:
        graph = omnigraph.open(copytree(template, Path(folder) / "g.og"))
        branches = ["main"]
        model = {"main": Rows({name: {} for name in ("Person", "City", "Firm")})}
        commits = [graph.commits()[0].id]
        for _ in range(steps):
            branch = chance.choice(branches)
            if chance.random() < 0.2 and len(branches) < 4:
                name = f"b{len(branches)}"
                graph.create_branch(name, branch)
                branches.append(name)
                model[name] = model[branch]
                branch = name
            write = some_write(chance)
            try:
                model[branch] = write.on(model[branch])
            except Refused:
                continue
            commit = write.run(graph, branch)
            if commit is not None:
                commits.append(commit.id)
        for _ in range(steps):
            before, after = chance.choice(commits), chance.choice(commits)
            assert applied(tables_of(graph, before), graph.diff(before, after)) == tables_of(graph, after)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "g.og"
    omnigraph.init(path, graph_writes.SCHEMA)
    return path


@pytest.mark.costly
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=sized(2, 4))
def test_a_diff_applied_to_one_moment_gives_the_other(empty: Path, seed: int) -> None:
    check_histories(empty, seed, 10)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_a_diff_applied_to_one_moment_gives_the_other_in_long_histories(empty: Path, seed: int) -> None:
    check_histories(empty, seed, 25)

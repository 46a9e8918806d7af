"""Several schema changes: reused names, commits before a rename, and what change feeds show."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ConflictError, Unsupported
from omnigraph.graph import Graph
from omnigraph.read.changes.compare_rows import Op
from omnigraph.write.commit.section import CATCH_UP_MESSAGE
from tests.write.evolve.people_graph import BEFORE, head, load, make, people, with_change

WITHOUT_NICK = with_change("  nick: String?\n", "")
WITHOUT_CITIES = with_change("edge LivesIn: Person -> City\n", "").replace("node City { name: String @key }\n", "")
ALIAS = with_change("nick: String?", 'alias: String? @rename_from("nick")')
NICKS = "query q() { match { $p: Person } return { $p.name, $p.nick } order { $p.name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph with a branch that has a row of its own."""
    graph = make(tmp_path)
    graph.create_branch("dev")
    load(graph, {"type": "Person", "data": {"name": "dev", "age": 5, "nick": "d"}}, branch="dev")
    return graph


def nicks(graph: Graph, branch: str = "main") -> dict[object, object]:
    """Return the nicknames by both ways to read: a query, which caches columns, and a stream of rows."""
    asked = {row["p.name"]: row["p.nick"] for row in graph.query(NICKS, branch=branch).rows}
    assert asked == {name: row["nick"] for name, row in people(graph, branch).items()}
    return asked


# --------------------------------------------------------------------------------------------- reused names


def test_a_property_that_was_dropped_and_added_again_is_empty_on_a_branch(graph: Graph) -> None:
    assert nicks(graph, "dev")["dev"] == "d"
    graph.apply_schema(WITHOUT_NICK)
    graph.apply_schema(BEFORE)
    empty = {"ann": None, "bob": None, "cid": None, "dev": None}
    assert nicks(graph, "dev") == empty
    again = omnigraph.open(graph.uri)
    assert nicks(again, "dev") == empty
    found = again.query('query q() { match { $p: Person { nick: "a" } } return { $p.name } }', branch="dev")
    assert found.rows == []
    load(again, {"type": "Person", "data": {"name": "eve", "nick": "e"}}, branch="dev")
    assert nicks(again, "dev") == {**empty, "eve": "e"}
    assert again.verify().findings == ()
    again.merge("dev")
    assert nicks(again) == {**empty, "eve": "e"}


def test_a_branch_that_is_merged_at_once_does_not_bring_the_old_property_back(graph: Graph) -> None:
    graph.mutate('query q() { update Person set { nick: "z", age: 31 } where name = "ann" }', branch="dev")
    graph.apply_schema(WITHOUT_NICK)
    graph.apply_schema(BEFORE)
    load(graph, {"type": "Person", "data": {"name": "bob", "age": 40, "nick": "new", "mood": "wild"}})
    graph.merge("dev")
    assert nicks(graph) == {"ann": None, "bob": "new", "cid": None, "dev": None}
    assert people(graph)["ann"]["age"] == 31


def test_a_required_property_that_was_added_again_has_its_default_on_a_branch(graph: Graph) -> None:
    graph.apply_schema(WITHOUT_NICK)
    for default in ("x", "y"):
        graph.apply_schema(with_change("nick: String?", f'nick: String @default("{default}")'))
        # A column that is read often enough stays in memory.
        for _ in range(50):
            assert set(nicks(graph, "dev").values()) == {default}
        graph.apply_schema(WITHOUT_NICK)


@pytest.mark.parametrize("own", [False, True])
def test_a_type_that_was_dropped_and_added_again_is_empty_on_a_branch(graph: Graph, own: bool) -> None:
    if own:
        load(graph, {"type": "City", "data": {"name": "bonn"}}, branch="dev")
    graph.apply_schema(WITHOUT_CITIES)
    graph.apply_schema(BEFORE)
    load(graph, {"type": "City", "data": {"name": "rome"}})
    for opened in (graph, omnigraph.open(graph.uri)):
        assert opened.nodes("City", branch="dev").to_arrow().num_rows == 0
        assert opened.edges("LivesIn", branch="dev").to_arrow().num_rows == 0
        assert opened.query("query q() { match { $c: City } return { $c.name } }", branch="dev").rows == []
    load(
        graph,
        {"type": "City", "data": {"name": "oslo"}},
        {"edge": "LivesIn", "from": "dev", "to": "oslo"},
        branch="dev",
    )
    assert graph.nodes("City", branch="dev").to_arrow()["id"].to_pylist() == ["oslo"]
    assert graph.verify().findings == ()
    graph.merge("dev")
    assert set(graph.nodes("City").to_arrow()["id"].to_pylist()) == {"oslo", "rome"}
    assert graph.verify().findings == ()


def test_a_name_that_another_property_had(tmp_path: Path) -> None:
    """A property gets the name of one that was renamed before: a branch without rows may lag behind all of it."""
    graph = make(tmp_path, records=())
    graph.create_branch("dev")
    graph.apply_schema(ALIAS)
    graph.apply_schema(with_change("nick: String?", "alias: String?\n  nick: String?"))
    load(graph, {"type": "Person", "data": {"name": "dev", "nick": "n", "alias": "a"}}, branch="dev")
    assert people(graph, "dev")["dev"] == {"name": "dev", "age": None, "nick": "n", "mood": None, "alias": "a"}
    assert graph.verify().findings == ()


# --------------------------------------------------------------------------------------------- two schemas behind

FIRST = {
    "note": with_change("age: I32?", "age: I32?\n  note: String?"),
    "rank": with_change("age: I32?", 'age: I32?\n  rank: I32 @default("7")'),
    "wide": with_change("age: I32?", "age: I64?"),
    "dropped": WITHOUT_NICK,
    "type": f"{BEFORE}node Boat {{ name: String @key }}\n",
    "gone": WITHOUT_CITIES,
    "index": with_change("nick: String?", "nick: String? @index"),
    "enum": with_change("wild)?", "wild, tired)?"),
    "card": with_change("Person -> Person", "Person -> Person @card(0..9)"),
    "range": with_change("mood: enum", "@range(age, 0..100)\n  mood: enum"),
    "unique": with_change("mood: enum", "@unique(name, age)\n  mood: enum"),
}
NEXT = ("city: String?", 'level: I32 @default("3")')


QUICK = ("rank", "dropped", "gone", "unique")


@pytest.mark.parametrize(
    "step", [*QUICK, *(pytest.param(step, marks=pytest.mark.slow) for step in FIRST if step not in QUICK)]
)
def test_a_branch_that_is_two_schemas_behind(graph: Graph, step: str) -> None:
    graph.apply_schema(FIRST[step])
    graph.apply_schema(
        with_change("name: String @key\n", f"name: String @key\n  {NEXT[0]}\n  {NEXT[1]}\n", FIRST[step])
    )
    shown = people(graph, "dev")
    assert {**shown["dev"]} == {**shown["dev"], "age": 5, "city": None, "level": 3}
    assert shown["dev"].keys() == people(graph)["ann"].keys()
    assert {name: row for name, row in shown.items() if name != "dev"} == people(graph)
    graph.mutate('query q() { update Person set { city: "rome" } where name = "dev" }', branch="dev")
    assert [commit.message for commit in graph.commits("dev")][:2] == [None, CATCH_UP_MESSAGE]
    assert people(graph, "dev") == {**shown, "dev": {**shown["dev"], "city": "rome"}}
    assert graph.verify().findings == ()


# --------------------------------------------------------------------------------------------- before a rename


@pytest.mark.parametrize("renamed", ["property", "type"])
def test_a_branch_does_not_begin_where_rows_had_another_name(tmp_path: Path, renamed: str) -> None:
    graph = make(tmp_path)
    before = head(graph)
    human = BEFORE.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")')
    graph.apply_schema(ALIAS if renamed == "property" else human)
    names = "'nick' was renamed to 'alias'" if renamed == "property" else "'Person' was renamed to 'Human'"
    with pytest.raises(ConflictError, match=names):
        graph.create_branch("old", from_=before)
    assert [branch.name for branch in graph.branches()] == ["main"]
    graph.create_tag("old", before)
    assert people(graph, at="old")["ann"]["nick"] == "a"
    graph.create_branch("new")


def test_a_branch_begins_before_a_schema_without_renames(tmp_path: Path) -> None:
    graph = make(tmp_path)
    before = head(graph)
    graph.apply_schema(WITHOUT_NICK)
    graph.apply_schema(BEFORE)
    graph.create_branch("old", from_=before)
    assert set(nicks(graph, "old").values()) == {None}


def test_what_was_done_before_a_rename_is_not_reverted(tmp_path: Path) -> None:
    graph = make(tmp_path)
    graph.mutate('query q() { update Person set { age: 31 } where name = "ann" }')
    done = head(graph)
    load(graph, {"type": "City", "data": {"name": "rome"}})
    added = head(graph)
    graph.apply_schema(ALIAS)
    before = people(graph)
    with pytest.raises(Unsupported, match="'nick' was renamed to 'alias'"):
        graph.revert(done)
    assert people(graph) == before
    graph.revert(added)
    assert graph.nodes("City").to_arrow()["id"].to_pylist() == ["oslo"]


def test_a_commit_before_other_changes_of_the_schema_is_reverted(tmp_path: Path) -> None:
    graph = make(tmp_path)
    graph.mutate('query q() { update Person set { age: 31, nick: "z" } where name = "ann" }')
    done = head(graph)
    graph.apply_schema(WITHOUT_NICK)
    graph.apply_schema(with_change("age: I32?", 'age: I64?\n  rank: I32 @default("7")'))
    graph.mutate('query q() { update Person set { rank: 8, nick: "new" } where name = "ann" }')
    graph.revert(done, by="property")
    assert people(graph)["ann"] == {"name": "ann", "age": 30, "rank": 8, "nick": "new", "mood": "calm"}
    assert graph.verify().findings == ()


# --------------------------------------------------------------------------------------------- looking back


def test_a_tag_is_read_with_the_schema_that_it_had(tmp_path: Path) -> None:
    graph = make(tmp_path)
    exported = sorted(graph.export())
    graph.create_tag("before")
    graph.apply_schema(with_change("age: I32?", 'age: I64?\n  rank: I32 @default("7")', WITHOUT_NICK))
    load(graph, {"type": "Person", "data": {"name": "dee", "rank": 1}})
    opened = omnigraph.open(graph.uri, "ro")
    assert sorted(opened.export(at="before")) == exported
    assert [row["p.nick"] for row in opened.query(NICKS, at="before").rows] == ["a", "a", None]
    assert opened.schema_at("before").text == BEFORE


def test_a_diff_over_a_change_of_the_schema(tmp_path: Path) -> None:
    graph = make(tmp_path)
    before = head(graph)
    graph.apply_schema(with_change("age: I32?", 'age: I64?\n  rank: I32 @default("7")', WITHOUT_NICK))
    graph.mutate('query q() { update Person set { age: 31 } where name = "ann" }')
    load(graph, {"type": "Person", "data": {"name": "dee", "rank": 1}})
    changed = {each.id: each for each in graph.diff(before).entities()}
    assert changed["dee"].op is Op.INSERTED
    ann = changed["ann"]
    assert ann.before == {"name": "ann", "age": 30, "nick": "a", "mood": "calm"}
    assert ann.after == {"name": "ann", "age": 31, "rank": 7, "mood": "calm"}
    assert set(ann.changed) == {"age", "rank", "nick"}
    back = {each.id: each for each in graph.diff(head(graph), before).entities()}
    assert (back["ann"].before, back["ann"].after) == (ann.after, ann.before)


# --------------------------------------------------------------------------------------------- change feeds


def test_followers_see_of_a_new_schema_what_it_did_to_rows(tmp_path: Path) -> None:
    """Columns that were only added or dropped change no rows; filled columns do."""
    graph = make(tmp_path)
    after = f"after:{head(graph)}"
    for schema in (
        FIRST["note"],
        FIRST["index"],
        WITHOUT_NICK,
        with_change("age: I32?", "age: I64?", WITHOUT_NICK),
        with_change("age: I32?", 'age: I64?\n  rank: I32 @default("7")', WITHOUT_NICK),
    ):
        graph.apply_schema(schema)
    blocks = list(graph.changes(after))
    assert [sorted(each.id for each in block.entities()) for block in blocks] == [
        [], [], [], [], ["ann", "bob", "cid"],
    ]  # fmt: skip
    filled = next(iter(blocks[-1].entities()))
    assert (filled.before, filled.after, filled.changed) == (
        {"name": "ann", "age": 30, "mood": "calm"},
        {"name": "ann", "age": 30, "rank": 7, "mood": "calm"},
        ("rank",),
    )


def test_a_type_that_was_dropped_is_in_no_diff_with_a_branch_that_still_has_its_table(graph: Graph) -> None:
    graph.apply_schema(WITHOUT_CITIES)
    assert [(each.type, each.inserted) for each in graph.diff("main", "dev").summary()] == [("Person", 1)]
    assert [(each.type, each.deleted) for each in graph.diff("dev", "main").summary()] == [("Person", 1)]


def test_a_follower_that_replays_everything_has_the_rows_of_the_head(graph: Graph) -> None:
    graph.apply_schema(with_change("age: I32?", 'age: I64?\n  rank: I32 @default("7")', WITHOUT_CITIES))
    graph.mutate('query q() { delete Person where name = "cid" }')
    graph.mutate('query q() { update Person set { age: 6 } where name = "dev" }', branch="dev")
    graph.merge("dev", delete_branch=True)
    schema = graph.schema.text.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")')
    graph.apply_schema(schema)
    state: dict[tuple[str, str], object] = {}
    for block in graph.changes("beginning"):
        for each in block.entities():
            # The type is called Human in the end, which changes no row.
            key = ("Human" if each.type == "Person" else each.type, each.id)
            if each.op is Op.DELETED:
                del state[key]
            else:
                state[key] = each.after
    humans = graph.nodes("Human").to_arrow().to_pylist()
    assert {key[1]: row for key, row in state.items() if key[0] == "Human"} == {row.pop("id"): row for row in humans}
    assert {key[0] for key in state} == {"Human", "Knows"}

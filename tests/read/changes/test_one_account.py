"""A diff of two neighboring commits, the block of the change feed and the histories of all entities say the same.

Each life of a graph is a list of steps. A step is a commit, or several, and the changes that it should be reported as:
written down here, and with the images that the entities have at the commits themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.changes import EntityChange
from tests.write.evolve.people_graph import load

PERSON = "node Person {{ name: String @key\n {0} }}"
KNOWS = "\nedge Knows: Person -> Person {{ since: I64? }}"
FIRST = "note: String?\n score: F64?\n marks: [F64]?\n at: Vector(2)?\n photo: Blob?"

Told = tuple[str, str, str, tuple[str, ...]]
"""An op, a type, an id, and the properties that differ."""


@dataclass(frozen=True)
class Step:
    """What is done, and the changes of each commit that it makes, oldest first."""

    do: Callable[[Graph, Path], object]
    told: tuple[tuple[Told, ...], ...] = ((),)


def _person(name: str, **values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **values}}


def _load(*records: dict[str, object], branch: str = "main") -> Callable[[Graph, Path], object]:
    return lambda graph, _: load(graph, *records, branch=branch)


def _mutate(text: str, branch: str = "main") -> Callable[[Graph, Path], object]:
    return lambda graph, _: graph.mutate(f"query q() {{ {text} }}", branch=branch)


def _apply(properties: str, edges: str = "", person: str = PERSON) -> Callable[[Graph, Path], object]:
    return lambda graph, _: graph.apply_schema(person.format(properties) + edges.format())


def _overwrite_photo(graph: Graph, folder: Path) -> None:
    (folder / "photo.bin").write_bytes(b"of today")
    graph.mutate('query q() { update Person set { note: "x" } where name = "bob" }')


def _load_photo(graph: Graph, folder: Path) -> None:
    photo = folder / "photo.bin"
    photo.write_bytes(b"of yesterday")
    load(graph, _person("ann", photo=photo.as_uri()), _person("bob", photo="base64:aGVsbG8="))


def _update(type_: str, id_: str, *changed: str) -> Told:
    return ("updated", type_, id_, changed)


def _insert(type_: str, *ids: str) -> tuple[Told, ...]:
    return tuple(("inserted", type_, id_, ()) for id_ in ids)


BOTH = tuple(_update("Person", name, "level") for name in ("ann", "bob"))
HUMAN = 'node Human @rename_from("Person") {{ name: String @key\n {0} }}'
LIKES = '\nedge Likes: Human -> Human @rename_from("Knows") {{ since: I64? }}'
SET_LEVEL = 'update Person set { level: "2" } where name = "ann"'

LIVES: Mapping[str, list[Step]] = {
    "zeros of both signs": [
        Step(_load(_person("ann", score=0.0, marks=[0.0, 1.0], at=[0.0, 1.0])), (_insert("Person", "ann"),)),
        Step(_mutate('update Person set { score: -0.0, marks: [-0.0, 1.0] } where name = "ann"')),
        Step(
            _mutate('update Person set { score: 0.0, at: [-0.0, 1.0], note: "n" } where name = "ann"'),
            ((_update("Person", "ann", "note"),),),
        ),
        Step(
            _mutate('update Person set { score: 0.0, marks: [0.0, 2.0] } where name = "ann"'),
            ((_update("Person", "ann", "marks"),),),
        ),
    ],
    "an external blob": [
        Step(_load_photo, (_insert("Person", "ann", "bob"),)),
        Step(_overwrite_photo, ((_update("Person", "bob", "note"),),)),
        Step(_mutate('update Person set { note: "y" } where name = "ann"'), ((_update("Person", "ann", "note"),),)),
        Step(_load(_person("ann", photo="base64:b2YgdG9kYXk=", note="y")), ((_update("Person", "ann", "photo"),),)),
    ],
    "defaults": [
        Step(_load(_person("ann"), _person("bob")), (_insert("Person", "ann", "bob"),)),
        Step(_apply(f'{FIRST}\n level: String @default("1")'), (BOTH,)),
        Step(_apply(f'{FIRST}\n level: String @default("3")')),
        Step(_mutate(SET_LEVEL), (BOTH[:1],)),
        Step(_apply(FIRST)),
        Step(_apply(f"{FIRST}\n level: String?")),
        Step(_mutate(SET_LEVEL), (BOTH[:1],)),
    ],
    "a lagging branch": [
        Step(_load(_person("ann", note="a"), _person("bob")), (_insert("Person", "ann", "bob"),)),
        Step(lambda graph, _: graph.create_branch("dev"), ()),
        Step(_load(_person("cid", note="c"), branch="dev"), (_insert("Person", "cid"),)),
        Step(_apply('level: String @default("1")'), ()),
        Step(_apply('note: String?\n level: String @default("1")'), ()),
        Step(
            _mutate('update Person set { note: "z" } where name = "bob"', branch="dev"),
            (
                (
                    _update("Person", "ann", "level", "note"),
                    _update("Person", "bob", "level"),
                    _update("Person", "cid", "level", "note"),
                ),
                (_update("Person", "bob", "note"),),
            ),
        ),
    ],
    "renames": [
        Step(_apply(FIRST, KNOWS)),
        Step(
            _load(
                _person("ann", score=1.0),
                _person("bob", score=2.0),
                {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k", "since": 1}},
            ),
            ((*_insert("Person", "ann", "bob"), *_insert("Knows", "k")),),
        ),
        Step(_apply(FIRST.replace("score: F64?", 'points: F64? @rename_from("score")'), KNOWS)),
        Step(_mutate('update Person set { points: 3.0 } where name = "ann"'), ((_update("Person", "ann", "points"),),)),
        Step(_apply(FIRST.replace("score", "points"), LIKES, HUMAN)),
        Step(_mutate('update Human set { points: 4.0 } where name = "ann"'), ((_update("Human", "ann", "points"),),)),
        Step(_mutate('delete Likes where from = "ann"'), ((("deleted", "Likes", "k", ()),),)),
        Step(_mutate('delete Human where name = "bob"'), ((("deleted", "Human", "bob", ()),),)),
    ],
}


@pytest.fixture(params=LIVES)
def life(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Graph, str, list[tuple[Told, ...]]]:
    """A graph with a life behind it, its branch, and the changes of each commit after the first one."""
    steps = LIVES[str(request.param)]
    graph = omnigraph.init(tmp_path / "graph.og", PERSON.format(FIRST))
    for step in steps:
        step.do(graph, tmp_path)
    branch = "dev" if "dev" in graph.info().branches else "main"
    return graph, branch, [told for step in steps for told in step.told]


def _tell(change: EntityChange) -> Told:
    return (str(change.op), change.type, change.id, change.changed)


def _describe(change: EntityChange) -> str:
    """Return everything that a change says, as text: the sign of a zero counts there."""
    images = (None if image is None else sorted(image.items()) for image in (change.before, change.after))
    return repr((_tell(change), change.kind, *images))


def _images_at(graph: Graph, branch: str, commit: str, change: EntityChange) -> str:
    """Return the entity at a commit as a read shows it, without blobs."""
    names = {type_.name for type_ in graph.snapshot(branch, commit).catalog().types()}
    row = graph.get(change.type, change.id, branch=branch, at=commit) if change.type in names else None
    return repr(None if row is None else sorted((name, value) for name, value in row.items() if name != "id"))


def _without_blobs(image: Mapping[str, object] | None) -> str:
    return repr(None if image is None else sorted((name, image[name]) for name in image if name != "photo"))


def _list_revisions(graph: Graph, branch: str, ids: Iterator[tuple[str, str]]) -> dict[str, list[EntityChange]]:
    """Return the changes of each commit that the histories of some entities say, in the order of a diff."""
    by_commit: dict[str, list[EntityChange]] = {}
    for type_, id_ in ids:
        for revision in graph.history(type_, id_, branch=branch):
            by_commit.setdefault(revision.commit.id, []).append(revision.change)
    return {commit: sorted(all_, key=lambda each: (each.kind != "node", each.id)) for commit, all_ in by_commit.items()}


def test_diff_feed_and_history_say_the_same(life: tuple[Graph, str, list[tuple[Told, ...]]]) -> None:
    graph, branch, told = life
    commits = graph.commits(branch)[::-1]
    ids = {
        (change.kind, change.id) for block in graph.changes("beginning", branch=branch) for change in block.entities()
    }
    current = {"node": graph.schema.catalog.nodes, "edge": graph.schema.catalog.edges}
    revisions = _list_revisions(graph, branch, ((name, id_) for kind, id_ in sorted(ids) for name in current[kind]))
    blocks = {block.commit.id: list(block.entities()) for block in graph.changes("beginning", branch=branch)}
    for (before, after), expected in zip(pairwise(commits), told, strict=True):
        changes = list(graph.diff(before.id, after.id).entities())
        assert tuple(map(_tell, changes)) == expected, after.message
        assert [*map(_describe, blocks[after.id])] == [*map(_describe, changes)]
        assert [*map(_describe, revisions.get(after.id, []))] == [*map(_describe, changes)]
        for change in changes:
            assert _without_blobs(change.before) == _images_at(graph, branch, before.id, change)
            assert _without_blobs(change.after) == _images_at(graph, branch, after.id, change)


def test_a_lagging_branch_differs_by_the_default_before_and_after_it_catches_up(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph.og", PERSON.format(FIRST))
    load(graph, _person("ann"), _person("bob"))
    graph.create_branch("dev")
    load(graph, _person("bob", score=1.0), branch="dev")
    last = graph.commits("dev")[0].id
    graph.apply_schema(PERSON.format(f'{FIRST}\n level: String @default("1")'))
    lagging = [*map(_describe, graph.diff(last, "dev").entities())]
    assert [*map(_tell, graph.diff(last, "dev").entities())] == [*BOTH]
    assert [each.updated for each in graph.diff("dev", last).summary()] == [2]
    graph.mutate('query q() { update Person set { score: 2.0 } where name = "bob" }', branch="dev")
    caught_up = graph.commits("dev")[1].id
    assert [*map(_describe, graph.diff(last, caught_up).entities())] == lagging


@pytest.mark.parametrize("followed", ["Person", "Human"])
def test_a_renamed_type_is_selected_and_followed_under_both_names(tmp_path: Path, followed: str) -> None:
    graph = omnigraph.init(tmp_path / "graph.og", PERSON.format(FIRST))
    load(graph, _person("ann", score=1.0), _person("bob"))
    first = graph.commits()[0].id
    graph.apply_schema(HUMAN.format(FIRST.replace("score: F64?", 'points: F64? @rename_from("score")')))
    graph.mutate('query q() { update Human set { points: 2.0 } where name = "ann" }')
    graph.mutate('query q() { delete Human where name = "bob" }')
    told = [_update("Human", "ann", "points"), ("deleted", "Human", "bob", ())]
    diff = graph.diff(first, types=[followed])
    assert [*map(_tell, diff.entities())] == told
    assert [(each.type, each.updated, each.deleted) for each in diff.summary()] == [("Human", 1, 1)]
    assert diff.to_arrow(followed)["changed"].to_pylist() == [["points"], []]
    assert "<svg" in diff.to_svg()
    back = graph.diff("main", first)
    assert [*map(_tell, back.entities())] == [_update("Person", "ann", "score"), ("inserted", "Person", "bob", ())]
    blocks = graph.changes("beginning", types=[followed])
    changes = [_tell(change) for block in blocks for change in block.entities()]
    assert changes == [*_insert("Person", "ann", "bob"), *told]


def test_a_type_that_took_the_name_of_a_renamed_one_is_not_followed_with_it(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph.og", PERSON.format(FIRST))
    load(graph, _person("ann"))
    first = graph.commits()[0].id
    graph.apply_schema(HUMAN.format(FIRST))
    graph.apply_schema(PERSON.format(FIRST) + HUMAN.format(FIRST))
    load(graph, _person("ann", note="another one"))
    assert [*map(_tell, graph.diff(first).entities())] == [*_insert("Person", "ann")]
    assert [revision.change.op.value for revision in graph.history("Person", "ann")] == ["inserted"]
    blocks = graph.changes("beginning", types=["Person"])
    assert [_tell(change) for block in blocks for change in block.entities()] == [*_insert("Person", "ann")]

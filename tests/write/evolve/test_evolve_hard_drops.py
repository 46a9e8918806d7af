"""Hard drops beside branches, tags and commits: values go for good, and nothing that is still there is wedged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ConflictError, HistoryGone
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import cleanup
from omnigraph.manifest.rows import MAIN
from omnigraph.storage.tables import list_versions
from omnigraph.write.commit.sidecars import list_sidecars
from tests.crash import every_crash, fresh_copy, kill_at, record, run
from tests.selection import daily
from tests.write.evolve.people_graph import BEFORE, head, load, people, with_change
from tests.write.writers import open_manifest

WITHOUT_NICK = with_change("  nick: String?\n", "")
WITHOUT_CITY = with_change("edge LivesIn: Person -> City\n", "").replace("node City { name: String @key }\n", "")
OSLO = {"type": "City", "data": {"name": "oslo"}}
ANN = {"type": "Person", "data": {"name": "ann", "nick": "a"}}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph without rows."""
    return omnigraph.init(tmp_path / "graph.og", BEFORE)


def check_branch(graph: Graph, branch: str, shown: set[str]) -> None:
    """The branch can be read and written, also by the next process."""
    assert set(people(graph, branch)) == shown
    load(graph, {"type": "Person", "data": {"name": "dev", "age": 5}}, branch=branch)
    assert set(people(graph, branch)) == {*shown, "dev"}
    assert graph.verify().findings == ()
    assert set(people(omnigraph.open(graph.uri), branch)) == {*shown, "dev"}


def stored_nicks(graph: Graph) -> list[int]:
    """Return the versions of people that still hold a nick, whoever shows them."""
    table = graph.snapshot().table("Person").open_at(None)
    opened = (table.open_at(version) for version in list_versions(table))
    return [each.version for each in opened if "nick" in each.schema.names and each.fragment_rows()]


@pytest.mark.parametrize("has_rows", [True, False])
def test_an_empty_table_of_a_branch_does_not_hold_a_hard_drop_and_is_not_wedged(graph: Graph, has_rows: bool) -> None:
    graph.create_branch("b")
    graph.create_branch("child", "b")
    if has_rows:
        load(graph, ANN)
    graph.apply_schema(WITHOUT_NICK, allow_data_loss=True)
    for branch in ("b", "child"):
        check_branch(graph, branch, set())
    graph.merge("b")
    assert "dev" in people(graph)


def test_a_type_that_a_branch_has_no_rows_of_is_dropped_and_comes_back(graph: Graph) -> None:
    graph.create_branch("b")
    load(graph, OSLO)
    graph.apply_schema(WITHOUT_CITY, allow_data_loss=True)
    check_branch(graph, "b", set())
    graph.apply_schema(BEFORE)
    load(graph, OSLO, branch="b")
    assert graph.nodes("City", branch="b").to_arrow()["id"].to_pylist() == ["oslo"]
    assert graph.nodes("City").to_arrow().num_rows == 0
    assert graph.verify().findings == ()


def test_commits_and_tags_that_show_no_rows_can_be_read_after_a_hard_drop(graph: Graph) -> None:
    first = head(graph)
    graph.create_tag("empty")
    load(graph, OSLO)
    second = head(graph)
    load(graph, ANN)
    before = head(graph)
    graph.apply_schema(WITHOUT_NICK, allow_data_loss=True)
    for at in (first, second, "empty"):
        assert people(graph, at=at) == {}
    with pytest.raises(HistoryGone):
        people(graph, at=before)
    graph.create_branch("b", first)
    check_branch(graph, "b", set())


def test_a_branch_that_was_forked_from_the_rows_holds_them_even_if_it_shows_none(graph: Graph) -> None:
    load(graph, ANN)
    graph.create_branch("b")
    delete = 'query q() { delete Person where name = "ann" }'
    for branch in ("b", MAIN):
        graph.mutate(delete, branch=branch)
    graph.merge("b")
    cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
    with pytest.raises(ConflictError, match="branch 'b' was forked from it") as caught:
        graph.apply_schema(WITHOUT_NICK, allow_data_loss=True)
    assert "delete branch 'b' first" in str(caught.value.hint)
    check_branch(graph, "b", set())
    graph.delete_branch("b")
    cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
    assert graph.apply_schema(WITHOUT_NICK, allow_data_loss=True).applied
    assert stored_nicks(graph) == []


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_commit_that_cleanup_keeps_for_an_older_branch_or_tag_names_it(graph: Graph, kind: str) -> None:
    create, delete = getattr(graph, f"create_{kind}"), getattr(graph, f"delete_{kind}")
    create("old")
    load(graph, ANN)
    load(graph, OSLO)
    cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
    with pytest.raises(ConflictError, match=r"commit .* shows it") as caught:
        graph.apply_schema(WITHOUT_NICK, allow_data_loss=True)
    assert f"delete {kind} 'old'" in str(caught.value.hint)
    delete("old")
    cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
    assert graph.apply_schema(WITHOUT_NICK, allow_data_loss=True).applied
    assert stored_nicks(graph) == []


# --------------------------------------------------------------------------------------------- killed


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose newest commit alone shows nicks, and a branch without people."""
    graph = omnigraph.init(tmp_path_factory.mktemp("hard_drops") / "graph.og", BEFORE)
    graph.create_branch("b")
    load(graph, ANN)
    return Path(graph.uri)


def enter(root: str) -> Graph:
    """The graph as a process has it that opened it long ago: nothing is healed on the way."""
    return Graph(open_manifest(root), "rw", "tests")


def drop_nicks(root: str) -> None:
    enter(root).apply_schema(WITHOUT_NICK, allow_data_loss=True)


def write_to_main(root: str, branch: str = MAIN) -> None:
    # The dead schema change may be published now: then the first attempt was checked against the old schema.
    enter(root).mutate('query q() { insert City { name: "oslo" } }', branch=branch, retries=1)


def write_to_branch(root: str) -> None:
    write_to_main(root, "b")


def create_branch(root: str) -> None:
    graph = enter(root)
    graph.create_branch("c", graph.commits()[-1].id)


def create_tag(root: str) -> None:
    graph = enter(root)
    graph.create_tag("c", graph.commits()[-1].id)


def clean_up(root: str) -> None:
    enter(root).cleanup(keep=10, confirm=True)


COMERS: dict[str, Callable[[str], object]] = {
    "open": omnigraph.open,
    "apply": drop_nicks,
    "write": write_to_main,
    "write to a branch": write_to_branch,
    "branch": create_branch,
    "tag": create_tag,
    "cleanup": clean_up,
}


def go_on(found: list[tuple[str, str, str]]) -> None:
    """Whoever comes next: once the schema is new, the values are gone."""
    for root, place, comer in found:
        try:
            COMERS[comer](root)
            graph = enter(root)
            if graph.schema.text == WITHOUT_NICK:
                assert stored_nicks(graph) == []
                assert list_sidecars(graph._manifest.objects) == []
            else:
                assert people(graph)["ann"]["nick"] == "a"
            graph = omnigraph.open(root)
            if comer != "write":
                # A write to main made the commit with the nicks an older one, which holds a hard drop.
                graph.apply_schema(WITHOUT_NICK, allow_data_loss=True)
                assert stored_nicks(graph) == []
            assert set(people(graph)) == {"ann"}
            check_branch(graph, "b", set())
        except BaseException as error:
            error.add_note(f"{place}; then {comer}")
            raise


@pytest.mark.parametrize("comer", daily(COMERS, ["open", "write"]))
def test_a_hard_drop_that_is_killed_before_the_values_go_is_finished_by_whoever_comes_next(
    template: Path, comer: str
) -> None:
    steps = record(drop_nicks, str(fresh_copy(template)))
    (removal,) = (step for step in steps if step.name == "table.versions.drop")
    root = str(fresh_copy(template))
    kill_at(drop_nicks, (root,), removal.number, "before")
    assert stored_nicks(enter(root)) != []
    run(go_on, [(root, "killed before the values go", comer)])
    assert [each.writer_kind for each in omnigraph.open(root).recoveries()] == ["SchemaApply"]


@pytest.mark.slow
@pytest.mark.parametrize("comer", COMERS)
def test_a_hard_drop_that_is_killed_anywhere_is_finished_by_whoever_comes_next(template: Path, comer: str) -> None:
    steps = record(drop_nicks, str(fresh_copy(template)))
    found: list[tuple[str, str, str]] = []
    for number, when in every_crash(steps):
        root = str(fresh_copy(template))
        kill_at(drop_nicks, (root,), number, when)
        found.append((root, f"killed {when} write {number} of {len(steps)}: {steps[number - 1].name}", comer))
    run(go_on, found)

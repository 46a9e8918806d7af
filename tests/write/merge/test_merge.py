"""Merging branches: rows, history, rules and concurrent writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.errors import (
    ConflictError,
    MergeConflicts,
    NotFound,
    OutcomeUnknown,
    ParameterError,
    PreconditionFailed,
    ReadOnly,
)
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.read.changes import compare_rows
from omnigraph.storage.failpoints import When
from omnigraph.write.commit.section import HANDOFF_MESSAGE
from omnigraph.write.commit.sidecars import Sidecar, WriterKind, list_sidecars
from omnigraph.write.merge import deltas as merge_deltas
from omnigraph.write.merge import engine as merge_means
from omnigraph.write.merge.deltas import Counts
from omnigraph.write.merge.run import MergeResult
from tests.graphs import written
from tests.write.merge.social_graph import conflicts_of, edit, knows, make, person, state
from tests.write.writers import fail_first_write, run_right_after

PEOPLE = {name: person(30) for name in ("ann", "bob", "cid")}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Three people, two of whom know each other."""
    return make(tmp_path, PEOPLE, {"a-b": knows("ann", "bob", 2001)})


# --------------------------------------------------------------------------------------------- history


def test_a_fast_forward_is_a_commit_with_two_parents(graph: Graph) -> None:
    graph.create_branch("dev")
    theirs = edit(graph, "dev", people={"dan": person(4), "ann": person(31), "cid": None})
    ours = graph.commits()[0]
    result = graph.merge("dev", message="june", actor="act-ann")
    assert result.commit is not None
    assert (result.outcome, result.base, result.source, result.target) == ("fast-forward", ours.id, theirs.id, ours.id)
    assert (result.commit.parents, result.commit.message, result.commit.actor) == (
        (ours.id, theirs.id),
        "june",
        "act-ann",
    )
    assert (result.nodes, result.edges) == ({"Person": Counts(1, 1, 1)}, {})
    assert graph.commits()[0] == result.commit
    assert state(graph) == state(graph, "dev")


def test_what_was_merged_is_not_merged_again(graph: Graph) -> None:
    graph.create_branch("dev")
    assert graph.merge("dev").outcome == "already-up-to-date"
    edit(graph, "dev", people={"dan": person(4)})
    edit(graph, people={"eve": person(5)})
    assert graph.merge("dev").outcome == "merged"
    before = written(graph)
    again = graph.merge("dev")
    assert (again.outcome, again.commit, again.nodes) == ("already-up-to-date", None, {})
    assert written(graph) == before


def test_main_is_merged_into_a_branch_that_owns_a_fork(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31)})
    for age in range(40, 46):
        edit(graph, people={"bob": person(age)})
    assert graph.merge("main", "dev").outcome == "merged"
    assert state(graph, "dev") == {**state(graph), ("Person", "ann"): person(31)}
    assert graph.snapshot("dev").pin("Person").branch == "dev"
    edit(graph, "dev", people={"cid": person(50)})
    assert graph.merge("dev").outcome == "fast-forward"
    assert state(graph) == state(graph, "dev")
    assert graph.merge("main", "dev").outcome == "fast-forward"
    assert graph.merge("dev").outcome == "fast-forward"
    assert state(graph) == state(graph, "dev")


def test_a_table_that_a_branch_only_inherited_is_adopted_from_main(graph: Graph) -> None:
    graph.create_branch("dev")
    graph.create_branch("child", "dev")
    edit(graph, "dev", knows={"b-c": knows("bob", "cid")})
    edit(graph, people={"dan": person(4), "cid": person(33)})
    result = graph.merge("main", "dev")
    assert (result.outcome, result.nodes) == ("merged", {"Person": Counts(1, 1, 0)})
    assert graph.snapshot("dev").pin("Person") == graph.snapshot().pin("Person")
    assert graph.snapshot("dev").pin("Knows").branch == "dev"
    assert ("Person", "dan") not in state(graph, "child")
    # The branch forks the table from there, and continues.
    edit(graph, "dev", people={"dan": person(5)})
    assert graph.merge("dev").outcome == "fast-forward"
    assert state(graph) == state(graph, "dev")
    edit(graph, people={"eve": person(6)})
    assert graph.merge("main", "dev").outcome == "fast-forward"
    assert graph.snapshot("dev").pin("Person").branch == "dev"
    assert state(graph) == state(graph, "dev")


def test_an_adopted_table_still_meets_the_rules(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", knows={"b-c": knows("bob", "cid")})
    edit(graph, people={"cid": None})
    (found,) = conflicts_of(graph, "main", "dev")
    assert (found.kind, found.type, found.id) == ("OrphanEdge", "Knows", "b-c")


def test_after_a_fast_forward_a_child_branch_stays_readable(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4)})
    graph.create_branch("child", "dev")
    graph.merge("dev")
    edit(graph, people={"dan": person(5)})
    assert state(graph, "child") == state(graph, "dev")
    edit(graph, "child", people={"eve": person(6)})
    graph.delete_branch("child")
    graph.delete_branch("dev")
    assert state(graph)["Person", "dan"] == person(5)


def test_a_merged_branch_can_be_deleted_at_once(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4)}, knows={"b-c": knows("bob", "cid")})
    expected = state(graph, "dev")
    graph.merge("dev", delete_branch=True)
    assert [branch.name for branch in graph.branches()] == ["main"]
    assert state(graph) == expected
    assert state(open_graph(graph.uri)) == expected


def test_a_branch_that_goes_on_during_its_merge_is_kept(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4)})
    with run_right_after("table.stage", "", lambda: edit(graph, "dev", people={"eve": person(5)})):
        result = graph.merge("dev", delete_branch=True)
    assert result.commit == graph.commits()[0]
    assert result.branch_kept == "branch 'dev' has new commits (merge it again)"
    assert ("Person", "dan") in state(graph)
    assert ("Person", "eve") in state(graph, "dev")


def add_child(graph: Graph) -> None:
    graph.create_branch("child", "dev")


def add_tag(graph: Graph) -> None:
    graph.create_tag("june", "dev")


DEPENDENTS = pytest.mark.parametrize(
    ("depend", "reason"),
    [(add_child, "'child' still depends on it"), (add_tag, "the tag 'june' still depends on it")],
    ids=["child", "tag"],
)


@DEPENDENTS
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_branch_that_others_need_is_refused_before_the_merge(
    graph: Graph, depend: Callable[[Graph], None], reason: str, dry_run: bool
) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4)})
    depend(graph)
    before = written(graph)
    with pytest.raises(ConflictError, match=f"'dev' cannot be deleted: {reason}"):
        graph.merge("dev", delete_branch=True, dry_run=dry_run)
    assert written(graph) == before
    assert graph.merge("dev").branch_kept is None


@DEPENDENTS
def test_a_branch_that_others_come_to_need_is_kept(graph: Graph, depend: Callable[[Graph], None], reason: str) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4)})
    with run_right_after("table.stage", "", lambda: depend(graph)):
        result = graph.merge("dev", delete_branch=True)
    assert result.commit == graph.commits()[0]
    assert reason in str(result.branch_kept)
    assert state(graph) == state(graph, "dev")


def test_main_is_not_merged_to_be_deleted(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, people={"dan": person(4)})
    before = written(graph, "dev")
    with pytest.raises(ParameterError, match="main cannot be deleted"):
        graph.merge("main", "dev", delete_branch=True)
    assert written(graph, "dev") == before


def test_a_merged_branch_that_somebody_else_deletes_first(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4)})
    with run_right_after("table.stage", "", lambda: graph.delete_branch("dev")):
        assert graph.merge("dev", delete_branch=True).branch_kept is None
    assert ("Person", "dan") in state(graph)


@pytest.mark.parametrize("more_on_main", [0, 5])
def test_both_sides_earlier_merged_the_same_third_branch(graph: Graph, more_on_main: int) -> None:
    graph.create_branch("third")
    edit(graph, "third", people={"zed": person(1), "ann": person(99), "cid": None})
    for age in range(more_on_main):
        edit(graph, people={"bob": person(age)})
    graph.create_branch("dev")
    for branch in ("dev", "main"):
        graph.merge("third", branch)
    edit(graph, "dev", people={"zed": person(2), "ann": None}, knows={"a-b": None})
    edit(graph, people={"bob": person(77)})
    result = graph.merge("dev")
    assert result.nodes == {"Person": Counts(0, 1, 1)}
    assert state(graph) == {("Person", "zed"): person(2), ("Person", "bob"): person(77)}


def test_what_both_took_from_a_deleted_branch_is_no_conflict_as_long_as_it_is_the_same(graph: Graph) -> None:
    graph.create_branch("third")
    edit(graph, "third", people={"zed": person(1), "yan": person(1)})
    edit(graph, people={"bob": person(40)})
    graph.create_branch("dev")
    for branch in ("dev", "main"):
        graph.merge("third", branch)
    graph.delete_branch("third")
    edit(graph, "dev", people={"zed": person(2)})
    # Its commits are unknown, so both sides seem to have inserted the two.
    (found,) = conflicts_of(graph)
    assert (found.kind, found.id, found.base) == ("DivergentInsert", "zed", None)


def test_histories_that_merged_each_other_crosswise(graph: Graph) -> None:
    graph.create_branch("dev")
    mine = edit(graph, people={"ann": person(1)}, knows={"b-c": knows("bob", "cid")})
    edit(graph, "dev", people={"bob": person(1)})
    graph.merge("dev")
    graph.merge(mine.id, "dev")
    assert state(graph) == state(graph, "dev")
    edit(graph, people={"ann": person(2)})
    edit(graph, "dev", people={"bob": person(2)}, knows={"b-c": None})
    graph.merge("dev")
    graph.merge("main", "dev")
    assert state(graph) == state(graph, "dev")
    assert state(graph)["Person", "ann"] == person(2)
    assert state(graph)["Person", "bob"] == person(2)
    assert ("Knows", "b-c") not in state(graph)


def test_a_branch_whose_edits_net_to_zero_merges(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4), "ann": person(99)})
    theirs = edit(graph, "dev", people={"dan": None, "ann": person(30)})
    before = dict(graph.snapshot().pins)
    result = graph.merge("dev")
    assert result.commit is not None
    assert result.commit.parents[1] == theirs.id
    assert (result.nodes, dict(graph.snapshot().pins)) == ({}, before)
    assert graph.merge("dev").outcome == "already-up-to-date"


def test_a_full_reload_on_a_branch_merges_and_resurrects_nothing(graph: Graph) -> None:
    graph.create_branch("dev")
    rows = [
        *({"type": "Person", "data": {"name": name, "age": 30 if name != "cid" else 44}} for name in PEOPLE),
        {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "a-b", "since": 2001}},
    ]
    graph.load(rows, mode="overwrite", branch="dev")
    edit(graph, people={"bob": person(55)}, knows={"a-b": None})
    result = graph.merge("dev")
    assert (result.nodes, result.edges) == ({"Person": Counts(0, 1, 0)}, {})
    assert state(graph) == {("Person", "ann"): person(30), ("Person", "bob"): person(55), ("Person", "cid"): person(44)}


def test_a_commit_or_a_tag_can_be_merged(graph: Graph) -> None:
    graph.create_branch("dev")
    first = edit(graph, "dev", people={"dan": person(4)})
    graph.create_tag("first", first.id)
    edit(graph, "dev", people={"dan": person(5)})
    assert graph.merge(first.id).source == first.id
    assert state(graph)["Person", "dan"] == person(4)
    assert graph.merge("first").outcome == "already-up-to-date"
    assert graph.merge("dev").outcome == "merged"
    assert state(graph)["Person", "dan"] == person(5)


def test_the_sidecar_of_a_merge_names_its_source_and_confirms_every_table(graph: Graph) -> None:
    graph.create_branch("dev")
    theirs = edit(graph, "dev", people={"dan": person(4)}, knows={"b-c": knows("bob", "cid")})
    left: list[Sidecar] = []
    with run_right_after("table.merge", "__manifest", lambda: left.extend(list_sidecars(graph._manifest.objects))):
        graph.merge("dev")
    (sidecar,) = left
    assert (sidecar.writer_kind, sidecar.merge_source_commit_id) == (WriterKind.BRANCH_MERGE, theirs.id)
    assert {(pin.table_key, pin.confirmed_version) for pin in sidecar.tables} == {
        (pin.table_key, pin.version) for pin in graph.snapshot().pins.values()
    }


def test_a_sidecar_with_adopted_tables_is_never_confirmed(graph: Graph) -> None:
    """Release 0.8 does not know adopted tables, and would publish the rest alone."""
    graph.create_branch("dev")
    edit(graph, "dev", knows={"b-c": knows("bob", "cid")})
    edit(graph, people={"dan": person(4)}, knows={"a-b": None})
    left: list[Sidecar] = []
    with run_right_after("table.merge", "__manifest", lambda: left.extend(list_sidecars(graph._manifest.objects))):
        graph.merge("main", "dev")
    (sidecar,) = left
    assert [(each.table_key, each.version) for each in sidecar.adopted] == [
        ("node:Person", graph.snapshot().pin("Person").version)
    ]
    assert [(pin.table_key, pin.confirmed_version) for pin in sidecar.tables] == [("edge:Knows", None)]


# --------------------------------------------------------------------------------------------- other writers


def test_a_merge_that_is_overtaken_is_prepared_again(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31)})
    with run_right_after("table.stage", "", lambda: edit(graph, people={"bob": person(77)})):
        result = graph.merge("dev")
    assert result.outcome == "merged"
    assert result.commit is not None
    assert (result.target, result.commit.parents[0]) == (graph.commits()[1].id, graph.commits()[1].id)
    assert state(graph)["Person", "ann"] == person(31)
    assert state(graph)["Person", "bob"] == person(77)


def test_a_merge_that_is_overtaken_by_a_conflict_changes_nothing(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31)})
    with (
        run_right_after("table.stage", "", lambda: edit(graph, people={"ann": person(77)})),
        pytest.raises(MergeConflicts),
    ):
        graph.merge("dev")
    assert state(graph)["Person", "ann"] == person(77)


def test_a_merge_that_is_overtaken_by_the_same_merge_finds_it_done(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31)})
    other: list[MergeResult] = []
    with run_right_after("table.stage", "", lambda: other.append(graph.merge("dev"))):
        mine = graph.merge("dev")
    assert (other[0].outcome, mine.outcome, mine.commit) == ("fast-forward", "already-up-to-date", None)


def test_a_precondition_on_the_head_holds_for_merges(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31)})
    head, before = graph.commits()[0].id, written(graph)
    with pytest.raises(PreconditionFailed):
        graph.merge("dev", if_commit=graph.commits()[1].id)
    assert written(graph) == before
    assert graph.merge("dev", if_commit=head).outcome == "fast-forward"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_merge_of_no_table_is_found_if_its_answer_is_lost_and_unknown_if_it_fails(graph: Graph, when: When) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4)})
    theirs = edit(graph, "dev", people={"dan": None})
    with fail_first_write("table.merge", when, "__manifest"):
        if when == "after":
            result = graph.merge("dev")
            assert result.commit == graph.commits()[0]
            assert graph.commits()[0].parents[1] == theirs.id
        else:
            with pytest.raises(OutcomeUnknown):
                graph.merge("dev")
    assert graph.merge("dev").outcome == ("already-up-to-date" if when == "after" else "fast-forward")


# --------------------------------------------------------------------------------------------- many rows


@pytest.mark.parametrize("held", [2, 1_000_000])
def test_many_ranges_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(compare_rows, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(merge_deltas, "MAX_ROWS_IN_MEMORY", held)
    names = [f"p{number:02}" for number in range(60)]
    graph = make(tmp_path, {name: person(0) for name in names})
    graph.create_branch("dev")
    edit(graph, "dev", people={name: person(1) for name in names[::2]} | {f"{name}+": person(2) for name in names[::7]})
    edit(graph, people=dict.fromkeys(names[1::4]) | {name: person(0, name) for name in names[3::4]})
    result = graph.merge("dev")
    assert result.nodes == {"Person": Counts(9, 30, 0)}
    expected = {("Person", name): person(1) for name in names[::2]}
    expected |= {("Person", f"{name}+"): person(2) for name in names[::7]}
    expected |= {("Person", name): person(0, name) for name in names[3::4]}
    assert state(graph) == expected


def test_a_large_merge_into_a_branch_publishes_its_forks_first(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_means, "LONG_STAGING_ROWS", 0)
    for branch in ("dev", "other"):
        graph.create_branch(branch)
    theirs = edit(graph, "dev", people={"dan": person(4)})
    graph.merge("dev", "other")
    merged, forked = graph.commits("other", limit=2)
    assert (merged.parents, forked.message) == ((forked.id, theirs.id), HANDOFF_MESSAGE)
    assert graph.snapshot("other").pin("Person").branch == "other"
    expected = state(graph, "dev")
    graph.delete_branch("dev")
    assert state(graph, "other") == expected


# --------------------------------------------------------------------------------------------- bad input


def test_bad_input_is_refused(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31)})
    before = written(graph)
    with pytest.raises(ParameterError, match="into itself"):
        graph.merge("main")
    with pytest.raises(NotFound, match="no branch, commit, version, date or tag 'nobody'"):
        graph.merge("nobody")
    with pytest.raises(NotFound, match="no branch 'nobody'"):
        graph.merge("dev", "nobody")
    with pytest.raises(ParameterError, match="by is 'column'"):
        graph.merge("dev", by="column")  # pyright: ignore[reportArgumentType]  what a caller without types may give
    with pytest.raises(ParameterError, match="prefer is 'mine'"):
        graph.merge("dev", prefer="mine")  # pyright: ignore[reportArgumentType]  as above
    with pytest.raises(ParameterError, match="is not a branch, so it cannot be deleted"):
        graph.merge(graph.commits("dev")[0].id, delete_branch=True)
    with pytest.raises(ReadOnly):
        open_graph(graph.uri, "ro").merge("dev")
    assert open_graph(graph.uri, "ro").merge("dev", dry_run=True).nodes == {"Person": Counts(0, 1, 0)}
    assert written(graph) == before

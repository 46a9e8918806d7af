"""``omnigraph commit list --dag``: lanes that part and meet, with the names beside the commits."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from ulid import ULID

import omnigraph as og
from omnigraph.cli.render.history import HistoryDrawing
from omnigraph.cli.render.lanes import draw_lanes
from omnigraph.cli.render.page import Page
from omnigraph.graph import Graph
from omnigraph.manifest.history import Commit
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.storage.locks import branch_lock
from tests.cli.conftest import BRANCH, Command, Stocked, error_of
from tests.manifest.publishing import manifest_of

GRAPH = ("-g", "brain.og")
WHEN = datetime(2026, 5, 1, tzinfo=UTC)


def history(*lines: str) -> list[Commit]:
    """Commits, children first, written as ``child: parent merged``."""
    found: list[Commit] = []
    for line in lines:
        commit_id, _, parents = line.partition(":")
        found.append(Commit(commit_id, tuple(parents.split()), "main", 1, None, None, WHEN, None))
    return found


def drawn(*lines: str) -> list[str]:
    rows = draw_lanes(history(*lines))
    return [row.lanes.plain + (f" {row.commit.id}" if row.commit else "") for row in rows]


def test_a_line() -> None:
    assert drawn("c: b", "b: a", "a:") == ["● c", "● b", "● a"]


def test_nothing() -> None:
    assert drawn() == []


def test_a_branch_that_was_merged() -> None:
    assert drawn("d: c b", "c: a", "b: a", "a:") == [
        "● d",
        "├─╮",
        "● │ c",
        "│ ● b",
        "├─╯",
        "● a",
    ]


def test_a_branch_that_is_open() -> None:
    assert drawn("c: a", "b: a", "a:") == ["● c", "│ ● b", "├─╯", "● a"]


def test_merges_in_both_directions() -> None:
    # Main took x from the branch, the branch then took main.
    assert drawn("n: x m", "m: b x", "x: b", "b:") == [
        "● n",
        "├─╮",
        "│ ● m",
        "├─┤",
        "● │ x",
        "├─╯",
        "● b",
    ]


def test_a_lane_that_is_crossed_passes_below() -> None:
    assert drawn("c: a", "d: e", "m: a", "a:", "e:") == [
        "● c",
        "│ ● d",
        "│ │ ● m",
        "├─│─╯",
        "● │ a",
        "  ● e",
    ]


def test_a_lane_that_ended_is_used_again() -> None:
    assert drawn("d: b", "x:", "c: b", "b:") == ["● d", "│ ● x", "│ ● c", "├─╯", "● b"]


def test_what_is_cut_off_stays_open_and_a_merged_parent_that_is_gone_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    HistoryDrawing(history("c: b x", "y: b"), more=True, branches=[], tags=[]).draw(Page(quiet=True))
    assert capsys.readouterr().out.splitlines() == [
        "●   c  2026-05-01 00:00Z  (merges x)",
        "│ ● y  2026-05-01 00:00Z",
    ]


# --------------------------------------------------------------------------------------------- the command


def merge(graph: Graph, source: str, target: str) -> str:
    """A commit with two parents, and no rows."""
    manifest = manifest_of(graph)
    merged_parent = graph.commits(source, 1)[0].id
    with branch_lock(manifest.location, target, manifest.locks) as held:
        intent = CommitIntent(str(ULID()), None, actor="act-eve", message="merge\nall", merged_parent=merged_parent)
        publish(manifest, held, target, PublishRequest(intent))
    return intent.commit_id


@pytest.fixture
def merged(stocked: Stocked) -> str:
    """The branch was merged into main, and main carries a tag."""
    with og.open(stocked.path) as graph:
        graph.create_tag("release/1", "v1")
        return merge(graph, BRANCH, "main")


def test_the_history_of_all_branches_is_drawn(omnigraph: Command, stocked: Stocked, merged: str) -> None:
    answer = omnigraph("commit", "list", "--dag", *GRAPH)
    # On a busy machine some of them are older already.
    assert re.sub(r"\d+ \w+ ago", "just now", answer.out).splitlines() == [
        f"●   {merged}  (main)  just now  act-eve  merge",
        "├─╮",
        f"│ ● {stocked.branch_head}  ({BRANCH})  just now  tests",
        "├─╯",
        f"●   {stocked.main_head}  just now  tests",
        f"●   {stocked.genesis}  (tag release/1)  just now  act-ann",
    ]
    assert (answer.code, answer.err) == (0, "")


def test_one_branch_shows_what_led_to_it_and_no_more(omnigraph: Command, stocked: Stocked, merged: str) -> None:
    on_branch = omnigraph("--graph", "brain.og", "commit", "list", "--dag", "--branch", BRANCH).out
    assert [line[2:28] for line in on_branch.splitlines()] == [
        stocked.branch_head,
        stocked.main_head,
        stocked.genesis,
    ]
    assert merged in omnigraph("commit", "list", "--dag", "--branch", "main", *GRAPH).out


@pytest.mark.usefixtures("merged")
def test_the_limit_counts_commits_not_rows(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("commit", "list", "--dag", "--limit", "3", *GRAPH)
    assert stocked.main_head in answer.out
    assert stocked.genesis not in answer.out
    assert answer.err == "there are more; --limit shows them\n"
    assert omnigraph("commit", "list", "--dag", "--limit", "4", *GRAPH).err == ""


def test_json_has_the_names_beside_each_commit(omnigraph: Command, stocked: Stocked, merged: str) -> None:
    commits = omnigraph("commit", "list", "--dag", "--json", *GRAPH).json["commits"]
    assert isinstance(commits, list)
    found = {str(each["id"]): (each["heads"], each["tags"]) for each in commits if isinstance(each, dict)}
    assert found == {
        merged: (["main"], []),
        stocked.branch_head: ([BRANCH], []),
        stocked.main_head: ([], []),
        stocked.genesis: ([], ["release/1"]),
    }


def test_a_merged_branch_that_is_gone_is_still_named(omnigraph: Command, stocked: Stocked, merged: str) -> None:
    og.open(stocked.path).delete_branch(BRANCH)
    first = omnigraph("commit", "list", "--dag", *GRAPH).out.splitlines()[0]
    assert first == f"● {merged}  (main)  just now  act-eve  merge  (merges {stocked.branch_head})"


def test_a_child_comes_before_its_parents_whatever_the_clocks_say(
    stocked: Stocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with og.open(stocked.path) as graph, monkeypatch.context() as patch:
        patch.setattr("omnigraph.language.values.time.time_ns", lambda: 0)
        merged = merge(graph, BRANCH, "main")
        assert graph.commit(merged).created_at < graph.commit(stocked.branch_head).created_at
        assert [commit.id for commit in graph.ancestry()] == [
            merged,
            stocked.branch_head,
            stocked.main_head,
            stocked.genesis,
        ]


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize("other", [("--recoveries",), ("--filter", "actor=x")], ids=str)
def test_a_drawing_takes_no_filter(omnigraph: Command, other: tuple[str, ...]) -> None:
    answer = omnigraph("commit", "list", "--dag", *other, *GRAPH)
    assert answer.code == 2
    assert "--dag draws the whole history" in answer.err


@pytest.mark.usefixtures("stocked")
def test_an_unknown_branch_has_no_drawing(omnigraph: Command) -> None:
    error = error_of(omnigraph("commit", "list", "--dag", "--branch", "nope", "--json", *GRAPH))
    assert error["code"] == "not_found"


def test_at_a_terminal_lanes_have_colours_and_lines_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    HistoryDrawing(history("c: b", "b: a"), more=False, branches=[], tags=[]).draw(Page(quiet=True))
    first, _ = capsys.readouterr().out.splitlines()
    assert "\x1b[32m●" in first
    assert "…" in first

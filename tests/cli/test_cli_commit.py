"""``omnigraph commit list | show``."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

import omnigraph as og
from omnigraph.cli.render.graph import CommitDetails, CommitListing, timestamp
from omnigraph.cli.render.page import Page
from omnigraph.errors import Json
from omnigraph.manifest.history import Commit
from tests.cli.conftest import BRANCH, Command, Stocked, error_of
from tests.manifest.publishing import commit_rows

GRAPH = ("-g", "brain.og")
KEYS = ["id", "parents", "branch", "manifest_version", "actor", "message", "created_at"]
COMMIT = Commit(
    "01J00000000000000000000002",
    ("01J00000000000000000000001", "01J00000000000000000000000"),
    "main",
    12,
    "act-ann",
    "the first line\nthe second",
    datetime(2026, 5, 1, 10, 2, 3, 400, tzinfo=UTC),
    None,
)


def ids(omnigraph: Command, *words: str) -> list[Json]:
    commits = cast("list[dict[str, Json]]", omnigraph("commit", "list", "--json", *words, *GRAPH).json["commits"])
    return [commit["id"] for commit in commits]


def test_json_has_the_documented_keys(omnigraph: Command, stocked: Stocked) -> None:
    found = omnigraph("commit", "list", "--json", *GRAPH).json
    assert list(found) == ["commits"]
    newest, first = cast("list[dict[str, Json]]", found["commits"])
    assert list(newest) == list(first) == KEYS
    assert (first["id"], first["parents"], first["actor"]) == (stocked.genesis, [], "act-ann")
    assert (newest["id"], newest["parents"], newest["branch"]) == (stocked.main_head, [stocked.genesis], "main")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", str(newest["created_at"]))
    assert omnigraph("commit", "show", stocked.genesis, "--json", *GRAPH).json == first


def test_the_list_is_a_table_newest_first(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("commit", "list", *GRAPH)
    header, newest, first = answer.out.splitlines()
    assert header.split() == ["commit", "when", "branch", "actor", "message"]
    assert newest.startswith(f"{stocked.main_head}  ")
    assert first.startswith(f"{stocked.genesis}  ")
    assert first.endswith("  main    act-ann")
    assert header.index("branch") == first.index("main") == newest.index("main")
    assert answer.err == ""


def test_a_branch_shows_what_it_inherited_too(omnigraph: Command, stocked: Stocked) -> None:
    everything = [stocked.branch_head, stocked.main_head, stocked.genesis]
    assert ids(omnigraph, "--branch", BRANCH) == everything
    assert ids(omnigraph) == everything[1:]


def test_the_limit_says_that_there_are_more(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("commit", "list", "--limit", "1", *GRAPH)
    assert len(answer.out.splitlines()) == 2
    assert answer.err == "there are more; --limit shows them\n"
    assert omnigraph("commit", "list", "--limit", "2", *GRAPH).err == ""
    assert ids(omnigraph, "--limit", "1") == [stocked.main_head]


def test_each_filter_and_all_together(omnigraph: Command, stocked: Stocked) -> None:
    newest, _, first = og.open("brain.og", "ro").commits(BRANCH)
    on_branch = ("--branch", BRANCH)
    assert ids(omnigraph, "--filter", "actor=act-ann") == [stocked.genesis]
    assert ids(omnigraph, "--filter", "actor=nobody") == []
    assert ids(omnigraph, *on_branch, "--filter", f"branch={BRANCH}") == [stocked.branch_head]
    assert ids(omnigraph, *on_branch, "--filter", "branch=main") == [stocked.main_head, stocked.genesis]
    assert ids(omnigraph, *on_branch, "--filter", f"since={timestamp(newest.created_at)}") == [stocked.branch_head]
    assert ids(omnigraph, *on_branch, "--filter", f"until={timestamp(first.created_at)}") == [stocked.genesis]
    assert ids(omnigraph, "--filter", "since=2001-01-01", "--filter", "until=2001-01-02T10:00Z") == []
    assert ids(omnigraph, "--filter", "since=2001-01-01", "--filter", "actor=tests", "--filter", "branch=main") == [
        stocked.main_head
    ]


def test_a_filter_by_branch_looks_at_the_history_of_that_branch(omnigraph: Command, stocked: Stocked) -> None:
    assert ids(omnigraph, "--filter", f"branch={BRANCH}") == [stocked.branch_head]
    assert ids(omnigraph, "--filter", f"branch={BRANCH}", "--filter", "actor=nobody") == []
    # Asked for explicitly, it is that history: main shows nothing that was made on the branch.
    assert ids(omnigraph, "--branch", "main", "--filter", f"branch={BRANCH}") == []


def test_the_limit_counts_what_the_filter_left(omnigraph: Command, stocked: Stocked) -> None:
    commit_rows(og.open("brain.og"), {"Firm": ["acme"]}, BRANCH)
    found = ids(omnigraph, "--branch", BRANCH, "--filter", "branch=main", "--limit", "1")
    assert found == [stocked.main_head]


@pytest.mark.usefixtures("stocked")
def test_no_commits_are_said_to_be_none(omnigraph: Command) -> None:
    answer = omnigraph("commit", "list", "--filter", "actor=nobody", *GRAPH)
    assert (answer.code, answer.out, answer.err) == (0, "", "no commits\n")


def test_show_finds_a_commit_by_id_on_any_branch_by_version_and_by_time(omnigraph: Command, stocked: Stocked) -> None:
    for reference, commit in (
        (stocked.branch_head, stocked.branch_head),
        ("v1", stocked.genesis),
        ("2999-01-01", stocked.main_head),
    ):
        assert omnigraph("commit", "show", reference, *GRAPH).out.startswith(f"commit   {commit}\n")


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("words", "exit_code", "code", "complaint"),
    [
        (["list", "--branch", "nope"], 1, "not_found", "no branch 'nope' in brain.og"),
        (["list", "--filter", "author=x"], 2, "parameter_error", "--filter takes actor=, branch=, since=, until="),
        (["list", "--filter", "actor"], 2, "parameter_error", "not 'actor'"),
        (["list", "--filter", "branch=nope"], 1, "not_found", "no branch 'nope' in brain.og"),
        (["list", "--filter", "actor=a", "--filter", "actor=b"], 2, "parameter_error", "actor= is given twice"),
        (["list", "--filter", "since=soon"], 1, "parameter_error", "'soon' is no date or time"),
        (["list", "--limit", "0"], 2, "parameter_error", "--limit"),
        (["list", "--limit", "many"], 2, "parameter_error", "--limit"),
        (["show"], 2, "parameter_error", "Missing argument"),
        (["show", "nope"], 1, "not_found", "no commit, version, date or tag 'nope'"),
        (["show", "v99"], 1, "not_found", "branch 'main' has no manifest version 99"),
        (["show", "2001-01-01"], 1, "not_found", "no commit at or before 2001-01-01"),
        (["show", "2001-13-01"], 1, "parameter_error", "'2001-13-01' is no date or time"),
        (["show", "01J00000000000000000000000"], 1, "not_found", "no commit 01J00000000000000000000000 in brain.og"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_said(
    omnigraph: Command, words: list[str], exit_code: int, code: str, complaint: str
) -> None:
    answer = omnigraph("commit", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert error_of(omnigraph("commit", *words, "--json", *GRAPH))["code"] == code


def test_one_commit_is_drawn_with_all_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    CommitDetails(COMMIT).draw(Page())
    assert capsys.readouterr().out.splitlines() == [
        "commit   01J00000000000000000000002",
        "parents  01J00000000000000000000001, 01J00000000000000000000000",
        "branch   main",
        "version  v12",
        "actor    act-ann",
        "when     2026-05-01 10:02:03Z",
        "message  the first line",
        "         the second",
    ]


def test_a_message_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = replace(COMMIT, message="\x1b[2Jgone", actor="a\x07\nb")
    CommitListing([evil], more=False).draw(Page())
    CommitDetails(evil).draw(Page())
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert out.splitlines()[1].endswith("  main    a␇     ␛[2Jgone")


def test_a_table_fits_the_terminal_and_is_whole_elsewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = replace(COMMIT, branch="b" * 100, message="the 漢字 " * 30)
    CommitListing([wide], more=False).draw(Page())
    assert wide.branch in (whole := capsys.readouterr().out)
    assert (wide.message or "").strip() in whole

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    CommitListing([wide], more=False).draw(Page())
    header, row = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert row.startswith(f"{wide.id}  2026-05-01 10:02Z  {'b' * 39}…  act-ann")
    assert row.endswith("…")
    assert header.index("actor") == row.index("act-ann")


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(hours=23, minutes=59), "23 hours ago"),
    ],
)
def test_what_is_younger_than_a_day_has_an_age(age: timedelta, words: str) -> None:
    page = Page()
    assert page.moment(page.now - age) == words
    assert page.exact_moment(page.now - age).endswith(f"Z ({words})")


@pytest.mark.parametrize("age", [timedelta(days=1), timedelta(seconds=-1)], ids=["old", "ahead of our clock"])
def test_what_is_older_or_of_the_future_has_a_date(age: timedelta) -> None:
    page = Page()
    instant = page.now - age
    assert page.moment(instant) == f"{instant:%Y-%m-%d %H:%M}Z"
    assert page.exact_moment(instant) == f"{instant:%Y-%m-%d %H:%M:%S}Z"

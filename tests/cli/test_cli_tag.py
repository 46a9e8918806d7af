"""``omnigraph tag create | list | delete``, and tags where other commands take a reference."""

from __future__ import annotations

from typing import cast

import pytest

import omnigraph as og
from omnigraph.errors import Json
from tests.cli.conftest import BRANCH, Command, Stocked, error_of
from tests.cli.test_cli_branch import at_a_terminal

GRAPH = ("-g", "brain.og")


def tags() -> dict[str, str]:
    return {tag.name: tag.commit for tag in og.open("brain.og", "ro").tags()}


def test_a_tag_is_made_and_the_target_is_said_first(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("tag", "create", "release/1", *GRAPH)
    assert (answer.code, answer.out) == (0, f"created tag release/1 at {stocked.main_head}\n")
    assert answer.err == "creating tag release/1 in brain.og\n"
    assert tags() == {"release/1": stocked.main_head}


@pytest.mark.parametrize(
    ("words", "commit"),
    [
        ([BRANCH], "branch_head"),
        (["--branch", BRANCH], "branch_head"),
        (["v1"], "genesis"),
        (["2999-01-01", "--branch", BRANCH], "branch_head"),
        (["2999-01-01"], "main_head"),
    ],
    ids=str,
)
def test_what_is_tagged(omnigraph: Command, stocked: Stocked, words: list[str], commit: str) -> None:
    answer = omnigraph("tag", "create", "x", *words, "--json", "--as", "act-eve", *GRAPH).json
    assert list(answer) == ["name", "commit", "branch", "created_at", "actor"]
    assert (answer["name"], answer["commit"], answer["actor"]) == ("x", getattr(stocked, commit), "act-eve")
    assert answer["branch"] == (BRANCH if commit == "branch_head" else "main")
    assert omnigraph("tag", "list", "--json", *GRAPH).json == {"tags": [answer]}


def test_list_is_a_table(omnigraph: Command, stocked: Stocked) -> None:
    assert omnigraph("tag", "list", *GRAPH).err == "no tags\n"
    omnigraph("tag", "create", "b", *GRAPH)
    omnigraph("tag", "create", "a", BRANCH, "--as", "act-eve", *GRAPH)
    header, first, second = omnigraph("tag", "list", *GRAPH).out.splitlines()
    assert header.split() == ["tag", "commit", "branch", "created", "actor"]
    assert first.split() == ["a", stocked.branch_head, BRANCH, "just", "now", "act-eve"]
    assert second.split() == ["b", stocked.main_head, "main", "just", "now"]


def test_a_tag_is_a_reference_everywhere(omnigraph: Command, stocked: Stocked) -> None:
    omnigraph("tag", "create", "first", "v1", *GRAPH)
    query = ("query", "-e", "query q() { match { $p: Person } return { $p.name } }", "--json", *GRAPH)
    assert cast("int", omnigraph(*query).json["row_count"]) > 0
    assert omnigraph(*query, "--at", "first").json["row_count"] == 0
    assert omnigraph("commit", "show", "first", "--json", *GRAPH).json["id"] == stocked.genesis
    made = omnigraph("branch", "create", "again", "--from", "first", "--json", *GRAPH)
    assert made.json == {"branch": "again", "commit": stocked.genesis}
    assert omnigraph("snapshot", "--at", "first", "--json", *GRAPH).json["commit"] == stocked.genesis


def test_a_tag_is_deleted(omnigraph: Command, stocked: Stocked) -> None:
    for name in ("x", "y"):
        omnigraph("tag", "create", name, *GRAPH)
    answer = omnigraph("tag", "delete", "x", "--yes", *GRAPH)
    assert (answer.code, answer.out, answer.err) == (0, "deleted tag x\n", "deleting tag x in brain.og\n")
    assert omnigraph("tag", "delete", "y", "--yes", "--json", *GRAPH).json == {"tag": "y"}
    assert tags() == {}
    assert omnigraph("commit", "show", stocked.main_head, *GRAPH).code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("stocked")
def test_at_a_terminal_a_delete_is_asked_for(omnigraph: Command) -> None:
    omnigraph("tag", "create", "x", *GRAPH)
    code, shown = at_a_terminal(["tag", "delete", "x", *GRAPH], b"no\n")
    assert code == 1
    assert "Delete tag x? [y/N]" in shown
    assert list(tags()) == ["x"]


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("words", "exit_code", "code", "complaint"),
    [
        (["create", BRANCH], 1, "already_exists", f"there is a branch '{BRANCH}' already"),
        (["create", "kept"], 1, "already_exists", "there is a tag 'kept' already"),
        (["create", "v1"], 1, "parameter_error", "looks like a manifest version"),
        (["create", "x", "nope"], 1, "not_found", "no branch, commit, version, date or tag 'nope'"),
        (["create", "x", "--branch", "nope"], 1, "not_found", "nope"),
        (["create", "x", "v9", "--branch", "nope"], 1, "not_found", "no branch 'nope'"),
        (["delete", "nope", "--yes"], 1, "not_found", "no tag 'nope' in brain.og"),
        (["create"], 2, "parameter_error", "Missing argument"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said(
    omnigraph: Command, words: list[str], exit_code: int, code: str, complaint: str
) -> None:
    omnigraph("tag", "create", "kept", BRANCH, *GRAPH)
    before = tags()
    answer = omnigraph("tag", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert error_of(omnigraph("tag", *words, "--json", *GRAPH))["code"] == code
    assert tags() == before


@pytest.mark.usefixtures("stocked")
def test_a_branch_that_a_tag_depends_on_is_a_conflict(omnigraph: Command) -> None:
    omnigraph("tag", "create", "kept", BRANCH, *GRAPH)
    answer = omnigraph("branch", "delete", BRANCH, "--yes", *GRAPH)
    assert answer.code == 3
    assert "the tag 'kept' still depends on it\nhint: delete the tag 'kept' first\n" in answer.err
    details = cast(
        "dict[str, Json]", error_of(omnigraph("branch", "delete", BRANCH, "--yes", "--json", *GRAPH))["details"]
    )
    assert details == {"branch": BRANCH, "tag": "kept"}

"""``omnigraph snapshot``."""

from __future__ import annotations

from typing import cast

import pytest

import omnigraph as og
from omnigraph.cli.render.graph import timestamp
from omnigraph.errors import Json
from tests.cli.conftest import BRANCH, Command, Stocked, error_of

GRAPH = ("-g", "brain.og")


def rows(omnigraph: Command, *words: str) -> dict[str, Json]:
    found = omnigraph("snapshot", "--json", *words, *GRAPH).json
    return {str(table["key"]): table["row_count"] for table in cast("list[dict[str, Json]]", found["tables"])}


def test_json_has_the_documented_keys(omnigraph: Command, stocked: Stocked) -> None:
    found = omnigraph("snapshot", "--branch", BRANCH, "--json", *GRAPH).json
    assert list(found) == ["branch", "commit", "manifest_version", "tables"]
    assert (found["branch"], found["commit"]) == (BRANCH, stocked.branch_head)
    assert found["tables"] == [
        {"key": "node:City", "kind": "node", "type": "City", "version": 2, "branch": "main", "row_count": 1},
        {"key": "node:Firm", "kind": "node", "type": "Firm", "version": 1, "branch": "main", "row_count": 0},
        {"key": "node:Person", "kind": "node", "type": "Person", "version": 3, "branch": BRANCH, "row_count": 3},
        {"key": "edge:Knows", "kind": "edge", "type": "Knows", "version": 1, "branch": "main", "row_count": 0},
    ]


def test_text_has_the_place_and_a_table(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("snapshot", "--branch", BRANCH, *GRAPH)
    lines = answer.out.splitlines()
    assert lines[0] == f"branch   {BRANCH}"
    assert lines[2].startswith(f"commit   {stocked.branch_head}, 20")
    assert lines[3:] == [
        "",
        "kind  type    version  branch       rows",
        "node  City          2  main            1",
        "node  Firm          1  main            0",
        "node  Person        3  review/june     3",
        "edge  Knows         1  main            0",
    ]
    assert (answer.code, answer.err) == (0, "")


def test_the_past_is_shown_by_commit_version_and_time(omnigraph: Command, stocked: Stocked) -> None:
    (_, first) = og.open("brain.og", "ro").commits()
    for reference in (stocked.genesis, "v1", timestamp(first.created_at)):
        assert rows(omnigraph, "--at", reference)["node:Person"] == 0
    assert rows(omnigraph)["node:Person"] == 2
    assert rows(omnigraph, "--at", stocked.branch_head)["node:Person"] == 3


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("words", "exit_code", "code", "complaint"),
    [
        (["--branch", "nope"], 1, "not_found", "no branch 'nope' in brain.og"),
        (["--at", "nope"], 1, "not_found", "no commit, version, date or tag 'nope'"),
        (["--at", "v0"], 1, "not_found", "no manifest version 0"),
        (["--at", "v99"], 1, "not_found", "no manifest version 99"),
        (["--at", "2001-01-01"], 1, "not_found", "no commit at or before 2001-01-01"),
        (["--at", "2001-99-01"], 1, "parameter_error", "is no date or time"),
        (["--at", "01J00000000000000000000000"], 1, "not_found", "no commit 01J00000000000000000000000"),
        (["brain.og"], 2, "parameter_error", "unexpected extra argument"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_said(
    omnigraph: Command, words: list[str], exit_code: int, code: str, complaint: str
) -> None:
    answer = omnigraph("snapshot", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert error_of(omnigraph("snapshot", *words, "--json", *GRAPH))["code"] == code

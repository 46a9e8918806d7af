"""``omnigraph commit list --recoveries``: what was finished for writers that died."""

from __future__ import annotations

from typing import cast

import pytest

import omnigraph as og
from omnigraph.cli.render.graph import timestamp
from omnigraph.errors import Json
from tests import crash
from tests.cli.conftest import BRANCH, Answer, Command, Stocked, error_of

GRAPH = ("-g", "brain.og")
LIST = ("commit", "list", "--recoveries", *GRAPH)
MEET = 'query meet() { insert Person { name: "eve" }  insert Knows { from: "eve", to: "ann" } }'
NEXT = 'query next() { insert Person { name: "dan" } }'


def meet(uri: str) -> None:
    og.open(uri, actor="act-ann").mutate(MEET)


@pytest.fixture
def recovered(stocked: Stocked, omnigraph: Command) -> Stocked:
    """The graph after a writer of it died before it published, and another one came by."""
    steps = crash.record(meet, str(crash.fresh_copy(stocked.path)))
    number = next(step.number for step in steps if step.name == "table.commit")
    crash.kill_at(meet, (str(stocked.path),), number, "after")
    assert omnigraph(*LIST).err == "no recoveries\n"
    assert omnigraph("mutate", "-e", NEXT, *GRAPH).code == 0
    return stocked


@pytest.mark.usefixtures("stocked")
def test_a_graph_without_any_says_so(omnigraph: Command) -> None:
    assert omnigraph(*LIST) == Answer(0, "", "no recoveries\n")
    assert omnigraph(*LIST, "--json").json == {"recoveries": []}


@pytest.mark.usefixtures("recovered")
def test_a_recovery_is_shown_in_both_forms(omnigraph: Command) -> None:
    (recovery,) = og.open("brain.og", "ro").recoveries()
    header, row = omnigraph(*LIST).out.splitlines()
    assert header.split("  ")[0] == "commit"
    assert row.split()[0] == recovery.graph_commit_id
    for cell in ("just now", "RolledBack", "act-ann", recovery.outcomes[0].table_key):
        assert f"  {cell}" in row
    answer = omnigraph(*LIST, "--json")
    (found,) = cast("list[dict[str, Json]]", answer.json["recoveries"])
    assert found == {
        "commit": recovery.graph_commit_id,
        "kind": "RolledBack",
        "for_actor": "act-ann",
        "operation_id": recovery.operation_id,
        "writer_kind": recovery.writer_kind,
        "outcomes": [
            {"table_key": each.table_key, "from_version": each.from_version, "to_version": each.to_version}
            for each in recovery.outcomes
        ],
        "created_at": timestamp(recovery.created_at),
    }


@pytest.mark.usefixtures("recovered")
def test_the_commits_of_recovery_can_be_filtered(omnigraph: Command) -> None:
    (recovery,) = og.open("brain.og", "ro").recoveries()
    answer = omnigraph("commit", "list", "--filter", "actor=omnigraph:recovery", "--json", *GRAPH)
    commits = cast("list[dict[str, Json]]", answer.json["commits"])
    assert [commit["id"] for commit in commits] == [recovery.graph_commit_id]


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize("words", [["--branch", BRANCH], ["--branch", "main"], ["--filter", "actor=a"]], ids=str)
def test_it_is_about_all_branches(omnigraph: Command, words: list[str]) -> None:
    answer = omnigraph(*LIST, *words, "--json")
    assert answer.code == 2
    assert "takes no --branch, --filter or --upkeep" in str(error_of(answer)["message"])

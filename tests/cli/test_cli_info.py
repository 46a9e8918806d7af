"""``omnigraph info``."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.language.schema import parse_schema
from omnigraph.manifest import migrations
from omnigraph.storage import tables
from tests.cli.conftest import BRANCH, Command, Stocked, error_of
from tests.manifest.publishing import SCHEMA, manifest_of

GRAPH = ("-g", "brain.og")


def test_json_says_where_what_and_how_far(omnigraph: Command, stocked: Stocked) -> None:
    head = omnigraph("commit", "show", stocked.main_head, "--json", *GRAPH).json
    assert omnigraph("info", "--json", *GRAPH).json == {
        "uri": "brain.og",
        "format": 4,
        "schema_ir_hash": parse_schema(SCHEMA).hash,
        "branches": ["main", BRANCH],
        "head": head,
        "nodes": {"City": 1, "Firm": 0, "Person": 2},
        "edges": {"Knows": 0},
    }


def test_text_says_the_same(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("info", *GRAPH)
    lines = answer.out.splitlines()
    assert lines[:4] == [
        "graph     brain.og",
        "format    4",
        f"schema    {parse_schema(SCHEMA).hash}",
        f"branches  main, {BRANCH}",
    ]
    assert lines[4].startswith(f"head      {stocked.main_head}, 20")
    assert lines[5:] == [
        "",
        "kind  type    rows",
        "node  City       1",
        "node  Firm       0",
        "node  Person     2",
        "edge  Knows      0",
    ]
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize("words", [["info"], ["branch", "create", "x"]], ids=" ".join)
def test_a_newer_format_is_refused(omnigraph: Command, words: list[str]) -> None:
    with og.open("brain.og") as graph:
        tables.set_schema_metadata(manifest_of(graph).open("main"), {migrations.STAMP: "99"})
    answer = omnigraph(*words, *GRAPH)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.endswith("error: brain.og has format 99; this release knows up to 4\nhint: upgrade omnigraph\n")
    assert error_of(omnigraph(*words, "--json", *GRAPH))["code"] == "format_too_new"

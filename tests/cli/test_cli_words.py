"""The words of the command line: help without types of Python, hints as options, messages of commits."""

from __future__ import annotations

import re

import pytest

from omnigraph.cli.command_group import COMMANDS
from omnigraph.cli.hints import speak_flags
from tests.cli.conftest import Command, error_of

GRAPH = ("-g", "brain.og")
ADD = 'query add_person() { insert Person { name: "zoe" } }'


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_values_and_not_types(omnigraph: Command, name: str) -> None:
    shown = omnigraph(name, "--help").out
    assert not re.search(r"<(str|int|float|list)\b|list\[|\{\w+\}\.\.\.", shown)


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ('use mode="merge" or "update"', 'use --mode merge or "update"'),
        ('load the others with on_error="quarantine"', "load the others with --on-error quarantine"),
        ("or give create=True", "or give --create"),
        ('give from_branch="main" to create it', "give --from main to create it"),
        ('give from_="main" to create it', "give --from main to create it"),
        ('such as identity={"Knows": ["from", "to"]}', "such as --identity Knows=from,to"),
        ("look again", "look again"),
    ],
)
def test_a_hint_speaks_of_options(hint: str, shown: str) -> None:
    assert speak_flags(hint) == shown


@pytest.mark.usefixtures("stocked")
def test_an_id_that_exists_says_how_to_merge(omnigraph: Command) -> None:
    record = b'{"type": "Person", "data": {"name": "ann"}}\n'
    answer = omnigraph("load", "-", *GRAPH, stdin=record)
    assert answer.code == 1
    assert "--mode merge changes what exists, --on-error quarantine loads the others" in answer.err
    assert "--mode merge" in str(error_of(omnigraph("load", "-", "--json", *GRAPH, stdin=record))["hint"])


@pytest.mark.usefixtures("stocked")
def test_a_commit_without_a_message_says_what_it_was(omnigraph: Command) -> None:
    omnigraph("mutate", "-e", ADD, *GRAPH)
    omnigraph("load", "-", *GRAPH, stdin=b'{"type": "Person", "data": {"name": "yan"}}\n')
    commits = omnigraph("commit", "list", "--json", *GRAPH).json["commits"]
    assert isinstance(commits, list)
    messages = [commit["message"] for commit in commits if isinstance(commit, dict)]
    assert messages[:2] == ["load records from stdin: 1 node, 0 edges", "mutation add_person"]
    assert omnigraph("mutate", "-e", ADD.replace("zoe", "eva"), "-m", "by hand", *GRAPH).code == 0
    assert "by hand" in omnigraph("commit", "list", "--limit", "1", *GRAPH).out

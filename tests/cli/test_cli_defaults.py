"""Where the command line begins: its version, files of defaults, completion, the state of a branch, the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.app import main
from tests.cli.conftest import BRANCH, Command, Stocked

NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own defaults."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "omnigraph"
    folder.mkdir(parents=True)
    return folder


def test_the_version(omnigraph: Command) -> None:
    for words in (["--version"], ["-V"], ["query", "--version"]):
        answer = omnigraph(*words)
        assert (answer.code, answer.out, answer.err) == (0, f"omnigraph {og.__version__}\n", "")


def test_a_project_names_its_graph_and_branch(
    omnigraph: Command, stocked: Stocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = stocked.path.parent
    (project / "omnigraph.toml").write_text(f'graph = "{stocked.path.name}"\nbranch = "{BRANCH}"\nformat = "csv"\n')
    below = project / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert omnigraph("query", "-e", NAMES).out.splitlines() == ["p.name", "ann", "bob", "eve"]
    assert omnigraph("query", "-e", NAMES, "--branch", "main", "--format", "jsonl").out.splitlines() == [
        '{"p.name":"ann"}',
        '{"p.name":"bob"}',
    ]
    assert omnigraph("status", "--json").json["branch"] == BRANCH
    assert omnigraph("commit", "list", "--json").json == omnigraph("log", "--branch", BRANCH, "--json").json
    # What is named on the command line wins.
    assert omnigraph("info", "-g", "nowhere.og").code == 1
    monkeypatch.setenv("OMNIGRAPH_GRAPH", "elsewhere.og")
    assert "elsewhere.og" in omnigraph("info").err


def test_the_project_wins_over_the_user(omnigraph: Command, stocked: Stocked, home: Path) -> None:
    (home / "config.toml").write_text('actor = "act-user"\nbranch = "nope"\n')
    project = stocked.path.parent / "omnigraph.toml"
    project.write_text('graph = "brain.og"\nbranch = "main"\n')
    assert omnigraph("mutate", "-e", 'query q() { insert Person { name: "zoe" } }').code == 0
    with og.open(stocked.path, "ro") as graph:
        assert graph.commits(limit=1)[0].actor == "act-user"
    project.unlink()
    assert "no branch 'nope'" in omnigraph("query", "-e", NAMES, "-g", str(stocked.path)).err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("grph = 'x'", "unknown key 'grph'; it may have graph, actor, branch, format, durability"),
        ("graph = 3", "graph is not a text"),
        ("graph = ", "omnigraph.toml: Invalid value"),
        ("durability = 'often'", "durability is 'often'; use process or power"),
        ("format = 'xml'", "xml"),
    ],
)
def test_a_wrong_file_of_defaults_is_named(omnigraph: Command, stocked: Stocked, text: str, complaint: str) -> None:
    path = stocked.path.parent / "omnigraph.toml"
    path.write_text(text)
    answer = omnigraph("query", "-e", NAMES, "-g", str(stocked.path))
    assert answer.code == 2
    assert complaint in answer.err


def test_init_is_not_held_up_by_a_default_graph(
    omnigraph: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("omnigraph.toml").write_text('graph = "old.og"\n')
    Path("s.pg").write_text("node A { n: I32 @key }")
    assert omnigraph("init", "new.og", "--schema", "s.pg").code == 0


def test_where_a_branch_stands(omnigraph: Command, stocked: Stocked) -> None:
    graph = ("-g", str(stocked.path))
    found = omnigraph("status", *graph, "--json").json
    assert list(found) == [
        *("graph", "branch", "commit", "ahead", "branches", "unfinished_writes", "to_optimize", "to_index", "next")
    ]
    assert (found["commit"], found["ahead"], found["next"]) == (stocked.main_head, 0, [])
    assert omnigraph("status", *graph).out.endswith("nothing to do\n")
    shown = omnigraph("status", "--branch", BRANCH, *graph).out
    assert "1 commit that main does not have" in shown
    assert shown.endswith(f"next:\n  omnigraph diff main {BRANCH}\n  omnigraph merge {BRANCH}\n")
    assert omnigraph("merge", BRANCH, *graph).code == 0
    assert "0 commits that main does not have" in omnigraph("status", "--branch", BRANCH, *graph).out


def test_the_log_is_the_list_of_commits(omnigraph: Command, stocked: Stocked) -> None:
    graph = ("-g", str(stocked.path))
    assert omnigraph("log", *graph).out == omnigraph("commit", "list", *graph).out
    assert (
        omnigraph("log", "-n", "1", "--json", *graph).json
        == omnigraph("commit", "list", "--limit", "1", "--json", *graph).json
    )
    drawn = omnigraph("commit", "list", "--dag", *graph)
    old = omnigraph("commit", "list", *graph, "--graph")
    assert old.out == drawn.out
    assert "draw with --dag" in old.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(omnigraph: Command, shell: str) -> None:
    assert "omnigraph" in omnigraph("completion", shell).out


@pytest.mark.parametrize(
    ("words", "number", "expected"),
    [
        ("omnigraph com", 1, ["completion", "commit"]),
        ("omnigraph -g brain.og com", 3, ["completion", "commit"]),
        ("omnigraph query --form", 2, ["--format"]),
        ("omnigraph query --js", 2, ["--json"]),
        ("omnigraph load --mode ", 3, ["append", "merge", "update", "overwrite"]),
        ("omnigraph load --mode m", 3, ["merge"]),
        ("omnigraph --durability po", 2, ["power"]),
        ("omnigraph query -e ", 3, []),
        ("omnigraph branch ", 2, ["create", "list", "delete"]),
    ],
)
def test_a_shell_completes_commands_and_options(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    number: int,
    expected: list[str],
) -> None:
    for name, value in (("_OMNIGRAPH_COMPLETE", "complete_bash"), ("COMP_WORDS", words), ("COMP_CWORD", str(number))):
        monkeypatch.setenv(name, value)
    assert main([]) == 0
    assert capsys.readouterr().out.split() == expected


def test_another_shell_is_refused(omnigraph: Command) -> None:
    assert omnigraph("completion", "cmd").code == 2
    assert json.loads(omnigraph("completion", "cmd", "--json").out)["error"]["code"] == "parameter_error"

"""The global options: where they may stand, which graph they choose, who acts, and what an interrupt does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from omnigraph.cli.global_options import split_globals
from omnigraph.cli.render.output import JsonOutput
from omnigraph.cli.session import VARIABLE, Session, read_storage_options
from omnigraph.storage.location import locate
from omnigraph.storage.locks import refs_lock
from omnigraph.storage.locks.leases import LockWait
from tests.cli.conftest import Command, Stocked, error_of


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        (["lint", "b.gq", "-v", "a.gq", "--json"], ["-v", "--json"], ["lint", "b.gq", "a.gq"]),
        (["-g", "x", "info"], ["--graph=x"], ["info"]),
        (["info", "--graph", "x", "--yes"], ["--graph=x", "--yes"], ["info"]),
        (["info", "-gx"], ["--graph=x"], ["info"]),
        (["info", "-g=x"], ["--graph=x"], ["info"]),
        (["info", "--graph=x=y"], ["--graph=x=y"], ["info"]),
        (["info", "--graph="], ["--graph="], ["info"]),
        (["info", "--graph=-x"], ["--graph=-x"], ["info"]),
        (["--as", "act-ann", "branch", "list"], ["--as=act-ann"], ["branch", "list"]),
        (
            ["info", "--storage-option", "a=1", "--storage-option=b=2"],
            ["--storage-option=a=1", "--storage-option=b=2"],
            ["info"],
        ),
        (["branch", "delete", "--", "-g", "--json"], [], ["branch", "delete", "--", "-g", "--json"]),
        (["info", "--graphic", "--assume"], [], ["info", "--graphic", "--assume"]),
        (["commit", "list", "--graph", "--json"], ["--json"], ["commit", "list", "--graph"]),
        (["--graph", "x", "commit", "list", "--graph"], ["--graph=x"], ["commit", "list", "--graph"]),
        (["commit", "list", "--graph", "-g", "x"], ["--graph=x"], ["commit", "list", "--graph"]),
        (["commit", "-v", "list", "--graph=x", "--graph"], ["-v", "--graph=x"], ["commit", "list", "--graph"]),
        (["commit", "show", "--graph", "x", "v1"], ["--graph=x"], ["commit", "show", "v1"]),
        ([], [], []),
    ],
    ids=" ".join,
)
def test_global_options_are_found_anywhere_and_the_rest_keeps_its_order(
    words: list[str], options: list[str], rest: list[str]
) -> None:
    assert split_globals(words) == (options, rest)


@pytest.mark.parametrize("words", [["info", "-g"], ["info", "-g", "--json"], ["info", "--as", "--", "x"]], ids=" ".join)
def test_an_option_without_its_value_is_wrong_usage(omnigraph: Command, words: list[str]) -> None:
    answer = omnigraph(*words)
    assert answer.code == 2
    assert f"Option '{words[1]}' needs a value" in answer.out + answer.err


def test_wrong_usage_of_a_global_option_is_json_too(omnigraph: Command) -> None:
    error = error_of(omnigraph("info", "--json", "-g"))
    assert error["code"] == "parameter_error"


@pytest.mark.parametrize("pair", ["secret", "=secret"])
def test_a_storage_option_is_a_pair_and_a_wrong_one_is_not_repeated(omnigraph: Command, pair: str) -> None:
    answer = omnigraph("info", "--storage-option", pair)
    assert answer.code == 2
    assert "--storage-option takes KEY=VALUE" in answer.err
    assert "secret" not in answer.err


def test_storage_options_may_hold_equal_signs_and_the_last_one_counts() -> None:
    assert read_storage_options(["a=1", "b=x=y", "a=2", "c="]) == {"a": "2", "b": "x=y", "c": ""}


def test_the_graph_is_the_named_one_then_the_variable_then_the_nearest_folder(
    omnigraph: Command, stocked: Stocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(*words: str) -> object:
        return omnigraph("info", "--json", *words).json["uri"]

    below = stocked.path / "nodes" / "deep" / "er"
    below.mkdir(parents=True)
    assert shown("-g", "brain.og") == "brain.og"
    monkeypatch.chdir(stocked.path)
    assert shown() == str(stocked.path)
    monkeypatch.chdir(below)
    assert shown() == str(stocked.path)
    monkeypatch.setenv(VARIABLE, "")
    assert shown() == str(stocked.path)
    monkeypatch.setenv(VARIABLE, f"file://{stocked.path}")
    assert shown() == f"file://{stocked.path}"
    assert shown("-g", str(stocked.path)) == str(stocked.path)


@pytest.mark.parametrize("words", [["info"], ["snapshot"], ["branch", "list"], ["branch", "create", "x"]], ids=" ".join)
def test_without_a_graph_the_three_ways_to_name_one_are_told(
    omnigraph: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "__manifest").write_text("a file is no graph")
    answer = omnigraph(*words)
    assert answer.code == 2
    for way in ("-g URI", "$OMNIGRAPH_GRAPH", "folder of a graph"):
        assert way in answer.err


def test_an_empty_graph_is_an_error_and_not_the_nearest_one(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("info", "--graph=")
    assert (answer.code, stocked.path.is_dir()) == (1, True)
    assert "the location of the graph is empty" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["info"],
        ["snapshot"],
        ["branch", "list"],
        ["branch", "create", "x"],
        ["commit", "list"],
        ["commit", "show", "v1"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("nothing", "there is no graph at nothing"),
        ("folder", "there is no graph at folder"),
        ("file", "file is a file; a graph is a folder"),
        ("unfinished", "the graph at unfinished is unfinished: its init was interrupted"),
        ("gs://b/x", "the location of the graph is 'gs://b/x': unknown scheme 'gs'"),
    ],
)
def test_what_is_no_graph_is_said_and_nothing_is_made(
    omnigraph: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    place: str,
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "_schema.pg").write_text("node A { name: String @key }")
    before = sorted(tmp_path.rglob("*"))
    answer = omnigraph(*words, "-g", place)
    assert (answer.code, answer.out) == (1, "")
    assert complaint in answer.err
    assert sorted(tmp_path.rglob("*")) == before
    assert complaint in str(error_of(omnigraph(*words, "-g", place, "--json"))["message"])


def test_a_command_that_reads_writes_nothing(omnigraph: Command, stocked: Stocked) -> None:
    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in stocked.path.rglob("*")}

    # Whoever may write would put it back.
    (stocked.path / "__schema_state.json").unlink()
    before = files()
    for words in (["info"], ["snapshot"], ["branch", "list"], ["commit", "list"], ["commit", "show", "v1"]):
        assert omnigraph(*words, "-g", "brain.og").code == 0
    assert files() == before


def test_storage_options_are_not_printed() -> None:
    assert "secret" not in repr(Session(JsonOutput(), storage_options={"aws_secret_access_key": "secret"}))


def has_open(pid: int, file: Path) -> bool:
    """Whether a process has a file open."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            if descriptor.samefile(file):
                return True
    return False


def has_opened(pid: int, file: Path) -> bool:
    """Look until a process has a file open."""
    waiting = LockWait(60.0)
    return any(has_open(pid, file) for _ in iter(waiting.remaining, 0.0))


@pytest.mark.costly
def test_an_interrupt_while_waiting_for_a_lock_exits_with_130_and_changes_nothing(stocked: Stocked) -> None:
    location = locate(stocked.path)
    with refs_lock(location):
        (lock,) = [file for file in (stocked.path / "__locks").iterdir() if has_open(os.getpid(), file)]
        words = ["branch", "create", "late", "-g", str(stocked.path)]
        with subprocess.Popen(
            [sys.executable, "-m", "omnigraph", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert has_opened(child.pid, lock)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (130, "")
    assert err == f"creating branch late from main in {stocked.path}\n"
    assert not (stocked.path / "__manifest" / "tree" / "late").exists()


def test_a_command_that_takes_too_long_gives_up(omnigraph: Command, stocked: Stocked) -> None:
    graph = ("verify", "-g", str(stocked.path))
    late = omnigraph(*graph, "--timeout", "0.000001")
    assert (late.code, "not done in 1e-06 s" in late.err) == (1, True)
    assert omnigraph(*graph, "--timeout", "600").code == 0
    wrong = omnigraph(*graph, "--timeout=-1")
    assert (wrong.code, "a timeout of -1" in wrong.err) == (1, True)


def test_a_query_with_too_little_memory_is_refused_by_name(omnigraph: Command, stocked: Stocked) -> None:
    every = ("query", "-e", "query q() { match { $a: Person  $b: Person } return { $a.name, $b.name } }")
    graph = ("-g", str(stocked.path))
    assert omnigraph(*every, *graph, "--memory", "64MB").code == 0
    refused = omnigraph(*every, *graph, "--memory", "8", "--json")
    assert (refused.code, '"memory_exceeded"' in refused.out) == (1, True)
    wrong = omnigraph(*every, *graph, "--memory=plenty")
    assert (wrong.code, "memory is 'plenty'" in wrong.err) == (1, True)

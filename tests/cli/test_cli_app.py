"""The command line as a whole: global options, exit codes, and how failures look."""

from __future__ import annotations

import gc
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.app import USAGE, app, exit_code, main
from omnigraph.cli.command_group import COMMANDS, Entry
from omnigraph.cli.global_options import split_globals
from omnigraph.errors import (
    ExpectedVersionMismatch,
    MergeConflicts,
    NotFound,
    OmniGraphError,
    ParameterError,
    PreconditionFailed,
    StorageError,
)
from tests.cli.conftest import PROJECT, Command


def list_commands(command: object, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and family that the application has, as the words that a user types."""
    yield words
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from list_commands(each, (*words, name))


def parse_options(words: tuple[str, ...], line: str) -> None:
    """Fail if the command does not have an option that the line names."""
    command = get_command(app)
    for word in words:
        assert isinstance(command, TyperGroup)
        command = command.commands[word]
    _global_options, rest = split_globals(shlex.split(line))
    with command.make_context("omnigraph", [], resilient_parsing=True) as context:
        context.resilient_parsing = False
        command.make_parser(context).parse_args(rest)


ALL_COMMANDS = list(list_commands(get_command(app)))
FAMILIES = {words[:-1] for words in ALL_COMMANDS}


@pytest.mark.parametrize("words", ALL_COMMANDS, ids=lambda words: " ".join(words) or "omnigraph")
def test_help_has_a_purpose_and_of_a_command_two_examples(omnigraph: Command, words: tuple[str, ...]) -> None:
    answer = omnigraph(*words, "--help")
    assert answer.code == 0
    assert answer.out.startswith("Usage: omnigraph")
    assert answer.err == ""
    if words not in FAMILIES:
        examples = re.findall(rf"^    omnigraph {' '.join(words)}\b(.*)$", answer.out, re.MULTILINE)
        assert len(set(examples)) >= 2
        for example in examples:
            parse_options(words, example)


def test_no_command_shows_the_help(omnigraph: Command) -> None:
    assert omnigraph().out == omnigraph("--help").out


def test_the_version_has_the_libraries(omnigraph: Command) -> None:
    found = omnigraph("version", "--json").json
    assert found["omnigraph"] == version("omnigraph")
    assert found["pylance"] == version("pylance")
    assert found["pyspark"] == version("pyspark")
    for name, release in found.items():
        assert f"{name:<10}  {release}" in omnigraph("version").out


@pytest.mark.parametrize("words", [["--json", "version"], ["version", "--json"]], ids=" ".join)
def test_json_may_stand_before_or_after_the_command(omnigraph: Command, words: list[str]) -> None:
    assert omnigraph(*words).json["omnigraph"]


def test_after_two_dashes_a_flag_is_a_file(omnigraph: Command) -> None:
    answer = omnigraph("schema", "check", "--", "--json")
    assert answer.code == 1
    assert "no such file: --json" in answer.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["lnt"], "No such command 'lnt'"),
        (["version", "--jsn"], "No such option: --jsn"),
        (["serve", "--port", "80"], "give both with --bind HOST:PORT; omnigraph serve --help"),
        (["lint", "a.gq"], "Missing option '--schema'"),
        (["lint", "--schema", "a.pg"], "Missing argument"),
        (["schema"], "Missing command"),
        (["schema", "diff", "a.pg"], "Missing argument 'new'"),
        (["schema", "diff", "-", "-"], "can be read only once"),
    ],
    ids=str,
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(omnigraph: Command, words: list[str], complaint: str) -> None:
    answer = omnigraph(*words)
    assert answer.code == 2
    assert answer.out == ""
    assert complaint in answer.err
    assert "--help" in answer.err

    as_json = omnigraph(*words, "--json")
    assert as_json.code == 2
    assert as_json.err == ""
    error = as_json.json["error"]
    assert isinstance(error, dict)
    assert error["code"] == "parameter_error"
    assert complaint in f"{error['message']} {error['hint']}"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("gone"), 1),
        (ParameterError("bad"), 1),
        (StorageError("broken"), 1),
        (ExpectedVersionMismatch("node:A", 1, 2), 3),
        (MergeConflicts("1 conflict", []), 3),
        (PreconditionFailed("main", "A", "B"), 4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_group_of_errors_has_its_exit_code(error: OmniGraphError, code: int) -> None:
    assert exit_code(error) == code


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more commands: one has a defect, the other is interrupted."""

    def fail() -> None:
        raise ZeroDivisionError("by zero")

    def interrupted() -> None:
        raise KeyboardInterrupt

    for name, function in (("defect", fail), ("interrupted", interrupted)):
        monkeypatch.setitem(COMMANDS, name, Entry("graph", name, ""))
        monkeypatch.setattr(f"omnigraph.cli.commands.graph.{name}", function, raising=False)


@pytest.mark.usefixtures("defect")
def test_a_defect_is_one_line_and_a_hint_and_a_traceback_only_on_request(omnigraph: Command) -> None:
    answer = omnigraph("defect")
    assert answer.code == 1
    assert answer.err.splitlines() == [
        "error: unexpected ZeroDivisionError: by zero",
        "hint: this is a bug in omnigraph; -v shows the traceback",
    ]
    assert "Traceback (most recent call last)" in omnigraph("defect", "-v").err
    assert omnigraph("defect", "--json").json["error"] == {
        "code": "error",
        "message": "unexpected ZeroDivisionError: by zero",
        "hint": "this is a bug in omnigraph; -v shows the traceback",
        "details": {},
    }


@pytest.mark.usefixtures("defect")
def test_an_interrupt_exits_with_130(omnigraph: Command) -> None:
    answer = omnigraph("interrupted")
    assert answer.code == 130
    assert "Traceback" not in answer.err


@pytest.mark.costly
def test_the_level_of_the_log_comes_from_the_environment(child: Command) -> None:
    assert child("version", OMNIGRAPH_LOG="debug").code == 0
    wrong = child("version", OMNIGRAPH_LOG="loud")
    assert wrong.code == 2
    assert "OMNIGRAPH_LOG is 'LOUD'; it may be DEBUG, INFO" in wrong.err


@pytest.mark.parametrize("words", [["version"], ["version", "--json"], ["--help"]], ids=" ".join)
def test_nobody_reading_on_is_silent(words: list[str]) -> None:
    # A pipe without a reader from the start: what `| head` is once it has seen enough, without the race.
    reader, writer = os.pipe()
    os.close(reader)
    # Buffered, as it is for most people: then the pipe breaks only when the buffer is flushed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "omnigraph", *words]
    done = subprocess.run(command, env=environment, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def terminal_output(words: list[str], **environment: str) -> bytes:
    """What a command writes when its stdout is a terminal."""
    primary, secondary = pty.openpty()
    settings = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    with subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *words],
        cwd=PROJECT,
        env={**settings, "TERM": "xterm-256color", **environment},
        stdout=secondary,
        stderr=subprocess.DEVNULL,
    ):
        os.close(secondary)
        found = bytearray()
        try:
            while chunk := os.read(primary, 65536):
                found += chunk
        except OSError:
            pass  # Linux reports the end of a terminal as an error.
        finally:
            os.close(primary)
    return bytes(found)


@pytest.mark.costly
@pytest.mark.usefixtures("project")
def test_colours_only_on_a_terminal_and_not_with_no_color(omnigraph: Command) -> None:
    words = ["lint", "broken.gq", "--schema", "evidence.pg"]
    assert "\x1b[" not in omnigraph(*words).out
    assert b"\x1b[1;31m" in terminal_output(words)
    assert b"31m" not in terminal_output(words, NO_COLOR="1")


def test_the_collector_of_the_process_is_as_it_was_after_a_command() -> None:
    usual = gc.get_threshold()
    assert main(["no-such-command"]) == USAGE
    assert gc.get_threshold() == usual

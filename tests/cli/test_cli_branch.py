"""``omnigraph branch create | list | delete``."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

import omnigraph as og
from omnigraph.errors import Json
from tests.cli.conftest import BRANCH, Command, Stocked, error_of
from tests.cli.nobody import as_nobody
from tests.crash import run
from tests.manifest.publishing import SCHEMA

GRAPH = ("-g", "brain.og")


def names() -> list[str]:
    return [branch.name for branch in og.open("brain.og", "ro").branches()]


def test_a_branch_is_made_and_the_target_is_said_first(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("branch", "create", "june", *GRAPH)
    assert (answer.code, answer.out) == (0, f"created branch june at {stocked.main_head}\n")
    assert answer.err == "creating branch june from main in brain.og\n"
    assert names() == ["main", "june", BRANCH]


def test_a_branch_may_begin_at_any_reference(omnigraph: Command, stocked: Stocked) -> None:
    origins = {BRANCH: stocked.branch_head, stocked.genesis: stocked.genesis, "v1": stocked.genesis}
    for number, (origin, head) in enumerate(origins.items()):
        answer = omnigraph("branch", "create", f"from-{number}", "--from", origin, "--json", *GRAPH)
        assert answer.json == {"branch": f"from-{number}", "commit": head}


def test_json_of_list_has_the_documented_keys(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("branch", "list", "--json", *GRAPH)
    main, june = cast("list[dict[str, Json]]", answer.json["branches"])
    assert list(answer.json) == ["branches"]
    assert main == {"name": "main", "head": stocked.main_head, "parent": None, "created_at": None}
    created_at = str(june.pop("created_at"))
    assert june == {"name": BRANCH, "head": stocked.branch_head, "parent": "main"}
    assert created_at.endswith("Z")
    assert datetime.now(UTC) - datetime.fromisoformat(created_at) < timedelta(hours=1)


def test_list_is_a_table(omnigraph: Command, stocked: Stocked) -> None:
    header, main, june = omnigraph("branch", "list", *GRAPH).out.splitlines()
    assert header.split() == ["branch", "head", "parent", "created"]
    assert main.split() == ["main", stocked.main_head]
    assert june.split()[:3] == [BRANCH, stocked.branch_head, "main"]
    assert header.index("head") == main.index(stocked.main_head) == june.index(stocked.branch_head)


def test_a_branch_is_deleted_without_a_question_where_nobody_sits(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("branch", "delete", BRANCH, "--yes", *GRAPH)
    assert (answer.code, answer.out) == (0, f"deleted branch {BRANCH} at {stocked.branch_head}\n")
    assert answer.err == f"deleting branch {BRANCH} in brain.og\n"
    assert names() == ["main"]


def test_json_of_delete(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("branch", "delete", BRANCH, "--yes", "--json", *GRAPH)
    assert (answer.json, answer.err) == ({"branch": BRANCH, "commit": stocked.branch_head}, "")


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a..b/../c", "begins with '.'"),
        ("two words", "a character that is not allowed"),
        ("x" * 300, "longer than 200 bytes"),
        ("main", "every graph has a 'main' already"),
        ("", "it is empty"),
        ("__mine", "reserved"),
        ("v12", "looks like a manifest version"),
        ("2024-05-01", "looks like a date"),
        ("01J00000000000000000000000", "looks like a commit id"),
        ("review", "one is a path prefix of the other"),
        ("review/june/7", "one is a path prefix of the other"),
        ("x.lock", "ends in '.lock'"),
    ],
    ids=str,
)
def test_a_name_that_a_branch_cannot_have(omnigraph: Command, name: str, reason: str) -> None:
    answer = omnigraph("branch", "create", name, *GRAPH)
    assert (answer.code, answer.out) == (1, "")
    assert reason in answer.err
    assert "\nhint: " in answer.err
    assert error_of(omnigraph("branch", "create", name, "--json", *GRAPH))["code"] == "parameter_error"
    assert names() == ["main", BRANCH]


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("words", "exit_code", "code", "complaint"),
    [
        (["create", BRANCH], 1, "already_exists", f"there is a branch '{BRANCH}' already"),
        (["create", "x", "--from", "nope"], 1, "not_found", "nope"),
        (["create", "x", "--from", "v99"], 1, "not_found", "no manifest version 99"),
        (["create", "x", "--from", "2001-01-01"], 1, "not_found", "no commit at or before 2001-01-01"),
        (["create", "x", "--from", "2001-13-01"], 1, "parameter_error", "is no date or time"),
        (
            ["create", "x", "--from", "01J00000000000000000000000"],
            1,
            "not_found",
            "no commit 01J0000000000000000000000",
        ),
        (["delete", "nope", "--yes"], 1, "not_found", "no branch 'nope' in brain.og"),
        (["delete", "main", "--yes"], 1, "parameter_error", "main cannot be deleted"),
        (["create"], 2, "parameter_error", "Missing argument"),
        (["rename", "a", "b"], 2, "parameter_error", "No such command 'rename'"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said(
    omnigraph: Command, words: list[str], exit_code: int, code: str, complaint: str
) -> None:
    answer = omnigraph("branch", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert error_of(omnigraph("branch", *words, "--json", *GRAPH))["code"] == code
    assert names() == ["main", BRANCH]


@pytest.mark.usefixtures("stocked")
def test_a_branch_that_another_depends_on_is_a_conflict(omnigraph: Command) -> None:
    omnigraph("branch", "create", "next", "--from", BRANCH, *GRAPH)
    answer = omnigraph("branch", "delete", BRANCH, "--yes", *GRAPH)
    assert answer.code == 3
    assert "'next' still depends on it\nhint: delete 'next' first\n" in answer.err
    error = error_of(omnigraph("branch", "delete", BRANCH, "--yes", "--json", *GRAPH))
    assert (error["code"], error["details"]) == ("conflict", {"branch": BRANCH, "dependent": "next"})


@pytest.fixture
def locked_up(forbidden: Path) -> Generator[Path]:
    """A graph with a branch, in a folder that others may read and nobody but root may change."""
    forbidden.chmod(0o755)
    place = forbidden / "brain.og"
    og.init(place, SCHEMA).create_branch(BRANCH)
    found = [place, *place.rglob("*")]
    for path in found:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield place
    for path in found:
        path.chmod(0o755)


@pytest.mark.costly
def test_where_nothing_can_be_written_reading_works_and_writing_is_refused(locked_up: Path) -> None:
    listed = run(as_nobody, ("branch", "list", "--json", "-g", str(locked_up)))
    assert (listed.code, len(cast("list[Json]", listed.json["branches"]))) == (0, 2)
    refused = run(as_nobody, ("branch", "create", "x", "--json", "-g", str(locked_up)))
    assert (refused.code, error_of(refused)["code"]) == (1, "read_only")


def at_a_terminal(words: list[str], answer: bytes) -> tuple[int, str]:
    """Run a command at a terminal and type an answer: its exit code, and what the terminal shows."""
    primary, secondary = pty.openpty()
    os.write(primary, answer)
    command = [sys.executable, "-m", "omnigraph", *words]
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "300"}
    with subprocess.Popen(command, env=environment, stdin=secondary, stdout=secondary, stderr=secondary) as child:
        os.close(secondary)
        shown = bytearray()
        try:
            while chunk := os.read(primary, 65536):
                shown += chunk
        except OSError:
            pass  # Linux reports the end of a terminal as an error.
        finally:
            os.close(primary)
    return child.returncode, shown.decode()


@pytest.mark.costly
@pytest.mark.usefixtures("stocked")
def test_at_a_terminal_a_delete_is_asked_for() -> None:
    question = f"Delete branch {BRANCH} and what only it has? [y/N]"
    delete = ["branch", "delete", BRANCH, *GRAPH]
    code, shown = at_a_terminal(delete, b"no\n")
    assert code == 1
    assert question in shown
    assert "nothing was changed" in shown
    assert names() == ["main", BRANCH]
    code, shown = at_a_terminal(delete, b"Y\n")
    assert code == 0
    assert question in shown
    assert names() == ["main"]


@pytest.mark.usefixtures("stocked")
def test_where_nobody_can_be_asked_nothing_is_deleted(omnigraph: Command) -> None:
    for form in ([], ["--json"]):
        answer = omnigraph("branch", "delete", BRANCH, *form, *GRAPH)
        assert answer.code == 2
        assert "Nobody can be asked here: --yes does it" in answer.out + answer.err
    assert names() == ["main", BRANCH]


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.usefixtures("stocked")
def test_at_a_terminal_yes_is_the_answer() -> None:
    code, shown = at_a_terminal(["branch", "delete", BRANCH, "--yes", *GRAPH], b"")
    assert code == 0
    assert "[y/N]" not in shown
    assert names() == ["main"]

"""What new users try first, and the exact answer: ``first_tries.txt`` has a line, what it prints, and its exit code.

Each answer has to say what to do next. Nothing that is tried here changes the graph.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.conftest import PROJECT, Command
from tests.console_blocks import matches

TABLE = Path(__file__).with_name("first_tries.txt")
TRIES = re.findall(r"^\$ omnigraph (.*)\n((?:.*\n)*?)\[(\d)\]$", TABLE.read_text("utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example project with its graph, and two more files."""
    folder = tmp_path_factory.mktemp("tries") / "evidence"
    shutil.copytree(PROJECT, folder)
    (folder / "conditions.csv").write_text("code,name,chronic\ncon-9,Gout,true\n")
    (folder / "empty.jsonl").touch()
    og.init(folder / "brain.og", (folder / "evidence.pg").read_text("utf-8")).load(folder / "evidence.jsonl")
    return folder


def test_the_table_is_read_whole() -> None:
    assert len(TRIES) == TABLE.read_text("utf-8").count("$ omnigraph ") >= 40


@pytest.mark.parametrize(("line", "shown", "code"), TRIES, ids=[line for line, _, _ in TRIES])
def test_a_first_try_is_answered(
    omnigraph: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, shown: str, code: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("OMNIGRAPH_GRAPH", raising=False)
    answer = omnigraph(*shlex.split(line))
    printed = (answer.err + answer.out).splitlines()
    assert matches(shown.splitlines(), printed), "\n".join(printed)
    assert answer.code == int(code)


def test_nothing_was_changed(folder: Path) -> None:
    assert len(og.open(folder / "brain.og").commits()) == 2

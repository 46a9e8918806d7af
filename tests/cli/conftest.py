"""A command line to talk to: in this process for speed, in a child where the process itself is the matter."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

import pytest

from omnigraph import init as omnigraph_init
from omnigraph import open as omnigraph_open
from omnigraph.cli.app import main
from omnigraph.cli.session import VARIABLE
from omnigraph.errors import Json
from tests.manifest.publishing import SCHEMA, commit_rows

PROJECT = Path(__file__).parents[2] / "examples" / "evidence"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Json]:
        """The one object on stdout."""
        return cast("dict[str, Json]", json.loads(self.out))


Command: TypeAlias = Callable[..., Answer]


@pytest.fixture
def omnigraph(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command here: ``omnigraph("lint", "a.gq", stdin=b"...")``."""

    def run(*words: str, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(words)
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return run


@pytest.fixture
def child() -> Command:
    """Run a command in a process of its own."""

    def run(*words: str, **environment: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "omnigraph", *words],
            cwd=PROJECT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in the example project."""
    monkeypatch.chdir(PROJECT)
    return PROJECT


@dataclass(frozen=True, slots=True)
class Stocked:
    """A graph with a little history: two commits on main, and one more on a branch."""

    path: Path
    genesis: str
    main_head: str
    branch_head: str


BRANCH = "review/june"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph without the branch, made once."""
    path = tmp_path_factory.mktemp("template") / "brain.og"
    commit_rows(omnigraph_init(path, SCHEMA, actor="act-ann"), {"Person": ["ann", "bob"], "City": ["ulm"]})
    return path


@pytest.fixture
def stocked(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stocked:
    """That graph, ``brain.og``, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "brain.og"
    shutil.copytree(template, path)
    # Not in the template: a branch of Lance names the folder that it was made in, and a copy would read there.
    with omnigraph_open(path) as graph:
        head, genesis = graph.commits()
        graph.create_branch(BRANCH)
        on_branch = commit_rows(graph, {"Person": ["eve"]}, BRANCH)
    return Stocked(path, genesis.id, head.id, on_branch.commit.id)


def error_of(answer: Answer) -> dict[str, Json]:
    """The error object of a command that failed with ``--json``."""
    assert answer.err == ""
    assert list(answer.json) == ["error"]
    return cast("dict[str, Json]", answer.json["error"])

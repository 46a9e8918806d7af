"""A command line to talk to: in this process for speed, in a child where the process itself is the matter."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

import pytest

from omnigraph.cli.app import main
from omnigraph.errors import Json

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
            [sys.executable, "-m", "omnigraph.cli", *words],
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

"""Places that cannot be written: a folder without the right to write, a read-only and a full file system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import omnigraph
from omnigraph.errors import OmniGraphError
from omnigraph.storage.location import locate
from tests.crash import run
from tests.manifest.legacy_graphs import Shape, build
from tests.manifest.publishing import SCHEMA, commit_rows, make_graph, names
from tests.model.files import contents

NOBODY = 65534
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except OmniGraphError as error:
        return type(error).__name__
    return "done"


def attempts(folder: Path) -> list[str]:
    """Everything that writes: a branch, a publish on main and on a branch, an init, a migration."""
    graph = omnigraph.open(folder / "graph.og")
    return [
        outcome(lambda: graph.create_branch("new")),
        outcome(lambda: commit_rows(graph, {"City": ["Oslo"]})),
        outcome(lambda: commit_rows(graph, {"City": ["Rome"]}, "dev")),
        outcome(lambda: omnigraph.init(folder / "second.og", SCHEMA)),
        outcome(lambda: omnigraph.open(folder / "old.og")),
    ]


def prepare(folder: Path) -> None:
    graph = make_graph(locate(folder / "graph.og"))
    commit_rows(graph, {"Person": ["Ann"]})
    graph.create_branch("dev")
    build(folder / "old.og", Shape(3))


def assert_readable(folder: Path) -> None:
    graph = omnigraph.open(folder / "graph.og", "ro")
    assert names(graph, "Person", "dev") == ["Ann"]
    assert [branch.name for branch in graph.branches()] == ["main", "dev"]
    assert omnigraph.open(folder / "old.og", "ro").info().format == 3


# --------------------------------------------------------------------------------------------- permissions


@pytest.fixture
def locked() -> Generator[Path]:
    """A folder that anybody may read and only root may change."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "locked"
        prepare(folder)
        for path in (Path(name), *Path(name).rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield folder
        for path in (Path(name), *Path(name).rglob("*")):
            path.chmod(0o755)


def as_nobody(folder: Path, spare: Path) -> list[str]:
    # Nobody may not read the interpreter's files either: whatever is imported late is imported now.
    attempts(spare)
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    assert_readable(folder)
    return attempts(folder)


def test_without_the_right_to_write_reading_works_and_writing_says_so(locked: Path, tmp_path: Path) -> None:
    prepare(tmp_path / "spare")
    before = contents(locked)
    assert run(as_nobody, locked, tmp_path / "spare") == ["ReadOnly"] * 5
    assert contents(locked) == before


# --------------------------------------------------------------------------------------------- file systems


def can_mount() -> bool:
    trial = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(trial, capture_output=True, check=False).returncode == 0
    )


def fill(file: Path) -> None:
    """Write until nothing more fits."""
    with file.open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    assert shutil.disk_usage(file).free == 0


def fill_the_disk(folder: Path) -> None:
    prepare(folder)
    before = contents(folder)
    fill(folder / "filler")
    assert attempts(folder) == ["StorageError"] * 5
    assert_readable(folder)
    (folder / "filler").unlink()
    assert contents(folder) == before
    assert attempts(folder) == ["done"] * 5


def forbid_writes(folder: Path) -> None:
    prepare(folder)
    before = contents(folder)
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    assert attempts(folder) == ["ReadOnly"] * 5
    assert_readable(folder)
    assert contents(folder) == before


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a file system of its own")
@pytest.mark.parametrize("trouble", [fill_the_disk, forbid_writes])
def test_a_full_and_a_read_only_file_system(tmp_path: Path, trouble: Callable[[Path], None]) -> None:
    call = f"import pathlib, {__name__} as here; here.{trouble.__name__}(pathlib.Path({str(tmp_path)!r}))"
    program = 'mount -t tmpfs -o size=4m none "$1" && exec "$2" -c "$3"'
    words = [*UNSHARE, "sh", "-c", program, "sh", str(tmp_path), sys.executable, call]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr

"""A release is complete: its version, its changelog, and a wheel that works in an empty environment."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.test_tutorial import COMMANDS_PAGE, type_page

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MOST_BYTES = 4_000_000
DATA_FILES = ("py.typed", "language/query/grammar.lark", "language/schema/grammar.lark", "server/static/index.html")
EVERY_EXTRA = """
import pathlib, omnigraph, omnigraph.server.app, omnigraph.spark.graph, omnigraph.policy, pyspark_omnigraph
from importlib.metadata import version
print(version("omnigraph"), pathlib.Path(omnigraph.__file__).parent)
"""


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["version"]
    notes = (ROOT / "docs" / "upgrade.md").read_text("utf-8")
    minor = PROJECT["version"].rpartition(".")[0]
    assert re.search(rf"^## From [\d.]+ to {minor}$", notes, re.MULTILINE), "write the upgrade notes"


def test_the_classifiers_name_the_oldest_python() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {oldest}" in PROJECT["classifiers"]
    assert "Typing :: Typed" in PROJECT["classifiers"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.mark.slow
def test_the_archives_have_what_they_need_and_little_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    (source,) = built.glob("*.tar.gz")
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {source.name}: {source.stat().st_size:,} bytes")  # noqa: T201 - for people
    assert wheel.stat().st_size < MOST_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"omnigraph/{name}" for name in DATA_FILES} <= set(names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"omnigraph", "pyspark_omnigraph"}
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "SECURITY.md", "docs/pictures/commit-graph.svg", "tests/test_release.py"} <= inside


@pytest.mark.slow
def test_the_tutorial_works_from_the_wheel_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    # The dependencies are those that are installed here; a plain path reads no editable install beside them.
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--force-reinstall", str(wheel)], cwd=tmp_path, check=True)
    said = subprocess.run(
        [home / "bin" / "python", "-c", EVERY_EXTRA], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    assert said == [PROJECT["version"], str(packages / "omnigraph")]
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    assert type_page(COMMANDS_PAGE, tmp_path / "examples", [home / "bin"], tmp_path / "session.sh") > 12

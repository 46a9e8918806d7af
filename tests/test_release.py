"""A release is complete: its version, its changelog, and a wheel that works in an environment without the extras."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.test_tutorial import COMMANDS_PAGE, type_page

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MOST_BYTES = 4_000_000
DATA_FILES = ("py.typed", "language/query/grammar.lark", "language/schema/grammar.lark", "server/static/index.html")
FIRST_EXAMPLES = """
import doctest, inspect, pathlib
import omnigraph as og
from tests.test_docstrings import make_graph, verbs
graph = make_graph(pathlib.Path.cwd())
parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
for name, verb in verbs().items():
    names = {"og": og, "graph": graph, "folder": pathlib.Path.cwd(), "errors": og.errors}
    test = parser.get_doctest(inspect.getdoc(verb) or "", names, name, None, None)
    del test.examples[1:]
    if name == "to_networkx":  # it needs a library of its own, which the error names
        try:
            graph.to_networkx(["Person"], ["Knows"])
        except og.errors.Unsupported as error:
            assert "pip install networkx" in str(error), error
        continue
    runner.run(test)
"""
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


@pytest.fixture(scope="module")
def plain(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and its dependencies, without any extra.

    The dependencies are links to what is installed here: a download would take longer than all these tests.
    """
    (wheel,) = built.glob("*.whl")
    home = tmp_path_factory.mktemp("plain") / "venv"
    venv.create(home, with_pip=True)
    packages = next((home / "lib").glob("python*/site-packages"))
    for name in find_dependencies(PROJECT["dependencies"]):
        link_distribution(distribution(name), packages)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(wheel)], cwd=home, check=True)
    return home / "bin"


def find_dependencies(requirements: Sequence[str]) -> set[str]:
    """The names of all distributions that some requirements need, without extras that nobody asks for."""
    known: set[str] = set()
    pending = [Requirement(each) for each in requirements]
    while pending:
        requirement = pending.pop()
        extras = requirement.extras or {""}
        if requirement.marker is not None and not any(requirement.marker.evaluate({"extra": each}) for each in extras):
            continue
        if requirement.name not in known:
            known.add(requirement.name)
            needed = (Requirement(each) for each in distribution(requirement.name).requires or ())
            pending += [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return known


def link_distribution(found: Distribution, packages: Path) -> None:
    names = {file.parts[0] for file in found.files or () if file.parts[0] != ".."}
    for name in names - {"__pycache__"}:
        link = packages / name
        if not link.exists():
            link.symlink_to(Path(str(found.locate_file(name))))


def run_plain(plain: Path, code: str, folder: Path) -> str:
    done = subprocess.run([plain / "python", "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_extras_there_is_no_pandas(plain: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.util as u; print([n for n in ('pandas', 'pyspark', 'fastapi', 'pytest') if u.find_spec(n)])"
    )
    assert run_plain(plain, code, tmp_path) == "[]\n"
    assert str(plain.parent) in run_plain(plain, "import omnigraph; print(omnigraph.__file__)", tmp_path)
    done = subprocess.run([plain / "omnigraph", "version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^pandas +not installed$", done.stdout, re.MULTILINE)


def test_the_readme_runs_twice_without_extras(plain: Path, tmp_path: Path) -> None:
    (snippet,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    for _ in range(2):
        rows = run_plain(plain, snippet, tmp_path).splitlines()
        assert [ast.literal_eval(line) for line in rows[1:]] == [[{"name": "bob"}, {"name": "eve"}], [{"name": "bob"}]]


def test_the_tutorial_runs_without_extras(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    assert type_page(COMMANDS_PAGE, tmp_path / "examples", [plain], tmp_path / "session.sh") > 12


def test_the_first_example_of_every_verb_runs_without_extras(plain: Path, tmp_path: Path) -> None:
    code = f"import sys; sys.path.append({str(ROOT)!r})\n{FIRST_EXAMPLES}"
    assert run_plain(plain, code, tmp_path) == ""


@pytest.mark.slow
def test_the_wheel_has_what_every_extra_needs(built: Path, tmp_path: Path) -> None:
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

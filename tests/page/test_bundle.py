"""The page in the package was built from its sources, and names the licences of what is in it. Needs no node."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from omnigraph.server import page
from tests.page import wire_types

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "ui"
STATIC = Path(page.__file__).parent / "static"


def test_the_bundle_was_built_from_these_sources() -> None:
    names = sorted(
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*")
        if path.is_file() and "node_modules" not in path.parts
    )
    assert "src/main.tsx" in names
    found = hashlib.sha256()
    for name in names:
        found.update(name.encode() + b"\0" + (SOURCES / name).read_bytes() + b"\0")
    built = json.loads((STATIC / "BUILD.json").read_text())
    assert built["sources"] == found.hexdigest(), "run `make ui` and commit the result"


def test_the_page_names_files_that_are_there() -> None:
    named = re.findall(r"/assets/([^\"]+)", (STATIC / "index.html").read_text())
    assert len(named) == 4
    there = {path.name for path in (STATIC / "assets").iterdir()} | {"icon.svg"}
    assert set(named) <= there


def test_the_licence_of_every_package_in_the_bundle_is_listed() -> None:
    text = (STATIC / "LICENSES.txt").read_text()
    listed = {
        match["name"]: match["version"]
        for match in re.finditer(r"^(?P<name>@?[\w./-]+) (?P<version>\d[\w.]*) \(\S+\)$", text, re.MULTILINE)
    }
    lock = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    for name in json.loads((SOURCES / "package.json").read_text())["dependencies"]:
        assert listed[name] == lock[f"node_modules/{name}"]["version"]


def test_the_types_of_the_requests_are_those_of_the_routes() -> None:
    found = wire_types.write_types(wire_types.read_description())
    assert wire_types.FILE.read_text("utf-8") == found, "run `make openapi` and `make ui`, and commit the result"
    assert wire_types.WORDS.read_text("utf-8") == wire_types.write_vocabulary(), "run `make openapi` and `make ui`"


def test_versions_are_exact() -> None:
    package = json.loads((SOURCES / "package.json").read_text())
    wanted = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())


def test_the_page_is_in_the_wheel(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="the build backend is one of the extra 'dev'")
    build = f"import hatchling.build; hatchling.build.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("omnigraph-*.whl")
    with ZipFile(wheel) as archive:
        prefix = "omnigraph/server/static/"
        packed = {name.removeprefix(prefix): archive.read(name) for name in archive.namelist() if prefix in name}
    there = {file.relative_to(STATIC).as_posix(): file.read_bytes() for file in STATIC.rglob("*") if file.is_file()}
    assert packed == there

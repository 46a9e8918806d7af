"""What is generated of the documentation is what its scripts make: references, notebooks and pictures."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast
from xml.etree import ElementTree

import pytest

import omnigraph as og
from omnigraph.cli.command_group import COMMANDS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


class Generator(Protocol):
    def make_all(self) -> dict[Path, str]: ...


@pytest.fixture(scope="module")
def generated() -> dict[Path, str]:
    sys.path.insert(0, str(DOCS))
    try:
        return cast(Generator, import_module("make_reference")).make_all()
    finally:
        sys.path.remove(str(DOCS))


def test_generated_files_are_up_to_date(generated: dict[Path, str]) -> None:
    stale = [
        str(file.relative_to(ROOT))
        for file, text in generated.items()
        if not file.exists() or file.read_text("utf-8") != text
    ]
    assert stale == [], "run make reference"


def test_every_command_and_every_public_name_has_its_place(generated: dict[Path, str]) -> None:
    commands = generated[DOCS / "reference" / "commands.md"]
    assert [name for name in COMMANDS if f"## `omnigraph {name}`" not in commands] == []
    api = generated[DOCS / "reference" / "api.md"]
    named = {"__version__", "errors", "pipeline"}
    assert [name for name in og.__all__ if f"::: omnigraph.{name}\n" not in api and name not in named] == []


def test_pictures_are_static_and_each_is_shown(generated: dict[Path, str]) -> None:
    pages = "".join(page.read_text("utf-8") for page in [ROOT / "README.md", *DOCS.rglob("*.md")])
    for file, text in generated.items():
        if file.suffix == ".svg":
            ElementTree.fromstring(text)  # noqa: S314 - our own pictures
            assert "<script" not in text
            assert "href" not in text
            assert f"pictures/{file.name}" in pages, file.name

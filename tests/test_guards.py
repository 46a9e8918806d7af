"""Every promise to users has a guard that runs each day, and the table of guards names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = ROOT / "docs" / "contributing" / "tests.md"
PROMISES: Final = ROOT / "docs" / "concepts" / "guarantees.md"
GUARD: Final = re.compile(r"`(?P<file>[\w/]+\.py)::(?P<test>\w+)`")


def table_rows() -> list[tuple[str, list[tuple[str, str]]]]:
    """What is promised, and the file and name of each test that guards it."""
    lines = [line.split("|") for line in TABLE.read_text().splitlines() if GUARD.search(line)]
    return [
        (cells[1].strip(), [(found["file"], found["test"]) for found in GUARD.finditer(cells[2])]) for cells in lines
    ]


@pytest.mark.parametrize("guard", sorted({guard for _, guards in table_rows() for guard in guards}), ids="::".join)
def test_a_guard_exists_and_runs_each_day(guard: tuple[str, str]) -> None:
    file, name = guard
    tree = ast.parse((ROOT / "tests" / file).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(found) == 1
    marks = [ast.unparse(decorator) for decorator in found[0].decorator_list]
    assert "pytest.mark.slow" not in marks
    module_marks = [ast.unparse(node.value) for node in tree.body if isinstance(node, ast.Assign)]
    assert not any("mark.slow" in mark for mark in module_marks if mark.startswith("pytest.mark"))


def test_every_numbered_promise_has_a_guard() -> None:
    promised = re.findall(r"^(\d+\. )\*\*(.+?)\.\*\*", PROMISES.read_text(), re.MULTILINE)
    assert len(promised) >= 8
    assert [number + words for number, words in promised] == [row for row, _ in table_rows() if row[0].isdigit()]

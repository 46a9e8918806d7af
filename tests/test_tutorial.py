"""The tutorial, typed word by word: each page from its first line to its last in one folder, and its output compared.

A page of commands is one session of a shell: folders and variables last. A page of Python is a notebook, which
``make reference`` makes of it, and is run here cell by cell in one namespace.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TypedDict, cast

import pytest

from tests.console_blocks import commands, matches, run_command

ROOT = Path(__file__).parent.parent
COMMANDS_PAGE = ROOT / "docs" / "tutorial" / "command-line.md"
NOTEBOOKS = ROOT / "examples" / "notebooks"
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a shell remembers from one line to the next.
SESSION = 'source "$SESSION" 2>/dev/null\n{command}\n{{ export -p; echo "cd \'$PWD\'"; }} > "$SESSION"'


class Cell(TypedDict):
    cell_type: str
    source: list[str]


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples to work in."""
    copy = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", copy)
    monkeypatch.chdir(copy)
    return copy


def type_page(page: Path, folder: Path, path: Sequence[Path], session: Path) -> int:
    """Type every command of a page, and return how many there were."""
    typed = [line for block in CONSOLE.findall(page.read_text("utf-8")) for line in commands(block)]
    for command, shown in typed:
        printed = run_command(SESSION.format(command=command), folder, path, {"SESSION": str(session)})
        if not matches(shown or [""], printed):
            diff = "\n".join(unified_diff(shown, printed, "shown", "printed", lineterm=""))
            pytest.fail(f"{page.name}: {command}\n{diff}", pytrace=False)
    return len(typed)


def run_notebook(path: Path) -> int:
    """Run the cells of a notebook in one namespace, and return how many pictures its last expressions show."""
    cells = cast("list[Cell]", json.loads(path.read_text("utf-8"))["cells"])
    names: dict[str, object] = {"__name__": "__main__"}
    pictures = 0
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path.name}, cell {number}", "exec"), names)  # noqa: S102 - our own notebooks
        if isinstance(last, ast.Expr):
            shown: object = eval(compile(ast.Expression(last.value), f"{path.name}, cell {number}", "eval"), names)  # noqa: S307
            show = getattr(shown, "_repr_html_", None)
            pictures += show is not None and "<" in show()
    return pictures


def test_the_notebook_runs_from_its_first_cell_to_its_last(examples: Path) -> None:
    assert run_notebook(NOTEBOOKS / "harbour.ipynb") >= 4
    assert (examples / "notebook.og").is_dir()


@pytest.mark.slow
def test_the_notebook_on_spark_runs_from_its_first_cell_to_its_last(examples: Path) -> None:
    run_notebook(NOTEBOOKS / "harbour_on_spark.ipynb")
    assert (examples / "spark.og").is_dir()

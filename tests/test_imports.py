"""What starting up may not cost: no heavy library is imported before it is needed, and Java never starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"lance", "datafusion", "pandas", "pyspark", "py4j", "scipy", "obstore", "httpx"}
EXAMPLE = Path(__file__).parent.parent / "examples" / "evidence"

# The child says on stderr what it has imported: stdout belongs to the command.
CHILD = """
import json, sys
{code}
json.dump(sorted({{name.partition(".")[0] for name in sys.modules}}), sys.stderr)
"""


def imported_by(code: str, cwd: Path = EXAMPLE) -> set[str]:
    child = subprocess.run(
        [sys.executable, "-c", CHILD.format(code=code)], cwd=cwd, capture_output=True, text=True, check=True
    )
    return set(json.loads(child.stderr.splitlines()[-1]))


def test_importing_omnigraph_imports_nothing_heavy() -> None:
    found = imported_by("import omnigraph")
    assert "omnigraph" in found
    assert found & (HEAVY | {"pyarrow", "numpy", "typer", "lark"}) == set()


def test_the_pyspark_plugin_imports_nothing_heavy() -> None:
    assert imported_by("import pyspark_omnigraph") & HEAVY == set()


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["version"],
        ["lint", "questions.gq", "curation.gq", "search.gq", "--schema", "evidence.pg"],
        ["schema", "check", "evidence.pg"],
        ["schema", "diff", "evidence.pg", "evidence_v2.pg"],
    ],
    ids=" ".join,
)
def test_a_command_of_the_languages_imports_nothing_heavy(words: list[str]) -> None:
    found = imported_by(f"from omnigraph.cli.app import main\nassert main({words}) == 0")
    assert "typer" in found
    assert found & HEAVY == set()


def test_the_help_imports_no_command() -> None:
    code = (
        "from omnigraph.cli.app import main\nassert main(['--help']) == 0\n"
        "loaded = {name for name in sys.modules if name.startswith('omnigraph.cli.')}\n"
        "from omnigraph.cli.commands import COMMANDS\n"
        "assert loaded.isdisjoint(f'omnigraph.cli.{entry.module}' for entry in COMMANDS.values())"
    )
    assert imported_by(code) & {"lark", "pyarrow", "numpy", "pydantic"} == set()

"""What starting up may not cost: no heavy library is imported before it is needed, and Java never starts."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import omnigraph as og
from tests.selection import daily

HEAVY = {"lance", "datafusion", "pandas", "pyspark", "py4j", "scipy", "obstore", "httpx"}
EXAMPLE = Path(__file__).parent.parent / "examples" / "evidence"

UNUSED_BY_QUERIES = [
    "omnigraph.language.schema.ast",
    "omnigraph.language.schema.parser",
    "omnigraph.language.schema.steps",
    "omnigraph.language.query.foreign_forms",
    "omnigraph.language.query.lint_report",
    "omnigraph.language.layout",
    "omnigraph.read.explain",
    "omnigraph.read.result.piecewise",
    "omnigraph.read.rows.conditions",
    "omnigraph.read.rows.export",
    "omnigraph.read.rows.neighbors",
    "omnigraph.read.rows.scan",
    "omnigraph.write.commit.operation",
    "omnigraph.write.commit.section",
    "omnigraph.write.load",
    "omnigraph.write.merge",
    "omnigraph.maintain.cleanup",
]
UNUSED_BY_LOOKUPS = [
    "omnigraph.read.match.breadth_first",
    "omnigraph.read.match.expand",
    "omnigraph.read.match.strategy",
    "omnigraph.read.topology",
]
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
    "line",
    daily(
        [
            "--help",
            "version",
            "lint questions.gq curation.gq search.gq --schema evidence.pg",
            "schema check evidence.pg",
            "schema diff evidence.pg evidence_v2.pg",
        ],
        # A diff checks both.
        [
            "--help",
            "lint questions.gq curation.gq search.gq --schema evidence.pg",
            "schema diff evidence.pg evidence_v2.pg",
        ],
    ),
)
def test_a_command_of_the_languages_imports_nothing_heavy(line: str) -> None:
    found = imported_by(f"from omnigraph.cli.app import main\nassert main({line.split()}) == 0")
    assert "typer" in found
    assert found & HEAVY == set()


def test_the_help_imports_no_command() -> None:
    code = (
        "from omnigraph.cli.app import main\nassert main(['--help']) == 0\n"
        "loaded = {name for name in sys.modules if name.startswith('omnigraph.cli.')}\n"
        "from omnigraph.cli.command_group import COMMANDS\n"
        "assert loaded.isdisjoint(f'omnigraph.cli.commands.{entry.module}' for entry in COMMANDS.values())"
    )
    assert imported_by(code) & {"lark", "pyarrow", "numpy", "pydantic"} == set()


@pytest.mark.parametrize("words", ["omnigraph br", "omnigraph load --mode "])
def test_a_completion_parses_nothing(words: str) -> None:
    asked = {"_OMNIGRAPH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = f"import os\nos.environ |= {asked}\nfrom omnigraph.cli.app import main\nassert main([]) == 0"
    assert imported_by(code) & {"lark", "pyarrow", "numpy", "pydantic"} == set()


def test_a_command_imports_only_what_it_uses(tmp_path: Path) -> None:
    schema = "node A { x: String @key }  edge E: A -> A"
    og.init(tmp_path / "g.og", schema).mutate('query q() { insert A { x: "1" }  insert E { from: "1", to: "1" } }')
    words = ["-g", str(tmp_path / "g.og"), "query", "-e", "query q() { match { $a: A  $a e $b } return { $b.x } }"]
    code = (
        f"from omnigraph.cli.app import main\nassert main({words}) == 0\n"
        f"assert not [name for name in {UNUSED_BY_QUERIES} if name in sys.modules], sorted(sys.modules)\n"
        "assert 'pandas' not in sys.modules\nimport pandas"
    )
    assert imported_by(code) & HEAVY == {"lance", "obstore", "pandas"}


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_a_lookup_imports_nothing_that_follows_edges(tmp_path: Path, mode: str) -> None:
    og.init(tmp_path / "g.og", "node A { x: String @key }  edge E: A -> A").load([{"type": "A", "data": {"x": "1"}}])
    code = (
        f"import omnigraph as og\ngraph = og.open({str(tmp_path / 'g.og')!r}, mode={mode!r})\n"
        "text = 'query q($x: String) { match { $a: A { x: $x } } return { $a.x } }'\n"
        "assert len(graph.query(text, params={'x': '1'})) == 1\n"
        f"assert not [name for name in {UNUSED_BY_QUERIES + UNUSED_BY_LOOKUPS} if name in sys.modules]"
    )
    assert "lance" in imported_by(code)


@pytest.mark.parametrize(
    "package",
    [
        "omnigraph.language.schema",
        "omnigraph.language.query",
        "omnigraph.read.match",
        "omnigraph.read.rows",
        "omnigraph.write.commit",
    ],
)
def test_a_package_that_imports_late_has_all_its_names(package: str) -> None:
    door = import_module(package)
    assert [name for name in door.__all__ if not hasattr(door, name)] == []
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = door.nothing


def test_a_process_that_only_writes_rows_imports_no_search(tmp_path: Path) -> None:
    og.init(tmp_path / "g.og", "node A { x: String @key }")
    code = (
        f"import omnigraph as og\ngraph = og.open({str(tmp_path / 'g.og')!r}, embed=None, policy=None)\n"
        "graph.load([{'type': 'A', 'data': {'x': '1'}}])\n"
        "rooms = ('omnigraph.read.search', 'omnigraph.policy', 'omnigraph.write.merge')\n"
        "assert not [name for name in rooms if name in sys.modules], sorted(sys.modules)"
    )
    assert "lance" in imported_by(code)

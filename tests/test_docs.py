"""The documentation is true: every block of code in it is run, and the site builds without a warning.

``pg`` blocks are checked; ``gq`` blocks are linted against the ``pg`` block above them on the page, or the vessel
schema; ``error=CODE`` after the word says what must be found. With ``graph=evidence`` a block is run on that example,
and the ``text`` block below it is what the command line prints. The forms of tables with a ``.gq`` column are run too.
In ``console`` blocks each ``$`` line is run in a copy of the examples, and what it prints must be what is shown;
``...`` stands for anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

import omnigraph as og
from omnigraph import Graph
from omnigraph.cli.app import main
from omnigraph.errors import Problem
from omnigraph.language.query import Severity, format_queries, lint_queries
from omnigraph.language.schema import check_schema, format_schema, parse_schema
from omnigraph.language.source import Source
from tests.case_files import CASES
from tests.console_blocks import commands, matches, run_command
from tests.selection import daily
from tests.warm_cli import warm_commands

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "src" / "omnigraph" / "server" / "mcp" / "guide.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", GUIDE, *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIAL = ROOT / "docs" / "tutorial"
EVIDENCE = ROOT / "examples" / "evidence"
ANSWER = re.compile(r"^```gq graph=evidence\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^\|[^\n]*\| `\.gq` \|\n\|[-|]+\|\n((?:\|[^\n]*\n)+)", re.MULTILINE)
FENCED = re.MULTILINE | re.DOTALL
FENCE = re.compile(r"^```(pg|gq|console|python)\b([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code on a page; ``schema`` is the ``pg`` block above it, if any."""

    page: Path
    line: int
    word: str
    error: str | None
    text: str
    schema: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(word: str) -> list[Block]:
    # The blocks of a tutorial follow each other: tests/test_tutorial.py types them in one folder.
    pages = [page for page in PAGES if word in ("pg", "gq") or page.parent != TUTORIAL]
    return [block for page in pages for block in _blocks_of(page) if block.word == word]


def _blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found: list[Block] = []
    schema: str | None = None
    for match in FENCE.finditer(text):
        word, info, body = match.groups()
        error = re.search(r"\berror=(\w[\w-]*)", info)
        line = text.count("\n", 0, match.start()) + 1
        above = (EVIDENCE / "evidence.pg").read_text("utf-8") if "graph=evidence" in info else schema
        found.append(Block(page, line, word, error.group(1) if error else None, body, above))
        if word == "pg" and error is None:
            schema = body
    return found


def expect_problems(block: Block, problems: Sequence[Problem]) -> None:
    shown = "\n".join(problem.render() for problem in problems)
    codes = {problem.code for problem in problems}
    assert codes == ({block.error} if block.error else set()), f"{block}\n{shown}"


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples to work in."""
    copy = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", copy)
    monkeypatch.chdir(copy)
    return copy


@pytest.mark.parametrize("block", blocks("pg"), ids=str)
def test_schema_block(block: Block) -> None:
    expect_problems(block, check_schema(Source(block.text, str(block))))


@pytest.mark.parametrize("block", blocks("gq"), ids=str)
def test_query_block(block: Block) -> None:
    schema = parse_schema(block.schema or (CASES / "vessels.pg").read_text("utf-8"))
    report = lint_queries(Source(block.text, str(block)), schema.catalog, "page.pg")
    # A warning is worth showing only where a page asks for it.
    expect_problems(block, [problem for severity, problem in report.problems if severity is not Severity.INFO])


@pytest.mark.parametrize(("word", "lay_out"), [("pg", format_schema), ("gq", format_queries)])
def test_blocks_have_the_canonical_layout(word: str, lay_out: Callable[[Source], str | list[Problem]]) -> None:
    layouts = {str(block): (lay_out(Source(block.text)), block.text) for block in blocks(word)}
    # A block that shows a syntax error has none.
    loose = [place for place, (layout, text) in layouts.items() if isinstance(layout, str) and layout != text]
    assert loose == [], "omnigraph fmt - prints their layout"


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """The graph of the example, with a branch to write to."""
    graph = og.init(tmp_path_factory.mktemp("evidence") / "evidence.og", EVIDENCE / "evidence.pg")
    graph.load(EVIDENCE / "evidence.jsonl")
    graph.create_branch("written")
    return graph


def test_answers_are_what_the_command_line_prints(evidence: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [found.groups() for page in PAGES for found in ANSWER.finditer(page.read_text("utf-8"))]
    assert len(shown) >= 20
    for query, answer in shown:
        assert main(["query", "-g", evidence.uri, "-e", query, "--quiet"]) == 0, capsys.readouterr().err
        assert capsys.readouterr().out == answer, query


def test_forms_in_tables_run(evidence: Graph) -> None:
    tables = [found.group(1) for page in PAGES for found in TABLE.finditer(page.read_text("utf-8"))]
    forms = [row.split("| `")[-1].removesuffix("` |") for table in tables for row in table.splitlines()]
    assert len(forms) >= 60
    for form in forms:
        text = f"query form() {{ {form} }}"
        if form.startswith("match") and "return" in form:
            assert evidence.query(text).columns
        else:
            assert evidence.mutate(text, branch="written")


def named_for_its_worker(block: Block) -> ParameterSet:
    if "spark" not in block.text.lower():
        return pytest.param(block, id=str(block))
    # The first block of a page that is no stream stands for its page; tests/spark has what the others do.
    first = next((each for each in _blocks_of(block.page) if runs_a_batch(each)), None)
    marks = [pytest.mark.costly, *([pytest.mark.slow] if block != first else [])]
    return pytest.param(block, id=f"{block} on Spark", marks=marks)


def runs_a_batch(block: Block) -> bool:
    """Whether a block uses Spark, without a stream: that takes Spark many seconds."""
    uses_spark = block.word == "python" and "spark" in block.text.lower()
    return uses_spark and re.search(r"readStream|writeStream|\.stream\(", block.text) is None


@pytest.mark.parametrize("block", [named_for_its_worker(each) for each in blocks("python")])
def test_python_block(block: Block, examples: Path) -> None:
    assert Path.cwd() == examples
    exec(compile(block.text, str(block), "exec"), {"__name__": "__main__"})  # noqa: S102 - our own pages


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A folder with an ``omnigraph`` that has imported everything: the pages have more than a hundred commands."""
    with warm_commands(tmp_path_factory.mktemp("w")) as folder:
        yield folder


def starts_java(block: Block) -> bool:
    """Whether a command of a block starts a JVM of its own, which takes half a minute beside other tests."""
    return re.search(r"omnigraph pipeline (run|check)|--engine spark", block.text) is not None


@pytest.mark.parametrize(
    "block", daily(blocks("console"), [each for each in blocks("console") if not starts_java(each)])
)
def test_console_block(block: Block, examples: Path, warm: Path) -> None:
    for command, shown in commands(block.text):
        printed = run_command(command, examples, [warm], {})
        if not matches(shown, printed):
            diff = "\n".join(unified_diff(shown, printed, "shown", "printed", lineterm=""))
            pytest.fail(f"{block}: {command}\n{diff}", pytrace=False)


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["a", "...", "c"], ["a", "c"], True),
        (["python 3..."], ["python 3.11"], True),
        (["a.c"], ["abc"], False),
    ],
)
def test_dots_stand_for_anything(shown: list[str], printed: list[str], expected: bool) -> None:
    assert matches(shown, printed) is expected


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"?https?:[^>]+>", page.read_text("utf-8"))
        assert fetched == [], page
    reference = re.sub(r"<[^>]+>", "", (tmp_path / "reference" / "api.html").read_text("utf-8"))
    # The fields of a class that ours is a decorator of.
    assert re.search(r"Branch\(\s*name: str,\s*head: str \| None,", reference)
    for page in (ROOT / "docs").rglob("*.md"):
        # A fence that the site does not understand swallows the headings after it.
        built_page = (tmp_path / page.relative_to(ROOT / "docs")).with_suffix(".html")
        headings = re.findall(
            r"^##+ ", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=FENCED), re.MULTILINE
        )
        found = len(re.findall(r"<h[2-6] ", built_page.read_text("utf-8")))
        # mkdocstrings adds the headings of what it describes.
        assert found > 3 * len(headings) if page.name == "api.md" else found == len(headings), page

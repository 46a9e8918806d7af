"""Every code of the type checker is shown by a case file, and the cases use no code that is not documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.language.query.check.codes import CODES

CASES = Path(__file__).parents[3] / "cases" / "query_check"
SOURCES = Path(__file__).parents[4] / "src" / "omnigraph" / "language" / "query" / "check"


def codes_in(folder: Path, pattern: str, text: str) -> set[str]:
    return {code for path in folder.glob(pattern) for code in re.findall(text, path.read_text("utf-8"))}


@pytest.fixture(scope="module")
def shown() -> set[str]:
    return codes_in(CASES, "*.case", r"(?m)^--- error (\w+)")


@pytest.mark.parametrize("code", CODES)
def test_a_case_shows_the_code(code: str, shown: set[str]) -> None:
    assert code in shown


def test_every_code_of_a_case_is_documented(shown: set[str]) -> None:
    assert shown <= CODES.keys()


def test_every_code_that_the_checker_gives_is_documented() -> None:
    given = codes_in(SOURCES, "*.py", r'"([TQ]\d+)"')
    assert given == set(CODES)


def test_a_file_name_that_begins_with_a_code_tells_the_truth() -> None:
    for path in CASES.glob("[TQ][0-9]*.case"):
        code = path.name.split("-")[0]
        assert f"--- error {code} " in path.read_text("utf-8"), path.name

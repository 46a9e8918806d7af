"""The tables of the reference page say what the code says. Its examples are run with those of all pages."""

from __future__ import annotations

import re
from pathlib import Path

from omnigraph.language.schema import PROBLEM_CODES, STRICTER_THAN_0_8, check_annotations, codes, migration, steps
from omnigraph.language.schema.check import LANCE_COLUMNS, SYSTEM_COLUMNS
from omnigraph.language.types import Scalar

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "schema-language.md").read_text("utf-8")
CASES = ROOT / "tests" / "cases"


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_words(text: str) -> set[str]:
    """Everything in code marks in the first column of the tables of a text."""
    rows = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


def test_every_problem_code_is_listed_with_its_meaning() -> None:
    rows = [
        f"| `{code}` | {meaning} | {'new' if code in STRICTER_THAN_0_8 else ''} |"
        for code, meaning in PROBLEM_CODES.items()
    ]
    assert "\n".join(rows) in section("Problem codes")


def test_every_code_has_a_meaning() -> None:
    constants = {value for name, value in vars(codes).items() if name.isupper() and isinstance(value, str)}
    assert constants == set(PROBLEM_CODES)
    assert set(PROBLEM_CODES) > STRICTER_THAN_0_8


def test_every_code_is_shown_by_a_case() -> None:
    shown = {
        code
        for case in (CASES / "schema").glob("*.case")
        for code in re.findall(r"^--- error (S\d+)", case.read_text("utf-8"), re.MULTILINE)
    }
    assert shown == set(PROBLEM_CODES) - {codes.TOO_MANY_PROPERTIES}


def test_every_annotation_is_listed() -> None:
    listed = {re.sub(r"\(.*", "", word).removeprefix("@") for word in first_words(PAGE) if word.startswith("@")}
    assert listed >= check_annotations.KNOWN_ANNOTATIONS


def test_every_step_and_code_of_a_migration_is_listed() -> None:
    kinds = {
        value.kind
        for value in vars(steps).values()
        if isinstance(value, type) and issubclass(value, steps.MigrationStep) and value.kind
    }
    unsupported = {migration.REQUIRED_WITHOUT_DEFAULT, migration.TYPE_CHANGED, migration.KEY_ORDER_CHANGED}
    assert first_words(section("Migration")) == kinds | unsupported


def test_every_step_is_shown_by_a_case() -> None:
    text = "".join(case.read_text("utf-8") for case in (CASES / "migration").glob("*.case"))
    kinds = first_words(section("Migration").split("| code |")[0])
    assert {kind for kind in kinds if f'"kind": "{kind}"' in text} == kinds


def test_every_reserved_name_and_type_is_listed() -> None:
    reserved = section("Names").split("| reserved | why |")[1]
    assert first_words(reserved) == SYSTEM_COLUMNS | LANCE_COLUMNS
    listed = {word.split("(")[0] for word in first_words(section("Types"))}
    assert listed == {str(scalar) for scalar in Scalar} | {"enum", "[T]"}

"""The runner of case files can fail: each case here states something that is not so."""

from __future__ import annotations

from pathlib import Path

import pytest

from .case_files import CaseSyntaxError, read_case
from .test_cases import Mismatch, run

SCHEMA = "--- schema\nnode A { name: String @key  size: I32? }\n"
QUERY = "--- query\nquery q() {\n  match { $a: A }\n  return { $a.name, $a.size }\n}\n"
WRONG = "--- query\nquery q() {\n  match { $a: A }\n  return { $a.nam, $a.siz }\n}\n"
DATA = '--- data\n{"type": "A", "data": {"name": "x", "size": 1}}\n'
UPDATE = '--- mutate params={"size": 2}\nquery m($size: I32) { update A set { size: $size } where name = "x" }\n'
REFUSED = '--- mutate\nquery m() { insert A { name: "y", size: 1.5 } }\n'


def run_text(folder: Path, text: str) -> None:
    path = folder / "made_up.case"
    path.write_text(f"what it shows\n{text}", "utf-8")
    run(read_case(path))


@pytest.mark.parametrize(
    "text",
    [
        SCHEMA + QUERY,
        SCHEMA + QUERY + "--- columns\na.name: String\na.size: I32?\n\n",
        SCHEMA + WRONG + "--- error T6 line=3 column=15\ndid you mean 'name'?\n--- error T6\n",
        SCHEMA + WRONG + '--- lint\n{"status": "error", "errors": 1}\n',
        SCHEMA + "--- schema evolve\nnode A { name: String @key  size: I32? }\n--- steps supported=true\n",
        "--- schema\nnode A { name: Strin }\n--- error S000\n",
        '--- schema\nnode A { name: String }\n--- ir\n{"ir_version": 1}\n',
        SCHEMA + DATA + UPDATE + '--- affected nodes=1\n--- table A\n{"size": 2}\n',
        SCHEMA + REFUSED + "--- error T3 line=1\n",
    ],
)
def test_a_case_that_is_so_passes(tmp_path: Path, text: str) -> None:
    run_text(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (SCHEMA + WRONG, "+T6 column=15 line=3"),
        (SCHEMA + WRONG + "--- error T6\n", "+T6 column=23 line=3"),
        (SCHEMA + WRONG + "--- error T6\n--- error T7\n", "-T7"),
        (SCHEMA + WRONG + "--- error T6 line=4\n--- error T6\n", "-T6 line=4"),
        (SCHEMA + WRONG + "--- error T6\ndid you mean 'size'?\n--- error T6\n", "neither message nor hint"),
        (SCHEMA + QUERY + "--- error T6\n", "-T6"),
        (SCHEMA + QUERY + "--- columns\na.name: String\n", "+a.size: I32?"),
        (SCHEMA + QUERY + "--- plan\nScan\n", "-Scan"),
        (SCHEMA + QUERY + '--- lint\n{"errors": 1}\n', '+  "errors": 0'),
        (SCHEMA + QUERY + '--- lint\n{"results": [{"name": "q"}]}\n', '+      "kind": "read"'),
        (SCHEMA + QUERY + '--- lint\n{"nothing": 1}\n', '-  "nothing": 1'),
        (SCHEMA + "--- schema evolve\nnode A { name: String @key }\n--- steps\n", "drop_property"),
        (SCHEMA + "--- schema evolve\nnode A { name: String @key  size: I32? }\n--- steps supported=false\n", "+true"),
        (SCHEMA + "--- hash\nsha256:0\n", "-sha256:0"),
        (SCHEMA + '--- ir\n{"ir_version": 2}\n', '-  "ir_version": 2'),
        (SCHEMA + "--- steps\n", "'steps' says nothing about 'schema'"),
        ("--- schema\nnode A { name: Strin }\n", "+S000"),
        (SCHEMA + DATA + UPDATE + "--- affected nodes=2\n", '+{"edges": 0, "nodes": 1}'),
        (SCHEMA + DATA + UPDATE + '--- table A\n{"id": "x", "size": 1}\n', '+{"id": "x", "size": 2}'),
        (SCHEMA + DATA + UPDATE + "--- table A\n", "+{}"),
        (SCHEMA + REFUSED, "+T3"),
        (SCHEMA + UPDATE + "--- error T3\n", "-T3"),
        (QUERY, "there is no schema before this"),
        ("--- dance\n", "there is no step 'dance'"),
    ],
)
def test_a_case_that_is_not_so_fails(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(Mismatch) as mismatch:
        run_text(tmp_path, text)
    assert complaint in str(mismatch.value)


@pytest.mark.parametrize("text", ["", "text\n--- schema\n", "--- error T1\n", "---\n"])
def test_what_is_no_case_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CaseSyntaxError):
        run_text(tmp_path, text)


def test_options_may_hold_json_with_blanks(tmp_path: Path) -> None:
    path = tmp_path / "made_up.case"
    path.write_text('title\n--- query name=q params={"n": "a b"} only=local\ntext\n\n--- error T1 line=3\n')
    (step,) = read_case(path).steps
    assert step.action.options == {"name": "q", "params": '{"n": "a b"}', "only": "local"}
    assert (step.action.body, step.action.line) == ("text", 2)
    assert step.errors[0].arguments == ("T1",)

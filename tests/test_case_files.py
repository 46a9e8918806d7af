"""The runner of case files can fail: each case here states something that is not so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.case_expectations import Mismatch, expect_answer
from tests.case_files import Answer, CaseSyntaxError, Row, read_case, stated_answer
from tests.test_cases import run

SCHEMA = "--- schema\nnode A { name: String @key  size: I32? }\n"
QUERY = "--- query\nquery q() {\n  match { $a: A }\n  return { $a.name, $a.size }\n}\n"
WRONG = "--- query\nquery q() {\n  match { $a: A }\n  return { $a.nam, $a.siz }\n}\n"
DATA = '--- data\n{"type": "A", "data": {"name": "x", "size": 1}}\n'
UPDATE = '--- mutate params={"size": 2}\nquery m($size: I32) { update A set { size: $size } where name = "x" }\n'
ADD = 'query m() {{ insert A {{ name: "{name}", size: 2 }} }}'
ON_X = f"--- branch create x\n--- mutate branch=x\n{ADD.format(name='y')}\n"
ROWS = '--- rows\n{"a.name": "x"}\n\n{"a.name": "y"}\n'
FOUND = '{"a.name": "x", "a.size": 1}\n'
LIMITED = "query q($n: I32) { match { $a: A } return { $a.name } limit $n }\n"
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
        SCHEMA + DATA + ON_X + '--- table A\n{"id": "x"}\n{"id": "y"}\n--- table A branch=main\n{"id": "x"}\n',
        SCHEMA + DATA + ON_X + '--- table A at=@1\n{"id": "x"}\n--- owners\n{"A": "x"}\n',
        SCHEMA + DATA + UPDATE + '--- branch create x from=@1\n--- table A\n{"size": 1}\n',
        SCHEMA
        + DATA
        + ON_X
        + '--- branch delete x\n--- table A\n{"id": "x"}\n--- branch delete x\n--- error not_found\n',
        SCHEMA + DATA + '--- branch create x\n--- load mode=merge branch=x\n{"type": "A", "data": {"name": "x"}}\n'
        '--- table A\n{"id": "x", "size": null}\n',
        SCHEMA + QUERY + "--- rows\n",
        SCHEMA + DATA + QUERY + "--- rows ordered\n" + FOUND,
        SCHEMA + DATA + UPDATE + QUERY.replace("query", "query at=@1", 1) + "--- rows\n" + FOUND,
        SCHEMA + DATA + ON_X + QUERY.replace("query", "query branch=main", 1) + "--- rows\n" + FOUND,
        SCHEMA + DATA + QUERY.replace("query", "query only=spark", 1) + "--- rows\n",
        SCHEMA + '--- query params={"n": -1}\n' + LIMITED + "--- error parameter_error\nlimit $n is -1\n",
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
        (SCHEMA + DATA + ON_X + '--- table A\n{"id": "x"}\n', '+{"id": "y"}'),
        (SCHEMA + DATA + ON_X + '--- table A branch=main\n{"id": "x"}\n{"id": "y"}\n', '-{"id": "y"}'),
        (SCHEMA + DATA + ON_X + '--- table A at=@1\n{"id": "x"}\n{"id": "y"}\n', '-{"id": "y"}'),
        (SCHEMA + DATA + ON_X + '--- owners\n{"A": "main"}\n', '+  "A": "x"'),
        (SCHEMA + DATA + ON_X + "--- branch create x\n", "+already_exists"),
        (SCHEMA + DATA + "--- branch delete x\n", "+not_found"),
        (SCHEMA + DATA + "--- branch create x from=@2\n", "from=@2: there is no such step before this"),
        (SCHEMA + DATA + "--- branch create x from=@main\n", "from=@main: there is no such step before this"),
        (SCHEMA + DATA + ON_X + "--- branch create y from=@2\n", "step 2 made no commit"),
        (SCHEMA + "--- mutate brnch=x\n" + ADD.format(name="y"), "'mutate' takes no brnch="),
        (SCHEMA + "--- branch create\n", "there is no step 'branch create'"),
        (SCHEMA + "--- query q\n", "there is no step 'query q'"),
        (SCHEMA + QUERY + "--- rows\n" + FOUND, 'by arrays: --- stated\n+++ happened\n@@ -1 +0,0 @@\n-{"a.name": "x"'),
        (SCHEMA + DATA + QUERY + "--- rows\n" + FOUND.replace("1", "2"), '+{"a.name": "x", "a.size": 1}'),
        (SCHEMA + DATA + QUERY.replace("query", "query at=@2", 1) + "--- rows\n", "at=@2: there is no such step"),
        (SCHEMA + DATA + QUERY.replace("query", "query only=all", 1) + "--- rows\n", "only=all: there are local and"),
        (SCHEMA + '--- query params={"n": 1}\n' + LIMITED + "--- error parameter_error\n", "-parameter_error"),
        (QUERY, "there is no schema before this"),
        ("--- dance\n", "there is no step 'dance'"),
    ],
)
def test_a_case_that_is_not_so_fails(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(Mismatch) as mismatch:
        run_text(tmp_path, text)
    assert complaint in str(mismatch.value)


def test_rows_are_read_in_order_or_as_a_bag(tmp_path: Path) -> None:
    path = tmp_path / "made_up.case"
    path.write_text(f"title\n{SCHEMA}{QUERY}{ROWS}{ROWS.replace('rows', 'rows ordered')}", "utf-8")
    _, query = read_case(path).steps
    bag, ordered = query.outcomes
    rows: tuple[Row, ...] = ({"a.name": "x"}, {"a.name": "y"})
    assert (stated_answer(bag), stated_answer(ordered)) == (Answer(rows, ordered=False), Answer(rows, ordered=True))
    expect_answer(bag, rows[::-1])
    expect_answer(ordered, rows)
    for section, found in ((ordered, rows[::-1]), (bag, rows[:1]), (bag, (*rows, rows[0])), (bag, (rows[1], rows[1]))):
        with pytest.raises(Mismatch):
            expect_answer(section, found)


@pytest.mark.parametrize("rows", ["--- rows\n[1]\n", "--- rows\n{\n", "--- rows sorted\n", "--- rows ordered=yes\n"])
def test_rows_that_are_none_are_refused(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "made_up.case"
    path.write_text(f"title\n{SCHEMA}{QUERY}{rows}", "utf-8")
    with pytest.raises(CaseSyntaxError, match=r"line \d+: "):
        stated_answer(read_case(path).steps[1].outcomes[0])


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

"""The violations of a load are sorted by file and line, then by type and id, whichever rule finds them first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ValidationError, Violation
from omnigraph.graph import Graph
from omnigraph.violation_groups import count_violations
from omnigraph.write.load.rows.quarantine import build_load_error
from tests.graphs import written

# Uniqueness, cardinality and ends are rules on three types; both files break all of them.
FIRST = """\
{"edge": "HomePort", "from": "v3", "to": "p1"}
{"edge": "Tows", "from": "v1", "to": "nobody", "data": {"id": "t9"}}
{"edge": "CallsAt", "from": "v1", "to": "nowhere", "data": {"id": "c9"}}
{"edge": "HomePort", "from": "v2", "to": "p1"}
{"type": "Vessel", "data": {"code": "v1", "name": "again", "kind": "tug"}}
"""
SECOND = """\
{"edge": "Tows", "from": "nobody", "to": "v1", "data": {"id": "t1"}}
{"edge": "HomePort", "from": "v3", "to": "p2"}
{"edge": "CallsAt", "from": "v1", "to": "nowhere", "data": {"id": "c1"}}
{"type": "Vessel", "data": {"code": "v2", "name": "again", "kind": "tug"}}
"""


def violations(graph: Graph, source: object, mode: str = "append", *, check: bool = False) -> Sequence[Violation]:
    before = written(graph)
    with pytest.raises(ValidationError) as caught:
        graph.load(source, mode=mode, check=check)  # pyright: ignore[reportArgumentType]  of any kind
    assert written(graph) == before
    return caught.value.violations


@pytest.mark.parametrize("check", [False, True])
def test_set_rules_report_by_file_and_line(fleet: Graph, tmp_path: Path, *, check: bool) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(FIRST)
    second.write_text(SECOND)
    found = violations(fleet, [second, first], check=check)
    lines = [(Path(each.file or "").name, each.line) for each in found]
    assert len({each.rule for each in found}) > 3
    assert lines == sorted(lines)
    ends = [("a.jsonl", 2), ("a.jsonl", 3), ("b.jsonl", 1), ("b.jsonl", 3)]
    keys = [("a.jsonl", 5), ("b.jsonl", 4)]
    assert {*ends, *keys} < set(lines)


def test_rows_that_stand_in_no_file_come_last_by_type_and_id(fleet: Graph) -> None:
    fleet.load([{"edge": "Tows", "from": "v1", "to": "v2", "data": {"id": id_}} for id_ in ("t3", "t1", "t2")])
    incoming = [
        {"type": "Vessel", "data": {"code": "v9", "name": "Nona", "kind": "tug"}},
        {"edge": "HomePort", "from": "v9", "to": "nowhere"},
    ]
    placed, *others = violations(fleet, incoming, "overwrite")
    assert (placed.type, placed.line) == ("HomePort", 2)
    assert {each.line for each in others} == {None}
    shown = [(each.type, each.id) for each in others]
    assert {"CallsAt", "Tows"} == {type_ for type_, _ in shown}
    assert shown == sorted(shown, key=lambda each: (each[0], each[1] or ""))
    assert {"t1", "t2", "t3"} < {id_ for _, id_ in shown}


def test_the_first_of_them_is_the_one_in_the_message() -> None:
    late, early = (Violation("Tows", "ends", name, "a.jsonl", line) for name, line in (("late", 7), ("early", 3)))
    violations = [Violation("Port", "key", "nowhere"), late, early]
    error = build_load_error(violations, count_violations(violations).to_groups())
    assert error.message == "a.jsonl:3: early (and 2 more)"
    assert [each.message for each in error.violations] == ["early", "late", "nowhere"]


@pytest.mark.parametrize("check", [False, True])
def test_of_very_many_records_a_violation_names_a_few(tmp_path: Path, *, check: bool) -> None:
    count = 300
    graph = omnigraph.init(
        tmp_path / "g.og", "node P { code: String @key  mail: String? @unique } edge E: P -> P @card(0..3)"
    )
    graph.load([{"type": "P", "data": {"code": "x"}}])
    names = [f"c{number:03}" for number in range(count)]
    (by_key,) = violations(graph, [{"type": "P", "data": {"code": "a"}} for _ in names], check=check)
    assert (
        by_key.message
        == f"@key(code) on P: 'a' is given {count} times, first in record:1, record:2, record:3 and 296 more"
    )
    assert (by_key.line, by_key.id, set(by_key.ids)) == (count, "a", {"a"})
    (by_value,) = violations(graph, [{"type": "P", "data": {"code": name, "mail": "m"}} for name in names], check=check)
    assert (
        by_value.message == f"@unique(mail) on P: value 'm' is held by 'c000' and 'c{count - 1}' and {count - 2} more"
    )
    assert by_value.ids[:2] == ("c000", "c001")
    (by_node,) = violations(graph, [{"edge": "E", "from": "x", "to": "x"} for _ in names], check=check)
    assert by_node.message == f"@card(0..3) on E: 'x' would have {count} edges"
    assert [len(each.ids) for each in (by_key, by_value, by_node)] == [100] * 3


def test_all_of_very_many_records_are_set_aside(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node P { code: String @key  mail: String? @unique }")
    records = [{"type": "P", "data": {"code": f"c{number}", "mail": "m"}} for number in range(301)]
    result = graph.load([*records, {"type": "P", "data": {"code": "x"}}], on_error="quarantine")
    assert (result.rejected, result.nodes) == (301, {"P": 1})

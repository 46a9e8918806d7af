"""Violations are grouped by type, rule, property and value, with exact counts, however many there are."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ValidationError, Violation
from omnigraph.graph import Graph
from omnigraph.violation_groups import (
    MAX_COUNTED_VALUES,
    MAX_GROUPED_VALUES,
    MAX_KINDS,
    ViolationCounts,
    count_violations,
    decode_counts,
    encode_counts,
    render_groups,
)
from tests.selection import sized

SCHEMA = """
node Order { code: String @key  paid: Bool?  status: enum(open, paid) }
edge For: Order -> Order
"""
ROWS = 600


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "g.og", SCHEMA)


def wrong_file(folder: Path) -> Path:
    """In line n: a Bool that is none, of two values; three keys twice; and every seventh status is not allowed."""
    file = folder / "orders.csv"
    lines = ["code,paid,status"]
    lines += [f"c{n},{'yes' if n % 3 else 'no'},{'PAID' if n % 7 == 0 else 'open'}" for n in range(2, ROWS + 2)]
    lines += [f"k{n % 3},true,open" for n in range(6)]
    file.write_text("\n".join(lines))
    return file


def load_wrong(graph: Graph, file: Path, **options: object) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Order": file}, options={"header": "true"}, **options)  # pyright: ignore[reportArgumentType]  as a caller gives them
    return caught.value


def expect_groups(error: ValidationError) -> None:
    yes = sum(1 for n in range(2, ROWS + 2) if n % 3)
    paid = sum(1 for n in range(2, ROWS + 2) if n % 7 == 0)
    found = {(each.rule, each.property, each.value): each.count for each in error.groups}
    keys = {("@key(code)", "code", f"k{n}"): 1 for n in range(3)}
    assert found == {
        **keys,
        ("Bool?", "paid", "yes"): yes,
        ("Bool?", "paid", "no"): ROWS - yes,
        ("enum(open, paid)", "status", "PAID"): paid,
    }
    assert [each.rule for each in error.groups][:3] == ["@key(code)"] * 3
    assert {each.table_key for each in error.groups} == {"node:Order"}
    of_yes = next(each for each in error.groups if each.value == "yes")
    assert [each.line for each in of_yes.first] == [2, 4, 5]
    assert error.details["count"] == sum(found.values())


def test_a_wrong_column_hides_no_other_problem(graph: Graph, tmp_path: Path) -> None:
    error = load_wrong(graph, wrong_file(tmp_path))
    expect_groups(error)
    lines = str(error).splitlines()
    assert len(lines) == 1 + len(error.groups) + 1
    assert "(and 687 more)" in lines[0]
    assert any("@key(code) on Order: 'k0' is given 2 times" in line for line in lines)
    assert len(error.violations) == 100
    shown = error.to_json()
    assert (len(shown["violations"]), len(shown["groups"])) == (100, 6)  # pyright: ignore[reportArgumentType]  lists


def test_a_check_has_the_groups_and_all_violations(graph: Graph, tmp_path: Path) -> None:
    error = load_wrong(graph, wrong_file(tmp_path), check=True)
    expect_groups(error)
    assert len(error.violations) == error.details["count"]
    assert len(error.to_json()["violations"]) == 100  # pyright: ignore[reportArgumentType]  a list


def test_edges_to_nowhere_are_counted_by_node(graph: Graph) -> None:
    ends = ["x"] * 150 + ["y"] * 30
    order = {"type": "Order", "data": {"code": "a", "status": "open"}}
    with pytest.raises(ValidationError) as caught:
        graph.load([order, *({"edge": "For", "from": "a", "to": end} for end in ends)])
    error = caught.value
    assert [(each.value, each.count) for each in error.groups] == [("x", 150), ("y", 30)]
    assert [each.line is not None for each in error.groups[0].first] == [True] * 3


def test_edges_to_rejected_nodes_are_not_reported_too(graph: Graph) -> None:
    orders = [{"type": "Order", "data": {"code": f"c{n}", "status": "PAID"}} for n in range(300)]
    edges = [{"edge": "For", "from": f"c{n}", "to": "c0"} for n in range(300)]
    with pytest.raises(ValidationError) as caught:
        graph.load([*orders, *edges, {"edge": "For", "from": "c0", "to": "nowhere"}])
    assert [(each.rule, each.value, each.count) for each in caught.value.groups] == [
        ("edge For: Order -> Order", "nowhere", 1),
        ("enum(open, paid)", "PAID", 300),
    ]


# --------------------------------------------------------------------------------------------- counting


def violation(kind: int, value: int | None, line: int = 1) -> Violation:
    return Violation("T", f"rule {kind}", f"{kind} {value}", "f", line, property="p", value=value, table_key="node:T")


def test_very_many_values_take_little_memory_and_are_counted_exactly() -> None:
    counts = ViolationCounts()
    for n in range(sized(20_000, 1_000_000)):
        counts.add(violation(1, n, n))
    (others,) = counts.to_groups()
    assert (others.value, others.count) == (None, counts.total)
    assert "other values" in others.message
    for value in (7, 7, 8):
        counts.add(violation(1, value))
    *values, others = counts.to_groups()
    assert [(each.value, each.count) for each in values[:2]] == [(7, 3), (8, 2)]
    assert (len(values), others.count) == (MAX_GROUPED_VALUES, counts.total - 5 - (MAX_GROUPED_VALUES - 2))
    assert len(encode_counts(counts)) < 500 * MAX_COUNTED_VALUES


def test_very_many_kinds_are_cut_and_said() -> None:
    groups = count_violations(violation(n, 1) for n in range(3 * MAX_KINDS)).to_groups()
    assert (len(groups), sum(each.count for each in groups)) == (MAX_KINDS + 1, 3 * MAX_KINDS)
    assert any("and other rules" in each.message and each.count == 2 * MAX_KINDS for each in groups)
    assert "more groups" in render_groups(groups)[-1]


@pytest.mark.parametrize("seed", range(sized(20, 400)))
def test_counts_of_parts_are_exact_when_they_are_merged(seed: int) -> None:
    """Whatever is a group has the count of a plain counter, and all groups together have the rest."""
    chance = random.Random(seed)  # noqa: S311  no secret
    parts = [
        [
            violation(chance.randrange(chance.choice((2, 3 * MAX_KINDS))), chance.randrange(chance.choice((3, 400))))
            for _ in range(chance.randrange(2_000))
        ]
        for _ in range(chance.randrange(1, 6))
    ]
    merged = ViolationCounts()
    for part in parts:
        merged.merge(decode_counts(encode_counts(count_violations(part))))
    expected = Counter((each.rule, each.value) for part in parts for each in part)
    kinds = Counter(each.rule for part in parts for each in part)
    groups = merged.to_groups()
    assert sum(each.count for each in groups) == merged.total == sum(expected.values())
    for rule, total in kinds.items():
        own = [each for each in groups if each.rule == rule]
        assert not own or sum(each.count for each in own) == total
    for each in groups:
        if each.value is not None:
            assert each.count == expected[each.rule, each.value]  # pyright: ignore[reportArgumentType]  a number
            assert all(one.value == each.value for one in each.first)

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.schema import parse_schema
from omnigraph.language.schema.catalog import EdgeType, NodeType
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.write.rules.check import check_rows
from omnigraph.write.rules.row_rules import ROW_VIOLATIONS, find_row_violations
from tests.write.rules.rule_graphs import Row, table_of_rows

CATALOG = parse_schema("""
node Port {
  code: String @key
  kind: enum(ferry, tanker, tug)?
  depth: F64?
  berths: U64?
  tags: [String]?
  sizes: [F32]?
  spot: Vector(2)?
  @range(depth, 0.0..30.0)
  @range(berths, 1..)
  @check(code, "^[a-z0-9]+$")
  @unique(tags)
}
node Plain { name: String }
node Small { n: I32?  f: F64?  @range(n, -0.5..3000000000)  @range(f, ..9007199254740995) }
edge Tows: Port -> Port { pull: F64 }
""").catalog
PORT, PLAIN, SMALL, TOWS = CATALOG.nodes["Port"], CATALOG.nodes["Plain"], CATALOG.nodes["Small"], CATALOG.edges["Tows"]


def found(type_: NodeType | EdgeType, *rows: Row) -> list[tuple[object, ...]]:
    return shown(find_row_violations(type_, table_of_rows(CATALOG, type_.table_key, rows)))


def shown(violations: pa.Table) -> list[tuple[object, ...]]:
    assert violations.schema == ROW_VIOLATIONS
    return [(row["row"], row["property"], row["rule"], row["value"]) for row in violations.to_pylist()]


def port(code: str | None, **values: object) -> Row:
    return {"code": code, **values}


@pytest.mark.parametrize(
    "row",
    [
        port("p1", depth=0.0, kind="tug", berths=1, tags=None, sizes=[1.5], spot=[0.0, 1.0]),
        port("p1", depth=30.0, berths=2**64 - 1, sizes=[]),
        port("p1", depth=-0.0),
        port("p1"),
    ],
)
def test_what_the_schema_allows_breaks_nothing(row: Row) -> None:
    assert found(PORT, row) == []


@pytest.mark.parametrize(
    ("row", "violation"),
    [
        (port("p", kind="boat"), ("kind", "enum(ferry, tanker, tug)", "boat")),
        (port("p", kind=""), ("kind", "enum(ferry, tanker, tug)", "")),
        (port("p", depth=31.0), ("depth", "@range(depth, 0.0..30.0)", "31")),
        (port("p", depth=math.nextafter(30.0, 31.0)), ("depth", "@range(depth, 0.0..30.0)", "30.000000000000004")),
        (port("p", depth=-1e-7), ("depth", "@range(depth, 0.0..30.0)", "-0.0000001")),
        (port("p", berths=0), ("berths", "@range(berths, 1..)", "0")),
        (port("P!"), ("code", '@check(code, "^[a-z0-9]+$")', "P!")),
        (port("p", sizes=[1.0, None]), ("sizes", "no null items", None)),
        (port("p", sizes=[1.0, math.inf]), ("sizes", "finite", "inf")),
        (port("p", spot=[math.nan, 1.0]), ("spot", "finite", "nan")),
        (port("p", spot=[None, 1.0]), ("spot", "no null items", None)),
        (port("p", tags=[]), ("tags", "@unique(tags)", None)),
    ],
)
def test_each_rule_names_its_property_and_the_value(row: Row, violation: tuple[object, ...]) -> None:
    assert found(PORT, port("ok"), row) == [(1, *violation)]


def test_a_number_that_is_none_is_neither_finite_nor_in_a_range() -> None:
    assert found(PORT, port("p", depth=math.nan)) == [
        (0, "depth", "@range(depth, 0.0..30.0)", "nan"),
        (0, "depth", "finite", "nan"),
    ]


def test_a_required_value_is_missing() -> None:
    assert found(PLAIN, {"id": "a"}) == [(0, "name", "required", None)]
    assert found(TOWS, {"id": "a", "src": "x", "dst": "y"}) == [(0, "pull", "required", None)]


def test_a_column_that_is_not_there_is_null() -> None:
    assert shown(find_row_violations(PLAIN, pa.table({"id": ["a", "b"]}))) == [
        (0, "name", "required", None),
        (1, "name", "required", None),
    ]


def test_a_missing_key_is_one_problem_not_two() -> None:
    assert found(PORT, port(None)) == [(0, "code", "required", None)]


def test_ids_and_ends_are_neither_null_nor_empty() -> None:
    assert found(TOWS, {"id": None, "src": "", "dst": None, "pull": 1.0}) == [
        (0, "dst", "required", None),
        (0, "id", "id", None),
        (0, "src", "required", None),
    ]
    assert found(PLAIN, {"id": "", "name": "x"}) == [(0, "id", "id", None)]


def test_integers_are_compared_exactly_with_bounds_beyond_their_type() -> None:
    rows = [{"id": "a", "n": n} for n in (-1, 0, 2**31 - 1)]
    assert found(SMALL, *rows) == [(0, "n", "@range(n, -0.5..3000000000)", "-1")]


def test_a_bound_that_is_no_float_is_not_rounded() -> None:
    rule = "@range(f, ..9007199254740995)"
    rows = [{"id": "a", "f": f} for f in (float(2**53 + 2), float(2**53 + 4))]
    assert found(SMALL, *rows) == [(1, "f", rule, "9007199254740996")]


def test_a_vector_may_come_as_a_list_of_any_length() -> None:
    rows = pa.table({"id": ["a", "b"], "code": ["a", "b"], "spot": [[1.0, 2.0], [1.0, 2.0, 3.0]]})
    assert shown(find_row_violations(PORT, rows)) == [(1, "spot", "Vector(2)", "3")]


def test_elements_belong_to_their_rows_beside_nulls_and_in_slices() -> None:
    rows = [port("a", sizes=[math.inf]), port("b"), port("c", sizes=[1.0]), port("d"), port("e", sizes=[0.0, math.nan])]
    table = table_of_rows(CATALOG, "node:Port", rows)
    assert shown(find_row_violations(PORT, table.slice(1))) == [(3, "sizes", "finite", "nan")]
    spots = table_of_rows(
        CATALOG, "node:Port", [port("a"), port("b", spot=[1.0, math.nan]), port("c", spot=[1.0, 2.0])]
    )
    assert shown(find_row_violations(PORT, spots.slice(1))) == [(0, "spot", "finite", "nan")]


def test_rows_count_through_all_batches() -> None:
    chunk = table_of_rows(CATALOG, "node:Port", [port("ok"), port("P!")])
    assert [row for row, *_ in shown(find_row_violations(PORT, pa.concat_tables([chunk, chunk])))] == [1, 3]


def test_a_message_says_rule_type_property_and_value_and_stays_short() -> None:
    table = table_of_rows(CATALOG, "node:Port", [port("p", kind="boat"), port("X" * 10_000)])
    boat, long = check_rows(PORT, table)
    assert boat.message == "enum(ferry, tanker, tug) on Port: 'kind' is 'boat'"
    assert (boat.id, boat.type, boat.property, boat.value) == ("p", "Port", "kind", "boat")
    assert len(str(long.value)) < 300
    assert len(long.message) < 400
    assert check_rows(PORT, table, limit=1) == [boat]


def test_a_table_in_the_very_schema_of_the_type_is_read() -> None:
    rows = table_of_rows(CATALOG, "node:Port", [port("p")]).cast(arrow_schema(PORT))
    assert find_row_violations(PORT, rows.to_batches()[0]).num_rows == 0


FLOATS = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, 30.0]))
PORTS = st.builds(
    port,
    st.text("ab1!", min_size=1),
    kind=st.sampled_from([None, "ferry", "tug", "boat"]),
    depth=FLOATS,
    berths=st.one_of(st.none(), st.integers(0, 3)),
    sizes=st.one_of(st.none(), st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=3)),
    spot=st.one_of(st.none(), st.lists(st.floats(width=32), min_size=2, max_size=2)),
)


@given(st.lists(PORTS, max_size=6), st.integers(0, 3))
def test_the_rules_say_what_plain_python_says(rows: Sequence[Row], start: int) -> None:
    table = table_of_rows(CATALOG, "node:Port", rows).slice(start)
    expected = {(at, *broken) for at, row in enumerate(rows[start:]) for broken in _broken(row)}
    assert {(row, name, rule) for row, name, rule, _ in shown(find_row_violations(PORT, table))} == expected


def _broken(row: Row) -> set[tuple[str, str]]:
    """The rules of a port, one sentence each."""
    said: dict[tuple[str, str], bool] = {
        ("code", '@check(code, "^[a-z0-9]+$")'): not re.search("^[a-z0-9]+$", str(row["code"])),
        ("kind", "enum(ferry, tanker, tug)"): row["kind"] not in (None, "ferry", "tanker", "tug"),
        ("berths", "@range(berths, 1..)"): row["berths"] == 0,
        ("sizes", "no null items"): None in _list(row["sizes"]),
        ("sizes", "finite"): not all(math.isfinite(size) for size in _list(row["sizes"]) if size is not None),
        ("spot", "finite"): not all(math.isfinite(size) for size in _list(row["spot"]) if size is not None),
    }
    depth = row["depth"]
    if isinstance(depth, float):
        said["depth", "@range(depth, 0.0..30.0)"] = not 0.0 <= depth <= 30.0
        said["depth", "finite"] = not math.isfinite(depth)
    return {rule for rule, is_broken in said.items() if is_broken}


def _list(value: object) -> list[float | None]:
    return cast("list[float | None]", value or [])

"""A load reports what it rounded, refuses it with ``strict``, and never rounds a value that identifies a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import ValidationError
from omnigraph.storage.columns import Values, column_of, to_list

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
SCHEMA = """
node Event { at: DateTime?  times: [DateTime]?  f: F64?  g: F32?  fs: [F64]?  i: I64?  j: I32?  day: Date? }
node Moment { at: DateTime @key }
node Sensor { name: String @key  seen: DateTime? @unique }
edge Saw: Sensor -> Moment { at: DateTime }
"""
LARGE = 2**53 + 1
"""The least integer that no F64 has."""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "g.og", SCHEMA)


def micro(*numbers: int, unit: TimeUnit = "us", zone: str | None = None) -> Values:
    plain = cast("Values", pa.array(numbers, pa.int64()))
    return plain.cast(pa.timestamp(unit) if zone is None else pa.timestamp(unit, zone))


def values_of(values: Sequence[Any], type_: pa.DataType | None = None) -> Values:
    return cast("Values", pa.array(values) if type_ is None else pa.array(values, type_))


ROUNDED: Mapping[str, tuple[str, Values, int, int]] = {
    "microseconds": ("at", micro(1_000, 2_000_001, 3_000), 1, 2),
    "nanoseconds": ("at", micro(1_000_000, 1, 2, unit="ns"), 2, 2),
    "instants with a zone": ("at", micro(1_000, 7, zone="Europe/Berlin"), 1, 2),
    "before 1970": ("at", micro(-1, -1_000), 1, 1),
    "texts": ("at", values_of(["2024-05-01T10:00:00.1230000Z", "2024-05-01T10:00:00.1234Z"]), 1, 2),
    "times in lists": ("times", values_of([[], [1_000, 1], None], pa.list_(pa.timestamp("us"))), 1, 2),
    "I64 in F64": ("f", values_of([2**53, LARGE, None, 2**63 - 1]), 2, 2),
    "U64 in F64": ("f", values_of([2**64 - 2**11, 2**64 - 1], pa.uint64()), 1, 2),
    "I64 in F32": ("g", values_of([2**24, 2**24 + 1]), 1, 2),
    "underflow of F32": ("g", values_of([0.0, 1e-45, 1e-46]), 1, 3),
    "integers in lists": ("fs", values_of([[1], [2, LARGE]]), 1, 2),
}
EXACT: Mapping[str, tuple[str, Values]] = {
    "milliseconds": ("at", micro(1, unit="ms")),
    "seconds": ("at", micro(1, unit="s")),
    "whole milliseconds": ("at", micro(1_000, 0)),
    "decimals of F64": ("f", values_of([0.1, 1e300])),
    "decimals of F32": ("g", values_of([0.1, 16777217.5])),
    "small integers": ("f", values_of([2**53, -(2**53)])),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_frame_with_rounded_values_is_loaded_and_reported(graph: Graph, name: str) -> None:
    column, values, count, first = ROUNDED[name]
    frame = pa.table({column: values})
    (rounded,) = graph.load(nodes={"Event": frame}).rounded
    assert (rounded.type, rounded.property, rounded.count, rounded.line) == ("Event", column, count, first)
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Event": frame}, strict=True)
    assert len(caught.value.violations) == count
    assert {(each.rule, each.property) for each in caught.value.violations} == {("exact values", column)}
    kept = graph.load(nodes={"Event": frame}, strict=True, on_error="quarantine")
    assert (kept.nodes, kept.rejected, kept.rounded) == ({"Event": frame.num_rows - count}, count, ())


@pytest.mark.parametrize("name", EXACT)
def test_exact_values_are_not_reported(graph: Graph, name: str) -> None:
    column, values = EXACT[name]
    assert graph.load(nodes={"Event": pa.table({column: values})}, strict=True).rounded == ()


JSON = {
    "time": ("at", '"2024-05-01T10:00:00.123456Z"', '"2024-05-01T10:00:00.123Z"'),
    "I64": ("f", "9007199254740993", "9007199254740992"),
    "integer beyond 64 bits": ("f", "18446744073709551617", "18446744073709551616"),
    "decimal that is large": ("f", None, "18446744073709551617.5"),
    "number that becomes 0": ("f", "1e-400", "1e-300"),
    "number with many digits": ("f", f"0.{'0' * 400}1", "0.00"),
    "number that becomes 0 as F32": ("g", "1e-60", "0"),
    "I32": ("g", "16777217", "16777216"),
}


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_files_report_the_line_of_the_first_rounded_value(graph: Graph, tmp_path: Path, name: str, form: str) -> None:
    column, rounded, exact = JSON[name]
    path = tmp_path / f"events.{form}"
    texts = [exact, *([] if rounded is None else [rounded, rounded])]
    if form == "csv":
        path.write_text("\n".join([column, *(text.strip('"') for text in texts), ""]))
    else:
        path.write_text("".join(f'{{"{column}": {text}}}\n' for text in texts))
    result = graph.load(nodes={"Event": path})
    expected = [] if rounded is None else [("Event", column, 2, str(path), 3 if form == "csv" else 2)]
    assert [(each.type, each.property, each.count, each.file, each.line) for each in result.rounded] == expected


def test_counts_of_several_batches_and_types_are_added(graph: Graph) -> None:
    times = pa.table({"at": micro(*[1_000] * 70_000, *[1] * 70_000)})
    (rounded,) = graph.load(nodes={"Event": times}).rounded
    assert (rounded.count, rounded.line, rounded.table_key) == (70_000, 70_001, "node:Event")


@pytest.mark.parametrize(
    "record",
    [
        {"type": "Moment", "data": {"at": "2024-05-01T10:00:00.000001Z"}},
        {"type": "Sensor", "data": {"name": "a", "seen": "2024-05-01T10:00:00.000001Z"}},
        {"edge": "Saw", "from": "a", "to": {"at": "2024-05-01T10:00:00.000001Z"}, "data": {"at": "2024-05-01"}},
    ],
)
def test_a_rounded_value_that_identifies_a_row_is_rejected(graph: Graph, record: Mapping[str, object]) -> None:
    before = graph.commits()
    with pytest.raises(ValidationError, match="exact values"):
        graph.load([record])
    assert graph.commits() == before


def test_a_rounded_value_of_the_identity_that_a_load_names_is_rejected(graph: Graph) -> None:
    graph.load([{"type": "Sensor", "data": {"name": "a"}}, {"type": "Moment", "data": {"at": "2024-05-01"}}])
    saw = {"edge": "Saw", "from": "a", "to": {"at": "2024-05-01"}, "data": {"at": "2024-05-01T10:00:00.000001Z"}}
    assert len(graph.load([saw], check=True).rounded) == 1
    with pytest.raises(ValidationError, match=r"'at': 2024-05-01T10:00:00\.000001Z has digits below a millisecond"):
        graph.load([saw], mode="merge", identity={"Saw": ["from", "to", "at"]})


def test_integers_in_january_1970_are_noted_as_seconds(graph: Graph) -> None:
    seconds = pa.table({"at": [1_700_000_000, None, 1_700_000_001]})
    (note,) = graph.load(nodes={"Event": seconds}).notes
    assert note.startswith("Event.at: every integer (2) is in January 1970")
    (note,) = graph.load([{"type": "Event", "data": {"at": 1_700_000_000}}]).notes
    assert "multiply them by 1000" in note
    assert graph.load(nodes={"Event": pa.table({"at": [1_700_000_000, 1_700_000_000_000]})}).notes == ()
    assert graph.load([{"type": "Event", "data": {"at": "1970-01-02"}}]).notes == ()


# --------------------------------------------------------------------------------------------- decimals, hours

DECIMALS = {
    "F64": ("f", ["19.99", "0.10", "-5"], ["0.30000000000000003", "12345678901234567.89"]),
    "F32": ("g", ["19.99", "0.5"], ["16777217.0", "19.999999999"]),
    "I64": ("i", ["5.00", "-3"], ["5.5"]),
    "I32": ("j", ["5.00"], ["2147483648", "0.1"]),
}


@pytest.mark.parametrize("scalar", DECIMALS)
@pytest.mark.parametrize("is_frame", [True, False])
def test_a_decimal_is_loaded_if_no_digit_is_lost(graph: Graph, scalar: str, is_frame: bool) -> None:
    column, fitting, others = DECIMALS[scalar]
    for texts, kept in ((fitting, True), (others, False)):
        for text in texts:
            number = Decimal(text)
            frame = pa.table({column: cast("Values", pa.array([number], pa.decimal128(38, 18)))})
            records = [{"type": "Event", "data": {column: number}}]
            result = (
                graph.load(nodes={"Event": frame}, on_error="quarantine")
                if is_frame
                else graph.load(records, on_error="quarantine")
            )
            assert (result.nodes["Event"], result.rounded) == (int(kept), ()), text
    (row, *_) = graph.nodes("Event", columns=[column]).to_arrow().to_pylist()
    assert str(row[column]) in ("19.99", "19.989999771118164", "5")


def test_a_time_in_the_repeated_hour_of_autumn_is_loaded(graph: Graph) -> None:
    instants = [datetime(2024, 10, 27, hour, 30, tzinfo=UTC) for hour in (0, 1)]
    frame = pa.table({"at": pa.array(instants, pa.timestamp("us", "Europe/Berlin"))})
    assert graph.load(nodes={"Event": frame}).rounded == ()
    found = column_of(graph.nodes("Event", columns=["at"]).to_arrow(), "at")
    assert to_list(found) == instants


def test_a_time_below_a_millisecond_is_no_date(graph: Graph) -> None:
    with pytest.raises(ValidationError, match="found a time of day"):
        graph.load(nodes={"Event": pa.table({"day": micro(1)})})

"""Rows without a query: which columns, which rows, at which moment, and in whose hands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import NotFound, ParameterError
from omnigraph.graph import Graph
from omnigraph.language.schema import parse_schema
from omnigraph.read.rows.conditions import Filter
from omnigraph.read.rows.scan import Scan, get_entity, scan_edges, scan_nodes
from omnigraph.storage.columns import column_of, to_list

SCHEMA = """
node Person {
  name: String @key
  age: I32?  score: F64?  size: U64?  born: Date?  seen: DateTime?  kind: enum(cat, dog)?  is_big: Bool?
  tags: [String]?  times: [DateTime]?  point: Vector(2)?  photo: Blob?
}
node Note { text: String }
edge Knows: Person -> Person { since: Date?  at: DateTime? }
"""
MOMENT = datetime(2024, 5, 1, 10, 30, 0, 123_000, UTC)
ANN: dict[str, object] = {
    "name": "Ann",
    "age": 30,
    "score": 1.5,
    "size": 2**64 - 1,
    "born": date(1994, 2, 28),
    "seen": MOMENT,
    "kind": "cat",
    "is_big": True,
    "tags": ["a", "b"],
    "times": [MOMENT],
    "point": [1.0, 0.5],
}
BOB: dict[str, object] = {"name": "Bob", "age": 41, "score": -3.0, "size": 0, "born": date(1983, 1, 1), "kind": "dog"}
EVE: dict[str, object] = {"name": "O'Eve`", "age": -7, "seen": datetime(1, 1, 1, tzinfo=UTC), "is_big": False}
NOBODY: dict[str, object] = {"name": "nobody"}
PEOPLE = (ANN, BOB, EVE, NOBODY)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = omnigraph.init(tmp_path_factory.mktemp("scan") / "people.og", SCHEMA)
    graph.load(
        [
            *({"type": "Person", "data": {**data, "photo": "base64:eA=="}} for data in PEOPLE),
            {"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"id": "k1", "since": "2020-01-01"}},
            {"edge": "Knows", "from": "Bob", "to": "Ann", "data": {"id": "k2"}},
        ]
    )
    return graph


def texts(scan: Scan, column: str) -> list[str]:
    return sorted(map(str, to_list(column_of(scan.to_arrow(), column))))


def names(graph: Graph, filter_: object) -> list[str]:
    return texts(graph.nodes("Person", cast("Filter", filter_), ["name"]), "name")


# --------------------------------------------------------------------------------------------- columns


def test_a_type_has_its_id_and_its_properties_by_name_and_blobs_stay_away(people: Graph) -> None:
    rows = people.nodes("Person").to_arrow()
    assert rows.column_names == ["id", *sorted(ANN)]
    by_name = {row["name"]: row for row in rows.to_pylist()}
    for data in PEOPLE:
        assert by_name[data["name"]] == {"id": data["name"], **dict.fromkeys(ANN), **data}


def test_a_moment_is_a_timestamp_in_utc(people: Graph) -> None:
    schema = people.nodes("Person").schema
    assert schema.field("seen").type == pa.timestamp("ms", "UTC")
    assert schema.field("times").type == pa.list_(pa.field("item", pa.timestamp("ms", "UTC")))
    assert not schema.field("name").nullable


def test_edges_name_their_ends_as_records_do(people: Graph) -> None:
    rows = people.edges("knows", columns=["to", "from", "id"]).to_arrow()
    assert rows.column_names == ["to", "from", "id"]
    assert sorted(rows.to_pylist(), key=str) == [
        {"to": "Ann", "from": "Bob", "id": "k2"},
        {"to": "Bob", "from": "Ann", "id": "k1"},
    ]
    assert people.edges("Knows").schema.names == ["id", "from", "to", "at", "since"]
    assert people.edges("Knows", {"from": "Ann"}).to_arrow()["id"].to_pylist() == ["k1"]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["nam"], "Person has no column 'nam' (did you mean 'name'?)"),
        (["nam", "agee"], "Person has no column 'nam'; Person has no column 'agee'"),
        (["photo"], "'photo' is a blob"),
        (["name", "name"], "column 'name' is given twice (name each column once)"),
        ("name", "columns is 'name'"),
        ([], "columns is []"),
    ],
)
def test_wrong_columns_are_all_named(people: Graph, columns: list[str], complaint: str) -> None:
    with pytest.raises(ParameterError) as caught:
        people.nodes("Person", columns=columns)
    assert complaint in str(caught.value)


def test_the_stored_name_of_an_end_has_a_hint(people: Graph) -> None:
    with pytest.raises(ParameterError, match="did you mean 'from'"):
        people.edges("Knows", columns=["src"])


def test_an_unknown_type_has_a_hint(people: Graph) -> None:
    with pytest.raises(NotFound, match=r"no node type 'Persn' .*did you mean 'Person'"):
        people.nodes("Persn")
    with pytest.raises(NotFound, match=r"no edge type 'Person'"):
        people.edges("Person")


# --------------------------------------------------------------------------------------------- filters

OPERATORS = cast(
    "Mapping[str, Callable[[object, object], bool]]", {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
)
VALUES: Mapping[str, list[object]] = {
    "name": ["Ann", "O'Eve`", "' OR 1=1 --", ""],
    "age": [30, -7, 29.5, 2**40, -(2**70), 41.0],
    "score": [1.5, -3, 2**60, 1e300],
    "size": [0, 2**64 - 1, 2**64, -1, 0.5],
    "born": [date(1994, 2, 28), "1983-01-01"],
    "seen": [MOMENT, "0001-01-01T00:00:00Z"],
    "kind": ["cat", "dog"],
    "is_big": [True, False],
}
READ = {"1983-01-01": date(1983, 1, 1), "0001-01-01T00:00:00Z": datetime(1, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("column", VALUES)
def test_a_comparison_is_exact_and_a_null_matches_nothing(people: Graph, column: str, operator: str) -> None:
    for value in VALUES[column]:
        meant = READ.get(value, value) if isinstance(value, str) else value
        expected = [p["name"] for p in PEOPLE if p.get(column) is not None and OPERATORS[operator](p[column], meant)]
        assert names(people, [(column, operator, value)]) == sorted(map(str, expected)), value


NOTHING: list[str] = []


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (None, ["Ann", "Bob", "O'Eve`", "nobody"]),
        (dict[str, object](), ["Ann", "Bob", "O'Eve`", "nobody"]),
        ({"age": 30}, ["Ann"]),
        ({"age": 30, "kind": "dog"}, NOTHING),
        ({"age": None}, ["nobody"]),
        ({"tags": None}, None),
        ([("age", "!=", None)], ["Ann", "Bob", "O'Eve`"]),
        ([("age", ">", 0), ("age", "<", 40)], ["Ann"]),
        ([("name", "in", ["Ann", "nobody", "x"])], ["Ann", "nobody"]),
        ([("id", "in", NOTHING)], NOTHING),
        ([("age", "in", [30, 41.0, 2**70])], ["Ann", "Bob"]),
        ([("age", "in", range(500))], ["Ann", "Bob"]),
        ([("age", "in", NOTHING)], NOTHING),
        ([("seen", "in", [MOMENT])], ["Ann"]),
        ([("name", "in", [*map(str, range(3000)), "Bob"])], ["Bob"]),
        ([("name", "starts_with", "O'")], ["O'Eve`"]),
        ([("name", "ends_with", "b")], ["Bob"]),
        ([("id", "contains", "ob"), ("kind", "contains", "o")], ["Bob"]),
    ],
)
def test_conditions_hold_together(people: Graph, filter_: object, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(ParameterError, match="cannot be compared"):
            names(people, filter_)
    else:
        assert names(people, filter_) == expected


@pytest.mark.parametrize(
    ("filter_", "complaint"),
    [
        ({"agee": 3, "nam": 1}, "no column 'agee'; Person has no column 'nam' (did you mean 'age'?)"),
        ({"age": "x"}, "'age': expected F64, found a string"),
        ({"age": True}, "'age': expected F64, found a boolean"),
        ({"score": float("nan")}, "nan is not a finite number"),
        ({"kind": "cow"}, "'kind': 'cow' is not in enum(cat, dog)"),
        ({"seen": datetime(2024, 1, 1)}, "no time zone"),
        ({"born": "1.1.1983"}, "'1.1.1983' is not a date"),
        ({"photo": "x"}, "'photo' is a blob"),
        ({"point": [1, 2]}, "cannot be compared"),
        ([("age", "~", 3)], "'age': I32? has no operator '~' (use =, !=, <, <=, >, >=, in)"),
        ([("age", "starts_with", 3)], "'age': I32? has no operator 'starts_with'"),
        (
            [("name", "matches", "A")],
            "'name': String has no operator 'matches' (use =, !=, <, <=, >, >=, contains, starts_with, ends_with, in)",
        ),
        ([("name", "ends_with", None)], "expected String, found null"),
        ([("age", "<", None)], "null has no order"),
        ([("age", "in", 3)], "'in' is followed by int"),
        ([("name", "in", "Ann")], "'in' is followed by str"),
        ([("name", "in", [None])], "expected String, found null"),
        ([("age", 3)], "a filter holds ('age', 3)"),
        ("age > 3", "the filter is str"),
    ],
)
def test_what_is_wrong_with_a_filter_is_said_before_anything_is_read(
    people: Graph, filter_: object, complaint: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        people.nodes("Person", cast("Filter", filter_))
    assert complaint in str(caught.value)


# --------------------------------------------------------------------------------------------- moments, other hands


def test_a_number_beside_a_float_of_32_bits_means_one(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node T { f: F32 @key }")
    graph.load([{"type": "T", "data": {"f": 0.1}}, {"type": "T", "data": {"f": 16777216}}])
    single = to_list(column_of(graph.nodes("T", {"f": 0.1}).to_arrow(), "f"))
    assert single == [0.10000000149011612]
    assert to_list(column_of(graph.nodes("T", [("f", "in", [0.1, 1e39])]).to_arrow(), "f")) == single
    assert to_list(column_of(graph.nodes("T", [("f", "<", 1e39), ("f", ">", 0.1)]).to_arrow(), "f")) == [16777216.0]
    assert to_list(column_of(graph.nodes("T", {"f": 16777217.0}).to_arrow(), "f")) == [16777216.0]


def test_an_integer_next_to_a_float_of_32_bits_is_never_rounded(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node T { f: F32 @key }")
    graph.load([{"type": "T", "data": {"f": 16777216}}])
    found = {
        (operator, number): graph.nodes("T", [("f", operator, number)]).to_arrow().num_rows
        for operator in ("=", "<", ">", "!=")
        for number in (16777215, 16777216, 16777217)
    }
    assert found == {
        ("=", 16777215): 0, ("=", 16777216): 1, ("=", 16777217): 0,
        ("<", 16777215): 0, ("<", 16777216): 0, ("<", 16777217): 1,
        (">", 16777215): 1, (">", 16777216): 0, (">", 16777217): 0,
        ("!=", 16777215): 1, ("!=", 16777216): 0, ("!=", 16777217): 1,
    }  # fmt: skip
    assert graph.nodes("T", [("f", "in", [16777217])]).to_arrow().num_rows == 0


def test_a_scan_shows_one_moment_however_often_it_is_read(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "Ann"}}])
    first = graph.commits()[0]
    scan = graph.nodes("Person", columns=["id"])
    graph.create_branch("side")
    graph.load([{"type": "Person", "data": {"name": "Bob"}}])
    graph.load([{"type": "Person", "data": {"name": "Eve"}}], branch="side")

    def ids(branch: str = "main", at: str | None = None) -> list[str]:
        return texts(graph.nodes("Person", branch=branch, at=at), "id")

    assert (scan.branch, scan.commit) == ("main", first)
    assert scan.to_arrow().to_pylist() == scan.to_arrow().to_pylist() == [{"id": "Ann"}]
    assert [ids(), ids("side"), ids(at=first.id)] == [["Ann", "Bob"], ["Ann", "Eve"], ["Ann"]]


def test_whatever_speaks_arrow_takes_a_scan(people: Graph, tmp_path: Path) -> None:
    scan = people.nodes("Person", columns=["name", "age", "seen"])
    assert [batch.num_rows for batch in scan] == [4]
    assert pa.table(scan).equals(scan.to_arrow())
    assert pl.DataFrame(scan)["seen"].dtype == pl.Datetime("ms", "UTC")
    assert scan.to_pandas()["name"].tolist() == scan.to_arrow()["name"].to_pylist()
    copy = omnigraph.init(tmp_path / "copy.og", SCHEMA)
    copy.load(nodes={"Person": people.nodes("Person")}, edges={"Knows": people.edges("Knows")})
    assert copy.nodes("Person").to_arrow().sort_by("id").equals(people.nodes("Person").to_arrow().sort_by("id"))
    assert copy.edges("Knows").to_arrow().sort_by("id").equals(people.edges("Knows").to_arrow().sort_by("id"))


def test_a_table_that_lags_behind_the_schema_has_nulls_and_is_cast(people: Graph) -> None:
    newer = parse_schema(
        SCHEMA.replace("age: I32?", "age: I64?  email: String?").replace(
            "node Note", "node Fresh { n: I32 }\nnode Note"
        )
        + "edge Likes: Person -> Note"
    ).catalog
    snapshot = people.snapshot()
    rows = scan_nodes(snapshot, newer, "Person", None, ["email", "age"])
    assert rows.schema.field("age").type == pa.int64()
    assert texts(rows, "age") == ["-7", "30", "41", "None"]
    assert rows.to_arrow()["email"].to_pylist() == [None] * 4

    def found(*conditions: tuple[str, str, object]) -> list[str]:
        return texts(scan_nodes(snapshot, newer, "Person", conditions, ["name"]), "name")

    assert found(("email", "=", "x")) == []
    assert found(("email", "=", None)) == ["Ann", "Bob", "O'Eve`", "nobody"]
    assert found(("age", ">", 2**40)) == []
    assert found(("age", ">", 0), ("name", "!=", "Bob")) == ["Ann"]
    assert scan_nodes(snapshot, newer, "Fresh", None, None).to_arrow().num_rows == 0
    assert scan_edges(snapshot, newer, "Likes", {"from": "Ann"}, None).to_arrow().num_rows == 0
    assert get_entity(snapshot, newer, "Person", "Ann", ["email", "age"]) == {"email": None, "age": 30}
    assert get_entity(snapshot, newer, "Fresh", "x") is None


def test_an_empty_type_has_its_columns(people: Graph) -> None:
    assert people.nodes("Note").to_arrow().schema.names == ["id", "text"]
    assert list(people.nodes("Note", {"text": "x"})) == []

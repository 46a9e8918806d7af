"""Which column of a table is read as what: mapped and ignored columns, the case of names, and a column called id."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.write.load import TableInput
from tests.graphs import rows_of

SCHEMA = """
node Person { name: String @key  nick: String? }
node Note { text: String }
edge Orders: Person -> Person { order_id: I64?  price: F64? }
"""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.chdir(tmp_path)
    graph = omnigraph.init("shop.og", SCHEMA)
    graph.load(nodes={"Person": pa.table({"name": ["ann", "bob"]})})
    return graph


def as_frame(rows: pa.Table) -> TableInput:
    return cast("pl.DataFrame", pl.from_arrow(rows))


def as_csv(rows: pa.Table) -> TableInput:
    arrow_csv.write_csv(rows, "rows.csv")
    return "rows.csv"


def as_parquet(rows: pa.Table) -> TableInput:
    pq.write_table(rows, "rows.parquet")
    return "rows.parquet"


def as_arrow(rows: pa.Table) -> TableInput:
    with ipc.new_file("rows.arrow", rows.schema) as writer:
        writer.write_table(rows)
    return "rows.arrow"


def as_objects(rows: pa.Table) -> TableInput:
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    return "rows.jsonl"


every_format = pytest.mark.parametrize("to_input", [as_frame, as_csv, as_parquet, as_arrow, as_objects])
ToInput = Callable[[pa.Table], TableInput]


def orders(graph: Graph) -> list[tuple[object, object]]:
    return [(row["id"], row["order_id"]) for row in rows_of(graph, "Orders")]


# --------------------------------------------------------------------------------------------- a column called id


@every_format
def test_a_column_called_id_that_a_property_reads_is_not_the_id_too(graph: Graph, to_input: ToInput) -> None:
    rows = to_input(pa.table({"from": ["ann"], "to": ["bob"], "id": [7]}))
    result = graph.load(edges={"Orders": rows}, columns={"Orders": {"order_id": "id"}})
    ((id_, order_id),) = orders(graph)
    assert (order_id, result.notes) == (7, ())
    assert id_ != "7"


@every_format
def test_an_ignored_column_called_id_is_not_the_id(graph: Graph, to_input: ToInput) -> None:
    rows = to_input(pa.table({"from": ["ann"], "to": ["bob"], "id": ["7"]}))
    result = graph.load(edges={"Orders": rows}, ignore={"Orders": ["id"]})
    ((id_, _),) = orders(graph)
    assert id_ != "7"
    assert result.notes == ()


@every_format
def test_any_other_column_called_id_is_the_id_and_the_load_says_so(graph: Graph, to_input: ToInput) -> None:
    rows = to_input(pa.table({"from": ["ann", "bob"], "to": ["bob", "ann"], "id": ["7", "8"]}))
    notes = graph.load(nodes={"Note": pa.table({"text": ["x"]})}, edges={"orders": rows}).notes
    assert notes == (
        "Orders: 2 rows took the id from the column id; if it is something else, map it to a property or ignore it",
    )
    assert [id_ for id_, _ in orders(graph)] == ["7", "8"]


def test_an_id_that_is_mapped_or_follows_from_the_key_needs_no_note(graph: Graph) -> None:
    edge = pa.table({"from": ["ann"], "to": ["bob"], "number": ["7"]})
    assert graph.load(edges={"Orders": edge}, columns={"Orders": {"id": "number"}}).notes == ()
    assert graph.load(nodes={"Person": pa.table({"name": ["eve"], "id": ["eve"]})}).notes == ()
    update = pa.table({"id": ["7"], "price": [1.5]})
    assert graph.load(edges={"Orders": update}, mode="update").notes == ()


# --------------------------------------------------------------------------------------------- mapped columns


def test_a_mapped_column_is_not_also_taken_by_its_name(graph: Graph) -> None:
    with pytest.raises(ParameterError, match="'name' is missing: it is read as nick; name it for 'name' too"):
        graph.load(nodes={"Person": pa.table({"name": ["eve"]})}, columns={"Person": {"nick": "name"}})
    edge = pa.table({"from": ["ann"], "to": ["bob"], "price": [7]})
    graph.load(edges={"Orders": edge}, columns={"Orders": {"order_id": "price"}})
    assert [(row["order_id"], row["price"]) for row in rows_of(graph, "Orders")] == [(7, None)]
    graph.load(nodes={"Person": pa.table({"name": ["eve"]})}, columns={"Person": {"nick": "name", "name": "name"}})
    assert ("eve", "eve") in [(row["name"], row["nick"]) for row in rows_of(graph, "Person")]


def test_an_object_with_a_field_whose_property_is_read_from_another_is_rejected(graph: Graph) -> None:
    objects = as_objects(pa.table({"name": ["eve"], "full": ["fay"]}))
    with pytest.raises(ValidationError, match=r"'name' is not used: Person\.name is read from 'full'"):
        graph.load(nodes={"Person": objects}, columns={"Person": {"name": "full"}})


# --------------------------------------------------------------------------------------------- the case of names


@every_format
def test_columns_match_properties_in_any_case(graph: Graph, to_input: ToInput) -> None:
    graph.load(edges={"Orders": to_input(pa.table({"From": ["ann"], "TO": ["bob"], "Order_ID": [7], "price": [1.5]}))})
    found = rows_of(graph, "Orders")
    assert [(row["src"], row["dst"], row["order_id"], row["price"]) for row in found] == [("ann", "bob", 7, 1.5)]


@pytest.mark.parametrize(
    ("names", "columns", "problems"),
    [
        (("name", "Nick", "NICK"), {}, ["Nick", "NICK"]),
        (("name", "Name"), {}, ["Name"]),
        (("Name", "nick"), {"nick": "Name"}, None),
    ],
    ids=["two columns", "a column of the name", "a property that is mapped"],
)
def test_a_name_in_another_case_must_fit_alone(
    graph: Graph, names: tuple[str, ...], columns: Mapping[str, str], problems: list[str] | None
) -> None:
    with pytest.raises(ParameterError) as caught:
        graph.load(nodes={"Person": pa.table({name: ["x"] for name in names})}, columns={"Person": columns})
    described = [
        f"nodes['Person']: column '{name}' is not used: other columns or properties are called {name.lower()} too"
        for name in problems or ()
    ]
    assert caught.value.details["problems"] == (
        described
        if problems
        else [
            "nodes['Person']: column 'nick' is not used: Person.nick is read from 'Name'",
            "nodes['Person']: column 'name' is missing",
        ]
    )

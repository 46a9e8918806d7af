"""Schemas and pipelines that are proposed from tables: they are valid, and say what they were guessed from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, NotFound, ParameterError
from omnigraph.language.schema import check_schema, format_schema, parse_schema
from omnigraph.language.source import Source
from omnigraph.pipeline import table_profile
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.planner import plan_pipeline
from omnigraph.pipeline.proposals import infer_schema, propose_pipeline, save_proposal

KINDS = ["adult", "child"] * 10


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """People, whom they know, and their orders."""
    monkeypatch.chdir(tmp_path)
    people = [
        f"p{number},{kind},0{number},{number}.5,true,2020-01-0{number % 9 + 1}" for number, kind in enumerate(KINDS)
    ]
    write("people.csv", "\n".join(["name,kind,Zip Code,score,member,born", *people]) + "\n")
    write("knows.csv", "a,b,since\np1,p2,2020-01-01\np2,p3,\n")
    pq.write_table(
        pa.table({
            "id": pa.array([1, 2, 3], pa.int32()),
            "customer": ["p1", None, "p2"],
            "at": pa.array([0, 1, 2], pa.timestamp("us")),
            "vec": [[1.0, 2.0, 3.0]] * 3,
            "tags": [["x"], [], None],
            "odd": [{"a": 1}] * 3,
        }),
        "raw_orders.parquet",
    )  # fmt: skip
    return tmp_path


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


FILES = ["people.csv", "knows.csv", "raw_orders.parquet"]


def test_types_keys_and_edges_are_guessed_with_their_reasons() -> None:
    text = infer_schema(FILES)
    assert check_schema(Source(text, "proposed.pg")) == []
    assert format_schema(Source(text)) == text
    assert text.splitlines() == [
        "// Proposed from tables. Each comment says what a line was guessed from: check it before you use it.",
        "",
        "// people.csv: 20 rows",
        "node Person {",
        "  name: String @key // unique and never empty",
        "  kind: enum(adult, child) // 2 different values; String if others may come",
        "  zip_code: String // column 'Zip Code'; digits with leading zeros are kept as a text",
        "  score: F64",
        "  member: Bool",
        "  born: Date",
        "}",
        "",
        "// raw_orders.parquet: 3 rows",
        "node RawOrder {",
        "  raworder_id: I32 @key // column 'id'; unique and never empty",
        "  at: DateTime",
        "  vec: Vector(3) // always 3 numbers",
        "  tags: [String]? // empty in 1 of 3 rows",
        "  // odd: left out; a column of struct<a: int64> has no type here",
        "}",
        "",
        "// knows.csv: 2 rows",
        "// from 'a' to 'b': all values are keys of people.csv and people.csv",
        "edge Knows: Person -> Person {",
        "  since: Date? // empty in 1 of 2 rows",
        "}",
        "",
        "// raw_orders.parquet: 3 rows",
        "// from 'id' to 'customer': all values of 'customer' are keys of people.csv",
        "edge RawOrderCustomer: RawOrder -> Person",
    ]


def test_a_table_without_a_key_and_odd_names_are_fine() -> None:
    write("2024 odd-names.csv", "from,1st,a b,A-B,id\nx,1,2,3,\nx,1,2,3,\n")
    write("lines.jsonl", '{"code": "x", "n": 1, "mixed": 1}\n{"code": "y", "n": null, "mixed": "a"}\n')
    with Path("flat.arrow").open("wb") as file, ipc.new_stream(file, pa.schema([("u", pa.uint64())])):
        pass
    text = infer_schema(["2024 odd-names.csv", "lines.jsonl", "flat.arrow"])
    assert check_schema(Source(text, "proposed.pg")) == []
    catalog = parse_schema(text).catalog
    assert set(catalog.nodes) == {"T2024OddName", "Line", "Flat"}
    assert set(catalog.nodes["T2024OddName"].properties) == {"from_value", "c_1st", "a_b", "a_b_2", "t2024oddname_id"}
    assert (catalog.nodes["Line"].key, catalog.nodes["T2024OddName"].key) == (("code",), None)


def test_numbers_are_references_only_by_their_names() -> None:
    write("cities.csv", "id,name\n1,Oslo\n2,Bonn\n")
    write("ports.csv", "port_id,city_id,depth\n1,2,1\n2,1,2\n3,1,1\n")
    catalog = parse_schema(infer_schema(["cities.csv", "ports.csv"])).catalog
    assert {name: (edge.from_type, edge.to_type) for name, edge in catalog.edges.items()} == {
        "PortCity": ("Port", "City")
    }
    assert set(catalog.nodes["Port"].properties) == {"port_id", "depth"}


def test_only_the_first_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_profile, "MAX_ROWS", 5)
    assert "// people.csv: the first 5 rows" in infer_schema(["people.csv"])


def test_a_proposed_pipeline_can_be_planned(tables: Path) -> None:
    (tables / "sub").mkdir()
    schema = tables / "people.pg"
    save_proposal(schema, infer_schema(FILES))
    graph = omnigraph.init("people.og", schema)
    for given in (schema, None):
        text = propose_pipeline(FILES, schema=given, graph="../people.og", folder=Path("sub"))
        path = Path("sub/p.pipeline.yaml")
        path.write_text(text)
        plan = plan_pipeline(read_pipeline(path), graph)
        assert [each.type.name for each in plan.mappings] == ["Person", "RawOrder", "Knows", "RawOrderCustomer"]
        assert [view.name for view in plan.file.views] == ["raw_order_customer_links"]
    with pytest.raises(AlreadyExists):
        save_proposal(schema, "")


def test_a_schema_that_was_changed_says_what_does_not_fit() -> None:
    schema = "node Person { name: String @key  age: I64? }\nnode Pet { name: String @key }"
    text = propose_pipeline(FILES, schema=schema)
    assert "# age: no column of people.csv has this name" in text
    assert "# not used: kind, Zip Code, score, member, born" in text
    assert "# knows.csv: the schema has no edge type Knows" in text
    with pytest.raises(ParameterError, match="none of the types"):
        propose_pipeline(FILES, schema="node Pet { name: String @key }")


def test_what_cannot_be_read_is_said() -> None:
    with pytest.raises(NotFound, match=r"no file 'none\.csv'"):
        infer_schema(["none.csv"])
    with pytest.raises(ParameterError, match="option 'foo'"):
        infer_schema(["people.csv"], {"foo": 1})
    with pytest.raises(ParameterError, match="there are no tables"):
        infer_schema([])
    with Path("x.arrow").open("wb") as file, ipc.new_stream(file, pa.schema([("u", pa.string())])):
        pass
    with pytest.raises(ParameterError, match="Spark cannot read"):
        propose_pipeline(["x.arrow"])


def test_a_table_is_read_on_spark_as_it_is_read_here() -> None:
    write("notes.csv", "code;null;text\n1;a;'x\ny'\n2;b;NA\n")
    options = {"sep": ";", "quote": "'", "nullValue": "NA"}
    text = propose_pipeline(["notes.csv"], options=options)
    told = '{header: true, escape: "\'", mode: "FAILFAST", columnPruning: false, '
    told += 'sep: ";", quote: "\'", nullValue: "NA", multiLine: true}'
    assert f"options: {told}" in text
    assert 'null: "`null`"' in text
    assert "multiLine" not in propose_pipeline(["people.csv"])
    Path("wide.csv").write_text("code,name\n1,a\n", "utf-16-le")
    wide = propose_pipeline(["wide.csv"], options={"encoding": "UTF-16LE"})
    assert 'encoding: "utf-16le", multiLine: true}' in wide
    with pytest.raises(ParameterError, match="Spark cannot read cp1252"):
        propose_pipeline(["people.csv"], options={"encoding": "cp1252"})

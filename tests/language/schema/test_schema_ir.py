"""What is stored: the bytes of the IR, its hash, the ids and directories that follow from names."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import pytest

from omnigraph.errors import FormatError, FormatTooNew
from omnigraph.language.schema import (
    STRICTER_THAN_0_8,
    Schema,
    decode_ir,
    encode_ir,
    encode_state,
    hash_ir,
    parse_schema,
    table_directory,
)
from omnigraph.language.schema.catalog import Embedding
from omnigraph.language.schema.identity import property_id, type_id
from omnigraph.language.schema.ir_json import encode_compact_ir
from omnigraph.language.source import Source

EXAMPLE = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: Date? }\n"
EXAMPLE_HASH = "sha256:8e46adc503b0cbcdeb913b1109f08992bf2297ca125992020c20bfe4fe069343"
VESSELS = Path(__file__).parents[2] / "cases" / "vessels.pg"


def test_the_example_of_the_format_has_its_hash() -> None:
    schema = parse_schema(EXAMPLE)
    assert schema.hash == EXAMPLE_HASH
    assert encode_compact_ir(schema.ir).startswith(
        '{"ir_version":1,"interfaces":[],"nodes":[{"name":"Person","type_id":3227219152,"annotations":[],'
        '"implements":[],"properties":[{"name":"age","prop_id":3446138241,"prop_type":{"scalar":"I32",'
        '"nullable":true,"list":false,"enum_values":null},"annotations":[]},'
    )


def test_the_stored_form_is_indented_and_ends_without_a_line_break() -> None:
    schema = parse_schema(EXAMPLE)
    stored = encode_ir(schema.ir)
    assert stored.startswith('{\n  "ir_version": 1,\n  "interfaces": [],\n  "nodes": [\n    {\n      "name": "Person",')
    assert stored.endswith("\n}")
    assert json.loads(stored) == json.loads(encode_compact_ir(schema.ir))


def test_the_state_names_the_hash() -> None:
    assert encode_state(parse_schema(EXAMPLE).ir) == (
        '{\n  "format_version": 1,\n  "schema_ir_hash": "' + EXAMPLE_HASH + '",\n  "schema_identity_version": 1\n}'
    )


@pytest.mark.parametrize(
    ("key", "directory"),
    [
        ("node:Person", "nodes/40d76f1f51639ec0"),
        ("node:Company", "nodes/7cb4e55c59663b1c"),
        ("edge:Knows", "edges/602a25a3bd0b455b"),
        ("edge:WorksAt", "edges/844eefbe5068b644"),
    ],
)
def test_tables_lie_where_the_format_says(key: str, directory: str) -> None:
    assert table_directory(key) == directory


def test_ids_are_those_of_the_format() -> None:
    assert type_id("node", "Person") == 3227219152
    assert property_id("node", "Person", "name") == 1466009789
    assert type_id("edge", "Knows") == 2041814322


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("0.5", "0.5"),
        ("100.0", "100.0"),
        ("1000000000000000.0", "1000000000000000.0"),
        ("10000000000000000.0", "1e16"),
        ("1000000000000000000000.0", "1e21"),
        ("1230000000000000000000.0", "1.23e21"),
        ("0.0001", "0.0001"),
        ("0.000012", "0.000012"),
        ("0.0000012", "1.2e-6"),
        ("-0.0", "-0.0"),
    ],
)
def test_floats_are_written_as_rust_writes_them(written: str, stored: str) -> None:
    schema = parse_schema(f"node A {{ x: F64  @range(x, {written}..) }}")
    assert f'"min":{{"Float":{stored}}},"max":null' in encode_compact_ir(schema.ir)
    assert decode_ir(encode_ir(schema.ir)) == schema.ir


def test_ranges_are_ordered_by_their_debug_form() -> None:
    schema = parse_schema("node A { x: F64  @range(x, 5..)  @range(x, ..3)  @range(x, 10.0..)  @range(x, 1..) }")
    bounds = [constraint["Range"]["min"] for constraint in json.loads(encode_ir(schema.ir))["nodes"][0]["constraints"]]
    # None < Some(Float(10.0)) < Some(Integer(1)) < Some(Integer(5)), as text.
    assert bounds == [None, {"Float": 10.0}, {"Integer": 1}, {"Integer": 5}]


def test_control_characters_are_escaped_and_others_are_not() -> None:
    schema = parse_schema('node A @description("a\\n\x1f\x7f\u2028é") { }')
    assert '"value":"a\\n\\u001f\x7f\u2028é"' in encode_compact_ir(schema.ir)


def test_the_hash_does_not_depend_on_the_layout_of_the_file() -> None:
    ir = parse_schema(EXAMPLE).ir
    assert hash_ir(decode_ir(encode_compact_ir(ir))) == hash_ir(decode_ir(encode_ir(ir))) == EXAMPLE_HASH
    assert hashlib.sha256(encode_compact_ir(ir).encode()).hexdigest() == EXAMPLE_HASH.removeprefix("sha256:")


def test_a_newer_ir_is_refused() -> None:
    with pytest.raises(FormatTooNew, match="IR version 2"):
        decode_ir('{"ir_version": 2}')


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ir_version": 1}', '{"ir_version": 1, "interfaces": [3]}', "null"])
def test_a_damaged_ir_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        decode_ir(text)


@pytest.mark.parametrize("constraint", ['{"Never": {"property": "a"}}', '{"Range": {}}', "{}", '{"Other": ["a"]}'])
def test_a_damaged_constraint_is_a_format_error(constraint: str) -> None:
    stored = encode_compact_ir(parse_schema("node A { a: I32 @index }").ir)
    with pytest.raises(FormatError):
        decode_ir(stored.replace('{"Index":["a"]}', constraint))


# ---------------------------------------------------------------------------------------------- the catalog


def vessels() -> Schema:
    return parse_schema(VESSELS)


def test_the_catalog_is_resolved_and_sorted() -> None:
    catalog = vessels().catalog
    assert list(catalog.nodes) == ["Leg", "Port", "Vessel"]
    assert list(catalog.nodes["Vessel"].properties) == sorted(catalog.nodes["Vessel"].properties)
    assert catalog.nodes["Leg"].key == ("line", "seq")
    assert catalog.nodes["Vessel"].indexes == (("name",), ("code",))
    assert catalog.edges["HomePort"].unique == (("src",),)
    assert catalog.edges["CallsAt"].cardinality.maximum == 3
    assert catalog.find_edge("callsat") is catalog.edges["CallsAt"]


def test_interface_properties_are_injected_once_and_repeated_rules_count_once() -> None:
    catalog = parse_schema(
        "interface Named { name: String @index }\n"
        "node A implements Named { code: String @unique  @unique(code)  @index(name) }"
    ).catalog
    assert list(catalog.nodes["A"].properties) == ["code", "name"]
    assert catalog.nodes["A"].unique == (("code",),)
    assert catalog.nodes["A"].indexes == (("name",),)


def test_defaults_and_embeddings_are_read_from_annotations() -> None:
    node = parse_schema(
        'node A { n: I32 @default("-1")  t: String  v: Vector(2)? @embed(t, model="m", model="n") }'
    ).catalog.nodes["A"]
    assert node.properties["n"].default == "-1"
    assert node.properties["v"].embedding == Embedding("t", "n")


def test_nobody_can_change_a_catalog() -> None:
    nodes = vessels().catalog.nodes
    with pytest.raises(TypeError):
        nodes["X"] = nodes["Leg"]  # pyright: ignore[reportIndexIssue]  # that is the point


def test_a_schema_survives_pickling() -> None:
    schema = vessels()
    assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301  # our own bytes


def test_a_graph_of_an_older_release_opens_with_warnings() -> None:
    text = Source('node A { id: String  n: I32 @default("x") }\nedge E: A -> A @card(1)')
    schema = parse_schema(text, tolerated=STRICTER_THAN_0_8)
    assert [problem.code for problem in schema.warnings] == ["S103", "S206", "S111"]
    assert schema.catalog.nodes["A"].properties["n"].default is None
    assert schema.catalog.edges["E"].cardinality.maximum is None

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from omnigraph.language.schema import parse_schema
from omnigraph.language.schema.catalog import NodeType
from omnigraph.language.values import ConstantValue
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.keys import make_ids
from omnigraph.write.row_values import generate_ids

TEXTS = st.text(st.characters(codec="utf-8"))


def keyed(type_: str) -> NodeType:
    return parse_schema(f"node T {{ k: {type_} @key }}").catalog.nodes["T"]


def ids(type_: str, values: Sequence[ConstantValue]) -> list[str | None]:
    node_type = keyed(type_)
    return make_ids(node_type, pa.table({"k": arrow_values(node_type.properties["k"].type, values)})).to_pylist()


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("String", ["", "a b", "ß\n"], ["", "a b", "ß\n"]),
        ("Bool", [True, False], ["true", "false"]),
        ("I32", [-(2**31), 0, 7], ["-2147483648", "0", "7"]),
        ("I64", [-(2**63), 2**63 - 1], ["-9223372036854775808", "9223372036854775807"]),
        ("U64", [2**53 + 1, 2**64 - 1], ["9007199254740993", "18446744073709551615"]),
        ("Date", [0, -1, 19_000], ["0", "-1", "19000"]),
        ("DateTime", [0, -1, 1_704_096_000_123], ["0", "-1", "1704096000123"]),
        ("F64", [1.0, 0.5, -0.0, 0.0], ["1", "0.5", "0", "0"]),
        ("F64", [1e21, -2.5e-7, 0.1], ["1000000000000000000000", "-0.00000025", "0.1"]),
        ("F64", [math.nan, math.inf, -math.inf], [None, None, None]),
        ("F32", [0.1, 1e10, 16_777_216.0], ["0.1", "10000000000", "16777216"]),
    ],
)
def test_the_id_is_the_key_as_text(type_: str, values: list[ConstantValue], expected: list[str | None]) -> None:
    assert ids(type_, values) == expected


def test_a_key_that_is_null_gives_no_id() -> None:
    assert ids("I32", [1, None]) == ["1", None]


def test_a_key_of_several_properties_is_an_array_by_property_name() -> None:
    leg = parse_schema("node Leg { seq: I32  line: String  at: F64  @key(seq, line, at) }").catalog.nodes["Leg"]
    rows = pa.table(
        {"seq": pa.array([7, 8, None], pa.int32()), "line": ["N1", 'a"b\\c\n\x1b/é', "x"], "at": [-0.0, 1.5, 2.0]}
    )
    assert make_ids(leg, rows).to_pylist() == ['["0","N1","7"]', '["1.5","a\\"b\\\\c\\n\\u001b/é","8"]', None]


def test_a_type_without_a_key_has_no_ids_to_compute() -> None:
    with pytest.raises(ValueError, match="T has no key"):
        make_ids(parse_schema("node T { a: String }").catalog.nodes["T"], pa.table({"a": ["x"]}))


@given(st.lists(st.tuples(TEXTS, TEXTS)))
def test_an_array_of_any_texts_reads_back(keys: list[tuple[str, str]]) -> None:
    pair = parse_schema("node P { a: String  b: String  @key(a, b) }").catalog.nodes["P"]
    rows = pa.table(
        {"a": pa.array([a for a, _ in keys], pa.string()), "b": pa.array([b for _, b in keys], pa.string())}
    )
    found = make_ids(pair, rows).to_pylist()
    assert [tuple(json.loads(str(text))) for text in found] == keys
    assert found == [json.dumps(key, ensure_ascii=False, separators=(",", ":")) for key in keys]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_a_float_reads_back_and_has_no_exponent(values: list[float]) -> None:
    texts = [str(text) for text in ids("F64", values)]
    assert [float(text) for text in texts] == values
    assert all(Decimal(text) == Decimal(repr(value)) for text, value in zip(texts, values, strict=True))
    assert not any(mark in text for text in texts for mark in "eE+")


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_a_single_float_is_as_short_as_its_width_allows(values: list[float]) -> None:
    for text, value in zip(ids("F32", values), values, strict=True):
        assert struct.unpack("f", struct.pack("f", float(str(text))))[0] == value
        assert len(str(text).strip("-0.").replace(".", "")) <= 9 or abs(value) >= 1e9


def test_slices_and_chunks_are_read_as_what_they_show() -> None:
    rows = pa.concat_tables([pa.table({"k": ["a", "b", "c"]}).slice(1, 1), pa.table({"k": ["d"]})])
    assert make_ids(keyed("String"), rows).to_pylist() == ["b", "d"]
    assert make_ids(keyed("String"), rows.to_batches()[0]).to_pylist() == ["b"]


def test_fresh_ids_are_ulids_that_ascend() -> None:
    fresh = [str(id_) for id_ in generate_ids(5_000).to_pylist()]
    assert fresh == sorted(set(fresh))
    assert len(fresh) == 5_000
    before, after = ULID.from_str(fresh[0]), ULID.from_str(fresh[-1])
    assert int(after) - int(before) == 4_999
    assert abs(before.timestamp - ULID().timestamp) < 60
    assert generate_ids(0).to_pylist() == []


def test_two_calls_never_give_the_same_id() -> None:
    assert not set(generate_ids(1_000).to_pylist()) & set(generate_ids(1_000).to_pylist())

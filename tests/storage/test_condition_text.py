"""Conditions as text: what is decoded is what was encoded, and what is no text of conditions is told."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.language.query import ComparisonOperator, LogicalOperator
from omnigraph.language.types import Scalar, ValueType
from omnigraph.storage.condition_text import decode_conditions, encode_conditions
from omnigraph.storage.filters import (
    AnyCondition,
    Condition,
    JoinedConditions,
    NullCondition,
    PartCondition,
    ValueCondition,
    ValueIn,
)

TYPES = {each.name.lower(): ValueType(each) for each in Scalar}
TEXT = ValueCondition("string", TYPES["string"], ComparisonOperator.EQUAL, "it's\n\"\u2028")
CONDITIONS: list[Condition] = [
    TEXT,
    ValueCondition("u64", TYPES["u64"], ComparisonOperator.LESS, 2**64 - 1),
    ValueCondition("i64", TYPES["i64"], ComparisonOperator.GREATER_OR_EQUAL, -(2**63)),
    ValueCondition("f64", TYPES["f64"], ComparisonOperator.LESS_OR_EQUAL, 0.1 + 0.2),
    ValueCondition("f32", TYPES["f32"], ComparisonOperator.GREATER, 1e-45),
    ValueCondition("bool", TYPES["bool"], ComparisonOperator.EQUAL, False),
    ValueCondition("date", TYPES["date"], ComparisonOperator.NOT_EQUAL, -719_162),
    ValueCondition("datetime", TYPES["datetime"], ComparisonOperator.LESS, 253_402_300_799_999),
    ValueCondition("string", TYPES["string"], None),
    PartCondition("string", ComparisonOperator.STARTS_WITH, "50%_ it's\\"),
    NullCondition("date"),
    AnyCondition("i32"),
    AnyCondition("i32", (ValueCondition("i32", TYPES["i32"], ComparisonOperator.EQUAL, 3), NullCondition("i32"))),
    ValueIn(("id", "string"), pa.array(["a", "it's"], pa.string())),
    ValueIn(("id",), pa.array([], pa.string())),
    JoinedConditions(LogicalOperator.OR, (TEXT, JoinedConditions(LogicalOperator.AND, (NullCondition("date"), TEXT)))),
]


def test_what_is_decoded_is_what_was_encoded() -> None:
    decoded = decode_conditions(encode_conditions(CONDITIONS), TYPES.__getitem__)
    assert [each.to_sql() for each in decoded] == [each.to_sql() for each in CONDITIONS]
    assert [each for each in decoded if not isinstance(each, ValueIn)] == [
        each for each in CONDITIONS if not isinstance(each, ValueIn)
    ]


@pytest.mark.parametrize(
    "text",
    ["", "{}x", "3", '["x"]', "[[]]", '[["no"]]', '[["compare", "string"]]', '[["compare", "string", "~", 1]]',
     '[["null"]]', '[["join", "xor", []]]', '[["compare", "other", "=", 1]]'],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        decode_conditions(text, TYPES.__getitem__)

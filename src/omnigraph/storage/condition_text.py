"""Conditions on rows as JSON text, so that an option of a data source can carry them to other processes.

Columns have their types in the schema, so the text has only names, operators and values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import pyarrow as pa

from omnigraph.language.query import ComparisonOperator, LogicalOperator
from omnigraph.language.types import ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.storage.filters import (
    AnyCondition,
    Condition,
    JoinedConditions,
    NullCondition,
    PartCondition,
    ValueCondition,
    ValueIn,
)

_Encoded: TypeAlias = list[object]
TypeOfColumn: TypeAlias = Callable[[str], ValueType]


def encode_conditions(conditions: Sequence[Condition]) -> str:
    """Encode conditions as the text that :func:`decode_conditions` reads."""
    # Not with orjson: a number may exceed 64 bits.
    return json.dumps([_encode(each) for each in conditions])


def _encode(condition: Condition) -> _Encoded:
    match condition:
        case ValueCondition():
            return ["compare", condition.column, condition.operator, condition.value]
        case PartCondition():
            return ["part", condition.column, condition.operator, condition.text]
        case NullCondition():
            return ["null", condition.column]
        case AnyCondition():
            return ["any", condition.column, [_encode(each) for each in condition.conditions]]
        case JoinedConditions():
            return ["join", condition.operator, [_encode(each) for each in condition.conditions]]
        case ValueIn():
            return ["in", list(condition.columns), condition.values.to_pylist()]
        case _:
            raise AssertionError(f"{type(condition).__name__} has no text")


def decode_conditions(text: str, type_of: TypeOfColumn) -> list[Condition]:
    """Decode the text of conditions; ``type_of`` returns the type of a column. Raises ``ValueError`` if it is none."""
    try:
        return [_decode(each, type_of) for each in cast("list[_Encoded]", json.loads(text))]
    except (TypeError, KeyError, IndexError) as error:
        raise ValueError("not the text of conditions") from error


def _decode(encoded: _Encoded, type_of: TypeOfColumn) -> Condition:
    word, *rest = encoded
    match word:
        case "compare":
            column, operator, value = cast("tuple[str, str | None, ConstantValue]", rest)
            compared = None if operator is None else ComparisonOperator(operator)
            return ValueCondition(column, type_of(column), compared, value)
        case "part":
            column, operator, part = cast("tuple[str, str, str]", rest)
            return PartCondition(column, ComparisonOperator(operator), part)
        case "null":
            return NullCondition(cast(str, rest[0]))
        case "any":
            column, parts = cast("tuple[str, list[_Encoded]]", rest)
            return AnyCondition(column, tuple(_decode(each, type_of) for each in parts))
        case "join":
            operator, parts = cast("tuple[str, list[_Encoded]]", rest)
            return JoinedConditions(LogicalOperator(operator), tuple(_decode(each, type_of) for each in parts))
        case "in":
            columns, values = cast("tuple[list[str], list[str]]", rest)
            return ValueIn(tuple(columns), pa.array(values, pa.string()))
        case _:
            raise ValueError(f"no condition {word!r}")

"""Parse the columns and filters of a scan: ``{"age": 30}``, or ``[("age", ">", 30), ("name", "in", ["Ann"])]``.

All conditions must hold. Values are checked against the schema and never pasted into the text of a filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, SupportsIndex, TypeAlias, cast

import pyarrow as pa

from omnigraph.errors import Json, ParameterError
from omnigraph.language.operators import ComparisonOperator
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import suggest_name
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ValueMismatch, convert_value, fit_to_f32
from omnigraph.read.rows.type_rows import PUBLIC_NAMES, value_columns_of
from omnigraph.storage.filters import (
    PART_OPERATORS,
    AnyCondition,
    Condition,
    NullCondition,
    PartCondition,
    ValueCondition,
    ValueIn,
    compare_column,
)

Filter: TypeAlias = Mapping[str, object] | Iterable[tuple[str, str, object]]
"""The values that columns must have, or triples of column, operator and value. None means null."""

_IN: Final = "in"
_TEXT: Final = ValueType(Scalar.STRING)
_FLOAT: Final = ValueType(Scalar.F64)
_COMPARISONS: Final = {
    each.value: each
    for each in (
        ComparisonOperator.EQUAL,
        ComparisonOperator.NOT_EQUAL,
        ComparisonOperator.LESS,
        ComparisonOperator.LESS_OR_EQUAL,
        ComparisonOperator.GREATER,
        ComparisonOperator.GREATER_OR_EQUAL,
    )
}
_NULL_TESTS: Final = (ComparisonOperator.EQUAL.value, ComparisonOperator.NOT_EQUAL.value)
_PARTS: Final = {each.value: each for each in PART_OPERATORS}
_FILTER_HINT: Final = 'write {"age": 30}, or [("age", ">", 30), ("name", "in", ["Ann", "Bo"])]'


class _Problem(NamedTuple):
    """One error in a list of columns or a filter."""

    message: str
    hint: str | None = None


# --------------------------------------------------------------------------------------------- columns


def resolve_columns(type_: NodeType | EdgeType, names: Sequence[str] | None) -> list[str]:
    """Return the table columns of public names; without names, all columns that are not blobs."""
    if names is None:
        return value_columns_of(type_)
    if not names:
        raise ParameterError(f"columns is {names!r}", hint='give a list of names, such as ["id", "name"]')
    found = [_resolve_column(type_, name) for name in names]
    problems = [each for each in found if isinstance(each, _Problem)]
    if len(set(names)) < len(names):
        repeated = next(name for at, name in enumerate(names) if name in names[:at])
        problems.append(_Problem(f"column '{repeated}' is given twice", "name each column once"))
    _refuse_problems(problems)
    return cast("list[str]", found)


def _resolve_column(type_: NodeType | EdgeType, name: str) -> str | _Problem:
    """Return the table column of a public name."""
    if _is_blob(type_, name):
        hint = f"read it with graph.blob({type_.name!r}, id, {name!r})"
        return _Problem(f"'{name}' is a blob, which a scan does not read", hint)
    known = {PUBLIC_NAMES.get(column, column): column for column in value_columns_of(type_)}
    if name in known:
        return known[name]
    if name in PUBLIC_NAMES and isinstance(type_, EdgeType):
        return _Problem(f"{type_.name} has no column '{name}'", f"did you mean '{PUBLIC_NAMES[name]}'?")
    return _Problem(f"{type_.name} has no column '{name}'", suggest_name(str(name), known, "columns"))


def _is_blob(type_: NodeType | EdgeType, name: str) -> bool:
    property_ = type_.properties.get(name)
    return property_ is not None and property_.type.scalar is Scalar.BLOB


# --------------------------------------------------------------------------------------------- conditions


def parse_filter(type_: NodeType | EdgeType, given: Filter | None) -> list[Condition]:
    """Parse a filter on the rows of a type; all errors are reported together."""
    found = [_parse_condition(type_, *each) for each in _to_triples(given)]
    _refuse_problems([each for each in found if isinstance(each, _Problem)])
    return [each for each in found if not isinstance(each, _Problem)]


def _to_triples(given: object) -> list[tuple[str, str, object]]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [(name, "=", value) for name, value in cast("Mapping[str, object]", given).items()]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ParameterError(f"the filter is {type(given).__name__}", hint=_FILTER_HINT)
    triples: list[tuple[str, str, object]] = []
    for each in cast("Iterable[object]", given):
        parts = tuple(cast("Sequence[object]", each)) if isinstance(each, tuple | list) else ()
        if len(parts) != 3 or not (isinstance(parts[0], str) and isinstance(parts[1], str)):
            raise ParameterError(f"a filter holds {each!r}", hint=_FILTER_HINT)
        triples.append((parts[0], parts[1], parts[2]))
    return triples


def _parse_condition(type_: NodeType | EdgeType, name: str, operator: str, value: object) -> Condition | _Problem:
    if _is_blob(type_, name) and value is None and operator in _NULL_TESTS:
        return _build_comparison(name, type_.properties[name].type, _COMPARISONS[operator], None)
    column = _resolve_column(type_, name)
    if isinstance(column, _Problem):
        return column
    declared = type_.properties[column].type if column in type_.properties else _TEXT
    if declared.is_list or declared.scalar is Scalar.VECTOR:
        return _Problem(
            f"'{name}' is {declared}, which cannot be compared", "use a query to look into lists and vectors"
        )
    try:
        if operator == _IN:
            return _build_membership(column, declared, value)
        if operator in _PARTS and declared.scalar is Scalar.STRING:
            return PartCondition(column, _PARTS[operator], cast(str, convert_value(value, _TEXT)))
        if operator not in _COMPARISONS:
            parts = _PARTS if declared.scalar is Scalar.STRING else ()
            hint = f"use {', '.join([*_COMPARISONS, *parts, _IN])}"
            return _Problem(f"'{name}': {declared} has no operator '{operator}'", hint)
        return _build_comparison(column, declared, _COMPARISONS[operator], value)
    except ValueMismatch as mismatch:
        return _Problem(f"'{name}': {mismatch.message}", mismatch.hint)


def _build_comparison(column: str, type_: ValueType, operator: ComparisonOperator, value: object) -> Condition:
    if value is None:
        if operator is ComparisonOperator.EQUAL:
            return NullCondition(column)
        if operator is ComparisonOperator.NOT_EQUAL:
            return ValueCondition(column, type_, None)
        raise ValueMismatch("null has no order", "compare it with = or !=")
    constant = _to_number(value, type_) if type_.is_number else convert_value(value, type_)
    return compare_column(column, type_, operator, constant) or AnyCondition(column)


def _to_number(value: object, type_: ValueType) -> int | float:
    """Return a number as it is, even if no value of the column has it. A decimal next to an F32 means the nearest."""
    as_float = cast(float, convert_value(value, _FLOAT))
    if isinstance(value, SupportsIndex):
        return value.__index__()
    return fit_to_f32(as_float) if type_.scalar is Scalar.F32 else as_float


def _build_membership(column: str, type_: ValueType, value: object) -> Condition:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ValueMismatch(
            f"'in' is followed by {type(cast(object, value)).__name__}", 'give a list, such as ["Ann", "Bo"]'
        )
    values = list(cast("Iterable[object]", value))
    if type_.scalar is Scalar.STRING:
        texts = [cast(str, convert_value(each, replace(type_, nullable=False))) for each in values]
        return ValueIn((column,), pa.array(texts, pa.string()))
    return AnyCondition(
        column, tuple(_build_comparison(column, type_, ComparisonOperator.EQUAL, each) for each in values)
    )


def _refuse_problems(problems: Sequence[_Problem]) -> None:
    if problems:
        messages: list[Json] = [each.message for each in problems]
        hint = next((each.hint for each in problems if each.hint), None)
        raise ParameterError("; ".join(map(str, messages)), hint=hint, details={"problems": messages})

"""Conditions on the rows of one table: as the filter text that Lance reads, and as a mask over rows in memory.

Both forms of a condition answer alike, in three-valued logic: a null matches nothing. Engines round and overflow where
a number meets a column of another type, each in its own way, so a number is brought to the column's type here first,
together with its operator, such that the answer stays exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query import ComparisonOperator
from omnigraph.language.types import INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import ConstantValue, from_days, round_to_f32
from omnigraph.storage.arrow_schema import arrow_values

MAX_LISTED_VALUES: Final = 2_000
"""Beyond so many values one scan of the column is cheaper than a filter that lists them."""

_MAX_OR_CONDITIONS: Final = 50
"""Conditions side by side nest in the engine, one level for each."""

Mask: TypeAlias = pa.BooleanArray
_LEAST_I64: Final = -(2**63)


class Condition(Protocol):
    """What a row must fulfil."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are looked at."""
        ...

    def to_sql(self) -> str | None:
        """The filter for a scan; None where it would be too long and the mask has to do."""
        ...

    def evaluate(self, rows: pa.Table) -> Mask:
        """For each row in memory whether it fulfils the condition, or null."""
        ...


# --------------------------------------------------------------------------------------------- comparisons


@dataclass(frozen=True, slots=True)
class ValueCondition:
    """``column operator value``; the value is exactly one of the column's type. Without operator: any value at all."""

    column: str
    type: ValueType
    operator: ComparisonOperator | None
    value: ConstantValue = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def to_sql(self) -> str:
        """The comparison in the SQL of Lance filters."""
        name = quote_name(self.column)
        if self.operator is None:
            return f"{name} IS NOT NULL"
        return f"{name} {self.operator.value} {_literal(self.value, self.type.scalar)}"

    def evaluate(self, rows: pa.Table) -> Mask:
        """The comparison by Arrow."""
        column = rows[self.column]
        if self.operator is None:
            return pc.is_valid(column)
        value = arrow_values(self.type, [self.value])[0]
        return cast(Mask, pc.call_function(_KERNELS[self.operator], [column, value]))


def compare_column(
    column: str, type_: ValueType, operator: ComparisonOperator, value: ConstantValue
) -> ValueCondition | None:
    """``column operator value`` for a value of any type that compares with the column. None: nothing matches, ever."""
    if value is None:
        return None
    if not type_.is_number:
        return ValueCondition(column, type_, operator, value)
    number = cast("int | float", value)
    below = _greatest_up_to(number, type_.scalar)
    if below == number:
        return ValueCondition(column, type_, operator, below)
    match operator:
        case ComparisonOperator.LESS | ComparisonOperator.LESS_OR_EQUAL:
            return None if below is None else ValueCondition(column, type_, ComparisonOperator.LESS_OR_EQUAL, below)
        case ComparisonOperator.GREATER | ComparisonOperator.GREATER_OR_EQUAL if below is not None:
            return ValueCondition(column, type_, ComparisonOperator.GREATER, below)
        case ComparisonOperator.EQUAL:
            return None
        case _:
            return ValueCondition(column, type_, None)


def _greatest_up_to(number: float, scalar: Scalar) -> int | float | None:
    """The greatest value of a type that is not above a number; Python compares integers with floats exactly."""
    if scalar in INTEGER_RANGES:
        allowed = INTEGER_RANGES[scalar]
        return None if number < allowed[0] else min(math.floor(number), allowed[-1])
    nearest = round_to_f32(float(number)) if scalar is Scalar.F32 else float(number)
    if nearest > number:
        width = np.float32 if scalar is Scalar.F32 else np.float64
        nearest = float(np.nextafter(width(nearest), width(-math.inf)))
    return nearest if math.isfinite(nearest) else None


_KERNELS: Final = {
    ComparisonOperator.EQUAL: "equal",
    ComparisonOperator.NOT_EQUAL: "not_equal",
    ComparisonOperator.LESS: "less",
    ComparisonOperator.LESS_OR_EQUAL: "less_equal",
    ComparisonOperator.GREATER: "greater",
    ComparisonOperator.GREATER_OR_EQUAL: "greater_equal",
}


@dataclass(frozen=True, slots=True)
class NullCondition:
    """The column has no value."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def to_sql(self) -> str:
        """The test in the SQL of Lance filters."""
        return f"{quote_name(self.column)} IS NULL"

    def evaluate(self, rows: pa.Table) -> Mask:
        """The test by Arrow."""
        return pc.is_null(rows[self.column])


@dataclass(frozen=True, slots=True)
class AnyCondition:
    """One of several conditions on a column holds; without any, nothing matches."""

    column: str
    conditions: tuple[Condition, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def to_sql(self) -> str | None:
        """The conditions side by side, if they are few."""
        texts = [condition.to_sql() for condition in self.conditions]
        if len(texts) > _MAX_OR_CONDITIONS or None in texts:
            return None
        return " OR ".join(f"({text})" for text in texts) or "false"

    def evaluate(self, rows: pa.Table) -> Mask:
        """The conditions one after the other, by Arrow."""
        mask: Mask = pa.array(np.zeros(rows.num_rows, np.bool_))
        for condition in self.conditions:
            mask = pc.or_kleene(mask, condition.evaluate(rows))
        return mask


# --------------------------------------------------------------------------------------------- sets of ids


@dataclass(frozen=True, slots=True)
class ValueIn:
    """One of the columns, all of them texts, holds one of the values."""

    columns: tuple[str, ...]
    values: pa.StringArray

    def to_sql(self) -> str | None:
        """The values listed once for each column, if they are few."""
        if len(self.values) > MAX_LISTED_VALUES:
            return None
        return " OR ".join(list_filter(column, self.values) for column in self.columns)

    def evaluate(self, rows: pa.Table) -> Mask:
        """Whether a value is found in any of the columns."""
        found = [pc.is_in(rows[column], value_set=self.values) for column in self.columns]
        mask = found[0]
        for other in found[1:]:
            mask = pc.or_(mask, other)
        return mask


# --------------------------------------------------------------------------------------------- SQL texts


def list_filter(column: str, texts: pa.StringArray) -> str:
    """The filter that lists texts for a column."""
    listed = ", ".join(quote_text(text) for text in cast("list[str]", texts.to_pylist()))
    return f"{quote_name(column)} IN ({listed})" if listed else "false"


def quote_name(column: str) -> str:
    """A column as Lance filters name it, whatever its case."""
    return f"`{column}`"


def quote_text(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def _literal(value: ConstantValue, scalar: Scalar) -> str:
    match value:
        case str():
            return quote_text(value)
        case bool():
            return "true" if value else "false"
        case int() if scalar is Scalar.DATE:
            return f"DATE '{from_days(value).isoformat()}'"
        case int() if scalar is Scalar.DATETIME:
            # A timestamp would be compared in nanoseconds, which end in the year 2262.
            return f"arrow_cast({value}, 'Date64')"
        case int() if value == _LEAST_I64:
            # Read as the minus of a number that is too large.
            return f"arrow_cast('{value}', 'Int64')"
        case _:
            return repr(value)

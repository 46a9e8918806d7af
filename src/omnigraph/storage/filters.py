"""Conditions on the rows of one table: as SQL text for a Lance scan, and as a mask over rows in memory.

Both forms give the same result, in three-valued logic: a null matches nothing. Engines round and overflow differently
when they compare a number with a column of another type. So the number, together with its operator, is converted to
the column's type first, such that the result stays exact.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.operators import ComparisonOperator, LogicalOperator
from omnigraph.language.types import INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import ConstantValue, from_days, round_to_f32
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.arrow_schema import arrow_values

MAX_LISTED_VALUES: Final = 2_000
"""For more values a scan of the column is cheaper than a filter that lists them."""

_MAX_OR_CONDITIONS: Final = 50
"""The engine nests a chain of OR conditions, one level for each."""

Mask: TypeAlias = pa.BooleanArray
_LEAST_I64: Final = -(2**63)


class Condition(Protocol):
    """A condition on a row."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        ...

    def to_sql(self) -> str | None:
        """Return the filter for a scan; None if it would be too long, so that only the mask can be used."""
        ...

    def evaluate(self, rows: pa.Table) -> Mask:
        """Return for each row in memory whether it matches, or null."""
        ...


# --------------------------------------------------------------------------------------------- comparisons


@dataclass(frozen=True, slots=True)
class ValueCondition:
    """``column operator value``, where the value has the column's type; without operator: is not null."""

    column: str
    type: ValueType
    operator: ComparisonOperator | None
    value: ConstantValue = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def to_sql(self) -> str:
        """Return the comparison as SQL."""
        name = quote_name(self.column)
        if self.operator is None:
            return f"{name} IS NOT NULL"
        return f"{name} {self.operator.value} {_literal(self.value, self.type.scalar)}"

    def evaluate(self, rows: pa.Table) -> Mask:
        """Evaluate the comparison with Arrow."""
        column = rows[self.column]
        if self.operator is None:
            return pc.is_valid(column)
        value = arrow_values(self.type, [self.value])[0]
        return cast(Mask, pc.call_function(_KERNELS[self.operator], [column, value]))


def compare_column(
    column: str, type_: ValueType, operator: ComparisonOperator, value: ConstantValue
) -> ValueCondition | None:
    """Return ``column operator value`` for a value of any comparable type; None if no row can ever match."""
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
    """Return the greatest value of a type that is not above a number. Python compares int and float exactly."""
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
class PartCondition:
    """A text column contains a text, starts with it or ends with it."""

    column: str
    operator: ComparisonOperator
    text: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def to_sql(self) -> str:
        """Return the test as a function call, which Lance answers by an index if there is one."""
        return f"{PART_OPERATORS[self.operator]}({quote_name(self.column)}, {quote_text(self.text)})"

    def evaluate(self, rows: pa.Table) -> Mask:
        """Evaluate the test with Arrow."""
        kernel = "match_substring" if self.operator is ComparisonOperator.CONTAINS else PART_OPERATORS[self.operator]
        return cast(Mask, pc.call_function(kernel, [rows[self.column]], pc.MatchSubstringOptions(self.text)))


PART_OPERATORS: Final = {
    ComparisonOperator.CONTAINS: "contains",
    ComparisonOperator.STARTS_WITH: "starts_with",
    ComparisonOperator.ENDS_WITH: "ends_with",
}
"""The operators that look for a part of a text, with the functions of SQL."""


@dataclass(frozen=True, slots=True)
class NullCondition:
    """The column is null."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def to_sql(self) -> str:
        """Return the test as SQL."""
        return f"{quote_name(self.column)} IS NULL"

    def evaluate(self, rows: pa.Table) -> Mask:
        """Evaluate the test with Arrow."""
        return pc.is_null(rows[self.column])


@dataclass(frozen=True, slots=True)
class AnyCondition:
    """At least one of several conditions on a column holds; without conditions nothing matches."""

    column: str
    conditions: tuple[Condition, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def to_sql(self) -> str | None:
        """Return the conditions joined by OR, if they are few."""
        texts = [condition.to_sql() for condition in self.conditions]
        if len(texts) > _MAX_OR_CONDITIONS or None in texts:
            return None
        return " OR ".join(f"({text})" for text in texts) or "false"

    def evaluate(self, rows: pa.Table) -> Mask:
        """Evaluate the conditions one after another with Arrow."""
        mask: Mask = pa.array(np.zeros(rows.num_rows, np.bool_))
        for condition in self.conditions:
            mask = pc.or_kleene(mask, condition.evaluate(rows))
        return mask


@dataclass(frozen=True, slots=True)
class JoinedConditions:
    """Several conditions, on any columns, of which all or at least one holds."""

    operator: LogicalOperator
    conditions: tuple[Condition, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all conditions."""
        return tuple(dict.fromkeys(column for condition in self.conditions for column in condition.columns))

    @property
    def size(self) -> int:
        """The number of conditions, those inside others too."""
        return sum(each.size if isinstance(each, JoinedConditions) else 1 for each in self.conditions)

    def to_sql(self) -> str | None:
        """Return the conditions joined, if they are few."""
        texts = [condition.to_sql() for condition in self.conditions] if self.size <= _MAX_OR_CONDITIONS else [None]
        return None if None in texts else f" {self.operator.upper()} ".join(f"({text})" for text in texts)

    def evaluate(self, rows: pa.Table) -> Mask:
        """Evaluate the conditions one after another with Arrow."""
        kernel = "and_kleene" if self.operator is LogicalOperator.AND else "or_kleene"
        first, *rest = (condition.evaluate(rows) for condition in self.conditions)
        return reduce(lambda one, other: cast(Mask, pc.call_function(kernel, [one, other])), rest, first)


# --------------------------------------------------------------------------------------------- sets of ids


@dataclass(frozen=True, slots=True)
class ValueIn:
    """At least one of some text columns holds one of the values."""

    columns: tuple[str, ...]
    given: pa.StringArray | tuple[str, ...]
    """The values: a few texts, or a column."""

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.given)

    @property
    def values(self) -> pa.StringArray:
        """The values as a column."""
        return pa.array(self.given, pa.string()) if isinstance(self.given, tuple) else self.given

    def to_sql(self) -> str | None:
        """Return the values as a list for each column, if they are few."""
        if self.count > MAX_LISTED_VALUES:
            return None
        return " OR ".join(list_filter(column, self.given) for column in self.columns)

    def evaluate(self, rows: pa.Table) -> Mask:
        """Look the values up in each of the columns."""
        found = [pc.is_in(rows[column], value_set=self.values) for column in self.columns]
        mask = found[0]
        for other in found[1:]:
            mask = pc.or_(mask, other)
        return mask


# --------------------------------------------------------------------------------------------- SQL texts


def list_filter(column: str, texts: pa.StringArray | tuple[str, ...]) -> str:
    """Return the filter ``column IN (texts)``."""
    listed = ", ".join(map(quote_text, texts if isinstance(texts, tuple) else cast("list[str]", texts.to_pylist())))
    return f"{quote_name(column)} IN ({listed})" if listed else "false"


def quote_name(column: str) -> str:
    """Return a column name quoted for Lance filters, which keeps its case."""
    return f"`{column}`"


def quote_text(value: str) -> str:
    """Return a text as an SQL literal."""
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
            # A timestamp literal would be compared in nanoseconds, which end in the year 2262.
            return f"arrow_cast({value}, 'Date64')"
        case int() if value == _LEAST_I64:
            # SQL would read it as the negation of a number that is too large.
            return f"arrow_cast('{value}', 'Int64')"
        case _:
            return repr(value)

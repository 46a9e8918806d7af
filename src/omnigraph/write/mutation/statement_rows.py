"""The rows that the statements of a mutation run for, and the values of expressions in them, as columns.

Without a match there is one row, of parameters. A value that does not fit its property is found for whole columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import ParameterError, ValidationError, Violation
from omnigraph.language.query import (
    AssignedValue,
    Constant,
    Expression,
    Now,
    ParameterValue,
    find_failure,
    print_expression,
    walk_expression,
)
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import FLOATS, INTEGER_RANGES, INTEGERS, NUMBERS, Scalar, ValueType
from omnigraph.language.values import ConstantValue, ValueMismatch, convert_value, is_rounded
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import to_blob_array
from omnigraph.storage.arrow_schema import arrow_type, arrow_values
from omnigraph.storage.columns import Values, compute, find_true, to_bool_array, to_list
from omnigraph.violation_groups import count_violations
from omnigraph.write.rounding import NO_ROWS, RoundedColumn, find_rounded_numbers, is_identifying
from omnigraph.write.row_values import InvalidBlob, parse_blob

MAX_VIOLATIONS: Final = 100
_ROUNDING: Final = FLOATS | {Scalar.DATETIME}
"""The types that can round a value."""


@dataclass(frozen=True, slots=True)
class StatementRows:
    """What expressions have as values in one call: parameters, the time in milliseconds since 1970, and columns.

    ``columns`` holds the expressions whose value is not the same in all of the ``count`` rows, or is computed.
    ``rounded_parameters`` are the parameters whose type rounded their value.
    """

    parameters: Mapping[str, ConstantValue]
    now: int
    count: int = 1
    columns: Mapping[Expression, Values] = field(default_factory=dict[Expression, "Values"])
    rounded_parameters: frozenset[str] = frozenset()

    def evaluate(self, expression: Expression) -> ConstantValue:
        """Return the value of an expression that is the same in every row."""
        match expression:
            case Constant(value):
                return value
            case ParameterValue(name):
                return self.parameters[name]
            case Now():
                return self.now
            case _:
                raise AssertionError(f"{type(expression).__name__} has a value of its own in each row")

    def varies(self, expression: Expression) -> bool:
        """Whether an expression has a column."""
        return expression in self.columns

    def select(self, chosen: pa.BooleanArray) -> StatementRows:
        """Return the chosen rows."""
        places = find_true(cast("Values", chosen))
        if len(places) == self.count:
            return self
        columns = {expression: values.take(places) for expression, values in self.columns.items()}
        return replace(self, count=len(places), columns=columns)

    def build_texts(self, expression: Expression) -> Values:
        """Return an expression of type String as a column."""
        return self.columns[expression] if self.varies(expression) else self._repeat_text(expression)

    def _repeat_text(self, expression: Expression) -> Values:
        return _repeat(arrow_values(ValueType(Scalar.STRING), [self.evaluate(expression)]), self.count)

    def build_columns(
        self, type_: NodeType | EdgeType, assignments: tuple[AssignedValue, ...], ids: Values | None = None
    ) -> dict[str, Values]:
        """Return the assigned values as columns of a type's table; ``ids`` are the entities that get them, if known."""
        columns: dict[str, Values] = {}
        violations: list[Violation] = []
        for assignment in assignments:
            target = type_.properties[assignment.name].type
            if self.varies(assignment.value):
                given = self.columns[assignment.value]
                violations += self._describe_failures(type_, assignment, ids)
                misfits = _find_misfits(given, assignment.value.type, target)
                violations += _describe_misfits(type_, assignment.name, given, misfits, ids)
                columns[assignment.name] = given.cast(arrow_type(target), safe=False)
            else:
                columns[assignment.name] = _repeat(self._build_one(target, assignment), self.count)
        if violations:
            raise make_violation_error(violations)
        return columns

    def find_rounded(
        self, type_: NodeType | EdgeType, assignments: tuple[AssignedValue, ...]
    ) -> tuple[RoundedColumn, ...]:
        """Return the properties whose assigned values are rounded; ``ValidationError`` if one identifies an entity."""
        rounded: list[RoundedColumn] = []
        for assignment in assignments:
            name, target = assignment.name, type_.properties[assignment.name].type
            rows = self._find_rounded_rows(assignment.value, target) if target.scalar in _ROUNDING else NO_ROWS
            if not len(rows):
                continue
            if is_identifying(type_, name):
                reason = f"{print_expression(assignment.value)} would be rounded to another {target.scalar}"
                raise make_violation_error([_describe_value_of(type_, name, None, reason)])
            rounded.append(RoundedColumn(type_.name, name, len(rows), None, int(rows[0]) + 1, type_.table_key))
        return tuple(rounded)

    def _find_rounded_rows(self, value: Expression, target: ValueType) -> npt.NDArray[np.int64]:
        every = np.arange(self.count)
        used = (part.name for part in walk_expression(value) if isinstance(part, ParameterValue))
        if (isinstance(value, Constant) and value.is_rounded) or not self.rounded_parameters.isdisjoint(used):
            return every
        if target.scalar not in FLOATS or target.is_list:
            return NO_ROWS
        if self.varies(value):
            given = self.columns[value]
            return find_rounded_numbers(given, given.cast(arrow_type(target), safe=False))
        given = self.evaluate(value)
        return every if is_rounded(given, _convert_number(given, target)) else NO_ROWS

    def _describe_failures(
        self, type_: NodeType | EdgeType, assignment: AssignedValue, ids: Values | None
    ) -> list[Violation]:
        """Describe the rows in which an assigned value is null because it could not be computed."""
        failure = find_failure(assignment.value)
        failed = NO_ROWS if failure is None else find_true(self.columns[failure])[:MAX_VIOLATIONS]
        if not len(failed):
            return []
        reason = f"{print_expression(assignment.value)} overflows, or divides by zero"
        return [_describe_value_of(type_, assignment.name, owner, reason) for owner in _find_owners(failed, ids)]

    def _build_one(self, target: ValueType, assignment: AssignedValue) -> Values:
        """Return the value that all rows share, as a column of one row."""
        value = self.evaluate(assignment.value)
        try:
            if target.scalar is Scalar.BLOB:
                return to_blob_array([None if value is None else parse_blob(cast(str, value))])
            return arrow_values(target, [_convert_number(value, target)])
        except (ValueMismatch, InvalidBlob) as mismatch:
            hint = mismatch.hint if isinstance(mismatch, ValueMismatch) else "give base64:... or a URI"
            raise ParameterError(f"{_describe_value(assignment)}: {mismatch}", hint=hint) from mismatch


def make_violation_error(violations: Sequence[Violation]) -> ValidationError:
    """Return the error of a mutation that breaks rules: it lists the first violations and counts all."""
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    groups = count_violations(violations).to_groups()
    return ValidationError(f"{violations[0].message}{more}", violations[:MAX_VIOLATIONS], groups=groups)


def _repeat(one: Values, count: int) -> Values:
    return one if count == 1 else one.take(np.zeros(count, np.int64))


def _convert_number(value: ConstantValue, target: ValueType) -> ConstantValue:
    """Convert a number to the width of the property. Rules check enums later, with all other rows."""
    return convert_value(value, target.as_nullable()) if target.scalar in NUMBERS else value


def _describe_value(assignment: AssignedValue) -> str:
    given = assignment.value
    return (
        f"param '{given.name}' for '{assignment.name}'" if isinstance(given, ParameterValue) else f"'{assignment.name}'"
    )


# --------------------------------------------------------------------------------------------- values that do not fit


def _find_misfits(values: Values, given: ValueType, target: ValueType) -> npt.NDArray[np.int64]:
    """Return the rows whose number, or a number in whose list, the type of a property cannot hold."""
    if given.scalar is target.scalar or target.scalar not in NUMBERS:
        return np.zeros(0, np.int64)
    if not target.is_list:
        return np.flatnonzero(_is_misfit(values, given, target))
    misfits = np.flatnonzero(_is_misfit(compute("list_flatten", values), given, target))
    rows = compute("list_parent_indices", values).to_numpy(zero_copy_only=False)
    return np.unique(rows[misfits]).astype(np.int64)


def _is_misfit(numbers: Values, given: ValueType, target: ValueType) -> npt.NDArray[np.bool_]:
    if target.scalar in FLOATS:
        # Only an F64 that is too large for F32 does not fit; numbers of a query are finite.
        return to_bool_array(compute("is_inf", numbers.cast(arrow_type(target.item), safe=False)))
    assert {given.scalar, target.scalar} <= INTEGERS, "the checker lets no other number through"
    held, taken = INTEGER_RANGES[given.scalar], INTEGER_RANGES[target.scalar]
    misfit = np.zeros(len(numbers), np.bool_)
    if held[0] < taken[0]:
        misfit |= to_bool_array(compute("less", numbers, pa.scalar(taken[0], numbers.type)))
    if held[-1] > taken[-1]:
        misfit |= to_bool_array(compute("greater", numbers, pa.scalar(taken[-1], numbers.type)))
    return misfit


def _describe_misfits(
    type_: NodeType | EdgeType, name: str, values: Values, misfits: npt.NDArray[np.int64], ids: Values | None
) -> list[Violation]:
    shown = misfits[:MAX_VIOLATIONS]
    if not len(shown):
        return []
    declared = replace(type_.properties[name].type, nullable=False)
    found: list[Violation] = []
    for value, owner in zip(to_list(values.take(shown)), _find_owners(shown, ids), strict=True):
        try:
            convert_value(value, declared)
        except ValueMismatch as mismatch:
            found.append(_describe_value_of(type_, name, owner, mismatch.message, str(value)))
    return found


def _find_owners(rows: npt.NDArray[np.int64], ids: Values | None) -> list[str | None]:
    """Return the ids of the entities that get the values of some rows; None where they are not known."""
    return [None] * len(rows) if ids is None else cast("list[str | None]", to_list(ids.take(rows)))


def _describe_value_of(
    type_: NodeType | EdgeType, name: str, owner: str | None, reason: str, value: str | None = None
) -> Violation:
    declared = str(replace(type_.properties[name].type, nullable=False))
    of_entity = "" if owner is None else f" of '{owner}'"
    return Violation(
        type_.name,
        declared,
        f"{declared} on {type_.name}: '{name}'{of_entity}: {reason}",
        id=owner,
        property=name,
        value=value,
        table_key=type_.table_key,
    )

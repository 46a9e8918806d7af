"""Check computed values: arithmetic, and the one type in which the values of ``case`` and ``coalesce`` meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from omnigraph.language.query import ast
from omnigraph.language.query.check.names import is_node_variable, is_null
from omnigraph.language.query.check.scope import QueryScope
from omnigraph.language.query.typed_tree import Arithmetic, Choose, Constant, Expression, Predicate
from omnigraph.language.types import FLOATS, INTEGERS, NUMBERS, Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass

_FLOAT = ValueType(Scalar.F64)
_INTEGER = ValueType(Scalar.I64)


# ------------------------------------------------------------------------------------------------ arithmetic


def apply_arithmetic(
    operation: ast.ArithmeticOperation, operands: tuple[Expression, ...], scope: QueryScope
) -> Arithmetic | None:
    """Check an operation on checked operands."""
    signs = (operation.operators[0], *operation.operators)
    known = True
    for sign, written, operand in zip(signs, operation.operands, operands, strict=True):
        if not operand.type.is_number:
            known = False
            found = "a node" if is_node_variable(written, operand) else describe_value(operand)
            scope.reject("T31", f"{sign} works on numbers, not on {found}", written.span, _suggest(operand.type))
    if not known:
        return None
    is_float = ast.ArithmeticOperator.DIVIDE in operation.operators or any(
        operand.type.scalar in FLOATS for operand in operands
    )
    # A step may not fit, and a division may be by zero: any result can be null.
    return Arithmetic(operands, operation.operators, (_FLOAT if is_float else _INTEGER).as_nullable())


def describe_value(value: Expression) -> str:
    """Name the type of a value in a message."""
    return "null" if is_null(value) else str(value.type)


def _suggest(found: ValueType) -> str:
    if found.is_list:
        return "size(list) counts the elements of a list"
    match found.scalar:
        case Scalar.STRING:
            return "concat(a, b) joins texts, length(a) counts characters"
        case Scalar.DATE | Scalar.DATETIME:
            return "days_between(a, b) counts the days from a to b"
        case Scalar.BOOL:
            return "case { condition: 1, else: 0 } turns a condition into a number"
        case _:
            return "compute with numbers"


# ------------------------------------------------------------------------------------------------ one type


@dataclass(frozen=True, slots=True)
class MeetingValues:
    """Values and the one type in which they meet; constants have that type already."""

    values: tuple[Expression, ...]
    type: ValueType

    @property
    def can_become_null(self) -> bool:
        """Whether a value that is not null may become it: integers meet in I64, and a U64 may be beyond that."""
        return self.type.scalar is Scalar.I64 and any(value.type.scalar is Scalar.U64 for value in self.values)


def choose(
    written: ast.CaseExpression, conditions: tuple[Predicate, ...], values: tuple[Expression, ...], scope: QueryScope
) -> Choose | None:
    """Check a ``case`` of checked parts; the last of the values is that of ``else``, if there is one."""
    otherwise = () if written.otherwise is None else (written.otherwise,)
    meeting = meet((*written.values, *otherwise), values, "case", scope)
    if meeting is None:
        return None
    is_nullable = not otherwise or meeting.can_become_null or any(value.type.nullable for value in values)
    return Choose(
        conditions,
        meeting.values[: len(conditions)],
        meeting.values[-1] if otherwise else None,
        replace(meeting.type, nullable=is_nullable),
    )


def meet(
    written: Sequence[ast.ExpressionSyntax], values: Sequence[Expression], name: str, scope: QueryScope
) -> MeetingValues | None:
    """Find the type in which values meet. Different integers meet in I64, other numbers in F64; an enum is a String."""
    known = [
        (spelled, _plain(value.type)) for spelled, value in zip(written, values, strict=True) if not is_null(value)
    ]
    if not known:
        return scope.reject("T32", f"every value of this {name} is null", written[0].span, "give one of them a type")
    (_, shared), *others = known
    for spelled, found in others:
        common = find_common_type(shared, found)
        if common is None:
            message = f"the values of a {name} have one type; this is {found}, the first is {known[0][1]}"
            return scope.reject("T32", message, spelled.span, _suggest_conversion(known[0][1]))
        shared = common
    return MeetingValues(tuple(_align(value, shared) for value in values), shared)


def _plain(found: ValueType) -> ValueType:
    return replace(found, nullable=False, enum_values=None)


def find_common_type(one: ValueType, other: ValueType) -> ValueType | None:
    """Return the type in which two types meet, whether or not values can be null; None if they do not meet."""
    one, other = _plain(one), _plain(other)
    if one == other:
        return one
    if not (one.is_number and other.is_number):
        return None
    return _INTEGER if {one.scalar, other.scalar} <= INTEGERS else _FLOAT


def _suggest_conversion(first: ValueType) -> str:
    if first.scalar in NUMBERS:
        return "write numbers only"
    return f"write {first} values only"


def _align(value: Expression, target: ValueType) -> Expression:
    """Give a constant the type of the others."""
    if not isinstance(value, Constant) or value.type == target:
        return value
    if value.value is None:
        return Constant(None, target.as_nullable())
    if target.scalar is Scalar.F64:
        return Constant(float(cast(float, value.value)), target)
    return value

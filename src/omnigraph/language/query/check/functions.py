"""The functions: what each takes and gives. A new function is one entry of a table here.

Functions of values are in ``_SIGNATURES``. Functions of what a variable is bound to, which is no value, are in
``ENTITY_FUNCTIONS`` and check their arguments themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from omnigraph.language.query import ast
from omnigraph.language.query.check.computed import describe_value, meet
from omnigraph.language.query.check.names import INTEGER, STRING, is_node_variable, is_null, reject_path, reject_unbound
from omnigraph.language.query.check.paths import check_path_function
from omnigraph.language.query.check.report import suggest_name
from omnigraph.language.query.check.scope import PATH, UNKNOWN, QueryScope
from omnigraph.language.query.typed_tree import Call, Constant, Expression, Function, PathFunction, TypeName
from omnigraph.language.types import INTEGERS, Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass


class _Argument(Enum):
    """What an argument may be; the value describes it in messages."""

    TEXT = "a String"
    INTEGER = "an integer"
    MOMENT = "a Date or DateTime"
    LIST = "a list"
    ANY = "a value"


@dataclass(frozen=True, slots=True)
class _Signature:
    """What a function takes and gives. The last argument may repeat; without a type it gives that of the first."""

    form: str
    takes: tuple[_Argument, ...]
    gives: ValueType | None
    repeats: bool = False

    def takes_count(self, count: int) -> bool:
        """Whether the function takes this many arguments."""
        return count == len(self.takes) or (self.repeats and count > len(self.takes))


_ONE_TEXT: Final = (_Argument.TEXT,)
_ONE_MOMENT: Final = (_Argument.MOMENT,)
_SIGNATURES: Final[Mapping[Function, _Signature]] = {
    Function.LOWER: _Signature("lower(text)", _ONE_TEXT, STRING),
    Function.UPPER: _Signature("upper(text)", _ONE_TEXT, STRING),
    Function.TRIM: _Signature("trim(text)", _ONE_TEXT, STRING),
    Function.LENGTH: _Signature("length(text)", _ONE_TEXT, INTEGER),
    Function.SUBSTRING: _Signature(
        "substring(text, from, count)", (_Argument.TEXT, _Argument.INTEGER, _Argument.INTEGER), STRING
    ),
    Function.CONCAT: _Signature("concat(text, text, ...)", (_Argument.TEXT, _Argument.TEXT), STRING, repeats=True),
    Function.YEAR: _Signature("year(date)", _ONE_MOMENT, INTEGER),
    Function.MONTH: _Signature("month(date)", _ONE_MOMENT, INTEGER),
    Function.DAY: _Signature("day(date)", _ONE_MOMENT, INTEGER),
    Function.TRUNCATE: _Signature('truncate(date, "month")', (_Argument.MOMENT, _Argument.TEXT), None),
    Function.DAYS_BETWEEN: _Signature("days_between(first, last)", (_Argument.MOMENT, _Argument.MOMENT), INTEGER),
    Function.COALESCE: _Signature("coalesce(value, value, ...)", (_Argument.ANY, _Argument.ANY), None, repeats=True),
    Function.SIZE: _Signature("size(list)", (_Argument.LIST,), INTEGER),
}

DATE_UNITS: Final = ("year", "month", "week", "day")
TIME_UNITS: Final = (*DATE_UNITS, "hour")
"""The units to which a Date and a DateTime can be truncated."""

_HABITS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("toLower", "toLowerCase", "lcase"), "write lower(text)"),
    **dict.fromkeys(("toUpper", "toUpperCase", "ucase"), "write upper(text)"),
    **dict.fromkeys(("ltrim", "rtrim", "btrim", "strip"), "write trim(text), which drops blanks at both ends"),
    **dict.fromkeys(("substr", "mid", "left"), "write substring(text, from, count); the first character is 0"),
    **dict.fromkeys(("len", "char_length", "character_length"), "write length(text), or size(list)"),
    **dict.fromkeys(("ifnull", "nvl", "isnull"), "write coalesce(value, value)"),
    **dict.fromkeys(("datediff", "date_diff", "dateDiff"), "write days_between(first, last)"),
    **dict.fromkeys(("date_trunc", "trunc", "dateTrunc"), 'write truncate(date, "month")'),
    **dict.fromkeys(("labels", "label", "typeof"), "write type($x)"),
    **dict.fromkeys(("if", "iif", "when"), "write case { condition: value, else: value }"),
    **dict.fromkeys(("id", "elementId"), "write $x.id"),
    **dict.fromkeys(("abs", "round", "floor", "ceil", "mod"), "there is none: compute it where the result is used"),
    **dict.fromkeys(("toString", "cast", "toInteger", "toFloat"), "values are not converted: types are checked before"),
    "regexp_like": "write text matches pattern",
    "cardinality": "write size(list)",
}


def apply_function(call: ast.FunctionCall, arguments: tuple[Expression, ...], scope: QueryScope) -> Call | None:
    """Check a call of a function of values with checked arguments."""
    function = Function(call.name)
    signature = _SIGNATURES[function]
    if not signature.takes_count(len(arguments)):
        message = f"{call.name} takes {_count_arguments(signature)}, not {len(arguments)}"
        return scope.reject("T30", message, call.span, f"write {signature.form}")
    if function is Function.COALESCE:
        return _coalesce(call, arguments, scope)
    kinds = (*signature.takes, *signature.takes[-1:] * (len(arguments) - len(signature.takes)))
    fits = [
        _check_kind(written, argument, kind, signature, scope)
        for written, argument, kind in zip(call.arguments, arguments, kinds, strict=True)
    ]
    if not all(fits) or not _CHECKS.get(function, _accept)(call, arguments, scope):
        return None
    given = arguments[0].type if signature.gives is None else signature.gives
    return Call(function, arguments, replace(given, nullable=_can_be_null(function, arguments)))


def is_function(name: str) -> bool:
    """Whether a name is a function of values."""
    return name in _NAMES


def reject_unknown(call: ast.FunctionCall, scope: QueryScope) -> None:
    """Report that there is no function of this name."""
    hint = _HABITS.get(call.name) or suggest_name(call.name, [*_NAMES, *ENTITY_FUNCTIONS], "functions")
    scope.reject("T30", f"there is no function '{call.name}'", call.name_span, hint)


_NAMES: Final = frozenset(str(function) for function in Function)


def _count_arguments(signature: _Signature) -> str:
    count = len(signature.takes)
    if signature.repeats:
        return f"{count} arguments or more"
    return "one argument" if count == 1 else f"{count} arguments"


def _check_kind(
    written: ast.ExpressionSyntax, argument: Expression, kind: _Argument, signature: _Signature, scope: QueryScope
) -> bool:
    is_node = is_node_variable(written, argument)
    if _is_of_kind(argument, kind) and not is_node:
        return True
    found = "a node" if is_node else describe_value(argument)
    message = f"{signature.form.partition('(')[0]} takes {kind.value} here, not {found}"
    scope.reject("T30", message, written.span, f"write {signature.form}")
    return False


def _is_of_kind(argument: Expression, kind: _Argument) -> bool:
    found = argument.type
    if is_null(argument):
        return False
    match kind:
        case _Argument.ANY:
            return True
        case _Argument.LIST:
            return found.is_list
        case _Argument.TEXT:
            return found.scalar is Scalar.STRING and not found.is_list
        case _Argument.INTEGER:
            return found.scalar in INTEGERS and not found.is_list
        case _Argument.MOMENT:
            return found.scalar in {Scalar.DATE, Scalar.DATETIME} and not found.is_list


def _can_be_null(function: Function, arguments: tuple[Expression, ...]) -> bool:
    if any(argument.type.nullable for argument in arguments):
        return True
    # A negative number that is no literal gives null.
    return function is Function.SUBSTRING and not all(isinstance(each, Constant) for each in arguments[1:])


# ------------------------------------------------------------------------------------------------ rules of their own


def _accept(_call: ast.FunctionCall, _arguments: tuple[Expression, ...], _scope: QueryScope) -> bool:
    return True


def _check_counts(call: ast.FunctionCall, arguments: tuple[Expression, ...], scope: QueryScope) -> bool:
    """Check the numbers of ``substring``."""
    negative = [
        written
        for written, argument in zip(call.arguments, arguments, strict=True)
        if isinstance(argument, Constant) and isinstance(argument.value, int) and argument.value < 0
    ]
    for written in negative:
        scope.reject("T30", "substring counts from 0", written.span, "write 0 or more")
    return not negative


def _check_unit(call: ast.FunctionCall, arguments: tuple[Expression, ...], scope: QueryScope) -> bool:
    moment, unit = arguments
    allowed = DATE_UNITS if moment.type.scalar is Scalar.DATE else TIME_UNITS
    if isinstance(unit, Constant) and unit.value in allowed:
        return True
    units = ", ".join(f'"{each}"' for each in allowed)
    message = f"the unit of truncate for a {moment.type.scalar} is one of {units}"
    scope.reject("T30", message, call.arguments[1].span, f'write it as a literal, such as "{allowed[1]}"')
    return False


def _check_same(call: ast.FunctionCall, arguments: tuple[Expression, ...], scope: QueryScope) -> bool:
    first, last = (argument.type.scalar for argument in arguments)
    if first is last:
        return True
    message = f"days_between takes two Dates or two DateTimes, not a {first} and a {last}"
    scope.reject("T30", message, call.span, "write date(...) or datetime(...) for both")
    return False


_CHECKS: Final[Mapping[Function, Callable[[ast.FunctionCall, tuple[Expression, ...], QueryScope], bool]]] = {
    Function.SUBSTRING: _check_counts,
    Function.TRUNCATE: _check_unit,
    Function.DAYS_BETWEEN: _check_same,
}


def _coalesce(call: ast.FunctionCall, arguments: tuple[Expression, ...], scope: QueryScope) -> Call | None:
    meeting = meet(call.arguments, arguments, "coalesce", scope)
    if meeting is None:
        return None
    is_nullable = meeting.can_become_null or all(argument.type.nullable for argument in arguments)
    return Call(Function.COALESCE, meeting.values, replace(meeting.type, nullable=is_nullable))


# ------------------------------------------------------------------------------------------------ entities


def _check_type(call: ast.FunctionCall, scope: QueryScope) -> TypeName | None:
    """Check ``type($x)``."""
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], ast.Variable):
        return scope.reject("T30", "type takes a node or an edge", call.span, "write type($x)")
    variable = call.arguments[0]
    if variable.name in scope.parameters:
        message = f"'${variable.name}' is a parameter, not a node or an edge"
        return scope.reject("T30", message, variable.span, "write type($x) of a variable that match binds")
    entity = scope.look_up(variable.name)
    if entity is None:
        return reject_unbound("Q002", variable.name, variable.span, scope)
    if entity is PATH:
        return reject_path(variable.name, variable.span, scope)
    if entity is UNKNOWN:
        return None
    given = STRING.as_nullable() if variable.name in scope.optional else STRING
    return TypeName(variable.name, entity.name, given)


ENTITY_FUNCTIONS: Final[Mapping[str, Callable[[ast.FunctionCall, QueryScope], Expression | None]]] = {
    "type": _check_type,
    **dict.fromkeys(map(str, PathFunction), check_path_function),
}
"""Functions of what a variable is bound to: they check their arguments themselves."""


def list_function_forms() -> dict[str, str]:
    """Return the form of every function by its name, such as ``lower(text)``."""
    values = {str(function): signature.form for function, signature in _SIGNATURES.items()}
    return {**values, **{name: f"{name}(${'w' if name in set(PathFunction) else 'x'})" for name in ENTITY_FUNCTIONS}}

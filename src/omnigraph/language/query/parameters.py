"""Bind the parameters of a query: convert the given values to the declared types and check them.

Values come as JSON (HTTP, command line) or as Python objects; :mod:`~omnigraph.language.values` converts each.
All problems are reported together, before anything runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn, cast

from omnigraph.errors import Json, ParameterError
from omnigraph.language.operators import ComparisonOperator
from omnigraph.language.query.plan import Fuse, Limit, ReadPlan, TopRanked, expressions_of, walk_expression, walk_plan
from omnigraph.language.query.typed_tree import Compare, Expression, FusedScore, ParameterValue, TextMatch
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import FLOATS, Scalar, ValueType
from omnigraph.language.values import (
    ConstantValue,
    ValueMismatch,
    convert_value,
    find_pattern_error,
    is_rounded,
    keep_integers,
)
from omnigraph.lazy_dataclass import dataclass

# Types whose JSON form is a string: the command line takes them without quotes.
_WRITTEN_AS_TEXT = frozenset({Scalar.DATE, Scalar.DATETIME, Scalar.BLOB})
_ROUNDING = FLOATS | {Scalar.DATETIME}
"""The types that can round a value."""
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class _ParameterProblem:
    """The problem of one parameter."""

    parameter: str
    message: str
    hint: str | None = None

    def to_json(self) -> dict[str, Json]:
        found: dict[str, Json] = {"parameter": self.parameter, "message": self.message}
        if self.hint is not None:
            found["hint"] = self.hint
        return found


def bind_parameters(
    parameters: Mapping[str, ValueType], values: Mapping[str, object] | None
) -> Mapping[str, ConstantValue]:
    """Return the value of every declared parameter; an omitted nullable one is null."""
    given = _check_mapping(values)
    bound: dict[str, ConstantValue] = {}
    rejected = [_describe_unknown(name, parameters) for name in given if name not in parameters]
    for name, declared in parameters.items():
        if name not in given and not declared.nullable:
            rejected.append(_ParameterProblem(name, f"missing; it is declared as {declared}", f"give {name} a value"))
            continue
        try:
            value = convert_value(given.get(name), declared)
            bound[name] = keep_integers(given.get(name), value) if declared.scalar in FLOATS else value
        except ValueMismatch as mismatch:
            rejected.append(_ParameterProblem(name, mismatch.message, mismatch.hint))
    if rejected:
        raise _build_error(rejected)
    return bound


def find_rounded_parameters(
    parameters: Mapping[str, ValueType], values: Mapping[str, object] | None, bound: Mapping[str, ConstantValue]
) -> frozenset[str]:
    """Return the parameters whose type rounds their value. Integers are kept, and rounded where they are written."""
    given = values or {}
    rounding = {name for name, declared in parameters.items() if declared.scalar in _ROUNDING}
    return frozenset(name for name in rounding.intersection(given) if _is_any_rounded(given[name], bound[name]))


def _is_any_rounded(given: object, converted: ConstantValue) -> bool:
    if isinstance(converted, tuple):
        pairs = zip(cast("Iterable[object]", given), converted, strict=True)
        return any(is_rounded(item, number) for item, number in pairs)
    return is_rounded(given, converted)


def check_values(checks: ValueChecks, parameters: Mapping[str, ConstantValue]) -> None:
    """Refuse parameters that no run can use: counts that are too small, bad patterns. The checker has seen literals."""
    for rule, name in checks.counts:
        value = parameters[name]
        assert isinstance(value, int), "the type checker allows integers only"
        if value < rule.minimum:
            raise ParameterError(rule.message.format(name=name, value=value), hint=rule.hint)
    for name in checks.patterns:
        value = parameters[name]
        reason = find_pattern_error(value) if isinstance(value, str) else None
        if reason is not None:
            message = f"param '{name}': the pattern cannot be read: {reason}"
            raise ParameterError(message, hint="patterns are RE2 expressions: no look-around, no back references")


@dataclass(frozen=True, slots=True)
class ValueChecks:
    """The parameters that a plan uses as counts, with their rules, and those that it uses as patterns."""

    counts: tuple[tuple[_CountRule, str], ...]
    patterns: tuple[str, ...]


def find_value_checks(plan: ReadPlan) -> ValueChecks:
    """Return what a plan asks of the values of its parameters."""
    parts = (
        part for each in walk_plan(plan) for expression in expressions_of(each) for part in walk_expression(expression)
    )
    compared = (part for part in parts if isinstance(part, Compare) and part.operator is ComparisonOperator.MATCHES)
    return ValueChecks(
        tuple((rule, count.name) for rule, count in _counts(plan) if isinstance(count, ParameterValue)),
        tuple(part.right.name for part in compared if isinstance(part.right, ParameterValue)),
    )


@dataclass(frozen=True, slots=True)
class _CountRule:
    """The least value of one kind of count."""

    minimum: int
    message: str
    hint: str


_LIMIT = _CountRule(0, "limit ${name} is {value}", "a limit is a whole number, 0 or more")
_OFFSET = _CountRule(0, "offset ${name} is {value}", "an offset is a whole number, 0 or more")
_RANK_CONSTANT = _CountRule(1, "the k of rrf is {value}", "give 1 or more")
_EDITS = _CountRule(0, "the edits of fuzzy are {value}", "give 0 or more; 2 are usual")


def _counts(plan: ReadPlan) -> Iterator[tuple[_CountRule, Expression | None]]:
    for operator in walk_plan(plan):
        if isinstance(operator, Limit):
            yield _LIMIT, operator.count
            yield _OFFSET, operator.skip
        if isinstance(operator, TopRanked | Fuse):
            yield _LIMIT, operator.limit
            yield _OFFSET, operator.skip
        if isinstance(operator, Fuse):
            yield _RANK_CONSTANT, operator.k
        for part in (inner for each in expressions_of(operator) for inner in walk_expression(each)):
            if isinstance(part, FusedScore):
                yield _RANK_CONSTANT, part.k
            if isinstance(part, TextMatch):
                yield _EDITS, part.max_edits


def parse_parameter_text(name: str, text: str, declared: ValueType) -> object:
    """Parse the value in ``-p name=text`` for :func:`bind_parameters`: as JSON, unless the declared type is String.

    A date, a date-time or the URI of a blob needs no quotes.
    """
    if declared.scalar is Scalar.STRING and not declared.is_list:
        return text
    try:
        return cast(object, json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        if declared.scalar in _WRITTEN_AS_TEXT and not declared.is_list:
            return text
        hint = 'write an array such as ["a", "b"]' if declared.is_list else None
        found = repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}..."
        raise _build_error([_ParameterProblem(name, f"expected {declared} as JSON, found {found}", hint)]) from None


def _check_mapping(values: object) -> Mapping[str, object]:
    if values is None:
        return {}
    if not isinstance(values, (dict, Mapping)):
        raise ParameterError(
            f"parameters are given as an object of names and values, not as {type(values).__name__}",
            hint='for example {"name": "Ann"}',
        )
    return cast("Mapping[str, object]", values)


def _describe_unknown(name: str, parameters: Mapping[str, ValueType]) -> _ParameterProblem:
    declared = f"the parameters are {', '.join(parameters)}" if parameters else "the query has no parameters"
    return _ParameterProblem(
        name, "the query declares no such parameter", suggest_similar(name, parameters) or declared
    )


def _build_error(rejected: list[_ParameterProblem]) -> ParameterError:
    return ParameterError(
        "; ".join(f"param '{one.parameter}': {one.message}" for one in rejected),
        hint=rejected[0].hint,
        details={"problems": [one.to_json() for one in rejected]},
    )


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")

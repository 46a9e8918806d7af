"""Check a match with interface variables: once for each combination of the types that they can have.

A combination for which a traversal does not fit drops out. The problems of the others are reported once, whichever
combination has them. The variants of a read become one here, those of a mutation in ``mutation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final, TypeAlias, TypeVar

from omnigraph.errors import Problem
from omnigraph.language.query import ast
from omnigraph.language.query.check.report import ProblemReport
from omnigraph.language.query.check.scope import ChosenType, is_interface
from omnigraph.language.query.typed_tree import (
    Aggregate,
    ColumnValue,
    Expression,
    TypedInterfaceRead,
    TypedRead,
)
from omnigraph.language.schema import Catalog, NodeType
from omnigraph.language.source import Span
from omnigraph.language.types import ValueType

MAX_COMBINATIONS: Final = 64
_MISFITS: Final = frozenset({"T5", "T33"})
"""A combination of types with such a problem has no traversal as it is written, and so no rows."""

TypeCombination: TypeAlias = Mapping[str, ChosenType]
"""The type that each interface variable stands for."""
Variant = TypeVar("Variant")
CheckVariant: TypeAlias = Callable[[TypeCombination, ProblemReport], Variant]


def check_read_variants(
    read: ast.ReadBody, catalog: Catalog, report: ProblemReport, check: CheckVariant[TypedRead]
) -> TypedRead | TypedInterfaceRead | None:
    """Check a read for each combination of types, and return it as one."""
    variables, variants = check_variants(read.clauses, catalog, report, check)
    if not variables or report.problems:
        return variants[0] if variants else None
    return _unite(read, tuple(variants), variables, report)


def check_variants(
    clauses: Sequence[ast.ClauseSyntax], catalog: Catalog, report: ProblemReport, check: CheckVariant[Variant]
) -> tuple[tuple[str, ...], Sequence[Variant]]:
    """Check what begins with a match, for each combination of types; without an interface variable there is one.

    Returns the interface variables, in order of name, and the variants that fit; after a problem there may be none.
    """
    bindings = _find_interface_bindings(clauses, catalog)
    if not bindings:
        return (), [check({}, report)]
    variables = tuple(sorted(bindings))
    choices = {name: _find_types(of_name, catalog, report) for name, of_name in bindings.items()}
    if not all(choices.values()):
        return variables, []
    count = prod(map(len, choices.values()))
    if count > MAX_COMBINATIONS:
        span = list(bindings.values())[-1][0].type_span
        message = (
            f"the interfaces of this match stand for {count} combinations of types; {MAX_COMBINATIONS} are allowed"
        )
        report.add("T35", message, span, "name the node type of some variables")
        return variables, []
    combinations = [dict(zip(choices, chosen, strict=True)) for chosen in product(*choices.values())]
    checked = [_check_one(combination, report, check) for combination in combinations]
    fitting = [one for one in checked if not any(problem.code in _MISFITS for problem in one[1])]
    # If none fits, the one that fits best says why.
    add_problems_once((one[1] for one in fitting or [min(checked, key=lambda one: len(one[1]))]), report)
    return variables, [variant for variant, _ in fitting]


def _find_interface_bindings(
    clauses: Iterable[ast.ClauseSyntax], catalog: Catalog
) -> dict[str, list[ast.BindingClause]]:
    found: dict[str, list[ast.BindingClause]] = {}
    for clause in clauses:
        if isinstance(clause, ast.BindingClause) and is_interface(clause.type_name, catalog):
            found.setdefault(clause.variable, []).append(clause)
    return found


def _find_types(bindings: Sequence[ast.BindingClause], catalog: Catalog, report: ProblemReport) -> list[ChosenType]:
    """Return the types that implement every interface of a variable, in order of name, or report that there is none."""
    names = tuple(dict.fromkeys(binding.type_name for binding in bindings))
    types = [node for _, node in sorted(catalog.nodes.items()) if set(names) <= set(node.implements)]
    if not types:
        message = f"no node type implements {' and '.join(names)}"
        report.add("T1", message, bindings[-1].type_span, "name a node type, or let one implement the interface")
    possible = frozenset(node.name for node in types)
    return [ChosenType(" and ".join(names), _restrict(node, names, catalog), possible) for node in types]


def _restrict(node: NodeType, interfaces: Iterable[str], catalog: Catalog) -> NodeType:
    """Return a node type with the properties of its interfaces only: the others cannot be read."""
    readable = {declared.name for name in interfaces for declared in catalog.interfaces[name].properties}
    return replace(node, properties={name: each for name, each in node.properties.items() if name in readable})


def _check_one(
    combination: TypeCombination, report: ProblemReport, check: CheckVariant[Variant]
) -> tuple[Variant, list[Problem]]:
    found = ProblemReport(report.source)
    return check(combination, found), found.problems


def add_problems_once(found: Iterable[Sequence[Problem]], report: ProblemReport) -> None:
    """Add the problems of all combinations; of those with one code at one place, the first."""
    known: dict[tuple[str, int, int], Problem] = {}
    for problem in (each for problems in found for each in problems):
        known.setdefault((problem.code, problem.position.line, problem.position.column), problem)
    report.problems.extend(known.values())


# ------------------------------------------------------------------------------------------------ one result


def _unite(
    read: ast.ReadBody, variants: tuple[TypedRead, ...], variables: tuple[str, ...], report: ProblemReport
) -> TypedRead | TypedInterfaceRead | None:
    if len(variants) == 1:
        return variants[0]
    columns = _unite_columns(read.projections, variants, report)
    keys = [unite_types([variant.order[place].expression for variant in variants]) for place in range(len(read.order))]
    for key, found in zip(read.order, keys, strict=True):
        if found is None:
            reject_types(report, "this order key has another type for other types of the interface", key.span)
    return None if columns is None or None in keys else TypedInterfaceRead(variables, columns, variants)


def _unite_columns(
    projections: Sequence[ast.Projection], variants: tuple[TypedRead, ...], report: ProblemReport
) -> tuple[ColumnValue, ...] | None:
    names = [tuple(column.name for column in variant.columns) for variant in variants]
    if len(set(names)) > 1:
        spread = next(each for each in projections if _is_spread(each))
        return reject_types(report, "this gives other columns for other types of the interface", spread.span)
    columns: list[ColumnValue] = []
    for place, name in enumerate(names[0]):
        expressions = [variant.columns[place].expression for variant in variants]
        type_, argument = unite_types(expressions), unite_types([_argument_of(each) for each in expressions])
        if type_ is None or argument is None:
            span = projections[place].span if len(projections) == len(names[0]) else projections[0].span
            return reject_types(report, f"the column '{name}' has another type for other types of the interface", span)
        columns.append(ColumnValue(name, type_))
    return tuple(columns)


def _is_spread(projection: ast.Projection) -> bool:
    written = projection.expression
    return isinstance(written, ast.PropertyAccess) and written.name == ast.ALL_PROPERTIES


def _argument_of(expression: Expression) -> Expression:
    return expression.argument if isinstance(expression, Aggregate) else expression


def unite_types(expressions: Sequence[Expression]) -> ValueType | None:
    """Return the one type of some expressions, null if one of them can be; None if there are several types."""
    plain = {replace(each.type, nullable=False, enum_values=None) for each in expressions}
    if len(plain) > 1:
        return None
    return replace(expressions[0].type, nullable=any(each.type.nullable for each in expressions))


def reject_types(report: ProblemReport, message: str, span: Span) -> None:
    """Report something that has another type for other types of an interface."""
    report.add("T35", message, span, "bind the variable to a node type before it is used")

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
    ColumnValue,
    ResultColumn,
    TypedInterfaceRead,
    TypedRead,
)
from omnigraph.language.schema import Catalog, NodeType

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
    return _unite(tuple(variants), variables)


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
    """Return a node type with the properties of its interfaces only.

    These have one type in all node types of the interface, and a traversal has one direction, so that a column or an
    assigned value has one type in all variants.
    """
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


def _unite(variants: tuple[TypedRead, ...], variables: tuple[str, ...]) -> TypedRead | TypedInterfaceRead:
    """Return one read with the rows of all variants. Their columns have equal types: see ``_restrict``."""
    if len(variants) == 1:
        return variants[0]
    return TypedInterfaceRead(variables, to_columns(variants[0].columns), variants)


def to_columns(columns: Iterable[ResultColumn]) -> tuple[ColumnValue, ...]:
    """Return the columns of a union of variants, from those of one variant."""
    return tuple(ColumnValue(column.name, column.expression.type) for column in columns)

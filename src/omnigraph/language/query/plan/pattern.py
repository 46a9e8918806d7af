"""Which variables the parts of a typed query speak of, and which of them hang together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.language.query.typed import (
    Aggregate,
    Bind,
    Clause,
    Compare,
    Distance,
    Exclude,
    Expression,
    FusedScore,
    Identity,
    IsNull,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    Traverse,
)


def variables_of(part: Expression | Predicate) -> frozenset[str]:
    """The bound variables in an expression or predicate."""
    return frozenset(_variables(part))


def _variables(part: Expression | Predicate) -> Iterator[str]:
    match part:
        case PropertyValue() | Identity():
            yield part.variable
        case Compare():
            yield from _variables(part.left)
            yield from _variables(part.right)
        case IsNull():
            yield from _variables(part.operand)
        case Distance() | TextScore() | TextMatch():
            yield part.target.variable
            yield from _variables(part.query)
        case FusedScore():
            yield from _variables(part.first)
            yield from _variables(part.second)
        case Aggregate():
            yield from _variables(part.argument)
        case _:
            pass


def connected_parts(clauses: Iterable[Clause]) -> list[set[str]]:
    """The sets of variables that traversals, comparisons and negations hold together, in order of appearance."""
    part_of: dict[str, set[str]] = {}
    for clause in clauses:
        joined = _linked(clause)
        touched = {id(part_of[name]): part_of[name] for name in joined if name in part_of}.values()
        # The largest part takes in the others, so that a long match stays cheap.
        largest = max(touched, key=len, default=set[str]())
        moved = joined.union(*(part for part in touched if part is not largest))
        largest |= moved
        part_of |= dict.fromkeys(moved, largest)
    return list({id(part): part for part in part_of.values()}.values())


def _linked(clause: Clause) -> frozenset[str]:
    match clause:
        case Bind():
            return frozenset({clause.variable}).union(*map(variables_of, clause.predicates))
        case Traverse():
            ends = frozenset({clause.source, clause.destination})
            return ends if clause.edge_variable is None else ends | {clause.edge_variable}
        case Exclude():
            return frozenset(clause.outer)
        case _:
            return variables_of(clause)

"""The one visitor over plans and expressions: the parts of each, and walks over all of them.

The structure is read once per class from the types of its fields, so a new operator or expression needs no line
here. Code that only enumerates parts uses this module; code that gives each operator a meaning of its own (an
executor, an estimate, a printer) dispatches on the class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Annotated, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from omnigraph.language.query.plan.operators import (
    BoundVariable,
    ByRank,
    EdgeTypeName,
    Mark,
    NodeTypeName,
    Optional,
    PlanOperator,
    With,
    Without,
)
from omnigraph.language.query.typed_tree import (
    Block,
    EdgeStep,
    Expression,
    Predicate,
    ResultColumn,
    TypedOrderKey,
    UsedVariable,
)
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass

ExpressionPart: TypeAlias = Expression | Predicate
Part = TypeVar("Part", bound=ExpressionPart)

OPERATORS = frozenset[type](get_args(PlanOperator))
EXPRESSIONS = frozenset[type](get_args(ExpressionPart))
_HOLDERS = frozenset[type]({ResultColumn, TypedOrderKey})
"""Parts of operators that wrap an expression."""


# ------------------------------------------------------------------------------------------------ one level


def inputs_of(operator: PlanOperator) -> tuple[PlanOperator, ...]:
    """Return the inputs of an operator, in the order of its fields."""
    values = (_items(getattr(operator, name)) for name in _shape(type(operator)).inputs)
    return tuple(cast(PlanOperator, value) for items in values for value in items)


def expressions_of(operator: PlanOperator) -> tuple[ExpressionPart, ...]:
    """Return the expressions and predicates of an operator, in the order of its fields."""
    return tuple(_expressions(operator))


def operands_of(part: ExpressionPart) -> tuple[ExpressionPart, ...]:
    """Return the operands of an expression or predicate, in the order of its fields."""
    return tuple(_expressions(part))


def rebuild(part: Part, change: Callable[[ExpressionPart], ExpressionPart]) -> Part:
    """Return the same expression or predicate with each of its operands changed."""
    changed: dict[str, object] = {}
    for name in _shape(type(part)).expressions:
        value = cast("object", getattr(part, name))
        items = tuple(None if item is None else change(cast(ExpressionPart, item)) for item in _items(value))
        changed[name] = items if isinstance(value, tuple) else items[0]
    return replace(part, **changed) if changed else part


def variables_bound_by(operator: PlanOperator) -> frozenset[str]:
    """Return the variables that an operator adds to the rows of its inputs."""
    return frozenset(_names(operator, _shape(type(operator)).bound))


def variables_used_by(operator: PlanOperator) -> frozenset[str]:
    """Return the variables of its inputs that an operator needs."""
    used = frozenset(_names(operator, _shape(type(operator)).used))
    return used.union(*map(variables_of, _expressions(operator))) - variables_bound_by(operator)


def tables_read_by(operator: PlanOperator) -> frozenset[TableKey]:
    """Return the tables whose rows an operator reads itself, without those of its inputs."""
    shape = _shape(type(operator))
    nodes = map(TableKey.of_node, _names(operator, shape.node_types))
    return frozenset((*nodes, *map(TableKey.of_edge, _names(operator, shape.edge_types))))


# ------------------------------------------------------------------------------------------------ all levels


def walk_plan(plan: PlanOperator, *, into_blocks: bool = True) -> Iterator[PlanOperator]:
    """Yield every operator of a plan, each before its inputs. The inner plans of blocks may be left out."""
    # No recursion: a long match is a deep plan.
    waiting = [plan]
    while waiting:
        operator = waiting.pop()
        yield operator
        if isinstance(operator, With | Without | Mark | Optional) and not into_blocks:
            waiting.append(operator.input)
        else:
            waiting += reversed(inputs_of(operator))


def tables_of(plan: PlanOperator) -> frozenset[TableKey]:
    """Return the tables whose rows a plan reads."""
    return frozenset[TableKey]().union(*map(tables_read_by, walk_plan(plan)))


def walk_expression(part: ExpressionPart) -> Iterator[ExpressionPart]:
    """Yield an expression or predicate and everything inside it, each before its operands."""
    yield part
    for operand in _expressions(part):
        yield from walk_expression(operand)


def variables_of(part: ExpressionPart) -> frozenset[str]:
    """Return the bound variables in an expression or predicate; of a block, those of its outer row."""
    used = (name for each in walk_expression(part) for name in _names(each, _shape(type(each)).used))
    return frozenset(used)


def has_block(part: ExpressionPart) -> bool:
    """Whether an expression or predicate has a block in it."""
    return any(isinstance(each, Block) for each in walk_expression(part))


# ------------------------------------------------------------------------------------------------ structure


@dataclass(frozen=True, slots=True)
class _Shape:
    """The fields of a class, by what they hold."""

    inputs: tuple[str, ...]
    expressions: tuple[str, ...]
    bound: tuple[str, ...]
    used: tuple[str, ...]
    node_types: tuple[str, ...]
    edge_types: tuple[str, ...]


@cache
def _shape(part: type) -> _Shape:
    hints = get_type_hints(part, include_extras=True)
    kinds = {field.name: frozenset(_leaves(hints[field.name])) for field in fields(part)}
    return _Shape(
        inputs=tuple(name for name, kind in kinds.items() if kind & OPERATORS),
        expressions=tuple(name for name, kind in kinds.items() if kind & (EXPRESSIONS | _HOLDERS)),
        bound=tuple(name for name, kind in kinds.items() if BoundVariable in kind),
        used=tuple(name for name, kind in kinds.items() if UsedVariable in kind),
        node_types=tuple(name for name, kind in kinds.items() if NodeTypeName in kind),
        edge_types=tuple(name for name, kind in kinds.items() if kind & {EdgeTypeName, EdgeStep}),
    )


def _leaves(hint: object) -> Iterator[object]:
    """Yield the types in a hint: the members of a union and the items of a tuple."""
    if get_origin(hint) is Annotated or not get_args(hint):
        yield hint
    else:
        for inner in get_args(hint):
            yield from _leaves(inner)


def _expressions(part: PlanOperator | ExpressionPart) -> Iterator[ExpressionPart]:
    for name in _shape(type(part)).expressions:
        for value in _items(getattr(part, name)):
            if isinstance(value, ResultColumn | TypedOrderKey):
                yield value.expression
            elif value is not None and not isinstance(value, ByRank):
                yield cast(ExpressionPart, value)


def _names(part: PlanOperator | ExpressionPart, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        for value in _items(getattr(part, name)):
            if value is not None:
                yield value.edge_type if isinstance(value, EdgeStep) else cast(str, value)


def _items(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)

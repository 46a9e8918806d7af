"""Blocks inside conditions and columns: each becomes a mark that an operator below sets for every row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import count
from typing import TypeAlias, TypeVar, cast

from omnigraph.language.query.plan.visitor import ExpressionPart, rebuild, walk_expression
from omnigraph.language.query.typed_tree import Block, Marked, Not, TypedExistence, TypedNegation

MarkNames: TypeAlias = Mapping[TypedExistence, str]
"""The mark of each block. A negation is the inverse of the mark of its clauses."""
Part = TypeVar("Part", bound=ExpressionPart)


def name_marks(parts: Iterable[ExpressionPart], taken: Set[str]) -> MarkNames:
    """Name a mark for each block in some expressions; equal blocks share one. No variable has its name."""
    free = (name for name in (f"m{number}" for number in count(1)) if name not in taken)
    names: dict[TypedExistence, str] = {}
    for block in blocks_of(parts):
        if block not in names:
            names[block] = next(free)
    return names


def blocks_of(parts: Iterable[ExpressionPart]) -> Iterator[TypedExistence]:
    """Yield the blocks in some expressions, each as what has to exist."""
    for part in parts:
        yield from (_to_existence(inner) for inner in walk_expression(part) if isinstance(inner, Block))


def replace_blocks(part: Part, names: MarkNames) -> Part:
    """Return an expression that reads marks where it has blocks."""
    return cast(Part, _replace(part, names))


def _replace(part: ExpressionPart, names: MarkNames) -> ExpressionPart:
    match part:
        case TypedExistence():
            return Marked(names[part])
        case TypedNegation():
            return Not(Marked(names[_to_existence(part)]))
        case _:
            return rebuild(part, lambda inner: _replace(inner, names))


def _to_existence(block: Block) -> TypedExistence:
    return TypedExistence(block.clauses, block.outer)

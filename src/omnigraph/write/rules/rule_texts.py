"""Rules as a schema writes them, for messages."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from omnigraph.language.schema import EdgeType, NodeType, PatternRule, RangeRule
from omnigraph.language.syntax import quote_string

REQUIRED: Final = "required"
FINITE: Final = "finite"
NO_NULL_ITEMS: Final = "no null items"
ID: Final = "id"
LONGEST_VALUE: Final = 200
"""How many characters of a value a violation shows."""


def shorten(value: str) -> str:
    """Cut a value to the length that a violation shows."""
    return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}..."


def format_key(type_: NodeType | EdgeType) -> str:
    """``@key(a, b)``, or ``id`` for a type without a key."""
    key = type_.key if isinstance(type_, NodeType) else None
    return ID if key is None else f"@key({', '.join(key)})"


def format_unique(columns: Sequence[str]) -> str:
    """``@unique(a, b)``"""
    return f"@unique({', '.join(columns)})"


def format_range(rule: RangeRule) -> str:
    """``@range(depth, 0.0..30.0)``"""
    return f"@range({rule.property}, {_format_bound(rule.minimum)}..{_format_bound(rule.maximum)})"


def format_pattern(rule: PatternRule) -> str:
    """``@check(code, "^[a-z]+$")``"""
    return f"@check({rule.property}, {quote_string(rule.pattern)})"


def format_ends(edge: EdgeType) -> str:
    """``edge Tows: Vessel -> Vessel``"""
    return f"edge {edge.name}: {edge.from_type} -> {edge.to_type}"


def format_cardinality(edge: EdgeType) -> str:
    """``@card(0..3)``"""
    maximum = edge.cardinality.maximum
    return f"@card({edge.cardinality.minimum}..{'' if maximum is None else maximum})"


def _format_bound(bound: float | None) -> str:
    return "" if bound is None else format(Decimal(repr(bound)), "f")

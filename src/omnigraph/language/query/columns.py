"""The names of result columns: the same at run time, in lint and in every output."""

from __future__ import annotations

from omnigraph.language.query.typed import (
    Aggregate,
    ColumnValue,
    Constant,
    Distance,
    Expression,
    FusedScore,
    Identity,
    Now,
    ParameterValue,
    PropertyValue,
    TextMatch,
    TextScore,
)


def column_name(expression: Expression) -> str:
    """The name of a column that has no alias: ``v.p``, ``v``, ``count(v)``, a parameter's name, ``literal``."""
    match expression:
        case Constant():
            return "literal"
        case ParameterValue() | ColumnValue():
            return expression.name
        case Now():
            return "now()"
        case PropertyValue():
            return f"{expression.variable}.{expression.name}"
        case Identity():
            return expression.variable
        case Distance():
            return f"nearest({column_name(expression.target)})"
        case TextMatch():
            return f"{expression.function}({column_name(expression.target)})"
        case TextScore():
            return f"bm25({column_name(expression.target)})"
        case FusedScore():
            return f"rrf({column_name(expression.first)}, {column_name(expression.second)})"
        case Aggregate():
            distinct = "distinct " if expression.distinct else ""
            return f"{expression.function}({distinct}{column_name(expression.argument)})"

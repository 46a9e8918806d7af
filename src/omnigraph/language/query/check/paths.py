"""Check the functions that read a path: ``hops($w)``, ``nodes($w)`` and ``edges($w)``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from omnigraph.language.query import ast
from omnigraph.language.query.check.names import INTEGER, STRING, reject_unbound
from omnigraph.language.query.check.scope import PATH, UNKNOWN, QueryScope
from omnigraph.language.query.typed_tree import PathFunction, PathValue
from omnigraph.language.types import ValueType

_IDS: Final = replace(STRING, is_list=True)


def check_path_function(call: ast.FunctionCall, scope: QueryScope) -> PathValue | None:
    """Check a call of a function of paths."""
    hint = f"write {call.name}($w) of a path: $a $w:edge{{1,}} $b"
    argument = call.arguments[0] if len(call.arguments) == 1 else None
    if not isinstance(argument, ast.Variable):
        return scope.reject("T30", f"{call.name} takes a path", call.span, hint)
    if argument.name in scope.parameters:
        message = f"'${argument.name}' is a parameter, not a path"
        return scope.reject("T30", message, argument.span, hint)
    entity = scope.look_up(argument.name)
    if entity is None:
        return reject_unbound("Q002", argument.name, argument.span, scope)
    if entity is UNKNOWN:
        return None
    if entity is not PATH:
        return scope.reject("T30", f"'${argument.name}' is a {entity.name}, not a path", argument.span, hint)
    given = _type_of(PathFunction(call.name))
    is_optional = argument.name in scope.optional
    return PathValue(PathFunction(call.name), argument.name, given.as_nullable() if is_optional else given)


def _type_of(function: PathFunction) -> ValueType:
    return INTEGER if function is PathFunction.HOPS else _IDS

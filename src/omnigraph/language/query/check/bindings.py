"""Check the bindings of a ``match``."""

from __future__ import annotations

from omnigraph.language.query import ast
from omnigraph.language.query.check.literals import are_comparable, fit_compared_literal
from omnigraph.language.query.check.names import DATETIME, ID, STRING, reject_property, reject_unbound
from omnigraph.language.query.check.report import suggest_name
from omnigraph.language.query.check.scope import PATH, UNKNOWN, Entity, QueryScope, is_interface
from omnigraph.language.query.check.traversal import to_edge_word
from omnigraph.language.query.typed_tree import (
    Compare,
    Expression,
    Identity,
    IsNull,
    Now,
    ParameterValue,
    PropertyValue,
    TypedBinding,
)
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import Scalar, ValueType


def check_binding(binding: ast.BindingClause, scope: QueryScope) -> TypedBinding | None:
    """Check ``$v: Type { property: value, ... }``."""
    node_type = _find_node_type(binding, scope)
    _bind_node(binding, node_type or UNKNOWN, scope)
    if node_type is None:
        return None
    compared: list[Compare | IsNull | None] = [
        _check_match(match, binding.variable, node_type, scope) for match in binding.matches
    ]
    if binding.variable in scope.optional:
        # A pattern finds nothing at a variable that is absent.
        compared.append(IsNull(Identity(binding.variable, STRING.as_nullable()), negated=True))
    return TypedBinding(binding.variable, node_type.name, tuple(one for one in compared if one is not None))


def _find_node_type(binding: ast.BindingClause, scope: QueryScope) -> NodeType | None:
    """Find the type of a binding, for an interface the one that is chosen; None after a problem."""
    name = binding.type_name
    if not is_interface(name, scope.catalog):
        found = scope.catalog.nodes.get(name)
        return found or scope.reject(
            "T1", f"no node type is called '{name}'", binding.type_span, _suggest_node_type(name, scope)
        )
    if binding.variable in scope.chosen and not scope.is_block:
        return scope.chosen[binding.variable].node_type
    types = sorted(node.name for node in scope.catalog.nodes.values() if name in node.implements)
    message = f"the interface {name} is bound in the outermost match only"
    return scope.reject("T35", message, binding.type_span, f"name a node type here: {', '.join(types)}")


def _bind_node(binding: ast.BindingClause, node_type: Entity, scope: QueryScope) -> None:
    """Bind the variable, or check that it is already bound to the same type."""
    variable, span = binding.variable, binding.variable_span
    if variable == ast.ANONYMOUS:
        hint = f"name it: $x: {binding.type_name}"
        return scope.reject("Q002", "'$_' stands for any node and is never bound", span, hint)
    bound = scope.look_up(variable)
    if scope.is_own_optional(variable):
        hint = "bind it inside the optional block, or test it: $x is not null"
        return scope.reject("T28", f"'${variable}' is bound by an optional block", span, hint)
    if bound is None:
        return scope.bind(variable, node_type, span)
    if isinstance(bound, EdgeType) or bound is PATH:
        kind = "a path" if bound is PATH else "an edge"
        return scope.reject("T23", f"'${variable}' is {kind} and cannot be a node too", span, "choose another name")
    if bound is not node_type and bound is not UNKNOWN and node_type is not UNKNOWN:
        name = scope.name_of_type(variable, bound)
        hint = f"choose another name, or write this binding before the clause that made it a {name}"
        return scope.reject("Q003", f"'${variable}' is already a {name}", span, hint)
    return None


def _suggest_node_type(name: str, scope: QueryScope) -> str:
    catalog = scope.catalog
    if name in catalog.edges:
        return f"{name} is an edge; write $a {to_edge_word(name)} $b"
    return suggest_name(name, catalog.nodes, "node types")


def _check_match(match: ast.PropertyMatch, variable: str, node_type: NodeType, scope: QueryScope) -> Compare | None:
    """Check ``property: value`` in braces: equality, or membership if the property is a list."""
    declared = node_type.properties.get(match.name)
    if declared is None and match.name == ID:
        value = _check_match_value(match, variable, STRING, scope)
        return None if value is None else Compare(Identity(variable, STRING), ast.ComparisonOperator.EQUAL, value)
    if declared is None:
        owner = scope.name_of_type(variable, node_type)
        return reject_property("T2", node_type, match.name, match.name_span, scope.report, owner)
    if declared.type.scalar in {Scalar.BLOB, Scalar.VECTOR}:
        kind = declared.type.scalar
        hint = f"order by nearest(${variable}.{match.name}, ...)" if kind is Scalar.VECTOR else "match another property"
        return scope.reject("T3", f"a {kind} cannot be compared", match.span, hint)
    value = _check_match_value(match, variable, declared.type, scope)
    if value is None:
        return None
    operator = ast.ComparisonOperator.CONTAINS if declared.type.is_list else ast.ComparisonOperator.EQUAL
    return Compare(PropertyValue(variable, match.name, declared.type), operator, value)


def _check_match_value(
    match: ast.PropertyMatch, variable: str, declared: ValueType, scope: QueryScope
) -> Expression | None:
    value, element = match.value, declared.item
    match value:
        case ast.NowCall():
            if declared.scalar is Scalar.DATETIME:
                return Now(DATETIME)
            message = f"now() is a DateTime; '{match.name}' is {declared}"
            return scope.reject("T7", message, value.span, "write a literal or a parameter")
        case ast.Variable():
            return _check_match_variable(value, match, variable, declared, scope)
        case ast.ScalarLiteral(None):
            hint = f"write ${variable}.{match.name} is null after the binding"
            return scope.reject("T3", "nothing equals null", value.span, hint)
        case ast.ListLiteral() if declared.is_list:
            hint = f"name one element, or write ${variable}.{match.name} contains ... after the binding"
            return scope.reject("T3", "lists cannot be compared as a whole", value.span, hint)
        case _:
            return fit_compared_literal(value, element, scope.report)


def _check_match_variable(
    value: ast.Variable, match: ast.PropertyMatch, variable: str, declared: ValueType, scope: QueryScope
) -> ParameterValue | None:
    given = scope.parameters.get(value.name)
    if given is None:
        if scope.look_up(value.name) is None:
            return reject_unbound("Q002", value.name, value.span, scope)
        hint = f"compare properties after the binding: ${variable}.{match.name} = ${value.name}.property"
        return scope.reject("T7", f"'${value.name}' is a bound variable, not a value", value.span, hint)
    if given.is_list or not are_comparable(given, declared):
        message = f"'{match.name}' is {declared}; '${value.name}' is {given}"
        return scope.reject("T7", message, value.span, f"declare ${value.name}: {declared.item.scalar}")
    return ParameterValue(value.name, given)

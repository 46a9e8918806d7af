"""Check traversals: the edge type, the direction and the ends."""

from __future__ import annotations

from omnigraph.language.query import ast
from omnigraph.language.query.check.report import suggest_name
from omnigraph.language.query.check.scope import UNKNOWN, Entity, QueryScope
from omnigraph.language.query.typed_tree import TraversalDirection, TypedTraversal
from omnigraph.language.schema import EdgeType, NodeType


def check_traversal(step: ast.TraversalClause, scope: QueryScope) -> TypedTraversal | None:
    """Check ``$a edge $b`` in all its forms, and bind ends that are not bound yet to the node types of the edge."""
    edge = scope.catalog.find_edge(step.edge)
    if edge is None:
        hint = suggest_name(step.edge, [to_edge_word(name) for name in scope.catalog.edges], "edges")
        scope.reject("T4", f"no edge type is called '{step.edge}'", step.edge_span, hint)
    hops = _check_hops(step, scope)
    source = _resolve_end(step.source, scope)
    destination = _resolve_end(step.destination, scope)
    direction = None if edge is None else _resolve_direction(step, edge, source, destination, scope)
    ends = _end_types(edge, direction, scope)
    names = tuple(_bind_end(*end, scope) for end in zip((step.source, step.destination), ends, strict=True))
    edge_variable = _bind_edge(step, edge, scope)
    if edge is None or direction is None or hops is None:
        return None
    source_type, destination_type = _type_names(edge, direction)
    return TypedTraversal(names[0], source_type, edge.name, direction, names[1], destination_type, *hops, edge_variable)


def to_edge_word(name: str) -> str:
    """Return the name of an edge type as a traversal spells it."""
    return name[:1].lower() + name[1:]


def _check_hops(step: ast.TraversalClause, scope: QueryScope) -> tuple[int, int] | None:
    if step.hops is None:
        return 1, 1
    minimum, maximum, span = step.hops.minimum, step.hops.maximum, step.hops.span
    if maximum is None:
        return scope.reject("T15", "the hops have no upper bound", span, f"write {{{minimum},{max(minimum, 1) + 2}}}")
    if minimum < 1:
        return scope.reject("T15", "a traversal takes at least one hop", span, f"write {{1,{max(maximum, 1)}}}")
    if maximum < minimum:
        message = f"the upper bound {maximum} is below the lower bound {minimum}"
        return scope.reject("T15", message, span, f"write {{{maximum},{minimum}}}")
    return minimum, maximum


def _resolve_end(end: ast.Variable, scope: QueryScope) -> Entity | None:
    """Return what an end is already bound to; an edge is a problem."""
    entity = None if end.name == ast.ANONYMOUS else scope.look_up(end.name)
    if scope.is_own_optional(end.name):
        hint = "move the traversal into the optional block, or into one of its own: optional { ... }"
        scope.reject("T28", f"'${end.name}' may be absent: an optional block binds it", end.span, hint)
        return UNKNOWN
    if isinstance(entity, EdgeType):
        scope.reject("T23", f"'${end.name}' is an edge; a traversal goes between nodes", end.span, "name a node")
        return UNKNOWN
    return entity


def _resolve_direction(
    step: ast.TraversalClause, edge: EdgeType, source: Entity | None, destination: Entity | None, scope: QueryScope
) -> TraversalDirection | None:
    """Find the direction from the bound ends, the left one first, and check the ends."""
    if step.undirected and edge.from_type != edge.to_type:
        message = f"{edge.name} goes from {edge.from_type} to {edge.to_type}; only edges within one type go both ways"
        return scope.reject("T22", message, step.edge_span, f"write {to_edge_word(edge.name)}")
    direction = TraversalDirection.BOTH if step.undirected else _infer_direction(edge, source, destination)
    source_type, destination_type = _type_names(edge, direction)
    if source is None and step.source.name == step.destination.name != ast.ANONYMOUS:
        destination = scope.catalog.nodes[source_type]
    fits = [
        _check_end(step.source, source, source_type, edge, scope),
        _check_end(step.destination, destination, destination_type, edge, scope),
    ]
    return direction if all(fits) else None


def _infer_direction(edge: EdgeType, source: Entity | None, destination: Entity | None) -> TraversalDirection:
    if edge.from_type == edge.to_type:
        return TraversalDirection.OUT
    if isinstance(source, NodeType):
        return TraversalDirection.IN if source.name == edge.to_type else TraversalDirection.OUT
    return (
        TraversalDirection.IN
        if isinstance(destination, NodeType) and destination.name == edge.from_type
        else TraversalDirection.OUT
    )


def _check_end(end: ast.Variable, entity: Entity | None, required: str, edge: EdgeType, scope: QueryScope) -> bool:
    if not isinstance(entity, NodeType) or entity.name == required:
        return True
    message = f"'${end.name}' is a {entity.name}; {edge.name} goes from {edge.from_type} to {edge.to_type}"
    scope.reject("T5", message, end.span, f"use a {required} here")
    return False


def _type_names(edge: EdgeType, direction: TraversalDirection) -> tuple[str, str]:
    """The names of the node types at the left and the right end."""
    ends = (edge.from_type, edge.to_type)
    return (ends[1], ends[0]) if direction is TraversalDirection.IN else ends


def _end_types(edge: EdgeType | None, direction: TraversalDirection | None, scope: QueryScope) -> tuple[Entity, Entity]:
    if edge is None or direction is None:
        return UNKNOWN, UNKNOWN
    left, right = _type_names(edge, direction)
    return scope.catalog.nodes[left], scope.catalog.nodes[right]


def _bind_end(end: ast.Variable, node_type: Entity, scope: QueryScope) -> str:
    """Return the name of an end, and bind it to its node type if it is not bound yet."""
    if end.name == ast.ANONYMOUS:
        return next(scope.anonymous_names)
    if end.name not in scope.variables:
        scope.bind(end.name, node_type, end.span)
    return end.name


def _bind_edge(step: ast.TraversalClause, edge: EdgeType | None, scope: QueryScope) -> str | None:
    variable = step.edge_variable
    if variable is None:
        return None
    if step.hops is not None:
        hint = "leave out the hops, or the edge variable"
        scope.reject("T23", "an edge variable is one edge, so it takes no hops", step.hops.span, hint)
    if variable.name == ast.ANONYMOUS or variable.name in scope.variables:
        return scope.reject("T23", f"the name '${variable.name}' is taken", variable.span, "choose another name")
    scope.bind(variable.name, UNKNOWN if edge is None else edge, variable.span)
    return variable.name

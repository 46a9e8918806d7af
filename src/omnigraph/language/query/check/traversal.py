"""Traversals: which edge type a word means, which way it is walked, and what its ends are."""

from __future__ import annotations

from omnigraph.language.query import ast
from omnigraph.language.query.check.report import suggest_name
from omnigraph.language.query.check.scope import UNKNOWN, Entity, QueryScope
from omnigraph.language.query.typed import TraversalDirection, TypedTraversal
from omnigraph.language.schema import EdgeType, NodeType


def check_traversal(step: ast.TraversalClause, scope: QueryScope) -> TypedTraversal | None:
    """``$a edge $b`` in all its forms. Ends that are not bound yet become bound to the edge's types."""
    edge = scope.catalog.find_edge(step.edge)
    if edge is None:
        hint = suggest_name(step.edge, [edge_word(name) for name in scope.catalog.edges], "edges")
        scope.reject("T4", f"no edge type is called '{step.edge}'", step.edge_span, hint)
    hops = _checked_hops(step, scope)
    source = _endpoint(step.source, scope)
    destination = _endpoint(step.destination, scope)
    direction = None if edge is None else _direction(step, edge, source, destination, scope)
    ends = _end_types(edge, direction, scope)
    names = tuple(_bind_end(*end, scope) for end in zip((step.source, step.destination), ends, strict=True))
    edge_variable = _bind_edge(step, edge, scope)
    if edge is None or direction is None or hops is None:
        return None
    source_type, destination_type = _type_names(edge, direction)
    return TypedTraversal(names[0], source_type, edge.name, direction, names[1], destination_type, *hops, edge_variable)


def edge_word(name: str) -> str:
    """An edge type's name as a traversal spells it."""
    return name[:1].lower() + name[1:]


def _checked_hops(step: ast.TraversalClause, scope: QueryScope) -> tuple[int, int] | None:
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


def _endpoint(end: ast.Variable, scope: QueryScope) -> Entity | None:
    """What stands at an end already; an edge there is a problem."""
    entity = None if end.name == ast.ANONYMOUS else scope.entity(end.name)
    if isinstance(entity, EdgeType):
        scope.reject("T23", f"'${end.name}' is an edge; a traversal goes between nodes", end.span, "name a node")
        return UNKNOWN
    return entity


def _direction(
    step: ast.TraversalClause, edge: EdgeType, source: Entity | None, destination: Entity | None, scope: QueryScope
) -> TraversalDirection | None:
    """How the edge is walked: decided by the end that is bound, the left one first."""
    if step.undirected and edge.from_type != edge.to_type:
        message = f"{edge.name} goes from {edge.from_type} to {edge.to_type}; only edges within one type go both ways"
        return scope.reject("T22", message, step.edge_span, f"write {edge_word(edge.name)}")
    direction = TraversalDirection.BOTH if step.undirected else _walked(edge, source, destination)
    source_type, destination_type = _type_names(edge, direction)
    if source is None and step.source.name == step.destination.name != ast.ANONYMOUS:
        destination = scope.catalog.nodes[source_type]
    fits = [
        _check_end(step.source, source, source_type, edge, scope),
        _check_end(step.destination, destination, destination_type, edge, scope),
    ]
    return direction if all(fits) else None


def _walked(edge: EdgeType, source: Entity | None, destination: Entity | None) -> TraversalDirection:
    if edge.from_type == edge.to_type:
        return TraversalDirection.OUT
    if isinstance(source, NodeType):
        return TraversalDirection.IN if source.name == edge.to_type else TraversalDirection.OUT
    return (
        TraversalDirection.IN
        if isinstance(destination, NodeType) and destination.name == edge.from_type
        else TraversalDirection.OUT
    )


def _check_end(end: ast.Variable, entity: Entity | None, wanted: str, edge: EdgeType, scope: QueryScope) -> bool:
    if not isinstance(entity, NodeType) or entity.name == wanted:
        return True
    message = f"'${end.name}' is a {entity.name}; {edge.name} goes from {edge.from_type} to {edge.to_type}"
    scope.reject("T5", message, end.span, f"a {wanted} belongs here")
    return False


def _type_names(edge: EdgeType, direction: TraversalDirection) -> tuple[str, str]:
    """The node types at the left and the right end."""
    ends = (edge.from_type, edge.to_type)
    return (ends[1], ends[0]) if direction is TraversalDirection.IN else ends


def _end_types(edge: EdgeType | None, direction: TraversalDirection | None, scope: QueryScope) -> tuple[Entity, Entity]:
    if edge is None or direction is None:
        return UNKNOWN, UNKNOWN
    left, right = _type_names(edge, direction)
    return scope.catalog.nodes[left], scope.catalog.nodes[right]


def _bind_end(end: ast.Variable, node_type: Entity, scope: QueryScope) -> str:
    """The name of an end; one that is not bound yet gets its type from the edge."""
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
        scope.reject("T23", "an edge variable stands for one edge, so it takes no hops", step.hops.span, hint)
    if variable.name == ast.ANONYMOUS or variable.name in scope.variables:
        return scope.reject("T23", f"the name '${variable.name}' is taken", variable.span, "choose another name")
    scope.bind(variable.name, UNKNOWN if edge is None else edge, variable.span)
    return variable.name

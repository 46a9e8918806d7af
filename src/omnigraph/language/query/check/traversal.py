"""Check traversals: the edge type, the direction and the ends."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.language.query import ast
from omnigraph.language.query.check.names import STRING
from omnigraph.language.query.check.report import suggest_name
from omnigraph.language.query.check.scope import PATH, UNKNOWN, Entity, QueryScope
from omnigraph.language.query.typed_tree import EdgeStep, Identity, IsNull, TraversalDirection, TypedTraversal
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import Span


def check_traversal(step: ast.TraversalClause, scope: QueryScope) -> Iterator[TypedTraversal | IsNull]:
    """Check ``$a edge $b`` in all its forms, and bind ends that are not bound yet to the node types of the edges.

    A block with an interface variable whose chosen type has no such edge has no match. It keeps the traversal, which
    binds its other variables, from any node, and gets a condition that is never true: the id of the variable is null.
    """
    edges = _find_edges(step, scope)
    hops = _check_hops(step, scope)
    source = _resolve_end(step.source, scope)
    destination = _resolve_end(step.destination, scope)
    steps = None if edges is None else _resolve_steps(step, edges, source, destination, scope)
    ends = list(zip((step.source, step.destination), _end_types(steps, scope), strict=True))
    names = [_bind_end(end, node_type, scope) for end, node_type in ends]
    variable = _bind_variable(step, edges, scope)
    if steps is None or hops is None:
        return
    source_type, destination_type = _type_names(steps[0], scope)
    if hops[0] == 0 and source_type != destination_type:
        message = f"a walk of no hops stays where it is: it does not lead from {source_type} to {destination_type}"
        scope.reject("T15", message, _span_of_hops(step), f"write {_format_hops(1, hops[1])}")
        return
    edge, path = (variable, None) if step.hops is None else (None, variable)
    yield TypedTraversal(names[0], source_type, steps, names[1], destination_type, *hops, edge, path)
    yield from (
        IsNull(Identity(end.name, STRING), negated=False)
        for end, node_type in ends
        if _has_no_edge(end, node_type, scope)
    )


def to_edge_word(name: str) -> str:
    """Return the name of an edge type as a traversal spells it."""
    return name[:1].lower() + name[1:]


def _find_edges(step: ast.TraversalClause, scope: QueryScope) -> tuple[EdgeType, ...] | None:
    """Return the edge types of a traversal, or None if a name is none of them."""
    found = [(word, scope.catalog.find_edge(word.name)) for word in step.edges]
    for word, edge in found:
        if edge is None:
            hint = suggest_name(word.name, [to_edge_word(name) for name in scope.catalog.edges], "edges")
            scope.reject("T4", f"no edge type is called '{word.name}'", word.span, hint)
    known = tuple(edge for _, edge in found if edge is not None)
    return known if len(known) == len(found) else None


def _check_hops(step: ast.TraversalClause, scope: QueryScope) -> tuple[int, int | None] | None:
    if step.hops is None:
        return 1, 1
    minimum, maximum, span = step.hops.minimum, step.hops.maximum, step.hops.span
    if maximum == minimum == 0:
        return scope.reject("T15", "a walk of no hops leads nowhere", span, "write {0,1}, or leave out the traversal")
    if maximum is not None and maximum < minimum:
        message = f"the upper bound {maximum} is below the lower bound {minimum}"
        return scope.reject("T15", message, span, f"write {_format_hops(maximum, minimum)}")
    return minimum, maximum


def _format_hops(minimum: int, maximum: int | None) -> str:
    return f"{{{minimum},{'' if maximum is None else maximum}}}"


def _span_of_hops(step: ast.TraversalClause) -> Span:
    return step.span if step.hops is None else step.hops.span


def _resolve_end(end: ast.Variable, scope: QueryScope) -> Entity | None:
    """Return what an end is already bound to; an edge is a problem."""
    entity = None if end.name == ast.ANONYMOUS else scope.look_up(end.name)
    if scope.is_own_optional(end.name):
        hint = "move the traversal into the optional block, or into one of its own: optional { ... }"
        scope.reject("T28", f"'${end.name}' may be absent: an optional block binds it", end.span, hint)
        return UNKNOWN
    if isinstance(entity, EdgeType) or entity is PATH:
        kind = "a path" if entity is PATH else "an edge"
        scope.reject("T23", f"'${end.name}' is {kind}; a traversal goes between nodes", end.span, "name a node")
        return UNKNOWN
    return entity


def _resolve_steps(
    step: ast.TraversalClause,
    edges: tuple[EdgeType, ...],
    source: Entity | None,
    destination: Entity | None,
    scope: QueryScope,
) -> tuple[EdgeStep, ...] | None:
    """Find the direction of each edge from the bound ends, the left one first, and check the ends.

    An interface variable does not decide the direction: its types could be at both ends of the edge, and the
    combinations would mix both directions. If no other end is bound, the edge has its written direction.
    """
    if step.undirected and not _check_undirected(step, edges, scope):
        return None
    left = None if step.source.name in scope.chosen else source
    right = None if step.destination.name in scope.chosen else destination
    steps = tuple(dict.fromkeys(_resolve_step(edge, step, left, right) for edge in edges))
    if len({_type_names(each, scope) for each in steps}) > 1:
        return _reject_different_ends(step, steps, scope)
    source_type, destination_type = _type_names(steps[0], scope)
    if source is None and step.source.name == step.destination.name != ast.ANONYMOUS:
        destination = scope.catalog.nodes[source_type]
    fits = [
        _check_end(step.source, source, source_type, edges[0], scope),
        _check_end(step.destination, destination, destination_type, edges[0], scope),
    ]
    return steps if all(fits) else None


def _check_undirected(step: ast.TraversalClause, edges: tuple[EdgeType, ...], scope: QueryScope) -> bool:
    between = [pair for pair in zip(step.edges, edges, strict=True) if pair[1].from_type != pair[1].to_type]
    for word, edge in between:
        message = f"{edge.name} goes from {edge.from_type} to {edge.to_type}; only edges within one type go both ways"
        scope.reject("T22", message, word.span, f"write {to_edge_word(edge.name)}")
    return not between


def _resolve_step(
    edge: EdgeType, step: ast.TraversalClause, source: Entity | None, destination: Entity | None
) -> EdgeStep:
    direction = TraversalDirection.BOTH if step.undirected else _infer_direction(edge, source, destination)
    return EdgeStep(edge.name, direction)


def _reject_different_ends(step: ast.TraversalClause, steps: tuple[EdgeStep, ...], scope: QueryScope) -> None:
    ways = [(each.edge_type, *_type_names(each, scope)) for each in steps]
    message = " and ".join(f"{name} leads from {begin} to {end}" for name, begin, end in ways)
    hint = "edges of one hop lead from one same type to one same type; write a traversal for each, or two queries"
    scope.reject("T33", f"in one hop {message}", step.edges_span, hint)


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
    required_type = scope.catalog.nodes[required]
    if not isinstance(entity, NodeType) or entity.name == required or _has_no_edge(end, required_type, scope):
        return True
    message = f"'${end.name}' is a {entity.name}; {edge.name} goes from {edge.from_type} to {edge.to_type}"
    scope.reject("T5", message, end.span, f"use a {required} here")
    return False


def _has_no_edge(end: ast.Variable, required: Entity, scope: QueryScope) -> bool:
    """Whether another type of an interface has the edge of a block, but not the one that is chosen."""
    chosen = scope.chosen.get(end.name)
    if chosen is None or not scope.is_block or not isinstance(required, NodeType):
        return False
    return chosen.node_type.name != required.name and required.name in chosen.possible


def _type_names(step: EdgeStep, scope: QueryScope) -> tuple[str, str]:
    """The names of the node types at the left and the right end."""
    edge = scope.catalog.edges[step.edge_type]
    ends = (edge.from_type, edge.to_type)
    return (ends[1], ends[0]) if step.direction is TraversalDirection.IN else ends


def _end_types(steps: tuple[EdgeStep, ...] | None, scope: QueryScope) -> tuple[Entity, Entity]:
    if steps is None:
        return UNKNOWN, UNKNOWN
    left, right = _type_names(steps[0], scope)
    return scope.catalog.nodes[left], scope.catalog.nodes[right]


def _bind_end(end: ast.Variable, node_type: Entity, scope: QueryScope) -> str:
    """Return the name of an end, and bind it to its node type if it is not bound yet."""
    if end.name == ast.ANONYMOUS or _has_no_edge(end, node_type, scope):
        return next(scope.anonymous_names)
    if end.name not in scope.variables:
        scope.bind(end.name, node_type, end.span)
    return end.name


def _bind_variable(step: ast.TraversalClause, edges: tuple[EdgeType, ...] | None, scope: QueryScope) -> str | None:
    """Bind the variable before the edge names: to a path if there are hops, else to one edge."""
    variable = step.edge_variable
    if variable is None:
        return None
    if step.hops is None and len(step.edges) > 1:
        hint = f"leave out the variable, or write hops for a path: {_format_hops(1, 1)}"
        scope.reject("T33", "an edge variable is one edge, of one type", step.edges_span, hint)
    if variable.name == ast.ANONYMOUS or variable.name in scope.variables:
        return scope.reject("T23", f"the name '${variable.name}' is taken", variable.span, "choose another name")
    edge = edges[0] if edges and len(edges) == 1 else UNKNOWN
    scope.bind(variable.name, edge if step.hops is None else PATH, variable.span)
    return variable.name

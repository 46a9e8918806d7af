"""Which part of a graph an algorithm looks at: node types, edge types with directions, a weight and filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, cast, get_args

from omnigraph.errors import Json, NotFound, NotFoundError, OmniGraphError, ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.source import list_names, suggest_name
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.rows import Direction, Filter, parse_filter, require_edge_type, require_node_type
from omnigraph.storage.filters import Condition

_DIRECTIONS: Final = cast("tuple[str, ...]", get_args(Direction))


@dataclass(frozen=True, slots=True)
class ProjectionSpec:
    """What was asked for, not yet compared with a schema. None stands for all types."""

    nodes: tuple[str, ...] | None = None
    edges: Mapping[str, str] | None = None
    """The direction in which the edges of each type are followed."""
    weight: str | None = None
    filters: Mapping[str, Filter] = field(default_factory=dict[str, Filter])
    branch: str = MAIN
    at: Reference | None = None


@dataclass(frozen=True, slots=True)
class ProjectedEdges:
    """The edges of one type in a projection."""

    type: EdgeType
    direction: Direction
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class ProjectionPlan:
    """A projection in the words of one schema; types are in the order of their names."""

    nodes: tuple[tuple[NodeType, tuple[Condition, ...]], ...]
    edges: tuple[ProjectedEdges, ...]
    weight: str | None
    filters: Mapping[str, Filter]

    @property
    def has_filters(self) -> bool:
        """Whether some nodes or edges of the types may be left out."""
        return bool(self.filters)

    def to_json(self) -> dict[str, Json]:
        """Return the projection as a commit message and the command line tell it."""
        found: dict[str, Json] = {
            "nodes": [node.name for node, _ in self.nodes],
            "edges": {edge.type.name: edge.direction for edge in self.edges},
        }
        if self.weight is not None:
            found["weight"] = self.weight
        if self.filters:
            found["filters"] = {name: str(given) for name, given in self.filters.items()}
        return found


def make_spec(
    nodes: Sequence[str] | None,
    edges: Sequence[str] | Mapping[str, str] | None,
    weight: str | None,
    direction: str,
    filters: Mapping[str, Filter] | None,
    branch: str,
    at: Reference | None,
) -> ProjectionSpec:
    """Keep what a caller gave, in a form that can be read again. ``direction`` is for edges that have no other."""
    kept = {
        name: dict(cast("Mapping[str, object]", given)) if isinstance(given, Mapping) else _keep_triples(given)
        for name, given in (filters or {}).items()
    }
    own = dict(edges) if isinstance(edges, Mapping) else None if edges is None else dict.fromkeys(edges, direction)
    if own is None and direction != "out":
        own = {_EVERY: direction}
    if not isinstance(edges, Mapping) and edges is not None and len(own or {}) < len(edges):
        raise ParameterError(f"edges is {list(edges)!r}: a type is named twice", hint="name each type once")
    return ProjectionSpec(None if nodes is None else tuple(nodes), own, weight, kept, branch, at)


_EVERY: Final = "*"
"""In a specification: all edge types between the nodes."""


def _keep_triples(given: object) -> Filter:
    # What is no list is refused with the other problems, once the type is known.
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    return cast("Filter", tuple(cast("Iterable[object]", given)) if is_list else given)


# --------------------------------------------------------------------------------------------- with a schema


def plan_projection(spec: ProjectionSpec, catalog: Catalog) -> ProjectionPlan:
    """Compare a specification with a schema. All problems are reported together."""
    problems: list[OmniGraphError] = []
    nodes = _find_nodes(spec, catalog, problems)
    edges = _find_edges(spec, catalog, nodes, problems)
    if not edges and not problems:
        problems.append(
            ParameterError("the projection has no edge types", hint=list_names(catalog.edges, "edge types"))
        )
    if nodes is None:
        names = catalog.nodes if spec.edges is None else {end for edge, _ in edges for end in _ends_of(edge)}
        nodes = [catalog.nodes[name] for name in sorted(names)]
    problems += [each for edge, _ in edges for each in _check_edge(edge, nodes, spec.weight)]
    conditions = _parse_filters(spec, [*(edge for edge, _ in edges), *nodes], problems)
    _refuse(problems)
    return ProjectionPlan(
        tuple((node, conditions.get(node.table_key, ())) for node in nodes),
        tuple(
            ProjectedEdges(edge, cast("Direction", direction), conditions.get(edge.table_key, ()))
            for edge, direction in sorted(edges, key=lambda pair: pair[0].name)
        ),
        spec.weight,
        spec.filters,
    )


def _find_nodes(spec: ProjectionSpec, catalog: Catalog, problems: list[OmniGraphError]) -> list[NodeType] | None:
    if spec.nodes is None:
        return None
    found: dict[str, NodeType] = {}
    for name in spec.nodes:
        try:
            node = require_node_type(catalog, name)
        except NotFound as missing:
            problems.append(missing)
            continue
        if node.name in found:
            problems.append(ParameterError(f"node type '{name}' is named twice", hint="name each type once"))
        found[node.name] = node
    if not spec.nodes:
        problems.append(ParameterError("nodes is empty", hint="name node types, or leave nodes out"))
    return sorted(found.values(), key=lambda node: node.name)


def _find_edges(
    spec: ProjectionSpec, catalog: Catalog, nodes: list[NodeType] | None, problems: list[OmniGraphError]
) -> list[tuple[EdgeType, str]]:
    given = {_EVERY: "out"} if spec.edges is None else spec.edges
    found: dict[str, tuple[EdgeType, str]] = {}
    for name, direction in given.items():
        if direction not in _DIRECTIONS:
            problems.append(ParameterError(f"direction is {direction!r}", hint='use "out", "in" or "both"'))
        if name == _EVERY:
            names = None if nodes is None else {node.name for node in nodes}
            every = [edge for edge in catalog.edges.values() if names is None or names.issuperset(_ends_of(edge))]
            found |= {edge.name: (edge, direction) for edge in every}
            continue
        try:
            edge = require_edge_type(catalog, name)
        except NotFound as missing:
            problems.append(missing)
            continue
        if edge.name in found:
            problems.append(ParameterError(f"edge type '{name}' is named twice", hint="name each type once"))
        found[edge.name] = (edge, direction)
    return list(found.values())


def _ends_of(edge: EdgeType) -> tuple[str, str]:
    return edge.from_type, edge.to_type


def _check_edge(edge: EdgeType, nodes: Sequence[NodeType], weight: str | None) -> list[OmniGraphError]:
    problems: list[OmniGraphError] = []
    known = {node.name for node in nodes}
    missing = sorted({end for end in _ends_of(edge) if end not in known})
    if missing:
        ends = " and ".join(f"'{end}'" for end in missing)
        problems.append(
            ParameterError(
                f"the edges of '{edge.name}' end at {ends}, which the projection does not have",
                hint=f"add {ends} to nodes, or leave '{edge.name}' out",
            )
        )
    if weight is not None:
        declared = edge.properties.get(weight)
        if declared is None:
            numbers = [name for name, each in edge.properties.items() if each.type.is_number]
            problems.append(
                ParameterError(f"{edge.name} has no property '{weight}'", hint=suggest_name(weight, numbers, "numbers"))
            )
        elif not declared.type.is_number or declared.type.is_list:
            problems.append(
                ParameterError(f"{edge.name}.{weight} is {declared.type}", hint="a weight is a property with numbers")
            )
    return problems


def _parse_filters(
    spec: ProjectionSpec, types: Sequence[NodeType | EdgeType], problems: list[OmniGraphError]
) -> dict[str, tuple[Condition, ...]]:
    """Return the conditions by table key. A node type wins over an edge type of the same name, as elsewhere."""
    named = {type_.name: type_ for type_ in types}
    chosen: dict[str, NodeType | EdgeType] = {**{str(type_.table_key): type_ for type_ in types}, **named}
    found: dict[str, tuple[Condition, ...]] = {}
    for name, given in spec.filters.items():
        if name not in chosen:
            hint = suggest_name(name, named, "types of the projection")
            problems.append(ParameterError(f"a filter is for '{name}', which the projection does not have", hint=hint))
            continue
        try:
            found[chosen[name].table_key] = tuple(parse_filter(chosen[name], given))
        except ParameterError as error:
            problems.append(error)
    return found


def _refuse(problems: Sequence[OmniGraphError]) -> None:
    if not problems:
        return
    if len(problems) == 1:
        raise problems[0]
    messages = [each.message for each in problems]
    hint = next((each.hint for each in problems if each.hint), None)
    kind = NotFound if all(isinstance(each, NotFoundError) for each in problems) else ParameterError
    raise kind("; ".join(messages), hint=hint, details={"problems": list[Json](messages)})

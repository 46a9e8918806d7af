"""What a mutation with a match does, from the meaning of the language alone: one row and one statement at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.language.query.typed_statements import (
    AssignedValue,
    DeleteBound,
    InsertEdge,
    InsertNode,
    Statement,
    TypedMutation,
    UpdateBound,
)
from omnigraph.language.query.typed_tree import single_reads_of
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.language.types import FLOATS, INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import ConstantValue, round_to_f32
from tests.model.match_model import Asked, Entity, Graph, Row, Value, evaluated, solutions

NEW = "new "
"""How the ids of new edges begin: nobody knows them."""


class Refused(Exception):
    """The mutation changes nothing. ``entity`` and ``values``: who was given several values, and the smallest two."""

    def __init__(self, code: str, entity: str = "", values: tuple[Value, Value] | None = None) -> None:
        super().__init__(code)
        self.code, self.entity, self.values = code, entity, values


@dataclass(slots=True)
class Changed:
    """A graph while statements change it, how many entities they affected, and whose rows were written.

    A rule that is broken on the way refuses the mutation at its end.
    """

    catalog: Catalog
    nodes: dict[str, dict[str, Entity]]
    edges: dict[str, dict[str, Entity]]
    affected_nodes: int = 0
    affected_edges: int = 0
    written: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    breaks_a_rule: bool = False

    def graph(self) -> Graph:
        return Graph(self.nodes, self.edges)

    def table(self, type_: NodeType | EdgeType) -> dict[str, Entity]:
        return (self.nodes if isinstance(type_, NodeType) else self.edges)[type_.name]

    def write(self, type_: NodeType | EdgeType, entity: Entity) -> None:
        self.table(type_)[entity.id] = entity
        self.written.add((type_.table_key, entity.id))

    def count(self, type_: NodeType | EdgeType, number: int) -> None:
        if isinstance(type_, NodeType):
            self.affected_nodes += number
        else:
            self.affected_edges += number


def changed_by(mutation: TypedMutation, asked: Asked, catalog: Catalog) -> Changed:
    """What a mutation makes of a graph, or :class:`Refused`."""
    assert mutation.match is not None
    reads = single_reads_of(mutation.match)
    assert len({read.columns for read in reads}) == 1, "a value that differs by type, such as type(), is left to cases"
    rows = [row for read in reads for row in solutions(read.clauses, asked, {})]
    graph = asked.graph
    changed = Changed(
        catalog,
        {name: dict(found) for name, found in graph.nodes.items()},
        {name: dict(found) for name, found in graph.edges.items()},
    )
    for statement in mutation.statements:
        _apply(statement, rows, changed, asked)
    _check_rules(changed)
    return changed


def _apply(statement: Statement, rows: list[Row], changed: Changed, asked: Asked) -> None:
    match statement:
        case InsertNode():
            _insert_nodes(changed.catalog.nodes[statement.node_type], statement, rows, changed, asked)
        case InsertEdge():
            _insert_edges(changed.catalog.edges[statement.edge_type], statement, rows, changed, asked)
        case UpdateBound():
            _update(statement, rows, changed, asked)
        case DeleteBound():
            _delete(statement, rows, changed)
        case _:
            raise NotImplementedError(type(statement).__name__)


def _insert_nodes(type_: NodeType, statement: InsertNode, rows: list[Row], changed: Changed, asked: Asked) -> None:
    given = [_stored(type_, statement.values, row, asked) for row in rows]
    absent: dict[str, ConstantValue] = dict.fromkeys(type_.properties)
    assert type_.key == ("code",)
    of_key = _one_value([(str(values["code"]), values) for values in given if values["code"] is not None])
    changed.breaks_a_rule |= any(values["code"] in (None, "") for values in given)
    for key, values in of_key.items():
        changed.write(type_, Entity(key, {**absent, **values}))
    changed.count(type_, len(of_key))


def _insert_edges(type_: EdgeType, statement: InsertEdge, rows: list[Row], changed: Changed, asked: Asked) -> None:
    absent: dict[str, ConstantValue] = dict.fromkeys(type_.properties)
    for number, row in enumerate(rows):
        values = _stored(type_, statement.values, row, asked)
        ends = [evaluated(end, row, asked) for end in (statement.source, statement.destination)]
        changed.breaks_a_rule |= None in ends
        id_ = f"{NEW}{len(changed.edges[type_.name])} {number}"
        changed.write(type_, Entity(id_, {**absent, **values}, *map(str, ends)))
    changed.count(type_, len(rows))


def _update(statement: UpdateBound, rows: list[Row], changed: Changed, asked: Asked) -> None:
    type_ = _type_of(changed.catalog, statement.table_key)
    variable = statement.entity.variable
    there = [row for row in rows if row[variable] is not None]
    given = [(str(row[variable].id), _stored(type_, statement.values, row, asked)) for row in there]
    for id_, values in _one_value(given).items():
        entity = changed.table(type_)[id_]
        changed.write(type_, replace(entity, properties={**entity.properties, **values}))
    changed.count(type_, len({id_ for id_, _ in given}))


def _delete(statement: DeleteBound, rows: list[Row], changed: Changed) -> None:
    type_ = _type_of(changed.catalog, statement.table_key)
    found = [row[statement.entity.variable] for row in rows]
    gone = {str(entity.id) for entity in found if entity is not None} & changed.table(type_).keys()
    for id_ in gone:
        del changed.table(type_)[id_]
    changed.count(type_, len(gone))
    if isinstance(type_, NodeType):
        for edge_type in changed.catalog.edges_of(type_.name):
            edges = changed.edges[edge_type.name]
            left = {
                id_: edge
                for id_, edge in edges.items()
                if not (edge_type.from_type == type_.name and edge.source in gone)
                and not (edge_type.to_type == type_.name and edge.destination in gone)
            }
            changed.affected_edges += len(edges) - len(left)
            changed.edges[edge_type.name] = left


def _type_of(catalog: Catalog, key: str) -> NodeType | EdgeType:
    kind, _, name = key.partition(":")
    return catalog.nodes[name] if kind == "node" else catalog.edges[name]


# ------------------------------------------------------------------------------------------------ values


def _one_value(given: Sequence[tuple[str, Mapping[str, ConstantValue]]]) -> dict[str, Mapping[str, ConstantValue]]:
    """The values of each entity. Of several, the first entity by id and the first property in the text are told."""
    found: dict[str, Mapping[str, ConstantValue]] = {}
    conflicts: set[str] = set()
    for id_, values in given:
        if found.setdefault(id_, values) != values:
            conflicts.add(id_)
    if conflicts:
        first = min(conflicts)
        of_first = [values for id_, values in given if id_ == first]
        name = next(name for name in of_first[0] if any(each[name] != of_first[0][name] for each in of_first))
        distinct = {each[name]: None for each in of_first}
        one, other, *_ = sorted(distinct, key=lambda value: (value is not None, () if value is None else (value,)))
        raise Refused("conflicting_values", first, (one, other))
    return found


def _stored(
    type_: NodeType | EdgeType, values: tuple[AssignedValue, ...], row: Row, asked: Asked
) -> dict[str, ConstantValue]:
    return {each.name: _fitted(evaluated(each.value, row, asked), type_.properties[each.name].type) for each in values}


def _fitted(value: Value, type_: ValueType) -> ConstantValue:
    """A value in the width of a property; one that does not fit refuses the mutation."""
    if value is None:
        return None
    if type_.is_list:
        return tuple(_fitted(item, type_.item) for item in value)
    if type_.scalar in INTEGER_RANGES and value not in INTEGER_RANGES[type_.scalar]:
        raise Refused("validation_error")
    if type_.scalar not in FLOATS:
        return value
    number = round_to_f32(float(value)) if type_.scalar is Scalar.F32 else float(value)
    if number in (float("inf"), float("-inf")):
        raise Refused("validation_error")
    return number


# ------------------------------------------------------------------------------------------------ rules


def _check_rules(changed: Changed) -> None:
    """What was written has every required value, values of enums that there are, and ends that exist."""
    if changed.breaks_a_rule:
        raise Refused("validation_error")
    for key, id_ in changed.written:
        type_ = _type_of(changed.catalog, key)
        entity = changed.table(type_)[id_]
        for name, declared in type_.properties.items():
            value = entity.properties[name]
            if value is None and not declared.type.nullable:
                raise Refused("validation_error")
            if value is not None and declared.type.enum_values and value not in declared.type.enum_values:
                raise Refused("validation_error")
        if isinstance(type_, EdgeType):
            both = [(type_.from_type, entity.source), (type_.to_type, entity.destination)]
            if any(end not in changed.nodes[name] for name, end in both):
                raise Refused("validation_error")

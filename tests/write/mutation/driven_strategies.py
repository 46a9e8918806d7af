"""Hypothesis strategies for mutations with a match: texts over the schema of ``query_worlds``, and parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import reject
from hypothesis import strategies as st

from omnigraph.errors import QueryError
from omnigraph.language.query import TypedMutation, compile_query
from omnigraph.language.query.check.literals import can_assign
from omnigraph.language.query.typed_tree import single_reads_of
from omnigraph.language.schema.catalog import EdgeType, NodeType, Property
from omnigraph.language.types import FLOATS, INTEGERS, Scalar, ValueType
from tests.read.clause_strategies import _computed, _condition, _number, _Scope, _text, _value, literal, match_clauses
from tests.read.query_worlds import CATALOG, POOLS
from tests.read.read_strategies import _face, _from_face


@dataclass(frozen=True, slots=True)
class Mutation:
    """A mutation, checked, and the values of its parameters."""

    text: str
    params: dict[str, object]
    typed: TypedMutation


@st.composite
def driven_mutations(draw: st.DrawFn) -> Mutation:
    """A match, and one to three statements: inserts and updates, or deletes."""
    scope = _Scope(draw)
    match = [*_faces(scope), *match_clauses(scope)]
    statement = _delete if scope.is_so(4) else _write
    statements = [statement(scope) for _ in range(draw(st.integers(1, 3)))]
    declared = ", ".join(f"${name}: {type_}" for name, type_ in scope.declared.items())
    text = f"query q({declared}) {{ match {{ {', '.join(match)} }} {' '.join(statements)} }}"
    try:
        typed = compile_query(text, CATALOG).typed
    except QueryError as error:
        # A parameter that may be null does not fit every property; anything else is a mistake of this module.
        if not {problem.code for problem in error.problems} <= {"T7", "T32"}:
            raise
        reject()
    assert isinstance(typed, TypedMutation)
    if typed.match is not None and len({read.columns for read in single_reads_of(typed.match)}) > 1:
        # The model has one value for all types of an interface.
        reject()
    return Mutation(text, scope.params, typed)


def _faces(scope: _Scope) -> list[str]:
    """Sometimes a variable of an interface, and what is reached from it: they are read, not written."""
    if not scope.is_so(5):
        return []
    found = [_face(scope)]
    if scope.is_so(3):
        found.append(_from_face(scope, *scope.faces))
        # What has a type of its own for each type of the interface is no target.
        scope.faces.update({name: scope.nodes.pop(name) for name in list(scope.nodes)})
    return found


def _delete(scope: _Scope) -> str:
    return f"delete ${scope.chosen(sorted([*scope.nodes, *scope.edges]))}"


def _write(scope: _Scope) -> str:
    bound = {**scope.nodes, **scope.edges}
    if not scope.is_so(3):
        name = scope.chosen(sorted(bound))
        able = sorted(key for key in bound[name].properties if key != "code")
        if able:
            given = _assignments(
                scope, bound[name], scope.draw(st.lists(st.sampled_from(able), min_size=1, max_size=2))
            )
            return " ".join([f"update ${name} set", "{", given, "}"])
    if scope.is_so():
        return _insert_edge(scope, CATALOG.edges[scope.chosen(sorted(CATALOG.edges))])
    node_type = CATALOG.nodes[scope.chosen(["Vessel", "Port"])]
    required = [each.name for each in node_type.properties.values() if not each.type.nullable]
    others = sorted(node_type.properties.keys() - set(required))
    chosen = [*required, *scope.draw(st.lists(st.sampled_from(others), max_size=2))]
    return f"insert {node_type.name} {{ {_assignments(scope, node_type, chosen)} }}"


def _insert_edge(scope: _Scope, edge_type: EdgeType) -> str:
    ends = {"from": edge_type.from_type, "to": edge_type.to_type}
    given = [f"{end}: {_end(scope, CATALOG.nodes[type_])}" for end, type_ in ends.items()]
    others = sorted(edge_type.properties)
    chosen = scope.draw(st.lists(st.sampled_from(others), max_size=2)) if others else []
    return f"insert {edge_type.name} {{ {', '.join([*given, _assignments(scope, edge_type, chosen)])} }}"


def _end(scope: _Scope, node_type: NodeType) -> str:
    able = sorted(name for name, found in scope.nodes.items() if found is node_type)
    if not able:
        return _value(scope, ValueType(Scalar.STRING))
    return f"${scope.chosen(able)}{scope.chosen(['', '', '.id'])}"


def _assignments(scope: _Scope, type_: NodeType | EdgeType, names: list[str]) -> str:
    return ", ".join(f"{name}: {_assigned(scope, type_.properties[name])}" for name in dict.fromkeys(names))


def _assigned(scope: _Scope, declared: Property) -> str:
    """A value that a property takes: of the match, computed, a literal or a parameter."""
    type_ = declared.type
    alike = scope.properties(lambda found: can_assign(found, type_))
    match scope.chosen(["property", "property", "computed", "value", *(["null"] if type_.nullable else [])]):
        case "property" if alike:
            return scope.draw(st.sampled_from(alike))[0]
        case "computed" if not type_.is_list and type_.scalar is not Scalar.VECTOR:
            return _computed_for(scope, type_)
        case "null":
            return "null"
        case _ if type_.is_list or type_.scalar is Scalar.VECTOR:
            pool = POOLS[type_.scalar]
            item = tuple(scope.draw(st.lists(st.sampled_from(pool), max_size=2))) if type_.is_list else pool[0]
            return literal(item, type_ if type_.is_list else ValueType(Scalar.F32, is_list=True))
        case _:
            return _value(scope, type_)


def _computed_for(scope: _Scope, type_: ValueType) -> str:
    inside = replace(scope, blocks=False)
    if type_.scalar in INTEGERS:
        whole = [name for name, _ in scope.properties(lambda found: found.scalar in INTEGERS and not found.is_list)]
        operands = [scope.chosen([*whole, "1", "3"]) for _ in range(2)]
        return f"{operands[0]} {scope.chosen(['+', '-', '*'])} coalesce({operands[1]}, 2)"
    if type_.scalar in FLOATS:
        return _number(inside, 0)
    match type_.scalar:
        case Scalar.STRING:
            return _text(inside, 0)
        case Scalar.BOOL:
            return f"({_condition(inside, 2)})"
        case _:
            return _computed(inside, type_)

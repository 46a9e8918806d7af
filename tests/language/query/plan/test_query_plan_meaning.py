"""Plans mean what the language says: they are run over a small fleet and compared with results known beforehand,
and generated patterns are compared with trying every assignment of their variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from omnigraph.errors import QueryError
from omnigraph.language.query import compile_query
from omnigraph.language.query.plan.operators import Project
from omnigraph.language.query.plan.planner import plan_read
from omnigraph.language.query.typed_tree import (
    Clause,
    TypedBinding,
    TypedNegation,
    TypedOptional,
    TypedRead,
    TypedTraversal,
)
from omnigraph.language.schema import parse_schema
from tests.language.query.plan.plan_evaluator import (
    Bounds,
    Edges,
    Entity,
    Graph,
    Row,
    Value,
    holds,
    incident,
    run,
    walk,
)
from tests.selection import sized

CATALOG = parse_schema(Path(__file__).parents[3] / "cases" / "vessels.pg").catalog
EXAMPLES = sized(100, 5_000)


def day(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def node(code: str, **properties: Value) -> Entity:
    return Entity(code, {"code": code, **properties})


def edges(kind: str, *pairs: str) -> tuple[Entity, ...]:
    """Edges from pairs such as ``v1 p1``; the berth of each is its number."""
    ends = (pair.split() for pair in pairs)
    return tuple(
        Entity(f"{kind}{number}", {"berth": str(number)}, source, destination)
        for number, (source, destination) in enumerate(ends)
    )


VESSELS = (
    node("v1", name="Aurora", tonnage=5000, kind="ferry", launched=day("2001-05-04"), tags=("ice", "car"), prof=(0, 1)),
    node("v2", name="Boreas", tonnage=900, kind="tug", prof=(0, 3)),
    node("v3", name="Cetus", kind="tug", prof=(0, 2)),
    node("v4", name="Dione", tonnage=42000, kind="tanker", launched=day("2015-10-01"), tags=()),
)
PORTS = (node("p1", name="Oslo", depth=12.5), node("p2", name="Kiel", depth=9.0), node("p3", name="Gdynia"))
NODES = {
    "Vessel": {vessel.id: vessel for vessel in VESSELS},
    "Port": {port.id: port for port in PORTS},
    "Leg": dict[str, Entity](),
}
FLEET: Edges = {
    "Tows": edges("t", "v2 v1", "v2 v4", "v3 v2", "v1 v3", "v4 v4"),
    "CallsAt": edges("c", "v1 p1", "v1 p1", "v1 p2", "v4 p2"),
    "HomePort": edges("h", "v1 p1", "v2 p1", "v3 p2"),
}


def read(text: str) -> TypedRead:
    typed = compile_query(text, CATALOG).typed
    assert isinstance(typed, TypedRead)
    return typed


def rows(text: str, **parameters: Value) -> list[str]:
    """The result, each row as its values in a line."""
    result = run(plan_read(read(text)), Graph(NODES, FLEET, parameters))
    return [" ".join(str(value) for value in row.values()) for row in result]


# ------------------------------------------------------------------------------------------------ known results

MATCHES: dict[str, tuple[str, str, list[str]]] = {
    "39 one hop": ('$v: Vessel { code: "v2" } $v tows $x', "$x", ["v1", "v4"]),
    "40 up to three hops, never the start": ('$v: Vessel { code: "v2" } $v tows{1,3} $x', "$x", ["v1", "v3", "v4"]),
    "41 exactly two hops, a loop counts": ('$v: Vessel { code: "v2" } $v tows{2} $x', "$x", ["v3", "v4"]),
    "42 a loop": ('$v: Vessel { code: "v4" } $v tows $x', "$x", ["v4"]),
    "43 either direction": ('$v: Vessel { code: "v1" } $v <tows> $x', "$x", ["v2", "v3"]),
    "44 parallel edges collapse": ('$v: Vessel { code: "v1" } $v callsAt $p', "$p", ["p1", "p2"]),
    "44 but not with an edge variable": (
        '$v: Vessel { code: "v1" } $v $c:callsAt $p',
        "$p, $c.berth",
        ["p1 0", "p1 1", "p2 2"],
    ),
    "44 one hop between types": ('$v: Vessel { code: "v1" } $v callsAt{1,4} $p', "$p", ["p1", "p2"]),
    "44 and never two": ('$v: Vessel { code: "v1" } $v callsAt{2,4} $p', "$p", []),
    "45 backwards": ('$p: Port { code: "p2" } $v callsAt $p', "$v", ["v1", "v4"]),
    "45 inverted": ('$p: Port { code: "p2" } $p callsAt $v', "$v", ["v1", "v4"]),
    "46 no call": ("$v: Vessel not { $v callsAt $_ }", "$v", ["v2", "v3"]),
    "47 null kept by a negation": ("$v: Vessel not { $v.tonnage > 1000 }", "$v", ["v2", "v3"]),
    "48 null is not different": ("$v: Vessel $v.tonnage != 900", "$v", ["v1", "v4"]),
    "50 in a list property": ('$v: Vessel $v.tags contains "ice"', "$v", ["v1"]),
    "50 in a list": ('$v: Vessel ["v1", "v4"] contains $v.code', "$v", ["v1", "v4"]),
    "50 in a text": ('$v: Vessel $v.name contains "o"', "$v.name", ["Aurora", "Boreas", "Dione"]),
    "50 case counts": ('$v: Vessel $v.name starts_with "a"', "$v", []),
    "54 a bare variable": ('$v: Vessel { code: "v1" }', "$v", ["v1"]),
    "56 triangles": (
        "$a tows $b $b tows $c $c tows $a",
        "$a, $b, $c",
        ["v1 v3 v2", "v2 v1 v3", "v3 v2 v1", "v4 v4 v4"],
    ),
    "both bindings": ('$v: Vessel { kind: "tug" } $v: Vessel { tonnage: 900 }', "$v", ["v2"]),
    "every closing edge": ("$v: Vessel $p: Port $v callsAt $p $v homePort $p", "$v, $p", ["v1 p1"]),
    "inverted in a negation": ("$v: Vessel $v homePort $p not { $p callsAt $v }", "$v", ["v2", "v3"]),
    "negation in a negation": (
        "$v: Vessel not { $v homePort $p not { $v callsAt $p } }",
        "$v",
        ["v1", "v4"],
    ),
    "negation with a part of its own": ('$v: Vessel not { $v.code = "v1" $p: Port }', "$v", ["v2", "v3", "v4"]),
}


@pytest.mark.parametrize(("clauses", "columns", "expected"), MATCHES.values(), ids=MATCHES.keys())
def test_match(clauses: str, columns: str, expected: list[str]) -> None:
    assert sorted(rows(f"query q() {{ match {{ {clauses} }} return {{ {columns} }} }}")) == expected


def test_null_parameter_matches_nothing() -> None:
    assert rows("query q($t: I32?) { match { $v: Vessel $v.tonnage = $t } return { $v } }", t=None) == []


def test_unconnected_bindings_are_crossed() -> None:
    assert len(rows("query q() { match { $v: Vessel $p: Port } return { $v, $p } }")) == 12


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("$v.tonnage", ["v3", "v2", "v1", "v4"]),
        ("$v.tonnage desc", ["v4", "v1", "v2", "v3"]),
        ("$v.kind", ["v1", "v4", "v2", "v3"]),
        ("$v.kind desc", ["v2", "v3", "v4", "v1"]),
    ],
)
def test_order(order: str, expected: list[str]) -> None:
    assert rows(f"query q() {{ match {{ $v: Vessel }} return {{ $v }} order {{ {order} }} }}") == expected


def test_groups() -> None:
    by_name = "return { $v.name, count($p) as n } order { n desc, $v.name }"
    assert rows(f"query q() {{ match {{ $v: Vessel $v callsAt $p }} {by_name} }}") == ["Aurora 2", "Dione 1"]
    assert rows(f"query q() {{ match {{ $v: Vessel $v $c:callsAt $p }} {by_name} }}") == ["Aurora 3", "Dione 1"]
    assert rows(f"query q() {{ match {{ $v: Vessel $v $c:callsAt $p }} {by_name} limit 1 }}") == ["Aurora 3"]


def test_groups_of_nothing() -> None:
    nothing = 'match { $v: Vessel { code: "none" } }'
    assert rows(f"query q() {{ {nothing} return {{ count($v) as n, avg($v.score) }} }}") == ["0 None"]
    assert rows(f"query q() {{ {nothing} return {{ $v.kind, count($v) as n }} }}") == []


def test_conditions_apply_before_the_best_are_taken() -> None:
    ranked = "return { $v } order { nearest($v.prof, $q) } limit 1"
    assert rows(f"query q($q: Vector(2)) {{ match {{ $v: Vessel }} {ranked} }}", q=(0, 1)) == ["v1"]
    tugs = 'match { $v: Vessel $v.kind = "tug" }'
    assert rows(f"query q($q: Vector(2)) {{ {tugs} {ranked} }}", q=(0, 1)) == ["v3"]


def test_traversals_apply_after_the_best_of_a_scanned_variable() -> None:
    ranked = "return { $v, $p } order { nearest($v.prof, $q) } limit 2"
    text = f"query q($q: Vector(2)) {{ match {{ $v: Vessel $v callsAt $p }} {ranked} }}"
    assert rows(text, q=(0, 1)) == ["v1 p1", "v1 p2"]
    assert rows(text, q=(0, 3)) == []


def test_the_best_of_a_traversed_variable_are_those_that_matched() -> None:
    text = """query q($q: Vector(2)) {
      match { $p: Port  $v homePort $p  not { $v callsAt $_ } }
      return { $v, $p } order { nearest($v.prof, $q) } limit 1
    }"""
    assert rows(text, q=(0, 1)) == ["v3 p2"]


def test_fusing_two_rankings() -> None:
    text = """query q($q: Vector(2), $words: String) {
      match { $v: Vessel }
      return { $v }
      order { rrf(nearest($v.prof, $q), bm25($v.name, $words)) } limit 3
    }"""
    # The arms are [v1, v3, v2] and [v2, v1], as in behaviour 58: [a, b, c] and [c, a] give a, c, b.
    assert rows(text, q=(0, 1), words="boreas boreas aurora") == ["v1", "v2", "v3"]


def test_fusing_keeps_all_rows_of_an_entity_until_the_limit() -> None:
    text = """query q($q: Vector(2), $words: String) {
      match { $v: Vessel $v callsAt $p }
      return { $v, $p }
      order { rrf(nearest($v.prof, $q), bm25($v.name, $words), 10) } limit 3
    }"""
    assert rows(text, q=(0, 1), words="dione") == ["v1 p1", "v1 p2", "v4 p2"]


# ------------------------------------------------------------------------------------------------ generated patterns

VARIABLES = {"a": "Vessel", "b": "Vessel", "c": "Vessel", "p": "Port", "q": "Port"}
TOWING = ["tows", "<tows>", "tows{1,2}", "<tows>{1,3}", "tows{2}", "<tows>{2,}", "tows{0,1}", "tows{3,}"]
VESSEL_FILTERS = ["$%s.tonnage > 900", '$%s.kind = "tug"', "$%s.tonnage is null", '["v1", "v3"] contains $%s.code']
PORT_FILTERS = ["$%s.depth < 10.0", '$%s.name != "Oslo"']


@st.composite
def towings(draw: st.DrawFn, left: str) -> tuple[str, str]:
    """A step between vessels, and the variable that it leads to."""
    right = draw(st.sampled_from(["a", "b", "c", "_"]))
    edge = draw(st.sampled_from(TOWING))
    return draw(st.sampled_from([f"${left} {edge} ${right}", f"${right} {edge} ${left}"])), right


@st.composite
def callings(draw: st.DrawFn, left: str) -> tuple[str, str]:
    """A step between a vessel and a port, in either spelling."""
    others = ["p", "q", "_"] if VARIABLES[left] == "Vessel" else ["a", "b", "c", "_"]
    right = draw(st.sampled_from(others))
    edge = draw(st.sampled_from(["callsAt", "homePort", "callsAt{1,3}"]))
    return draw(st.sampled_from([f"${left} {edge} ${right}", f"${right} {edge} ${left}"])), right


@st.composite
def patterns(draw: st.DrawFn, bound: frozenset[str] = frozenset(), depth: int = 0) -> tuple[list[str], frozenset[str]]:
    """Clauses, and the variables that they bind; with ``bound`` ones, the inside of a negation."""
    clauses = list[str]()
    edge_variable = False
    if not bound:
        first = draw(st.sampled_from(sorted(VARIABLES)))
        clauses, bound = [f"${first}: {VARIABLES[first]}"], frozenset({first})
    for _ in range(draw(st.integers(1, 4 - depth))):
        left = draw(st.sampled_from(sorted(bound)))
        is_vessel = VARIABLES[left] == "Vessel"
        kind = draw(st.sampled_from(["tow", "call", "edge", "filter", "compare", "bind", "not"]))
        if kind in ("tow", "call"):
            step, right = draw(towings(left) if kind == "tow" and is_vessel else callings(left))
            clauses.append(step)
            bound |= {right} - {"_"}
        elif kind == "edge" and is_vessel and not edge_variable and not depth:
            right = draw(st.sampled_from(["p", "q"]))
            clauses += [f"${left} $e:callsAt ${right}", '$e.berth != "1"']
            bound |= {right}
            edge_variable = True
        elif kind == "compare":
            clauses.append(f"${left}.name < ${draw(st.sampled_from(sorted(bound)))}.name")
        elif kind == "bind":
            new = draw(st.sampled_from(sorted(VARIABLES)))
            clauses.append(f"${new}: {VARIABLES[new]}")
            bound |= {new}
        elif kind == "not" and depth < 2:
            inner, _ = draw(patterns(bound, depth + 1))
            clauses.append(f"not {{ ${left}.code is not null, {', '.join(inner)} }}")
        else:
            clauses.append(draw(st.sampled_from(VESSEL_FILTERS if is_vessel else PORT_FILTERS)) % left)
    return clauses, bound


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    def some(sources: str, destinations: str, most: int) -> st.SearchStrategy[list[str]]:
        pairs = [f"{sources[0]}{one} {destinations[0]}{two}" for one in sources[1:] for two in destinations[1:]]
        return st.lists(st.sampled_from(pairs), max_size=most)

    return Graph(
        NODES,
        {
            "Tows": edges("t", *draw(some("v1234", "v1234", 6))),
            "CallsAt": edges("c", *draw(some("v1234", "p123", 5))),
            "HomePort": edges("h", *draw(some("v1234", "p123", 3))),
        },
        {},
    )


def solutions(clauses: Iterable[Clause], graph: Graph, outer: Row) -> Iterator[Row]:
    """Every assignment of the variables that satisfies every clause: slow, and plainly right."""
    clauses = tuple(clauses)
    choices = {
        name: found for clause in clauses for name, found in _choices(clause, graph).items() if name not in outer
    }
    for chosen in product(*choices.values()):
        row = {**outer, **dict(zip(choices, chosen, strict=True))}
        if all(_satisfied(clause, row, graph) for clause in clauses):
            yield row


def _choices(clause: Clause, graph: Graph) -> Mapping[str, Iterable[Entity]]:
    match clause:
        case TypedBinding():
            return {clause.variable: graph.nodes[clause.node_type].values()}
        case TypedTraversal():
            ends = {
                clause.source: graph.nodes[clause.source_type].values(),
                clause.destination: graph.nodes[clause.destination_type].values(),
            }
            edge = clause.edge_variable
            return ends if edge is None else {**ends, edge: graph.edges[clause.steps[0].edge_type]}
        case _:
            return {}


def _satisfied(clause: Clause, row: Row, graph: Graph) -> bool:
    match clause:
        case TypedBinding():
            return all(holds(predicate, row, graph) for predicate in clause.predicates)
        case TypedTraversal():
            source, destination = row[clause.source].id, row[clause.destination].id
            if clause.edge_variable is not None:
                (step,) = clause.steps
                found = incident(graph, step.edge_type, step.direction, source)
                return (row[clause.edge_variable], destination) in found
            most = clause.maximum if clause.source_type == clause.destination_type else 1
            return destination in walk(graph, clause.steps, source, Bounds(clause.minimum, most))
        case TypedNegation():
            fixed = {name: row[name] for name in clause.outer}
            return next(solutions(clause.clauses, graph, fixed), None) is None
        case TypedOptional():
            raise NotImplementedError("these patterns have no optional blocks")
        case _:
            return holds(clause, row, graph)


@settings(max_examples=EXAMPLES)
@given(patterns(), graphs())
def test_a_plan_finds_what_trying_everything_finds(pattern: tuple[list[str], frozenset[str]], graph: Graph) -> None:
    clauses, bound = pattern
    columns = ", ".join(f"${name}" for name in sorted(bound))
    text = f"query q() {{\n  match {{ {', '.join(clauses)} }}\n  return {{ {columns} }}\n}}"
    try:
        query = read(text)
    except QueryError as error:
        # A name that only a negation binds cannot be bound later; the checker says so.
        assert {problem.code for problem in error.problems} == {"Q003"}  # noqa: PT017
        reject()
    plan = plan_read(query)
    assert isinstance(plan, Project)
    found = Counter(tuple(row.values()) for row in run(plan, graph))
    expected = Counter(tuple(row[name].id for name in sorted(bound)) for row in solutions(query.clauses, graph, {}))
    assert found == expected, text

"""Hypothesis strategies for reads that type-check: texts over the schema of ``query_worlds``, with their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hypothesis import strategies as st

from omnigraph.language.schema.catalog import NodeType
from omnigraph.language.types import NUMBERS, Scalar, ValueType
from tests.read.clause_strategies import (
    HOPS,
    OPERATORS,
    _alike,
    _binding,
    _block,
    _clauses,
    _computed,
    _condition,
    _is_single,
    _null_test,
    _operand,
    _optionals,
    _Scope,
    _traversal,
    _value,
    match_clauses,
    search_condition,
)
from tests.read.query_worlds import CATALOG, POOLS


@dataclass(frozen=True, slots=True)
class Read:
    """A query and the values of its parameters."""

    text: str
    params: dict[str, object]


# ------------------------------------------------------------------------------------------------ results


def _plain_columns(scope: _Scope) -> list[str]:
    paths = [f"{function}(${name})" for name in sorted(scope.paths) for function in ("hops", "nodes", "edges")]
    return [
        *(f"${name}" for name in sorted({**scope.nodes, **scope.faces})),
        *(name for name, _ in scope.properties(lambda _: True)),
        *paths,
    ]


def _truth(scope: _Scope) -> str:
    """A condition as a column; it speaks of a variable, so that rows can be grouped by it."""
    return f"({_null_test(scope)} or {_condition(scope)})" if scope.is_so() else _block(scope, 1)


def _aggregate(scope: _Scope) -> str:
    able = scope.properties(_is_single)
    numbers = scope.properties(lambda type_: _is_single(type_) and type_.scalar in NUMBERS)
    match scope.chosen(["count", "count", "distinct", "sum", "avg", "min", "max"]):
        case "distinct":
            return f"count(distinct {scope.chosen(_plain_columns(scope))})"
        case "sum" | "avg" as function if numbers:
            return f"{function}({scope.draw(st.sampled_from(numbers))[0]})"
        case "min" | "max" as function:
            name, type_ = scope.draw(st.sampled_from(able))
            return f"{function}({_computed(scope, type_) if scope.is_so(3) else name})"
        case _:
            return f"count({scope.chosen(_plain_columns(scope))})"


def _ordered(scope: _Scope, keys: Sequence[str]) -> str:
    chosen = scope.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True))
    return f"order {{ {', '.join(key + scope.chosen(['', ' asc', ' desc']) for key in chosen)} }}"


def _limited(scope: _Scope) -> str:
    most = scope.draw(st.integers(0, 6))
    if scope.is_so():
        return f"limit {most}"
    scope.declared["most"] = scope.chosen(["U32", "I64", "U64"])
    scope.params["most"] = most
    return "limit $most"


def _result(scope: _Scope) -> str:
    grouped = scope.is_so(3)
    plain = scope.draw(
        st.lists(st.sampled_from(_plain_columns(scope)), min_size=0 if grouped else 1, max_size=3, unique=True)
    )
    names = {name: f"c{number}" if scope.is_so() else name for number, name in enumerate(plain)}
    if scope.is_so(4):
        names[_truth(scope)] = "t"
    if scope.is_so(3):
        # Beside an aggregate it speaks of a variable, so that rows can be grouped by it.
        of_variable, type_ = scope.draw(st.sampled_from(scope.properties(_is_single)))
        names[f"coalesce({of_variable}, {_computed(scope, type_)})"] = "k"
    columns = [name if name == shown else f"{name} as {shown}" for name, shown in names.items()]
    sortable = {name for name, _ in scope.properties(_is_single)} | {
        f"${name}" for name in (*scope.nodes, *scope.faces)
    }
    keys = [shown for name, shown in names.items() if name in sortable or shown in {"t", "k"}]
    distinct = not grouped and scope.is_so(4)
    if grouped:
        numbers = range(scope.draw(st.integers(1, 3)))
        columns += [f"{_aggregate(scope)} as n{number}" for number in numbers]
        keys += [f"n{number}" for number in numbers]
        collected = _plain_columns(scope) if scope.is_so(4) else []
        able = [name for name in collected if name in sortable]
        columns += [f"collect({scope.chosen(['', 'distinct '])}{scope.chosen(able)}) as l"] if able else []
    elif not distinct:
        able = scope.properties(_is_single)
        keys += [name for name, _ in able]
        # A key that is no constant: it speaks of a variable.
        name, type_ = scope.draw(st.sampled_from(able))
        keys += [f"coalesce({_computed(scope, type_)}, {name})"] if scope.is_so(3) else []
    parts = [f"return {'distinct ' * distinct}{{ {', '.join(columns)} }}"]
    if grouped and scope.is_so(3):
        tests = ["n0 is null", "n0 is not null or n0 is null", "not (n0 is null)", "n0 = n0", "n0 != n0"]
        parts.append(f"having {{ {scope.chosen(tests)} }}")
    ordered = bool(keys) and scope.is_so()
    if ordered:
        parts.append(_ordered(scope, keys))
    if scope.is_so(3):
        parts.append(_limited(scope))
    if ordered and scope.is_so(3):
        parts.append(f"offset {scope.draw(st.integers(0, 3))}")
    return " ".join(parts)


_CODED: Final = NodeType("Coded", (), {name: CATALOG.nodes["Port"].properties[name] for name in ("code", "size")})
"""The nodes that implement the interface, as far as a query can read them."""


def _face(scope: _Scope) -> str:
    name = scope.new_name("f")
    scope.faces[name] = _CODED
    inside = f" {{ size: {_value(scope, ValueType(Scalar.I64))} }}" if scope.is_so(4) else ""
    return f"${name}: Coded{inside}"


def _from_face(scope: _Scope, begin: str) -> str:
    """A traversal from a variable of an interface, of which one type or each type has the edge."""
    end = scope.new_name("g")
    match scope.chosen(["within", "within", "across", "across", "to a port", "in a block"]):
        case "within":
            word, type_ = scope.draw(st.sampled_from([("tows", "Vessel"), ("escorts", "Vessel"), ("near", "Port")]))
            scope.nodes[end] = CATALOG.nodes[type_]
            return f"${begin} {word}{scope.chosen(HOPS)} ${end}"
        case "across":
            scope.faces[end] = _CODED
            return f"${begin} {scope.chosen(['callsAt', 'serves'])} ${end}"
        case "in a block":
            word = scope.chosen(["callsAt", "serves", "tows{1,2}"])
            return f"{scope.chosen(['not', 'exists'])} {{ ${begin} {word} $_ }}"
        case _:
            scope.nodes[end] = CATALOG.nodes["Port"]
            return f"${end}: Port  ${begin} callsAt ${end}"


@st.composite
def interface_reads(draw: st.DrawFn) -> Read:
    """Patterns with one or two variables of an interface."""
    scope = _Scope(draw)
    match = [_face(scope)]
    match += [_from_face(scope, "f0")] if scope.is_so() else []
    if not scope.nodes or scope.is_so(4):
        match.append(_new_part(scope))
    if scope.is_so(4):
        match.append(_face(scope))
    match += _clauses(scope, draw(st.integers(0, 2)))
    return _as_read(scope, [*match, *_optionals(scope)], _result(scope))


def _as_read(scope: _Scope, match: Sequence[str], result: str) -> Read:
    declared = ", ".join(f"${name}: {type_}" for name, type_ in scope.declared.items())
    return Read(f"query q({declared}) {{\n  match {{ {', '.join(match)} }}\n  {result}\n}}", scope.params)


@st.composite
def reads(draw: st.DrawFn) -> Read:
    """Patterns of all kinds, with plain columns or aggregates, in order or not."""
    scope = _Scope(draw)
    return _as_read(scope, match_clauses(scope), _result(scope))


@st.composite
def filters(draw: st.DrawFn) -> Read:
    """The nodes of a type, or the edges at them, that satisfy a condition or two, or that do not."""
    scope = _Scope(draw)
    match = [_new_part(scope)]
    match += [_traversal(scope)] if scope.is_so(3) else []
    for _ in range(draw(st.integers(1, 2))):
        match.append(f"not {{ {_null_test(scope)}, {_condition(scope)} }}" if scope.is_so(4) else _condition(scope))
    return _as_read(scope, match, f"return {{ {', '.join(f'${name}' for name in sorted(scope.nodes))} }}")


@st.composite
def computations(draw: st.DrawFn) -> Read:
    """The nodes of a type with several computed columns, of which one is a condition and one orders them."""
    scope = _Scope(draw)
    match = [_new_part(scope)]
    match += [f"optional {{ {_traversal(scope)} }}"] if scope.is_so(4) else []
    types = draw(st.lists(st.sampled_from(scope.properties(_is_single)), min_size=1, max_size=5))
    columns = [_computed(scope, type_) for _, type_ in types]
    name, type_ = types[0]
    if scope.is_so():
        match.append(f"coalesce({name}, {columns[0]}) {scope.chosen(OPERATORS)} {_value(scope, type_)}")
    shown = ", ".join(f"{column} as c{number}" for number, column in enumerate(columns))
    return _as_read(
        scope, match, f"return {{ {shown} }} order {{ {scope.chosen(['c0', f'coalesce({columns[0]}, {name})'])} }}"
    )


@st.composite
def counts(draw: st.DrawFn) -> Read:
    """Walks of which only a number is asked, or a number for each of something."""
    scope = _Scope(draw)
    first = _binding(scope)
    match = [first, *(_traversal(scope) for _ in range(draw(st.integers(1, 4))))]
    keys = draw(st.lists(st.sampled_from(_plain_columns(scope)), max_size=2, unique=True))
    return _as_read(scope, match, f"return {{ {', '.join([*keys, f'{_aggregate(scope)} as n'])} }}")


@st.composite
def joins(draw: st.DrawFn) -> Read:
    """Parts that no edge connects, and comparisons of their properties; sometimes inside a negation."""
    scope = _Scope(draw)
    match = [_new_part(scope)]
    match += _clauses(scope, draw(st.integers(0, 1)))
    if scope.is_so(3):
        inner = scope.inner()
        compared = [
            _new_part(inner),
            _across(inner, list(scope.nodes)),
            *_clauses(inner, draw(st.integers(0, 1)), depth=1),
        ]
        match.append(f"not {{ {', '.join(compared)} }}")
    else:
        before = list(scope.nodes)
        match += [_new_part(scope), _across(scope, before), *_clauses(scope, draw(st.integers(0, 1)))]
    return _as_read(scope, match, _result(scope))


def _new_part(scope: _Scope) -> str:
    type_ = CATALOG.nodes[scope.chosen(["Vessel", "Vessel", "Port"])]
    name = scope.new_name(type_.name[0].lower())
    scope.nodes[name] = type_
    return f"${name}: {type_.name}"


def _across(scope: _Scope, before: Sequence[str]) -> str:
    """A comparison of a property of the newest variable with one of a variable before it; equality more often."""
    *_, newest = scope.nodes
    of_newest = [found for found in scope.properties(_is_single) if found[0].startswith(f"${newest}.")]
    left, type_ = scope.draw(st.sampled_from(of_newest))
    owners = tuple(f"${name}." for name in before)
    others = [found for found, _ in scope.properties(_alike(type_)) if found.startswith(owners)]
    if not others:
        left, others = f"${newest}.code", [f"{owner}code" for owner in owners]
    operator = scope.chosen(["=", "=", "=", *OPERATORS])
    sides = (left, scope.chosen(others))
    return f" {operator} ".join(sides if scope.is_so() else sides[::-1])


@st.composite
def searches(draw: st.DrawFn) -> Read:
    """Patterns with conditions on words, or ranked by distance."""
    scope = _Scope(draw)
    match = match_clauses(scope)
    required = sorted(scope.nodes.keys() - scope.optional)
    vessels = [name for name in required if scope.nodes[name].name == "Vessel"]
    if vessels and scope.is_so():
        target = f"${scope.chosen(vessels)}.prof"
        query = scope.parameter(draw(st.sampled_from(POOLS[Scalar.VECTOR])), ValueType(Scalar.VECTOR, dimension=2))
        scope.declared[query[1:]] = "Vector(2)"
        scope.params.setdefault(query[1:], [3, 4])
        shown = ", ".join(f"${name}" for name in sorted(scope.nodes))
        distance = f"nearest({target}, {query})"
        parts = [f"return {{ {shown}, {distance} as far }}"]
        parts += [f"having {{ far {scope.chosen(OPERATORS)} 5.0 }}"] if scope.is_so(4) else []
        keys = [distance, *(name for name, _ in scope.properties(_is_single) if scope.is_so(20))]
        parts += [f"order {{ {', '.join(keys)} }}", _limited(scope)]
        parts += [f"offset {draw(st.integers(0, 3))}"] if scope.is_so(3) else []
        return _as_read(scope, match, " ".join(parts))
    search = search_condition(scope)
    forms = [
        search,
        f"not {{ {search} }}",
        f"not ({search})",
        f"{search} = false",
        f"({search} or {_condition(scope, 2)})",
    ]
    return _as_read(scope, [*match, draw(st.sampled_from(forms))], _result(scope))


@st.composite
def unions(draw: st.DrawFn) -> Read:
    """Two or three matches with columns of types that meet, in order or not."""
    first = _Scope(draw)
    matches = [match_clauses(first)]
    types = draw(st.lists(st.sampled_from(first.properties(_is_single)), min_size=1, max_size=3))
    branches = [_branch(first, matches[0], types)]
    for _ in range(draw(st.integers(1, 2))):
        scope = replace(first, nodes={}, edges={}, faces={}, optional=set(), paths=set())
        match = [_face(scope), _new_part(scope)] if scope.is_so(4) else match_clauses(scope)
        branches.append(_branch(scope, match, types))
    word = "union distinct" if first.is_so(3) else "union"
    parts = [f"\n  {word} ".join(branches)]
    ordered = first.is_so()
    parts += [_ordered(first, [f"c{number}" for number in range(len(types))])] if ordered else []
    parts += [_limited(first)] if first.is_so(3) else []
    parts += [f"offset {draw(st.integers(0, 3))}"] if ordered and first.is_so(3) else []
    declared = ", ".join(f"${name}: {type_}" for name, type_ in first.declared.items())
    return Read(f"query q({declared}) {{\n  {' '.join(parts)}\n}}", first.params)


def _branch(scope: _Scope, match: Sequence[str], types: Sequence[tuple[str, ValueType]]) -> str:
    """One branch: a column of each type, sometimes null, sometimes as an extreme of groups."""
    columns = ["null" if scope.is_so(8) else _operand(scope, type_, 1) for _, type_ in types]
    grouped = "null" not in columns and scope.is_so(5)
    if grouped:
        columns = [f"{scope.chosen(['min', 'max'])}({name})" for name in columns]
    distinct = not grouped and scope.is_so(4)
    shown = ", ".join(f"{column} as c{number}" for number, column in enumerate(columns))
    return f"match {{ {', '.join(match)} }} return {'distinct ' * distinct}{{ {shown} }}"

"""Hypothesis strategies for the clauses of a match over the schema of ``query_worlds``: values, conditions, walks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from hypothesis import strategies as st

from omnigraph.language.query.check.traversal import to_edge_word
from omnigraph.language.schema.catalog import EdgeType, NodeType
from omnigraph.language.types import INTEGERS, NUMBERS, Scalar, ValueType
from omnigraph.language.values import ConstantValue
from tests.read.query_worlds import CATALOG, POOLS, json_value

NUMBER_LITERALS: Final = [-2, 0, 1, 3, 900, 2**53, 2**53 + 1, 2**63, -0.5, 0.5, 2.75, 3.0, 9007199254740992.0]
OPERATORS: Final = ["=", "!=", "<", "<=", ">", ">=", "!=", "<=", ">="]
HOPS: Final = ["", "", "{1,2}", "{1,3}", "{1,1}", "{1,7}", "{2}", "{2,3}", "{3,5}", "{1,}", "{2,}", "{0,1}", "{0,}"]


@dataclass(slots=True)
class _Scope:
    """What a clause can speak of, and what is written so far.

    ``faces``: variables of an interface, and what is reached from them: nodes of several types.
    ``optional``: what an optional block binds, which cannot be ranked.
    """

    draw: st.DrawFn
    nodes: dict[str, NodeType] = field(default_factory=dict[str, NodeType])
    edges: dict[str, EdgeType] = field(default_factory=dict[str, EdgeType])
    faces: dict[str, NodeType] = field(default_factory=dict[str, NodeType])
    optional: set[str] = field(default_factory=set[str])
    paths: set[str] = field(default_factory=set[str])
    declared: dict[str, str] = field(default_factory=dict[str, str])
    params: dict[str, object] = field(default_factory=dict[str, object])
    numbers: count[int] = field(default_factory=count)
    blocks: bool = True

    def inner(self) -> _Scope:
        """The inside of a block."""
        return replace(self, nodes=dict(self.nodes), edges=dict(self.edges), paths=set(self.paths))

    def chosen(self, choices: Sequence[str]) -> str:
        return self.draw(st.sampled_from(choices))

    def is_so(self, chances: int = 2) -> bool:
        """True once in so many times."""
        return self.draw(st.integers(1, chances)) == chances

    def new_name(self, stem: str) -> str:
        return f"{stem}{next(self.numbers)}"

    def parameter(self, value: ConstantValue, type_: ValueType) -> str:
        """A new parameter; one that may be null is sometimes left out."""
        name = self.new_name("x")
        nullable = self.is_so(3)
        self.declared[name] = str(replace(type_, nullable=nullable, enum_values=None))
        if not nullable or self.is_so():
            self.params[name] = json_value(value, type_)
        return f"${name}"

    def properties(self, fits: Callable[[ValueType], bool]) -> list[tuple[str, ValueType]]:
        """Properties of bound variables, each as it is written."""
        bound = [*self.nodes.items(), *self.edges.items(), *self.faces.items()]
        found = [
            (f"${variable}.{name}", declared.type) for variable, of in bound for name, declared in of.properties.items()
        ]
        text = ValueType(Scalar.STRING)
        found += [(f"${variable}.id", text) for variable, _ in bound]
        found += [(f"${variable}.{end}", text) for variable in self.edges for end in ("from", "to")]
        return sorted(((name, type_) for name, type_ in found if fits(type_)), key=lambda each: each[0])


def literal(value: ConstantValue, type_: ValueType) -> str:
    """A value as a query writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(literal(item, type_.item) for item in value)}]"
    spelled = json.dumps(json_value(value, type_), ensure_ascii=False)
    match type_.scalar:
        case Scalar.DATE:
            return f"date({spelled})"
        case Scalar.DATETIME:
            return f"datetime({spelled})"
        case _:
            return spelled


def _value(scope: _Scope, type_: ValueType) -> str:
    """A literal or a parameter of a type."""
    found = scope.draw(st.sampled_from(type_.enum_values or POOLS[type_.scalar]))
    return scope.parameter(found, type_.item) if scope.is_so(3) else literal(found, type_.item)


# ------------------------------------------------------------------------------------------------ computed values


_INTEGER: Final = ValueType(Scalar.I64)
_TEXT: Final = ValueType(Scalar.STRING)


def _operand(scope: _Scope, type_: ValueType, depth: int) -> str:
    """A property, a literal, a parameter or a computed value that compares with values of a type."""
    found = scope.properties(_alike(type_))
    match scope.chosen(["property", "property", "value", "computed"]):
        case "property" if found:
            return scope.draw(st.sampled_from(found))[0]
        case "computed" if depth < 2:
            return _computed(scope, type_, depth + 1)
        case _:
            return _value(scope, replace(type_, enum_values=None))


def _computed(scope: _Scope, type_: ValueType, depth: int = 0) -> str:
    """A computed value that compares with values of a type."""
    if scope.is_so(3):
        sides = [_operand(scope, type_, depth) for _ in range(2)]
        if type_.scalar in NUMBERS or scope.is_so():
            return f"coalesce({', '.join(sides)})"
        return f"case {{ {_arm(scope)}: {sides[0]}, else: {sides[1]} }}"
    if type_.scalar in NUMBERS:
        return _number(scope, depth)
    match type_.scalar:
        case Scalar.STRING:
            return _text(scope, depth)
        case Scalar.DATE | Scalar.DATETIME:
            units = ["year", "month", "week", "day", *(["hour"] if type_.scalar is Scalar.DATETIME else [])]
            return f'truncate({_operand(scope, type_, depth)}, "{scope.chosen(units)}")'
        case _:
            return f"case {{ {_arm(scope)}: {_operand(scope, type_, depth)} }}"


def _arm(scope: _Scope) -> str:
    """A condition without computed values: what is drawn has an end."""
    left, type_ = scope.draw(st.sampled_from(scope.properties(_is_single)))
    compared = f"{left} {scope.chosen(OPERATORS)} {_value(scope, type_)}"
    return f"not ({compared})" if scope.is_so(4) else scope.chosen([compared, f"{left} is null"])


def _number(scope: _Scope, depth: int) -> str:
    kind = scope.chosen(["sum", "sum", "product", "product", "length", "year", "size", "days"])
    moment = ValueType(scope.draw(st.sampled_from([Scalar.DATE, Scalar.DATETIME])))
    lists = scope.properties(lambda type_: type_.is_list)
    match kind:
        case "length":
            return f"length({_operand(scope, _TEXT, depth)})"
        case "year":
            return f"{scope.chosen(['year', 'month', 'day'])}({_operand(scope, moment, depth)})"
        case "days":
            return f"days_between({_operand(scope, moment, depth)}, {_operand(scope, moment, depth)})"
        case "size" if lists:
            return f"size({scope.draw(st.sampled_from(lists))[0]})"
        case _:
            signs = [" * ", " / "] if kind == "product" else [" + ", " - "]
            operands = [_operand(scope, _INTEGER, depth) for _ in range(scope.draw(st.integers(2, 3)))]
            return "(" + "".join(f"{each}{scope.chosen(signs)}" for each in operands[:-1]) + operands[-1] + ")"


def _text(scope: _Scope, depth: int) -> str:
    text = _operand(scope, _TEXT, depth)
    match scope.chosen(["map", "substring", "concat", "type"]):
        case "substring":
            # A negative literal is refused, a negative number of a row gives null.
            integers = scope.properties(lambda type_: _is_single(type_) and type_.scalar in INTEGERS)
            count_ = scope.draw(st.sampled_from(["0", "2", *(name for name, _ in integers)]))
            return f"substring({text}, {scope.draw(st.integers(0, 3))}, {count_})"
        case "concat":
            return f"concat({text}, {_operand(scope, _TEXT, depth)})"
        case "type":
            return f"type(${scope.chosen(sorted({**scope.nodes, **scope.edges, **scope.faces}))})"
        case _:
            return f"{scope.chosen(['lower', 'upper', 'trim'])}({text})"


# ------------------------------------------------------------------------------------------------ conditions


def _is_single(type_: ValueType) -> bool:
    return not type_.is_list and type_.scalar is not Scalar.VECTOR


def _alike(type_: ValueType) -> Callable[[ValueType], bool]:
    """Types that values of a type can be compared with."""
    scalars = NUMBERS if type_.scalar in NUMBERS else {type_.scalar}
    return lambda other: _is_single(other) and other.scalar in scalars


def _compared(scope: _Scope) -> str:
    left, type_ = scope.draw(st.sampled_from(scope.properties(_is_single)))
    operator = scope.chosen(OPERATORS)
    if scope.is_so(4):
        left = _computed(scope, type_)
    match scope.chosen(["value", "value", "number", "property", "now", "computed"]):
        case "computed":
            right = _computed(scope, type_)
        case "number" if type_.scalar in NUMBERS:
            right = str(scope.draw(st.sampled_from(NUMBER_LITERALS)))
        case "property":
            right, _ = scope.draw(st.sampled_from(scope.properties(_alike(type_))))
        case "now" if type_.scalar is Scalar.DATETIME:
            right = "now()"
        case _:
            right = _value(scope, type_)
    return f"{right} {operator} {left}" if scope.is_so(3) else f"{left} {operator} {right}"


def _identity(scope: _Scope) -> str:
    """Whether two variables of one type are the same; of one alone, whether it is itself."""
    bound = {**scope.nodes, **scope.edges, **scope.faces}
    left = scope.chosen(sorted(bound))
    right = scope.chosen(sorted(name for name, type_ in bound.items() if type_ is bound[left]))
    return f"${left} {scope.chosen(['=', '!='])} ${right}"


def _null_test(scope: _Scope) -> str:
    found, _ = scope.draw(st.sampled_from(scope.properties(lambda _: True)))
    return f"{found} {scope.chosen(['is null', 'is not null'])}"


def _text_test(scope: _Scope) -> str:
    texts = scope.properties(lambda type_: _is_single(type_) and type_.scalar is Scalar.STRING)
    if not texts:
        return _compared(scope)
    left, type_ = scope.draw(st.sampled_from(texts))
    plain = replace(type_, enum_values=None)
    right = scope.draw(st.sampled_from(texts))[0] if scope.is_so(4) else _value(scope, plain)
    operator = scope.chosen(["contains", "starts_with", "ends_with", "in"])
    return f"{right} in {left}" if operator == "in" else f"{left} {operator} {right}"


def _pattern_test(scope: _Scope) -> str:
    texts = scope.properties(lambda type_: _is_single(type_) and type_.scalar is Scalar.STRING)
    if not texts:
        return _compared(scope)
    pattern = scope.draw(st.sampled_from(["^a", "o.", "[bx]$", "^$", "fox|dog"]))
    right = scope.parameter(pattern, ValueType(Scalar.STRING)) if scope.is_so(3) else json.dumps(pattern)
    return f"{scope.draw(st.sampled_from(texts))[0]} matches {right}"


def _membership(scope: _Scope) -> str:
    lists = scope.properties(lambda type_: type_.is_list)
    if lists and scope.is_so():
        left, type_ = scope.draw(st.sampled_from(lists))
        others = scope.properties(_alike(type_.item))
        right = scope.draw(st.sampled_from(others))[0] if others and scope.is_so(3) else _value(scope, type_)
        return f"{left} contains {right}"
    right, type_ = scope.draw(st.sampled_from(scope.properties(_is_single)))
    items = tuple(
        scope.draw(st.lists(st.sampled_from(type_.enum_values or POOLS[type_.scalar]), min_size=1, max_size=3))
    )
    listed = replace(type_, is_list=True, nullable=False)
    left = scope.parameter(items, listed) if scope.is_so(3) else literal(items, listed)
    return f"{left} contains {right}"


def search_condition(scope: _Scope) -> str:
    names = [f"${variable}.name" for variable in sorted(scope.nodes)]
    function = scope.chosen(["search", "match_text"])
    return f'{function}({scope.chosen(names)}, "{scope.chosen(["fox", "dog", "dog fox", "horse"])}")'


def _condition(scope: _Scope, depth: int = 0) -> str:
    """A test, or several joined; with a block among them, if there is something to follow from."""
    if scope.paths and scope.is_so(4):
        return f"hops(${scope.chosen(sorted(scope.paths))}) {scope.chosen(OPERATORS)} {scope.draw(st.integers(0, 3))}"
    tests = [_compared] * 4 + [_membership] * 2 + [_text_test, _pattern_test, _null_test, _identity]
    if depth > 2 or not scope.is_so(4):
        return scope.draw(st.sampled_from(tests))(scope)
    match scope.chosen(["or", "or", "and", "not", "truth", "block"]):
        case "not":
            return f"not ({_condition(scope, depth + 1)})"
        case "truth":
            sides = [_condition(scope, depth + 1) for _ in range(2)]
            return f" {scope.chosen(['=', '!=', '<', '>='])} ".join(f"({side})" for side in sides)
        case "block" if scope.nodes and scope.blocks:
            return f"({_block(scope, depth + 1)} or {_condition(scope, depth + 1)})"
        case word:
            joined = "and" if word == "and" else "or"
            parts = [_condition(scope, depth + 1) for _ in range(scope.draw(st.integers(2, 3)))]
            return f"({f' {joined} '.join(parts)})"


# ------------------------------------------------------------------------------------------------ clauses


def _binding(scope: _Scope) -> str:
    """A new variable, or one that is bound already; a new one sometimes by its key."""
    if scope.nodes and scope.is_so(3):
        name = scope.chosen(sorted(scope.nodes))
        type_ = scope.nodes[name]
    else:
        type_ = CATALOG.nodes[scope.chosen(["Vessel", "Vessel", "Port"])]
        name = scope.new_name(type_.name[0].lower())
        scope.nodes[name] = type_
    able = sorted(key for key, declared in type_.properties.items() if declared.type.scalar is not Scalar.VECTOR)
    matched = scope.draw(st.lists(st.sampled_from(["code", *able]), max_size=2, unique=True)) if scope.is_so(3) else []
    inside = ", ".join(f"{key}: {_value(scope, type_.properties[key].type)}" for key in matched)
    return f"${name}: {type_.name} {{ {inside} }}"


def _end(scope: _Scope, type_: NodeType) -> str:
    """Where a traversal may lead: a new variable, one that is bound, or none."""
    bound = sorted(name for name, found in scope.nodes.items() if found is type_)
    match scope.chosen(["new", "new", "bound", "anonymous"]):
        case "bound" if bound:
            return scope.chosen(bound)
        case "anonymous":
            return "_"
        case _:
            return scope.new_name(type_.name[0].lower())


def _traversal(scope: _Scope) -> str:
    begin = scope.chosen(sorted(scope.nodes))
    edge = scope.draw(st.sampled_from(list(CATALOG.edges_of(scope.nodes[begin].name))))
    within = edge.from_type == edge.to_type
    types = {edge.from_type, edge.to_type} - ({scope.nodes[begin].name} if not within else set())
    type_ = CATALOG.nodes[types.pop()]
    end = _end(scope, type_)
    word = to_edge_word(edge.name)
    if scope.is_so(4):
        variable = scope.new_name("e")
        walked = f"${variable}:" + (scope.chosen([word, f"<{word}>"]) if within else word)
        scope.edges[variable] = edge
    else:
        words = "|".join([word, *_other_edges(scope, edge)])
        shown = f"<{words}>" if within and scope.is_so(3) else words
        hops = scope.chosen(HOPS if within else ["", "", "{1,4}", "{2,4}", "{1,}"])
        walked = (_path(scope) if hops and scope.is_so(3) else "") + shown + hops
    if end != "_":
        scope.nodes.setdefault(end, type_)
    return f"${begin} {walked} ${end}" if scope.is_so() else f"${end} {walked} ${begin}"


def _path(scope: _Scope) -> str:
    name = scope.new_name("w")
    scope.paths.add(name)
    return f"${name}:"


def _other_edges(scope: _Scope, edge: EdgeType) -> list[str]:
    """Other edge types between the same types, in either direction: one end of a traversal is always bound."""
    ends = {edge.from_type, edge.to_type}
    able = [other for other in CATALOG.edges.values() if {other.from_type, other.to_type} == ends]
    return [to_edge_word(scope.draw(st.sampled_from(able)).name)] if scope.is_so(4) else []


def _block(scope: _Scope, depth: int) -> str:
    inner = scope.inner()
    # A block speaks of something outside, which a computed value need not do.
    first = _traversal(inner) if scope.is_so() else f"{_null_test(inner)}, {_condition(inner)}"
    inside = ", ".join([first, *_clauses(inner, scope.draw(st.integers(0, 2)), depth + 1)])
    return f"{scope.chosen(['not', 'exists'])} {{ {inside} }}"


def _clauses(scope: _Scope, number: int, depth: int = 0) -> list[str]:
    found: list[str] = []
    for _ in range(number):
        kinds = ["traversal"] * 4 + ["condition"] * 2 + ["binding"] + ["block"] * (2 if depth < 2 else 0)
        match scope.chosen(kinds):
            case "traversal":
                found.append(_traversal(scope))
            case "binding":
                found.append(_binding(scope))
            case "block":
                found.append(_block(scope, depth))
            case _:
                found.append(_condition(scope, depth))
    return found


def match_clauses(scope: _Scope) -> list[str]:
    first = _binding(scope)
    return [first, *_clauses(scope, scope.draw(st.integers(0, 4))), *_optionals(scope)]


def _optionals(scope: _Scope) -> list[str]:
    """Optional blocks, and conditions on what they find; nothing is traversed from there."""
    found: list[str] = []
    for _ in range(scope.draw(st.integers(1, 2)) if scope.is_so(4) else 0):
        # Nothing outside of a block begins at what only a block finds, another block may.
        inner = scope.inner()
        inside = [_traversal(inner), *([_condition(inner, 2)] if scope.is_so(3) else [])]
        found.append(f"optional {{ {', '.join(inside)} }}")
        new = sorted((inner.nodes.keys() | inner.edges.keys()) - scope.nodes.keys() - scope.edges.keys())
        scope.nodes.update(inner.nodes)
        scope.edges.update(inner.edges)
        scope.paths |= inner.paths
        scope.optional.update(new)
        if new and scope.is_so(3):
            found.append(f"${scope.chosen(new)} {scope.chosen(['is null', 'is not null'])}")
        if scope.is_so(4):
            found.append(_condition(scope, 2))
    return found

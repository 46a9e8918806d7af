"""Schemas that hold, generated from the grammar, and ways to break their text."""

from __future__ import annotations

import string
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st

from omnigraph.language.schema import ast
from omnigraph.language.schema.ast import AnnotationSyntax, ConstraintKind, LiteralKind, LiteralSyntax, NameSyntax
from omnigraph.language.schema.check import LANCE_COLUMNS, SYSTEM_COLUMNS
from omnigraph.language.types import NUMBERS, Scalar
from tests.selection import sized

_LETTERS = string.ascii_letters + string.digits + "_"
_KEYWORDS = ("node", "edge", "interface", "implements", "enum", "key", "range", "card", "trueish")


def budget(examples: int) -> settings:
    """Few examples by day; many times as many when the large fuzz run is asked for."""
    return settings(max_examples=sized(examples // 4, 12 * examples))


def _word(first: str) -> st.SearchStrategy[str]:
    return st.builds(str.__add__, st.sampled_from(first), st.text(_LETTERS, max_size=5))


type_names = _word(string.ascii_uppercase)
# A property called `true` cannot be named in a constraint: there the word is a literal.
property_names = st.one_of(st.sampled_from(_KEYWORDS), _word(string.ascii_lowercase + "_")).filter(
    lambda name: name.lower() not in SYSTEM_COLUMNS | {"true", "false"} and name not in LANCE_COLUMNS
)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
numbers = st.one_of(
    st.integers(0, 10**6).map(lambda number: LiteralSyntax(LiteralKind.INTEGER, str(number))),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).map(
        lambda parts: LiteralSyntax(LiteralKind.FLOAT, f"{parts[0]}.{parts[1]}")
    ),
)
literals = st.one_of(
    texts.map(lambda text: LiteralSyntax(LiteralKind.STRING, text)),
    numbers,
    st.sampled_from(("true", "false")).map(lambda text: LiteralSyntax(LiteralKind.BOOL, text)),
)
_unknown_annotations = st.builds(
    AnnotationSyntax,
    st.sampled_from(("unit", "owner", "keys")).map(NameSyntax),
    literals,
    st.lists(st.tuples(property_names.map(NameSyntax), literals), max_size=2).map(tuple),
)
_bare_annotations = st.just(AnnotationSyntax(NameSyntax("internal")))


@st.composite
def _annotations(draw: st.DrawFn, *, old_names: st.SearchStrategy[str]) -> tuple[AnnotationSyntax, ...]:
    found = draw(st.lists(st.one_of(_unknown_annotations, _bare_annotations), max_size=2))
    if draw(st.booleans()):
        text = draw(texts.filter(lambda text: bool(text.strip())))
        found.append(AnnotationSyntax(NameSyntax("description"), LiteralSyntax(LiteralKind.STRING, text)))
    if draw(st.integers(0, 4)) == 0:
        found.append(AnnotationSyntax(NameSyntax("rename_from"), LiteralSyntax(LiteralKind.STRING, draw(old_names))))
    return tuple(draw(st.permutations(found)))


@st.composite
def _types(draw: st.DrawFn) -> ast.TypeSyntax:
    nullable = draw(st.booleans())
    form = draw(st.sampled_from(("base", "base", "list", "enum", "vector")))
    if form == "enum":
        values = draw(st.lists(st.text(_LETTERS + "-", min_size=1, max_size=4), min_size=1, max_size=4, unique=True))
        return ast.TypeSyntax(Scalar.STRING, nullable, enum_values=tuple(map(NameSyntax, values)))
    if form == "vector":
        dimension = LiteralSyntax(LiteralKind.INTEGER, str(draw(st.integers(1, 9))))
        return ast.TypeSyntax(Scalar.VECTOR, nullable, dimension=dimension)
    scalars = set(Scalar) - {Scalar.VECTOR} - ({Scalar.BLOB} if form == "list" else set[Scalar]())
    return ast.TypeSyntax(draw(st.sampled_from(sorted(scalars))), nullable, form == "list")


@st.composite
def _properties(draw: st.DrawFn, prefix: str = "") -> tuple[ast.PropertySyntax, ...]:
    names = draw(st.lists(property_names, max_size=4, unique_by=str.lower))
    found: list[ast.PropertySyntax] = []
    for name in names:
        type_ = draw(_types())
        annotations = draw(_annotations(old_names=property_names))
        if not type_.is_list and type_.scalar not in (Scalar.BLOB, Scalar.VECTOR):
            rules = draw(st.sets(st.sampled_from(("index", "unique"))))
            annotations += tuple(AnnotationSyntax(NameSyntax(rule)) for rule in sorted(rules))
        if type_.scalar is Scalar.STRING and not type_.is_list and type_.enum_values is None and draw(st.booleans()):
            annotations += (AnnotationSyntax(NameSyntax("default"), LiteralSyntax(LiteralKind.STRING, draw(texts))),)
        found.append(ast.PropertySyntax(NameSyntax(prefix + name), type_, annotations))
    return tuple(found)


@st.composite
def _constraints(
    draw: st.DrawFn, properties: Sequence[ast.PropertySyntax], *, on_node: bool
) -> tuple[ast.ConstraintSyntax, ...]:
    def columns(kind: ConstraintKind, names: Sequence[NameSyntax]) -> ast.ConstraintSyntax:
        return ast.ConstraintSyntax(kind, tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))))

    single = [
        each for each in properties if not each.type.is_list and each.type.scalar not in (Scalar.BLOB, Scalar.VECTOR)
    ]
    names = [each.name for each in single] + ([] if on_node else [NameSyntax("src"), NameSyntax("dst")])
    found: list[ast.ConstraintSyntax] = []
    if names and draw(st.booleans()):
        found.append(columns(draw(st.sampled_from((ConstraintKind.UNIQUE, ConstraintKind.INDEX))), names))
    required = [each.name for each in single if not each.type.nullable]
    if on_node and required and draw(st.booleans()):
        found.append(columns(ConstraintKind.KEY, required))
    measured = [each.name for each in single if each.type.scalar in NUMBERS]
    if on_node and measured and draw(st.booleans()):
        found.append(ast.ConstraintSyntax(ConstraintKind.RANGE, (draw(st.sampled_from(measured)), draw(_bounds()))))
    written = [each.name for each in single if each.type.scalar is Scalar.STRING]
    if on_node and written and draw(st.booleans()):
        pattern = LiteralSyntax(LiteralKind.STRING, draw(st.sampled_from(("^[a-z]+$", "a|b", r"\d{3}", ""))))
        found.append(ast.ConstraintSyntax(ConstraintKind.CHECK, (draw(st.sampled_from(written)), pattern)))
    return tuple(found)


@st.composite
def _bounds(draw: st.DrawFn) -> ast.BoundsSyntax:
    low, high = sorted((draw(numbers), draw(numbers)), key=lambda number: float(number.text))
    if draw(st.booleans()):
        low = LiteralSyntax(low.kind, f"-{low.text}")
    return draw(
        st.sampled_from((ast.BoundsSyntax(low, high), ast.BoundsSyntax(low, None), ast.BoundsSyntax(None, high)))
    )


@st.composite
def schema_files(draw: st.DrawFn) -> ast.SchemaFile:
    """A schema without problems."""
    interfaces = tuple(
        ast.InterfaceSyntax(NameSyntax(name), draw(_properties(prefix=f"i{number}_")))
        for number, name in enumerate(draw(st.lists(type_names, max_size=2, unique=True)))
    )
    nodes: list[ast.NodeSyntax] = []
    for name in draw(st.lists(type_names, max_size=3, unique=True)):
        implements = tuple(draw(st.lists(st.sampled_from(interfaces), max_size=2))) if interfaces else ()
        own = draw(_properties())
        injected = [each for interface in implements for each in interface.properties]
        nodes.append(
            ast.NodeSyntax(
                NameSyntax(name),
                draw(_annotations(old_names=type_names)),
                tuple(interface.name for interface in implements),
                own,
                draw(_constraints([*own, *injected], on_node=True)),
            )
        )
    ends = st.sampled_from(nodes).map(lambda node: node.name) if nodes else None
    edges: list[ast.EdgeSyntax] = []
    for name in draw(st.lists(type_names, max_size=2, unique_by=str.lower)) if ends is not None else ():
        assert ends is not None
        properties = draw(_properties())
        edges.append(
            ast.EdgeSyntax(
                NameSyntax(name),
                draw(ends),
                draw(ends),
                draw(st.none() | _cardinalities()),
                draw(_annotations(old_names=type_names)),
                properties,
                draw(_constraints(properties, on_node=False)),
            )
        )
    return ast.SchemaFile(interfaces, tuple(nodes), tuple(edges))


@st.composite
def _cardinalities(draw: st.DrawFn) -> ast.CardinalitySyntax:
    low, high = sorted((draw(st.integers(0, 9)), draw(st.integers(0, 9))))
    maximum = LiteralSyntax(LiteralKind.INTEGER, str(high)) if draw(st.booleans()) else None
    return ast.CardinalitySyntax(LiteralSyntax(LiteralKind.INTEGER, str(low)), maximum)


@st.composite
def broken(draw: st.DrawFn, text: str) -> str:
    """A text with some of its characters deleted, doubled or replaced."""
    for _ in range(draw(st.integers(1, 5))):
        if not text:
            return text
        start = draw(st.integers(0, len(text) - 1))
        end = min(len(text), start + draw(st.integers(1, 6)))
        replacement = draw(
            st.one_of(
                st.just(""),
                st.just(text[start:end] * 2),
                st.sampled_from(
                    ('"', "{", "}", "(", ")", "@", "..", "-", "/*", "//", "\\", "\0", "9" * 30, "[", "?", "\ud800")
                ),
                st.text(max_size=3),
            )
        )
        text = text[:start] + replacement + text[end:]
    return text

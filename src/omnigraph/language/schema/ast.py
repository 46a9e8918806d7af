"""The syntax tree of a `.pg` text, in the order of the text.

Numbers stay text until the checks have limited their size. Spans do not count in comparisons: two trees are equal if
they declare the same.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import TypeAlias

from omnigraph.language.source import Span, span_field
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NameSyntax:
    """The name of a type, a property, an annotation or an enum value."""

    text: str
    span: Span = span_field()


class LiteralKind(Enum):
    """How a literal is written."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOL = "boolean"


@dataclass(frozen=True, slots=True)
class LiteralSyntax:
    """A literal: the value of a string, or the source text of anything else."""

    kind: LiteralKind
    text: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class BoundsSyntax:
    """``minimum..maximum``; one of them may be missing."""

    minimum: LiteralSyntax | None
    maximum: LiteralSyntax | None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class AnnotationSyntax:
    """``@name(value, keyword=value)``. A bare word as the value means the same as the word in quotes."""

    name: NameSyntax
    value: LiteralSyntax | None = None
    keywords: tuple[tuple[NameSyntax, LiteralSyntax], ...] = ()


@dataclass(frozen=True, slots=True)
class TypeSyntax:
    """The type of a property; enum values in the order of the text."""

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[NameSyntax, ...] | None = None
    dimension: LiteralSyntax | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class PropertySyntax:
    """``name: Type @annotation...``"""

    name: NameSyntax
    type: TypeSyntax
    annotations: tuple[AnnotationSyntax, ...] = ()


class ConstraintKind(StrEnum):
    """The constraints of a body."""

    KEY = "key"
    UNIQUE = "unique"
    INDEX = "index"
    RANGE = "range"
    CHECK = "check"


ArgumentSyntax: TypeAlias = "NameSyntax | LiteralSyntax | BoundsSyntax"


@dataclass(frozen=True, slots=True)
class ConstraintSyntax:
    """``@kind(argument, ...)``"""

    kind: ConstraintKind
    arguments: tuple[ArgumentSyntax, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class CardinalitySyntax:
    """``@card(minimum..maximum)``; the maximum may be missing."""

    minimum: LiteralSyntax
    maximum: LiteralSyntax | None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class InterfaceSyntax:
    """``interface Name { ... }``"""

    name: NameSyntax
    properties: tuple[PropertySyntax, ...]


@dataclass(frozen=True, slots=True)
class NodeSyntax:
    """``node Name @annotation... implements A, B { ... }``"""

    name: NameSyntax
    annotations: tuple[AnnotationSyntax, ...]
    implements: tuple[NameSyntax, ...]
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[ConstraintSyntax, ...]


@dataclass(frozen=True, slots=True)
class EdgeSyntax:
    """``edge Name: From -> To @card(...) @annotation... { ... }``"""

    name: NameSyntax
    from_type: NameSyntax
    to_type: NameSyntax
    cardinality: CardinalitySyntax | None
    annotations: tuple[AnnotationSyntax, ...]
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[ConstraintSyntax, ...]


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """All declarations of a text, by kind."""

    interfaces: tuple[InterfaceSyntax, ...]
    nodes: tuple[NodeSyntax, ...]
    edges: tuple[EdgeSyntax, ...]

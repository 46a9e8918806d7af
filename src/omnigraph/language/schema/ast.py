"""The syntax tree of a `.pg` text: what was written, in the order in which it was written.

Numbers stay text until the checks have looked at their size. Places are no part of what a node is, so two trees
are equal when they say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeAlias

from omnigraph.language.source import Span, span_field
from omnigraph.language.types import Scalar


@dataclass(frozen=True, slots=True)
class NameSyntax:
    """The name of a type, a property, an annotation or an enum value."""

    text: str
    span: Span = span_field()


class LiteralKind(Enum):
    """What a literal looks like in the text."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOL = "boolean"


@dataclass(frozen=True, slots=True)
class LiteralSyntax:
    """A literal: the value of a string, the source text of anything else."""

    kind: LiteralKind
    text: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class BoundsSyntax:
    """``minimum..maximum``; one of the two may be missing."""

    minimum: LiteralSyntax | None
    maximum: LiteralSyntax | None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class AnnotationSyntax:
    """``@name(value, keyword=value)``. A bare word as value means the same as the word in quotes."""

    name: NameSyntax
    value: LiteralSyntax | None = None
    keywords: tuple[tuple[NameSyntax, LiteralSyntax], ...] = ()


@dataclass(frozen=True, slots=True)
class TypeSyntax:
    """The type of a property; enum values in written order."""

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
    """The rules that may stand in a body."""

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
    """``@card(minimum..maximum)``; without a maximum there is none."""

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
    """Everything that one text declares, by kind."""

    interfaces: tuple[InterfaceSyntax, ...]
    nodes: tuple[NodeSyntax, ...]
    edges: tuple[EdgeSyntax, ...]

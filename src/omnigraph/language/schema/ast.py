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
class Name:
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
class Literal:
    """A literal: the value of a string, the source text of anything else."""

    kind: LiteralKind
    text: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Bounds:
    """``minimum..maximum``; one of the two may be missing."""

    minimum: Literal | None
    maximum: Literal | None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Annotation:
    """``@name(value, keyword=value)``. A bare word as value means the same as the word in quotes."""

    name: Name
    value: Literal | None = None
    keywords: tuple[tuple[Name, Literal], ...] = ()


@dataclass(frozen=True, slots=True)
class TypeExpression:
    """The type of a property; enum values in written order."""

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[Name, ...] | None = None
    dimension: Literal | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Property:
    """``name: Type @annotation...``"""

    name: Name
    type: TypeExpression
    annotations: tuple[Annotation, ...] = ()


class ConstraintKind(StrEnum):
    """The rules that may stand in a body."""

    KEY = "key"
    UNIQUE = "unique"
    INDEX = "index"
    RANGE = "range"
    CHECK = "check"


Argument: TypeAlias = "Name | Literal | Bounds"


@dataclass(frozen=True, slots=True)
class Constraint:
    """``@kind(argument, ...)``"""

    kind: ConstraintKind
    arguments: tuple[Argument, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Cardinality:
    """``@card(minimum..maximum)``; without a maximum there is none."""

    minimum: Literal
    maximum: Literal | None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Interface:
    """``interface Name { ... }``"""

    name: Name
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """``node Name @annotation... implements A, B { ... }``"""

    name: Name
    annotations: tuple[Annotation, ...]
    implements: tuple[Name, ...]
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """``edge Name: From -> To @card(...) @annotation... { ... }``"""

    name: Name
    from_type: Name
    to_type: Name
    cardinality: Cardinality | None
    annotations: tuple[Annotation, ...]
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """Everything that one text declares, by kind."""

    interfaces: tuple[Interface, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
